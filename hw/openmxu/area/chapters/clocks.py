"""Formats at the same clock."""

from collections.abc import Sequence

from openmxu.area.finding.findings import BASE, Report
from openmxu.area.finding.fronts import Element, Front, same_clocks
from openmxu.pages.tables import Table


def areas(report: Report) -> Table:
    """Areas at equal delays relative to bf16."""
    return _at_a_clock(report.fronts, "GE")


def energies(report: Report) -> Table:
    """Energies at equal delays relative to bf16."""
    return _at_a_clock(report.energy_fronts, "pJ")


def small_elements(report: Report) -> Table:
    """The elements of each front of areas, where formats are compared."""
    return _elements(report.fronts if areas(report) else [], "GE")


def efficient_elements(report: Report) -> Table:
    """The elements of each front of energies, where formats are compared."""
    return _elements(report.energy_fronts if areas(report) else [], "pJ")


def _at_a_clock(fronts: Sequence[Front], unit: str) -> Table:
    """Figures at equal delays relative to bf16; no rows where nothing can be compared with it."""
    clocks = same_clocks(fronts)
    names = [name for name in dict.fromkeys(name for clock in clocks for name in clock.costs) if name != BASE]
    rows = [
        [
            clock.library,
            f"{clock.delay:.2f}",
            f"{1000 / clock.delay:,.0f}",
            f"1 ({base:,.{int(unit == 'pJ')}f} {unit})",
            *[f"{clock.costs[name] / base:.2f}" if name in clock.costs else "-" for name in names],
        ]
        for clock in clocks
        if (base := clock.costs.get(BASE))
    ]
    return Table(["library", "ns", "MHz", BASE, *names], rows)


def _elements(fronts: Sequence[Front], unit: str) -> Table:
    def words(element: Element) -> str:
        point, target = element.result.point, element.result.target
        cost = f"{element.cost:,.{int(unit == 'pJ')}f}"
        return f"{element.delay:.2f}, {cost}, {point.options['stages']} {target.recipe}"

    rows = [[front.library, front.format, "; ".join(map(words, front.elements))] for front in fronts]
    return Table(["library", "operands", f"elements: ns, {unit}, stages, recipe"], rows, words=3)
