"""Fronts: the least measured area or energy of a processing element at a clock, and formats side by side.

::

    cost
     │ o                     o  an element: so many stages, mapped by a recipe
     │  ╲    x               x  one that another beats in both
     │   o───╮
     │       o─────────      slower clocks need no more than the smallest
     └──────────────── ns
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from openmxu.area.run.energy import NORMAL, Energy
from openmxu.area.run.measure import Result
from openmxu.area.subject.points import PROCESSING_ELEMENT

_FEWEST = 2
"""The fewest elements of a front."""


class Element(NamedTuple):
    """A processing element that was measured: its longest path in ns, and its cost, in GE or in pJ a cycle."""

    delay: float
    cost: float
    result: Result


@dataclass(frozen=True)
class Front:
    """The elements of a format on a library that no other element beats in both delay and cost, the fastest first."""

    library: str
    """Name of the target."""
    format: str
    """Operands."""
    elements: tuple[Element, ...]
    """Delays rise, costs fall."""

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Delay and cost of each element."""
        return tuple((element.delay, element.cost) for element in self.elements)

    def cost(self, delay: float) -> float | None:
        """The cost of an element of this delay, between two neighbours on a straight line on logarithmic axes.

        None where no element is as fast; for slower clocks than the cheapest element needs, its cost.
        """
        points = self.points
        if delay < points[0][0]:
            return None
        for (fast, large), (slow, small) in itertools.pairwise(points):
            if delay <= slow:
                share = math.log(delay / fast) / math.log(slow / fast)
                return float(large * (small / large) ** share)
        return points[-1][1]


@dataclass(frozen=True)
class SameClock:
    """Costs of the formats' elements at one delay of a library, by format."""

    library: str
    delay: float
    costs: dict[str, float]


def area_fronts(results: Iterable[Result]) -> list[Front]:
    """The fronts of processing elements by area: all stages and recipes of a library together."""
    return _fronts(Element(result.delay or 0.0, result.area.area, result) for result in results if result.area)


def energy_fronts(energies: Iterable[Energy]) -> list[Front]:
    """The fronts of processing elements by energy, with normal operands."""
    return _fronts(
        Element(energy.result.delay or 0.0, energy.total, energy.result)
        for energy in energies
        if energy.operands == NORMAL and not energy.error
    )


def _fronts(elements: Iterable[Element]) -> list[Front]:
    """The fronts of the elements with flushed subnormals and a delay."""
    groups: dict[tuple[str, str], list[Element]] = {}
    for element in elements:
        point = element.result.point
        is_one = point.kind == PROCESSING_ELEMENT and point.options.get("subnormals") == "flush" and not point.ties
        if is_one and point.format is not None and element.delay:
            groups.setdefault((element.result.target.name, str(point.format)), []).append(element)
    return [
        Front(library, name, _unbeaten(elements))
        for (library, name), elements in groups.items()
        if len(elements) >= _FEWEST
    ]


def _unbeaten(elements: list[Element]) -> tuple[Element, ...]:
    """The elements for which no other one is both as fast and as cheap."""
    front: list[Element] = []
    for element in sorted(elements, key=lambda candidate: (candidate.delay, candidate.cost)):
        if not front or element.cost < front[-1].cost:
            front.append(element)
    return tuple(front)


def same_clocks(fronts: Iterable[Front]) -> list[SameClock]:
    """Formats at three delays of each library: the shortest that all have, the longest that any needs, one between."""
    libraries: dict[str, list[Front]] = {}
    for front in fronts:
        libraries.setdefault(front.library, []).append(front)
    rows = []
    for library, all_fronts in libraries.items():
        if len(all_fronts) < _FEWEST:
            continue
        shortest = max(front.points[0][0] for front in all_fronts)
        longest = max(shortest, *(front.points[-1][0] for front in all_fronts))
        for delay in dict.fromkeys((shortest, math.sqrt(shortest * longest), longest)):
            costs = {front.format: front.cost(delay) for front in all_fronts}
            rows.append(SameClock(library, delay, {name: cost for name, cost in costs.items() if cost is not None}))
    return rows
