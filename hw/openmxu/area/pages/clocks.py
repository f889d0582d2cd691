"""What an area report says of formats at the same clock."""

from collections.abc import Sequence

from openmxu.area.findings import Report
from openmxu.area.fronts import Element, Front, same_clocks
from openmxu.area.pages.marked import table

__all__ = ["clock_section"]


def clock_section(report: Report) -> list[str]:
    """Areas and energies at equal delays, and the elements that these rest on; nothing if too few were measured."""
    areas, energies = _ratios(report.fronts, "GE"), _ratios(report.energy_fronts, "pJ")
    if not areas:
        return []
    return [
        "What a processing element takes depends on the clock. Each format has the elements below, of several stages "
        "and recipes; those that another one beats in delay and area are left out. In units of bf16, at the shortest "
        "delay that all formats have, at the longest that any needs, and between the two. Areas between two elements "
        "are interpolated, on a straight line on logarithmic axes: there may be no such element. Delays are those "
        "before placing; no mapping was given a clock to reach.",
        areas,
        "![Area of processing elements against their delay](clock.svg)",
        *(
            [
                "Energies of a cycle likewise, in separate Pareto fronts: the smallest element is not always the one "
                "that takes least.",
                energies,
                "![Energy of processing elements against their delay](energy.svg)",
            ]
            if energies
            else []
        ),
        "The elements: ns, GE, stages and recipe.",
        _elements(report.fronts, 0),
        *(["For energies: ns, pJ, stages and recipe.", _elements(report.energy_fronts, 1)] if energies else []),
    ]


def _ratios(fronts: Sequence[Front], unit: str) -> str:
    """A table in units of bf16; empty where nothing can be compared with it."""
    clocks = same_clocks(fronts)
    names = [name for name in dict.fromkeys(name for clock in clocks for name in clock.costs) if name != "bf16"]
    rows = [
        [
            clock.library,
            f"{clock.delay:.2f}",
            f"{1000 / clock.delay:,.0f}",
            f"1 ({base:,.{int(unit == 'pJ')}f} {unit})",
            *[f"{clock.costs[name] / base:.2f}" if name in clock.costs else "-" for name in names],
        ]
        for clock in clocks
        if (base := clock.costs.get("bf16"))
    ]
    return table(["library", "ns", "MHz", "bf16", *names], rows) if rows else ""


def _elements(fronts: Sequence[Front], digits: int) -> str:
    def words(element: Element) -> str:
        point, target = element.result.point, element.result.target
        return f"{element.delay:.2f}, {element.cost:,.{digits}f}, {point.options['stages']} {target.recipe}"

    rows = [[front.library, front.format, "; ".join(map(words, front.elements))] for front in fronts]
    return table(["library", "operands", "elements"], rows, words=3)
