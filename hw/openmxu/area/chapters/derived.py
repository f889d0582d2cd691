"""Chapters derived from measured parts: fp32 by several passes of bf16, bf16 results, whole units."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from openmxu.area.finding.findings import Report
from openmxu.area.finding.fronts import Front, same_clocks
from openmxu.area.finding.units import unit_energies
from openmxu.area.run.energy import IDLE, NORMAL
from openmxu.area.subject.points import CONVERTER, PROCESSING_ELEMENT
from openmxu.pages.tables import table
from openmxu.spec.formats import BF16, FP32

_PASSES = (3, 6, 9)
"""Numbers of bf16 passes that compute a product of fp32 matrices."""

_UTILISATION = 0.5

_SAVED = FP32.width - BF16.width
"""Bits that a bf16 result saves."""

_READ = {"a cache of 8 kB": (10, 10), "one of 1 MB": (100, 100), "DRAM": (1300, 2600)}
"""pJ for 64 bits at 45 nm: Horowitz, ISSCC 2014."""

_HOROWITZ_BITS = 64


class _Pair(NamedTuple):
    """Figures of a bf16 element relative to an fp32 element; none where that was not measured."""

    library: str
    words: str
    area_time: float | None
    energy: float | None


def passes_section(report: Report) -> list[str]:
    """fp32 by passes of bf16 beside fp32: area times time, and energy; empty if elements of both are missing."""
    rows = [
        [
            pair.library,
            pair.words,
            *(f"{passes * cost:.2f}" if cost else "-" for cost in (pair.area_time, pair.energy) for passes in _PASSES),
        ]
        for pair in (*_of_one_stage(report), *_at_a_clock(report))
    ]
    if not rows:
        return []
    headings = [f"{what}, {passes} passes" for what in ("area x time", "energy") for passes in _PASSES]
    return [
        "Derived from the areas, delays and energies of the elements above: the cost of fp32 matrix products in "
        "several passes on bf16 elements, relative to one pass on fp32 elements. Below 1 the passes are cheaper. Three "
        "passes give about 16 bits; six and nine are about as accurate as fp32. Elements of one stage run at their own "
        "highest clocks; other rows compare both at one clock, with the best stages and recipe for each. Splitters at "
        "the edge of the unit are not included, nor are memories, from which passes read bf16 numbers several times.",
        table(["library", "elements", *headings], rows, words=2),
    ]


def _of_one_stage(report: Report) -> Iterator[_Pair]:
    """Pairs of elements with one stage, each at its own clock."""
    energies = {
        (each.result.target, str(each.result.point.format)): each.total
        for each in report.energies
        if (each.result.point.part, each.operands, each.error) == (PROCESSING_ELEMENT, NORMAL, "")
        and each.result.point.options["stages"] == 1
    }
    for target in report.targets:
        by_format = report.by_format(target, PROCESSING_ELEMENT)
        results = [by_format[name] for name in ("bf16", "fp32") if name in by_format]
        if target.library is None or target.library.doubt or len(results) < 2:
            continue
        areas = [each.area.area * each.delay if each.area and each.delay else None for each in results]
        pair = _ratio(areas), _ratio([energies.get((target, name)) for name in ("bf16", "fp32")])
        if any(pair):
            yield _Pair(target.name, f"one stage, {target.recipe}", *pair)


def _at_a_clock(report: Report) -> Iterator[_Pair]:
    """Pairs of the best elements at one delay."""
    sound = {target.name for target in report.targets if target.is_ranked}
    fronts: dict[tuple[str, str], Front] = {(each.library, each.format): each for each in report.energy_fronts}
    for clock in same_clocks(front for front in report.fronts if front.library in sound):
        if not {"bf16", "fp32"} <= set(clock.costs):
            continue
        areas = [clock.costs[name] for name in ("bf16", "fp32")]
        taken = [
            front.cost(clock.delay) if (front := fronts.get((clock.library, name))) else None
            for name in ("bf16", "fp32")
        ]
        yield _Pair(clock.library, f"both at {clock.delay:.2f} ns", _ratio(areas), _ratio(taken))


def _ratio(figures: Sequence[float | None]) -> float | None:
    """The first of two figures relative to the second."""
    first, second = figures
    return first / second if first and second else None


def results_section(report: Report) -> list[str]:
    """Costs and savings of bf16 results; empty if no converter was measured."""
    rows = list(_results(report))
    if not rows:
        return []
    read = ", ".join(
        f"{'' if low == high else f'{low * _SAVED / _HOROWITZ_BITS:g} to '}{high * _SAVED / _HOROWITZ_BITS:g} pJ from "
        f"{name}"
        for name, (low, high) in _READ.items()
    )
    return [
        f"bf16 results and their storage, derived. A converter rounds each fp32 result to bf16, which saves {_SAVED} "
        f"bits wherever the result is kept. If flip-flops keep it, the clock pins of {_SAVED} of them take as much "
        "energy as the converter within the cycles of the last column. A read "
        f"of {_SAVED} bits takes a quarter of Horowitz's figure (ISSCC 2014, 45 nm) for {_HOROWITZ_BITS}: {read}. "
        "What bf16 sums inside the unit save is among the features above.",
        table(
            ["library", "converter, GE", "pJ a result", f"{_SAVED} flip-flops, GE", "their clock pins, pJ", "cycles"],
            rows,
        ),
    ]


def _results(report: Report) -> Iterator[list[str]]:
    parts = {
        (energy.result.target.name, energy.result.point.part, energy.operands): energy
        for energy in report.energies
        if not energy.error and energy.result.target.recipe == "area" and str(energy.result.point.format) == "bf16"
        if energy.result.point.options["stages"] == int(energy.result.point.part == PROCESSING_ELEMENT)
    }
    for library in dict.fromkeys(name for name, *_ in parts):
        converter, element = parts.get((library, CONVERTER, NORMAL)), parts.get((library, PROCESSING_ELEMENT, IDLE))
        area = element and element.result.area
        if converter is None or converter.result.area is None or element is None or not area or not area.sequential:
            continue
        clock = _SAVED * element.clock / area.flip_flops
        yield [
            library,
            f"{converter.result.area.area:,.0f}",
            f"{converter.total:.2f}",
            f"{_SAVED * area.sequential / area.flip_flops:,.0f}",
            f"{clock:.2f}",
            f"{converter.total / clock:.1f}",
        ]


def units_section(report: Report) -> list[str]:
    """Energies of whole units for a product; empty if a part's energy is missing."""
    units = unit_energies(report.energies)
    if not units:
        return []
    rows = [
        [
            unit.library,
            unit.recipe,
            f"{unit.rows}x{unit.columns}",
            unit.format,
            f"{unit.product():.1f}",
            f"{unit.around / unit.product():.0%}",
            f"{unit.gflops_per_watt():.0f}",
            f"{unit.gflops_per_watt(_UTILISATION):.0f}",
        ]
        for unit in units
    ]
    return [
        "Energies of whole units, derived: elements of one stage, a converter for each word at the edge, the fp32 "
        "adder of each column in the accumulator bank, and the shift registers of skew and control, each counted as "
        "often as a beat uses it, weights of the next tile included. GFLOP/s/W counts two operations for each product; "
        "the clock does not matter, as leakage is left out. The last column is for a unit that multiplies in "
        f"{_UTILISATION:.0%} of its cycles and idles in the others. Memories, streams, wires and the clock tree, which "
        "a chip has as well, are not included.",
        table(
            ["library", "recipe", "unit", "operands", "pJ a product", "around elements", "GFLOP/s/W", "half idle"],
            rows,
            words=4,
        ),
    ]
