"""Layouts as DEF files: cells, pins, wires and straps, without masks; and their netlists, in Verilog."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence

from openmxu.layout.placed import Placed
from openmxu.layout.route.routing import Route
from openmxu.layout.route.supplies import Strap, stack_metal
from openmxu.layout.technology import Rect, Technology


def write_def(placed: Placed, routes: Mapping[str, Route], straps: Sequence[Strap], technology: Technology) -> str:
    """The text of a layout's DEF file, which defines the vias that it has."""
    ends = {net: [f"( {instance} {pin} )" for instance, pin in pins] for net, pins in placed.nets.items()}
    for port in placed.ports:
        ends[port.net].append(f"( PIN {port.name} )")
    sections = {
        "VIAS": [*_vias(routes, technology)],
        "COMPONENTS": [
            f"{one.name} {one.master} + PLACED ( {one.x} {one.y} ) {'FS' if one.mirrored else 'N'}"
            for one in placed.instances
        ],
        "PINS": [
            f"{port.name} + NET {port.net} + LAYER {port.layer} "
            f"{_corners(technology.wire(technology.levels[port.layer], 0, 0))} + PLACED ( {port.x} {port.y} ) N"
            for port in placed.ports
        ],
        "SPECIALNETS": [_supply(supply, straps, technology) for supply in technology.straps["supplies"]],
        "NETS": [" ".join([net, *ends[net], _routed(route, technology)]) for net, route in routes.items()],
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


def write_netlist(placed: Placed, directions: Mapping[str, str], fill: Container[str]) -> str:
    """A placed design's netlist, without cells that fill gaps; its ports are the design's."""
    pins: dict[str, list[str]] = defaultdict(list)
    for net, ends in placed.nets.items():
        name = net if net in directions else f"\\{net} "
        for instance, pin in ends:
            pins[instance].append(f".{pin}({name})")
    widths = Counter(re.sub(r"\[\d+\]$", "", port) for port in directions)
    lines = [f"module {placed.name}({', '.join(widths)});"]
    for bus, width in widths.items():
        direction = directions.get(bus) or directions[f"{bus}[0]"]
        lines.append(f"  {direction} {'' if bus in directions else f'[{width - 1}:0] '}{bus};")
    lines += [f"  wire \\{net} ;" for net in placed.nets if net not in directions]
    lines += [
        f"  {each.master} {each.name} ({', '.join(pins[each.name])});"
        for each in placed.instances
        if each.master not in fill
    ]
    return "\n".join([*lines, "endmodule", ""])


def _corners(rect: Rect) -> str:
    return f"( {rect[0]} {rect[1]} ) ( {rect[2]} {rect[3]} )"


def _square(side: int) -> Rect:
    return -side // 2, -side // 2, side // 2, side // 2


def _vias(routes: Mapping[str, Route], technology: Technology) -> Iterator[str]:
    """The vias of wires, of pins, one for each shape of their pads, and of the supplies' stacks."""
    cut, straps = _square(technology.wires["via"]), technology.straps
    for level in range(1, len(technology.metals)):
        yield _via(
            f"via_{level}", level, [technology.wire(level - 1, 0, 0), cut, technology.wire(level, 0, 0)], technology
        )
    for width, height in technology.pins["pads"]:
        pad = (-width // 2, -height // 2, width // 2, height // 2)
        yield _via(f"pin_{width}_{height}", 0, [pad, cut, technology.wire(0, 0, 0)], technology)
    below = cut
    for level, rect in stack_metal(0, 0, technology):
        yield _via(f"stack_{level}", level, [below, cut, rect], technology)
        below = rect
    top = _square(straps["via"]["size"] + 2 * straps["enclosure"])
    layers = (technology.metals[-1].name, straps["via"]["name"], straps["name"])
    shapes = zip(layers, (below, _square(straps["via"]["size"]), top), strict=True)
    yield "stack_top" + "".join(f" + RECT {layer} {_corners(rect)}" for layer, rect in shapes)


def _via(name: str, level: int, rects: Sequence[Rect], technology: Technology) -> str:
    metals = [technology.pins["name"], *technology.levels]
    layers = (metals[level], technology.metals[level].via["name"], metals[level + 1])
    return name + "".join(f" + RECT {layer} {_corners(rect)}" for layer, rect in zip(layers, rects, strict=True))


def _supply(supply: str, straps: Sequence[Strap], technology: Technology) -> str:
    pieces = []
    names = [*(f"stack_{level}" for level in range(len(technology.metals))), "stack_top"]
    below = [technology.pins["name"], *technology.levels]
    for strap in straps:
        if strap.supply == supply:
            x = (strap.rect[0] + strap.rect[2]) // 2
            layer = technology.straps["name"]
            width = technology.straps["width"]
            pieces.append(f"{layer} {width} + SHAPE STRIPE ( {x} {strap.rect[1]} ) ( {x} {strap.rect[3]} )")
            for x, y in strap.stacks:
                pieces += [f"{metal} 0 ( {x} {y} ) {via}" for metal, via in zip(below, names, strict=True)]
    use = ("GROUND", "POWER")[technology.straps["supplies"].index(supply)]
    return f"{supply} ( * {supply} ) + USE {use} + ROUTED " + "\n  NEW ".join(pieces)


def _routed(route: Route, technology: Technology) -> str:
    pieces, end = [], technology.wires["end"]
    for level, x, y, length in route.wires:
        metal = technology.metals[level]
        right, top = (x, y + length) if metal.vertical else (x + length, y)
        pieces.append(f"{metal.name} ( {x} {y} {end} ) ( {right} {top} {end} )")
    pads = iter(route.pads)
    for level, x, y in route.vias:
        name = f"via_{level}"
        if level == 0:
            left, bottom, right, top = next(pads)
            name = f"pin_{right - left}_{top - bottom}"
        pieces.append(f"{technology.metals[level].name} ( {x} {y} ) {name}")
    return "\n  + ROUTED " + "\n    NEW ".join(pieces) if pieces else ""
