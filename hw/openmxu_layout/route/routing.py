"""Wires for the nets of a placed design, by the router in ``router.c``."""

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np

from openmxu.cells.lef import Rect
from openmxu.runtime import native
from openmxu_layout.pins import Access
from openmxu_layout.placed import Node, Placed
from openmxu_layout.route.grid import Grid, Ints
from openmxu_layout.technology import Technology, around

_PASSES = 80
"""Passes after which the router gives up; what it can route takes up to 20."""

_STARVED = "there is not enough memory to route the design"

_STEP, _VIA = 100, 400
"""Costs of the longer step and of a via."""

_FIRST, _LAST, _HISTORY = 50, 400, 400
"""Costs of a gap that another net has: in the first pass, in the last ones, and added by each pass that ends so."""

_MARGIN = 8
"""Columns and rows around two ends in which they are joined, in the first pass; two more with each pass."""

Pads = Mapping[tuple[str, str], Access]
"""The access of each instance's pins, in nm from the core's lower left corner."""


class RoutingError(ValueError):
    """There is no room for all wires."""


class Wire(NamedTuple):
    """A piece of wire, in nm from its first to its last node."""

    level: int
    x: int
    y: int
    length: int


class Via(NamedTuple):
    """The via below the metal of a level, in nm."""

    level: int
    x: int
    y: int


@dataclass
class Route:
    """The metal of a net."""

    wires: list[Wire] = field(default_factory=list)
    vias: list[Via] = field(default_factory=list)
    pads: list[Rect] = field(default_factory=list)
    """On the metal of pins, below the vias of level 0."""

    def lengths(self) -> Counter[int]:
        """The length of its wires on each level, in nm, for estimates of resistance and capacitance."""
        lengths: Counter[int] = Counter()
        for wire in self.wires:
            lengths[wire.level] += wire.length
        return lengths


@dataclass(frozen=True)
class Strap:
    """A vertical line of one supply."""

    supply: str
    rect: Rect
    stacks: tuple[tuple[int, int], ...]
    """Where its vias stand, in nm."""


@dataclass(frozen=True)
class Wired:
    """A placed design with its metal."""

    placed: Placed
    routes: Mapping[str, Route]
    straps: Sequence[Strap]


def core_access(placed: Placed, access: Mapping[str, Mapping[str, Access]], technology: Technology) -> Pads:
    """The access of all pins of a placed design, from that of its masters."""
    row = technology.grid["row"]
    return {
        (instance.name, pin): {
            (instance.x + x, instance.y + (row - y if instance.mirrored else y)): pad for (x, y), pad in pads.items()
        }
        for instance in placed.instances
        for pin, pads in access[instance.master].items()
    }


def route(
    placed: Placed,
    pads: Pads,
    technology: Technology,
    *,
    blocked: Sequence[tuple[int, Rect]] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Route]:
    """Route a placed design; returns the metal of each net. Wires keep the spacing to ``blocked``, metal by its level.

    ``tell`` gets a line about each pass. A :exc:`RoutingError` where nets share nodes after the last pass, or have an
    end that no wire reaches; a :exc:`ValueError` where a pin or port does not lie on the grid's nodes.
    """
    grid = Grid.of(placed, technology)
    ends = _ends(placed, pads, technology)
    avoided = [number for level, rect in blocked for number in grid.near(level, rect)]
    owners, has_via, reached = _solve(placed.name, grid, [*ends.values()], avoided, tell)
    routes = {net: Route() for net in placed.nets}
    metal = [Route(), *(routes[net] for net in ends)]
    # All nodes of a net on a track that follow one another are one piece of wire.
    starts, stops = (np.flatnonzero(owners * (owners != np.roll(owners, by))) for by in (1, -1))
    for owner, (level, x, y), (_, right, top) in zip(
        owners[starts], grid.places(starts), grid.places(stops), strict=True
    ):
        metal[owner].wires.append(Wire(level, x, y, right - x + top - y))
    lower = np.flatnonzero(has_via)
    for owner, (level, x, y) in zip(owners[lower], grid.places(lower), strict=True):
        metal[owner].vias.append(Via(level + 1, x, y))
    places = iter(grid.places(reached))
    for net, joined in ends.items():
        # Ports come after the pins.
        for pin, (level, x, y) in zip(placed.nets[net], [*islice(places, len(joined))], strict=False):
            routes[net].vias.append(Via(level, x, y))
            routes[net].pads.append(around(x, y, *pads[pin][x, y]))
    return routes


def _ends(placed: Placed, pads: Pads, technology: Technology) -> dict[str, list[list[Node]]]:
    """The nodes at which each end of a net can be reached: of its pins, then of its port; without pins alone.

    A port alone has another end a step away, for the least area of its metal.
    """
    ends = {net: [[(0, x, y) for x, y in pads[pin]] for pin in pins] for net, pins in placed.nets.items()}
    for net, (level, x, y) in placed.ports.items():
        ends[net].append([(level, x, y)])
        if len(ends[net]) == 1:
            left, below = technology.end(level, x, y, -technology.step(level))
            ends[net].append([(level, abs(left), abs(below))])  # from an edge at 0 to the other side
    return {net: joined for net, joined in ends.items() if len(joined) > 1}


def _span(net: Sequence[Sequence[Node]]) -> int:
    """Half of the perimeter around the ends of a net."""
    places = [end[0] for end in net]
    return sum(max(values) - min(values) for values in zip(*places, strict=True))


@cache
def _compiled(source: str) -> ctypes.CDLL:
    functions = native.open_library(native.build_library(source))
    functions.router_new.restype = ctypes.c_void_p
    return functions


def _solve(
    name: str, grid: Grid, nets: Sequence[Sequence[Sequence[Node]]], avoided: Sequence[int], tell: Callable[[str], None]
) -> tuple[Ints, Ints, Ints]:
    """The net of each node, from 1, or 0; whether a via leads up from it; the node at which each end is reached."""
    ends = [end for net in nets for end in net]
    terminals, accesses = _offsets(nets), _offsets(ends)
    nodes = np.array([grid.number(*node) for end in ends for node in end], np.uint32)
    blocked = np.array(avoided, np.uint32)
    x, y = grid.technology.grid["x"], grid.technology.grid["y"]
    steps = [_STEP * y // max(x, y), _STEP * x // max(x, y)]
    sizes = np.array(
        [grid.columns, grid.rows, len(grid.technology.metals), *steps, _VIA, len(nets), len(avoided)], np.int32
    )
    functions = _compiled(native.resource(__package__, "router.c"))
    arrays = (sizes, terminals, accesses, nodes, blocked)
    memory = ctypes.c_void_p(functions.router_new(*(array.ctypes for array in arrays)))
    if not memory:
        raise MemoryError(_STARVED)
    try:
        order = np.array(sorted(range(len(nets)), key=lambda net: _span(nets[net])), np.uint32)
        failed = np.zeros(1, np.uint32)
        for number in range(_PASSES):
            costs = min(_FIRST * 3**number // 2**number, _LAST), _HISTORY, _MARGIN + 2 * number
            conflicts = functions.router_pass(memory, order.ctypes, *costs, failed.ctypes)
            if conflicts < 0:
                raise MemoryError(_STARVED)
            tell(f"pass {number + 1}: {conflicts} conflicts, {failed[0]} nets not routed")
            if not conflicts:
                break
        if conflicts or failed[0]:
            raise RoutingError(
                f"{name} cannot be routed: {conflicts} conflicts are left, and {failed[0]} nets are not routed; "
                "choose a lower utilisation"
            )
        owners, vias, reached = (np.zeros(size, np.uint32) for size in (grid.size, grid.size, len(ends)))
        functions.router_result(memory, owners.ctypes, vias.ctypes, reached.ctypes)
        return owners, vias, reached
    finally:
        functions.router_free(memory)


def _offsets(groups: Sequence[Sequence[object]]) -> Ints:
    """Where each group begins if they are laid out one after the other, and where the last one ends."""
    return np.array([*accumulate(map(len, groups), initial=0)], np.uint32)
