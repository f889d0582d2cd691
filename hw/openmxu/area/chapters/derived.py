"""Figures derived from measured parts: fp32 by several passes of bf16, bf16 results, whole units, whole arrays."""

from collections.abc import Iterator
from typing import NamedTuple

from openmxu.area.finding.findings import BASE, Report
from openmxu.area.finding.fronts import same_clocks
from openmxu.area.finding.units import unit_energies
from openmxu.area.run.energy import IDLE, NORMAL
from openmxu.area.subject.points import ARRAY, CONVERTER, PROCESSING_ELEMENT, UNIT
from openmxu.area.target.targets import Area
from openmxu.pages.tables import Table
from openmxu.spec.formats import BF16, FP32

_PASSES = (3, 6, 9)
"""Numbers of bf16 passes that compute a product of fp32 matrices."""

_UTILISATION = 0.5

_SAVED = FP32.width - BF16.width
"""Bits that a bf16 result saves."""

_GATE_CLOCK, _FPGA_CLOCK = 1000, 100
"""MHz at which arrays are compared: an assumption, the same for all formats."""


class _Pair(NamedTuple):
    """Figures of a bf16 element relative to an fp32 element; none where that was not measured."""

    library: str
    words: str
    area_time: float | None
    energy: float | None


def passes(report: Report) -> Table:
    """fp32 by passes of bf16 beside one pass on fp32 elements: area times time, and energy."""
    rows = [
        [
            pair.library,
            pair.words,
            *(f"{count * cost:.2f}" if cost else "-" for cost in (pair.area_time, pair.energy) for count in _PASSES),
        ]
        for pair in (*_of_one_stage(report), *_at_a_clock(report))
    ]
    headings = [f"{what}, {count} passes" for what in ("area x time", "energy") for count in _PASSES]
    return Table(["library", "elements", *headings], rows, words=2)


def _of_one_stage(report: Report) -> Iterator[_Pair]:
    """Pairs of elements with one stage, each at its own clock."""
    played = report.played(PROCESSING_ELEMENT, NORMAL, stages=1)
    energies = {(each.target, each.format): each.total for each in played}
    for target in report.targets:
        by_format = report.by_format(target, PROCESSING_ELEMENT)
        if target.library is None or not target.is_sound or not {BF16.name, FP32.name} <= set(by_format):
            continue
        costs = [
            each.area.area * each.delay if each.area and each.delay else None
            for each in (by_format[BF16.name], by_format[FP32.name])
        ]
        pair = _ratio(*costs), _ratio(*(energies.get((target, name)) for name in (BF16.name, FP32.name)))
        if any(pair):
            yield _Pair(target.name, f"one stage, {target.recipe}", *pair)


def _at_a_clock(report: Report) -> Iterator[_Pair]:
    """Pairs of the best elements at one delay."""
    sound = {target.name for target in report.ranked}
    fronts = {(each.library, each.format): each for each in report.energy_fronts}
    for clock in same_clocks(front for front in report.fronts if front.library in sound):
        if {BF16.name, FP32.name} <= set(clock.costs):
            both = [fronts.get((clock.library, name)) for name in (BF16.name, FP32.name)]
            energy = _ratio(*(front.cost(clock.delay) if front else None for front in both))
            area = _ratio(clock.costs[BF16.name], clock.costs[FP32.name])
            yield _Pair(clock.library, f"both at {clock.delay:.2f} ns", area, energy)


def _ratio(first: float | None, second: float | None) -> float | None:
    """The first of two figures relative to the second."""
    return first / second if first and second else None


def results(report: Report) -> Table:
    """Costs of a converter to bf16 results, and savings of the flip-flops behind it; the last column is the number of
    cycles after which their clock pins alone have taken the converter's energy.
    """
    elements = {
        each.target.name: each
        for each in report.played(PROCESSING_ELEMENT, IDLE, stages=1)
        if _is_small(each.format, each.target.recipe)
    }
    rows = []
    for converter in report.played(CONVERTER, NORMAL, stages=0):
        element = elements.get(converter.target.name)
        area, own = element and element.result.area, converter.result.area
        if _is_small(converter.format, converter.target.recipe) and element and area and area.sequential and own:
            clock = _SAVED * element.clock / area.flip_flops
            cells = f"{own.area:,.0f}", f"{converter.total:.2f}", f"{_SAVED * area.sequential / area.flip_flops:,.0f}"
            rows.append([converter.target.name, *cells, f"{clock:.2f}", f"{converter.total / clock:.1f}"])
    headings = ["converter, GE", "pJ a result", f"{_SAVED} flip-flops, GE", "their clock pins, pJ", "cycles"]
    return Table(["library", *headings], rows)


def _is_small(name: str, recipe: str) -> bool:
    return (name, recipe) == (BF16.name, "area")


def units(report: Report) -> Table:
    """Energies of whole units for a product; the last column is for one that idles in half of its cycles."""
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
        for unit in unit_energies(report.energies)
    ]
    headings = ["library", "recipe", "unit", "operands", "pJ a product", "around elements", "GFLOP/s/W", "half idle"]
    return Table(headings, rows, words=4)


def arrays(report: Report) -> Table:
    """Arrays and units of the same size beside that of bf16: areas for each processing element, and each GFLOP/s."""
    rows = []
    for target in report.targets:
        clock = _FPGA_CLOCK if target.recipe == "fpga" else _GATE_CLOCK
        for part in (ARRAY, UNIT):
            found = report.by_format(target, part)
            base = found[BASE].area if BASE in found else None
            for name, result in found.items():
                if result.area and base:
                    cells = result.point.cells
                    rows.append(
                        [
                            target.label,
                            f"{result.point.size} {part}",
                            name,
                            f"{result.area.area / cells:,.0f} {target.unit}{dsps(result.area, cells)}",
                            f"{result.area.flip_flops / cells:,.0f}",
                            f"{1000 * result.area.area / (2 * cells * clock):,.0f}",
                            f"{result.area.area / base.area:.2f}",
                        ]
                    )
    clocks = f"for each GFLOP/s ({_GATE_CLOCK} MHz on gates, {_FPGA_CLOCK} on FPGAs)"
    headings = ["target", "design", "operands", "for each processing element", "its flip-flops", clocks]
    return Table([*headings, "relative to bf16"], rows, words=3)


def dsps(area: Area, cells: int = 1) -> str:
    """For each cell, its counts beside LUTs."""
    return f" + {area.dsps / cells:g} DSP" if area.dsps else ""
