"""Placed and routed cores: cells from LEF, a layout from DEF, and a check that it is the netlist's.

Tools for layouts return 0 after crashes, so none of their own messages is trusted::

    netlist ─▶ cells, nets ─┐
    LEF ─▶ sizes, pins ─────┼─▶ every cell is there, none lies on another
    DEF ─▶ places, wires ───┘   every pin of a net is reached, no wire of it touches another net or a cell's inside

Shapes touch if their metal does. Wires have the width of their layer; a via is a square of that width on each of two.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")


class LayoutError(ValueError):
    """A layout is not that of the netlist, or cannot be read; the text says what is wrong."""


class Shape(NamedTuple):
    """A rectangle of metal, in the unit of the file that it is from."""

    layer: str
    left: float
    bottom: float
    right: float
    top: float

    def touches(self, other: "Shape") -> bool:
        """Whether both are on one layer and have at least a point in common."""
        return (
            self.layer == other.layer
            and self.left <= other.right
            and other.left <= self.right
            and self.bottom <= other.top
            and other.bottom <= self.top
        )


@dataclass(frozen=True)
class Cell:
    """A cell of LEF, in µm."""

    width: float
    height: float
    """Its size."""
    pins: Mapping[str, tuple[Shape, ...]]
    """Metal of each pin."""
    inside: tuple[Shape, ...] = ()
    """Metal that belongs to no pin."""

    @property
    def area(self) -> float:
        """Area in µm²."""
        return self.width * self.height


@dataclass(frozen=True)
class Library:
    """The contents of a LEF file."""

    cells: Mapping[str, Cell]
    """Cells by name."""
    widths: Mapping[str, float]
    """Widths of wires, by layer, in µm."""
    vias: Mapping[str, tuple[str, str]]
    """The two layers that each via connects, by name."""


@dataclass(frozen=True)
class Place:
    """A cell's place: its lower left corner, in units of DEF, and its orientation."""

    kind: str
    x: int
    y: int
    turn: str


class Wire(NamedTuple):
    """A piece of wire along an axis."""

    layer: str
    x: int
    y: int
    to_x: int
    to_y: int

    @property
    def length(self) -> int:
        """Length in units of DEF."""
        return abs(self.to_x - self.x) + abs(self.to_y - self.y)


@dataclass(frozen=True)
class Layout:
    """The contents of a DEF file, in its unit."""

    scale: int
    """Units in a µm."""
    cells: Mapping[str, Place]
    """Places by instance."""
    ports: Mapping[str, Shape]
    """Metal of each port, by net."""
    routes: Mapping[str, Sequence[tuple[Wire, ...]]]
    """Wires by net; a via is two wires of length 0, on the layers that it connects."""

    @property
    def length(self) -> float:
        """Length of all wires, in mm."""
        wires = (wire for route in self.routes.values() for piece in route for wire in piece)
        return sum(wire.length for wire in wires) / self.scale / 1000

    @property
    def vias(self) -> int:
        """Number of vias."""
        return sum(len(piece) > 1 for route in self.routes.values() for piece in route)

    def box(self, library: Library) -> tuple[float, float, float, float]:
        """The rectangle around all cells, in µm: left, bottom, right, top."""
        shapes = [self.shape(placed, library) for placed in self.cells.values()]
        return (
            min(shape.left for shape in shapes) / self.scale,
            min(shape.bottom for shape in shapes) / self.scale,
            max(shape.right for shape in shapes) / self.scale,
            max(shape.top for shape in shapes) / self.scale,
        )

    def shape(self, placed: Place, library: Library) -> Shape:
        """The rectangle that a cell takes; no turn of a row's cells swaps its sides."""
        cell = library.cells[placed.kind]
        return Shape("", placed.x, placed.y, placed.x + cell.width * self.scale, placed.y + cell.height * self.scale)


_NUMBER = r"-?[\d.]+(?:e-?\d+)?"


def read_lef(text: str) -> Library:
    """Cells, widths of wires and vias of a LEF file."""
    cells = {name: _read_cell(body) for name, body in re.findall(r"^MACRO (\S+)(.*?)^END \1", text, re.DOTALL | re.M)}
    if not cells:
        raise LayoutError("LEF must have cells, and has none")
    layers = re.findall(r"^LAYER (\S+)\s+TYPE\s+ROUTING(.*?)^END \1", text, re.DOTALL | re.MULTILINE)
    widths = {
        name: float(match[1]) for name, body in layers if (match := re.search(rf"^\s*WIDTH\s+({_NUMBER})", body, re.M))
    }
    vias = {}
    for name, body in re.findall(r"^VIA (\S+)(.*?)^END \1", text, re.DOTALL | re.MULTILINE):
        both = [layer for layer in re.findall(r"LAYER (\S+)", body) if layer in widths]
        if len(both) == 2:
            vias[name] = (both[0], both[1])
    return Library(cells, widths, vias)


def _read_cell(text: str) -> Cell:
    size = re.search(rf"SIZE\s+({_NUMBER})\s+BY\s+({_NUMBER})", text)
    if size is None:
        raise LayoutError("LEF must have the size of each cell")
    pins = {name: tuple(_read_shapes(body)) for name, body in re.findall(r"PIN (\S+)(.*?)END \1", text, re.DOTALL)}
    inside = re.search(r"^\s*OBS\b(.*)", text, re.DOTALL | re.MULTILINE)
    return Cell(float(size[1]), float(size[2]), pins, tuple(_read_shapes(inside[1])) if inside else ())


def _read_shapes(text: str) -> Iterator[Shape]:
    layer = ""
    for name, *sides in re.findall(
        rf"LAYER\s+(\S+)|RECT\s+({_NUMBER})\s+({_NUMBER})\s+({_NUMBER})\s+({_NUMBER})", text
    ):
        if name:
            layer = name
        else:
            left, bottom, right, top = map(float, sides)
            yield Shape(layer, min(left, right), min(bottom, top), max(left, right), max(bottom, top))


def read_def(text: str, library: Library) -> Layout:
    """A layout from DEF."""
    scale = re.search(r"UNITS DISTANCE MICRONS (\d+)", text)
    if scale is None:
        raise LayoutError("DEF must say how many units a micrometre has")
    cells = {
        name: Place(kind, int(x), int(y), turn)
        for name, kind, x, y, turn in re.findall(
            r"^- (\S+) (\S+) \+ (?:PLACED|FIXED) \( (-?\d+) (-?\d+) \) (\w+)", _section(text, "COMPONENTS"), re.M
        )
    }
    ports = {}
    for net, layer, *numbers in re.findall(
        r"\+ NET (\S+)\s+\+ LAYER (\S+) \( (-?\d+) (-?\d+) \) \( (-?\d+) (-?\d+) \)\s+\+ PLACED \( (-?\d+) (-?\d+) \)",
        _section(text, "PINS"),
    ):
        left, bottom, right, top, x, y = map(int, numbers)
        ports[net] = Shape(layer, x + left, y + bottom, x + right, y + top)
    routes: dict[str, list[tuple[Wire, ...]]] = defaultdict(list)
    for section in ("NETS", "SPECIALNETS"):
        for net, route in re.findall(r"^- (\S+)(.*?);", _section(text, section), re.DOTALL | re.MULTILINE):
            for piece in re.split(r"NEW|\+ ROUTED", route)[1:]:
                routes[net] += _read_route(piece, library)
    return Layout(int(scale[1]), cells, ports, dict(routes))


def _section(text: str, name: str) -> str:
    match = re.search(rf"^{name} \d+ ;(.*?)^END {name}", text, re.DOTALL | re.MULTILINE)
    return match[1] if match else ""


def _read_route(text: str, library: Library) -> Iterator[tuple[Wire, ...]]:
    """Wires and vias of a path: ``metal1 ( 10 20 ) ( * 30 ) M2_M1``."""
    layer, _, rest = text.strip().partition(" ")
    points = re.findall(r"\( (\S+) (\S+)(?: \S+)? \)|([A-Za-z]\S*)", rest)
    at: tuple[int, int] | None = None
    for x, y, via in points:
        if via:
            if via not in library.vias or at is None:
                raise LayoutError(f"DEF must have vias of the LEF, at a place, not {via}")
            lower, upper = library.vias[via]
            yield Wire(lower, *at, *at), Wire(upper, *at, *at)
            continue
        here = (at[0] if x == "*" else int(x), at[1] if y == "*" else int(y)) if at else (int(x), int(y))
        if at:
            yield (Wire(layer, *at, *here),)
        at = here


def check(
    layout: Layout, library: Library, instances: Mapping[str, str], nets: Mapping[str, Sequence[tuple[str, str]]]
) -> list[str]:
    """The nets of a netlist that do not reach all of their pins in a layout. Any other mismatch is an error."""
    placed = {name: cell.kind for name, cell in layout.cells.items()}
    if placed != dict(instances):
        wrong = sorted(name for name in {*placed, *instances} if placed.get(name) != instances.get(name))
        raise LayoutError(f"{len(wrong)} cells are not those of the netlist, first {wrong[0]}")
    bodies = [layout.shape(cell, library) for cell in layout.cells.values()]
    # Cells may share an edge.
    inner = [Shape("", body.left + 1, body.bottom + 1, body.right - 1, body.top - 1) for body in bodies]
    if overlap := next(_touching(zip(inner, layout.cells, strict=True), layout.scale), None):
        raise LayoutError(f"cell {overlap[0]} lies on {overlap[1]}")
    if missing := [net for net, pins in nets.items() if len(pins) > 1 and net not in layout.routes]:
        raise LayoutError(f"{len(missing)} nets have no wires, first {missing[0]}")
    return _open_nets(layout, library, nets)


class _Owner(NamedTuple):
    """The net of a piece of metal, and whether it is a wire's; only wires can be wrong."""

    net: str
    is_wire: bool = False


def _open_nets(layout: Layout, library: Library, nets: Mapping[str, Sequence[tuple[str, str]]]) -> list[str]:
    owners = {pin: net for net, pins in nets.items() for pin in pins}
    shapes: list[tuple[Shape, _Owner]] = []
    groups: dict[str, list[Sequence[Shape]]] = defaultdict(list)
    for name, place in layout.cells.items():
        cell = library.cells[place.kind]
        for pin, shapes_of_pin in [*cell.pins.items(), ("inside", cell.inside)]:
            net = owners.get((name, pin), f"{name}'s {pin}")
            turned = [_turned(shape, cell, place, layout.scale) for shape in shapes_of_pin]
            groups[net].append(turned)
            shapes += [(shape, _Owner(net)) for shape in turned]
    for net, port in layout.ports.items():
        groups[net].append([port])
    for net, route in layout.routes.items():
        for piece in route:
            metal = [_metal(wire, library.widths[wire.layer] * layout.scale / 2) for wire in piece]
            groups[net].append(metal)
            shapes += [(shape, _Owner(net, is_wire=True)) for shape in metal]
    for one, other in _touching(shapes, layout.scale):
        if one.net != other.net and (one.is_wire or other.is_wire):
            wire, touched = (one, other) if one.is_wire else (other, one)
            raise LayoutError(f"net {wire.net} touches {touched.net}")
    return [net for net in nets if not _is_one(groups[net], layout.scale)]


def _turned(shape: Shape, cell: Cell, place: Place, scale: int) -> Shape:
    """A cell's metal at the cell's place; S is rotated by 180°, FN mirrored left to right, FS upside down."""
    if place.turn not in ("N", "S", "FN", "FS"):
        raise LayoutError(f"cells must be turned N, S, FN or FS, not {place.turn}")
    left, right, bottom, top = shape.left, shape.right, shape.bottom, shape.top
    if place.turn in ("S", "FN"):
        left, right = cell.width - right, cell.width - left
    if place.turn in ("S", "FS"):
        bottom, top = cell.height - top, cell.height - bottom
    return Shape(
        shape.layer, place.x + left * scale, place.y + bottom * scale, place.x + right * scale, place.y + top * scale
    )


def _metal(wire: Wire, half: float) -> Shape:
    """A wire with its width."""
    left, right = sorted((wire.x, wire.to_x))
    bottom, top = sorted((wire.y, wire.to_y))
    return Shape(wire.layer, left - half, bottom - half, right + half, top + half)


def _is_one(groups: Sequence[Sequence[Shape]], scale: int) -> bool:
    """Whether all groups are connected; the shapes of a group belong together."""
    parent = list(range(len(groups)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for one, other in _touching(((shape, number) for number, group in enumerate(groups) for shape in group), scale):
        parent[root(one)] = root(other)
    return len({root(number) for number in range(len(groups))}) <= 1


_TILE = 8.0
"""Side in µm of the squares within which shapes are compared."""


def _touching(shapes: Iterable[tuple[Shape, _T]], scale: int) -> Iterator[tuple[_T, _T]]:
    """Different owners whose shapes touch; a pair may come several times."""
    side = _TILE * scale
    tiles: dict[tuple[str, int, int], list[tuple[Shape, _T]]] = defaultdict(list)
    for shape, owner in shapes:
        for x in range(int(shape.left // side), int(shape.right // side) + 1):
            for y in range(int(shape.bottom // side), int(shape.top // side) + 1):
                tiles[shape.layer, x, y].append((shape, owner))
    for tile in tiles.values():
        for (shape, owner), (another, its) in combinations(tile, 2):
            if owner != its and shape.touches(another):
                yield owner, its
