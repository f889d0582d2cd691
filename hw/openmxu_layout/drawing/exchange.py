"""Layouts as DEF files: cells, pins, wires and straps, without masks; and their netlists, in Verilog."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from openmxu.cells.lef import Rect
from openmxu_layout.placed import Pins
from openmxu_layout.route.routing import Route, Strap, Wired
from openmxu_layout.route.supplies import stack_metal
from openmxu_layout.technology import Technology, around


def write_def(wired: Wired, technology: Technology) -> str:
    """The text of a layout's DEF file, which defines the vias that it has."""
    placed = wired.placed
    ends = {net: [f"( {instance} {pin} )" for instance, pin in pins] for net, pins in placed.nets.items()}
    for port in placed.ports:
        ends[port].append(f"( PIN {port} )")
    sections = {
        "VIAS": [*_vias(technology)],
        "COMPONENTS": [
            f"{one.name} {one.master} + PLACED ( {one.x} {one.y} ) {'FS' if one.mirrored else 'N'}"
            for one in placed.instances
        ],
        "PINS": [
            f"{port} + NET {port} + LAYER {technology.metals[level].name} "
            f"{_corners(technology.wire(level, 0, 0))} + PLACED ( {x} {y} ) N"
            for port, (level, x, y) in placed.ports.items()
        ],
        "SPECIALNETS": [_supply(supply, wired.straps, technology) for supply in technology.straps["supplies"]],
        "NETS": [" ".join([net, *ends[net], _routed(route, technology)]) for net, route in wired.routes.items()],
    }
    lines = ["VERSION 5.8 ;", 'DIVIDERCHAR "/" ;', 'BUSBITCHARS "[]" ;', f"DESIGN {placed.name} ;"]
    lines += ["UNITS DISTANCE MICRONS 1000 ;", f"DIEAREA {_corners((0, 0, placed.width, placed.height))} ;"]
    for metal in technology.metals:
        step = technology.grid["x" if metal.vertical else "y"]
        count = (placed.width if metal.vertical else placed.height) // step + 1
        lines.append(f"TRACKS {'X' if metal.vertical else 'Y'} 0 DO {count} STEP {step} LAYER {metal.name} ;")
    for name, entries in sections.items():
        lines += [f"{name} {len(entries)} ;", *(f"- {entry} ;" for entry in entries), f"END {name}"]
    return "\n".join([*lines, "END DESIGN", ""])


def write_netlist(
    name: str, ports: Mapping[str, str], nets: Mapping[str, Pins], masters: Mapping[str, str], prefix: str = ""
) -> str:
    """A netlist of the cells that have nets; its ports are the design's, by direction, a bus is one port.

    The prefix is that of the names of cells.
    """
    pins: dict[str, list[str]] = defaultdict(list)
    for net, ends in nets.items():
        quoted = net if net in ports else f"\\{net} "
        for instance, pin in ends:
            pins[instance].append(f".{pin}({quoted})")
    buses: dict[str, list[str]] = defaultdict(list)  # the indices of each, lowest bit first
    for port in ports:
        buses[port.partition("[")[0]] += re.findall(r"\[(\d+)\]$", port)
    lines = [f"module {name}({', '.join(buses)});"]
    for bus, indices in buses.items():
        first = f"[{indices[-1]}:{indices[0]}] " if indices else ""
        lines.append(f"  {ports[f'{bus}[{indices[0]}]' if indices else bus]} {first}{bus};")
    lines += [f"  wire \\{net} ;" for net in nets if net not in ports]
    lines += [f"  {masters[each]} {prefix}{each} ({', '.join(pins[each])});" for each in masters if each in pins]
    return "\n".join([*lines, "endmodule", ""])


def _corners(rect: Rect) -> str:
    return f"( {rect[0]} {rect[1]} ) ( {rect[2]} {rect[3]} )"


def _vias(technology: Technology) -> Iterator[str]:
    """The vias of wires, of pins, one for each shape of their pads, and of the supplies' stacks."""

    def via(name: str, level: int, *rects: Rect) -> str:
        shapes = zip(technology.stack[2 * level : 2 * level + 3], rects, strict=True)
        return name + "".join(f" + RECT {layer} {_corners(rect)}" for layer, rect in shapes)

    large = technology.straps["via"]["size"]
    sizes = technology.wires["via"], large, large + 2 * technology.straps["enclosure"]
    cut, wide_cut, strap = (around(0, 0, size, size) for size in sizes)
    pads = [technology.wire(level, 0, 0) for level in range(len(technology.metals))]
    for level in range(1, len(pads)):
        yield via(f"via_{level}", level, pads[level - 1], cut, pads[level])
    for width, height in technology.pins["pads"]:
        yield via(f"pin_{width}_{height}", 0, around(0, 0, width, height), cut, pads[0])
    below = cut
    for level, rect in stack_metal(0, 0, technology):
        yield via(f"stack_{level}", level, below, cut, rect)
        below = rect
    yield via("stack_top", len(pads), below, wide_cut, strap)


def _supply(supply: str, straps: Sequence[Strap], technology: Technology) -> str:
    pieces = []
    names = [*(f"stack_{level}" for level in range(len(technology.metals))), "stack_top"]
    *below, layer = technology.stack[::2]
    for strap in straps:
        if strap.supply == supply:
            left, bottom, right, top = strap.rect
            x = (left + right) // 2
            pieces.append(f"{layer} {right - left} + SHAPE STRIPE ( {x} {bottom} ) ( {x} {top} )")
            for x, y in strap.stacks:
                pieces += [f"{metal} 0 ( {x} {y} ) {via}" for metal, via in zip(below, names, strict=True)]
    use = ("GROUND", "POWER")[technology.straps["supplies"].index(supply)]
    return f"{supply} ( * {supply} ) + USE {use} + ROUTED " + "\n  NEW ".join(pieces)


def _routed(route: Route, technology: Technology) -> str:
    pieces, end = [], technology.wires["end"]
    for level, x, y, length in route.wires:
        right, top = technology.end(level, x, y, length)
        pieces.append(f"{technology.metals[level].name} ( {x} {y} {end} ) ( {right} {top} {end} )")
    pads = iter(route.pads)
    for level, x, y in route.vias:
        name = f"via_{level}"
        if level == 0:
            left, bottom, right, top = next(pads)
            name = f"pin_{right - left}_{top - bottom}"
        pieces.append(f"{technology.metals[level].name} ( {x} {y} ) {name}")
    return "\n  + ROUTED " + "\n    NEW ".join(pieces) if pieces else ""
