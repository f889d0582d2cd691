"""Wires for the nets of a placed design, by the router in ``router.c``."""

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openmxu.layout.pins import Access, pad_at
from openmxu.layout.placed import Placed
from openmxu.layout.route.grid import Grid, Ints
from openmxu.layout.technology import Rect, Technology
from openmxu.runtime import native

_PASSES = 80
"""Passes after which the router gives up; what it can route takes up to 20."""

_STEP, _VIA = 100, 400
"""Costs of the longer step and of a via."""

_FIRST, _LAST, _HISTORY = 50, 400, 400
"""Costs of a gap that another net has: in the first pass, in the last ones, and added by each pass that ends so."""

_MARGIN = 8
"""Columns and rows around two ends in which they are joined, in the first pass; two more with each pass."""

_Node = tuple[int, int, int]
"""Level and place in nm."""

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
    with _Router(grid, list(ends.values())) as router:
        router.block([number for level, rect in blocked for number in grid.near(level, rect)])
        conflicts, failed = router.run(tell)
        if conflicts or failed:
            raise RoutingError(
                f"{placed.name} cannot be routed: {conflicts} conflicts are left, and {failed} nets are not routed; "
                "choose a lower utilisation"
            )
        metal, reached = router.result()
    routes = {net: Route() for net in placed.nets} | dict(zip(ends, metal, strict=True))
    for net, joined in ends.items():
        places = [*islice(reached, len(joined))]
        for pin, place in zip(placed.nets[net], places, strict=False):  # ports come after the pins
            _land(routes[net], pads[pin], place)
    return routes


def _land(metal: Route, pads: Access, place: _Node) -> None:
    """Add the via on a pin."""
    level, x, y = place
    metal.vias.append(Via(level, x, y))
    metal.pads.append(pad_at((x, y), pads[x, y]))


def _ends(placed: Placed, pads: Pads, technology: Technology) -> dict[str, list[list[_Node]]]:
    """The nodes at which each end of a net can be reached: of its pins, then of its ports; without pins alone.

    A port alone has another end a step away, for the least area of its metal.
    """
    ends = {net: [[(0, x, y) for x, y in pads[pin]] for pin in pins] for net, pins in placed.nets.items()}
    for port in placed.ports:
        ends[port.net].append([(technology.levels[port.layer], port.x, port.y)])
    for port in placed.ports:
        if len(ends[port.net]) == 1:
            level, x, y = ends[port.net][0][0]
            step = technology.step(level)
            if technology.metals[level].vertical:
                y += -step if y else step
            else:
                x += -step if x else step
            ends[port.net].append([(level, x, y)])
    return {net: joined for net, joined in ends.items() if len(joined) > 1}


def _span(net: Sequence[Sequence[_Node]]) -> int:
    """Half of the perimeter around the ends of a net."""
    places = [end[0] for end in net]
    return sum(max(values) - min(values) for values in zip(*places, strict=True))


@cache
def _compiled(source: str) -> ctypes.CDLL:
    functions = native.open_library(native.build_library(source))
    functions.router_new.restype = ctypes.c_void_p
    return functions


class _Router:
    """The router's memory, and what it is asked."""

    def __init__(self, grid: Grid, nets: Sequence[Sequence[Sequence[_Node]]]) -> None:
        ends = [end for net in nets for end in net]
        self._grid = grid
        self._terminals, self._accesses = _offsets(nets), _offsets(ends)
        self._nodes = np.array([grid.number(*node) for end in ends for node in end], np.uint32)
        self._order = np.array(sorted(range(len(nets)), key=lambda net: _span(nets[net])), np.uint32)

    def __enter__(self) -> "_Router":
        x, y = self._grid.technology.grid["x"], self._grid.technology.grid["y"]
        steps = [_STEP * y // max(x, y), _STEP * x // max(x, y)]
        sizes = np.array(
            [self._grid.columns, self._grid.rows, len(self._grid.technology.metals), *steps, _VIA], np.int32
        )
        self._functions = _compiled(native.resource(__package__, "router.c"))
        arrays = (self._terminals, self._accesses, self._nodes)
        self._memory = ctypes.c_void_p(
            self._functions.router_new(_pointer(sizes), len(self._order), *map(_pointer, arrays))
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._functions.router_free(self._memory)

    def block(self, numbers: Sequence[int]) -> None:
        """Keep nets off nodes."""
        nodes = np.array(numbers, np.uint32)
        self._functions.router_block(self._memory, len(nodes), _pointer(nodes))

    def run(self, tell: Callable[[str], None]) -> tuple[int, int]:
        """Run passes until no net shares a gap; returns the gaps that are shared, and nets that are not routed."""
        for number in range(_PASSES):
            present = min(_FIRST * 3**number // 2**number, _LAST)
            conflicts = self._functions.router_pass(
                self._memory, _pointer(self._order), present, _HISTORY, _MARGIN + 2 * number
            )
            failed = int(self._counts()[:, 2].sum())
            tell(f"pass {number + 1}: {conflicts} conflicts, {failed} nets not routed")
            if not conflicts:
                break
        return conflicts, failed

    def _counts(self) -> Ints:
        counts = np.zeros((len(self._order), 3), np.uint32)
        self._functions.router_counts(self._memory, _pointer(counts))
        return counts

    def result(self) -> tuple[list[Route], Iterator[_Node]]:
        """The metal of each net above its pins, and the node at which each end is reached."""
        counts = self._counts()
        wires, vias = (np.zeros(counts[:, column].sum() * size, np.uint32) for column, size in ((0, 2), (1, 1)))
        reached = np.zeros(len(self._accesses) - 1, np.uint32)
        self._functions.router_result(self._memory, *map(_pointer, (wires, vias, reached)))
        level, x, y = self._grid.places(wires[::2])
        _, right, top = self._grid.places(wires[1::2])
        all_wires = map(Wire, *(each.tolist() for each in (level, x, y, right - x + top - y)))
        level, x, y = self._grid.places(vias)
        all_vias = map(Via, *(each.tolist() for each in (level + 1, x, y)))
        routes = [Route([*islice(all_wires, count)], [*islice(all_vias, more)]) for count, more, _ in counts.tolist()]
        return routes, zip(*(each.tolist() for each in self._grid.places(reached)), strict=True)


def _offsets(groups: Sequence[Sequence[object]]) -> Ints:
    """Where each group begins if they are laid out one after the other, and where the last one ends."""
    return np.array([*accumulate(map(len, groups), initial=0)], np.uint32)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
