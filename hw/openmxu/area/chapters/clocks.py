"""The chapter of an area report on formats at the same clock."""

from collections.abc import Sequence

from openmxu.area.finding.findings import Report
from openmxu.area.finding.fronts import Element, Front, same_clocks
from openmxu.pages.tables import table


def clock_section(report: Report) -> list[str]:
    """Areas and energies at equal delays, and the elements behind them; empty if too few were measured."""
    areas, energies = _ratios(report.fronts, "GE"), _ratios(report.energy_fronts, "pJ")
    if not areas:
        return []
    return [
        "The area of a processing element depends on the clock. Elements of several stages and recipes were measured "
        "for each format; those on its Pareto front of delay and area are listed below. Ratios are relative to bf16, "
        "at the shortest delay that all formats reach, at the longest that any needs, and between the two. Between two "
        "elements the area is interpolated linearly on logarithmic axes; no such element need exist. Delays are before "
        "placing; no mapping had a target clock.",
        areas,
        "![Area of processing elements against their delay](clock.svg)",
        *(
            [
                "Energies per cycle likewise, on separate Pareto fronts: the smallest element is not always the most "
                "efficient.",
                energies,
                "![Energy of processing elements against their delay](energy.svg)",
            ]
            if energies
            else []
        ),
        "Elements, by area: ns, GE, stages and recipe.",
        _elements(report.fronts, 0),
        *(["Elements, by energy: ns, pJ, stages and recipe.", _elements(report.energy_fronts, 1)] if energies else []),
    ]


def _ratios(fronts: Sequence[Front], unit: str) -> str:
    """A table of figures relative to bf16; empty where nothing can be compared with it."""
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
