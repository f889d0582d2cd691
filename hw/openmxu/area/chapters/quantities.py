"""Costs of the formats, relative to bf16, over all targets: the first table of an area report.

::

    by target, bf16 = 1     deviation over orders, or over seeds of operands
      1.60  1.62  1.77        0.4 %  0.3 %  0.6 %
        └────┬────┘             └─────┬──────┘
             └──▶ 1.60 to 1.77 ± 0.01 ◀┘ the largest
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot

from openmxu.area.finding.findings import AS_BUILT, BASE, CLAIMS, Figure, Report
from openmxu.area.finding.fronts import Front, same_clocks
from openmxu.area.run.energy import NORMAL
from openmxu.area.subject.points import MULTIPLIER, PROCESSING_ELEMENT, PRODUCT, kind
from openmxu.pages.tables import Table, span
from openmxu.spec.formats import FORMATS

CLAIM = "Google's claim, of a multiplier"

_FOUR_TERMS = kind(PROCESSING_ELEMENT, 4)

_AREAS = {
    **{part: f"area, {part}" for part in (PRODUCT, MULTIPLIER, AS_BUILT, PROCESSING_ELEMENT)},
    _FOUR_TERMS: f"area per multiply-add, {PROCESSING_ELEMENT} of four terms",
}


@dataclass
class Measured:
    """One quantity in all formats."""

    words: str
    """Name of the quantity."""
    unit: str
    digits: int
    """Decimal places of the figures for bf16."""
    bases: list[float] = field(default_factory=list)
    """The figures for bf16, one for each target that has it in this unit."""
    ratios: dict[str, list[Figure]] = field(default_factory=dict)
    """By format: its figures relative to bf16, one for each target, or for each clock."""

    def add(self, figures: Mapping[str, Figure], *, in_unit: bool = True) -> None:
        """Add the figures of one target or clock, by format."""
        if BASE not in figures:
            return
        base = figures[BASE]
        if in_unit:
            self.bases.append(base.value)
        for name, figure in figures.items():
            if name != BASE and name in FORMATS:
                ratio, known = figure.value / base.value, None not in (base.deviation, figure.deviation)
                both = hypot(base.deviation or 0, figure.deviation or 0) * ratio if known else None
                self.ratios.setdefault(name, []).append(Figure(ratio, both))


def quantities(report: Report) -> list[Measured]:
    """The quantities that were measured for more formats than bf16, on all targets that count."""
    measured = [
        *(_areas(report, part, words) for part, words in _AREAS.items()),
        _at_a_clock("area", "GE", 0, _sound(report, report.fronts)),
        _delays(report),
        _energies(report),
        _at_a_clock("energy", "pJ", 1, _sound(report, report.energy_fronts)),
    ]
    return [quantity for quantity in measured if quantity.ratios]


def in_short(report: Report) -> Table:
    """A row for each quantity, formats beside each other."""
    measured = quantities(report)
    others = [name for name in FORMATS if name not in (*CLAIMS, BASE) and any(name in row.ratios for row in measured)]
    names = [*CLAIMS, *others]
    claims = [CLAIM, *[f"{CLAIMS[name]:.0f}" if name in CLAIMS else "" for name in names], ""]
    rows = [[row.words, *[_ratio(row.ratios.get(name, [])) for name in names], _base(row)] for row in measured]
    return Table([f"{BASE} = 1", *names, BASE], [claims, *rows] if rows else [])


def _base(measured: Measured) -> str:
    return f"{span(measured.bases, measured.digits)} {measured.unit}" if measured.bases else ""


def _ratio(ratios: Sequence[Figure]) -> str:
    """The smallest and the largest ratio, and the largest deviation."""
    deviations = [ratio.deviation for ratio in ratios if ratio.deviation is not None]
    spread = f" ± {max(deviations):.2f}" if deviations else ""
    return f"{span([ratio.value for ratio in ratios])}{spread}" if ratios else ""


def _areas(report: Report, part: str, words: str) -> Measured:
    """Areas of a part, for each of its terms, on each target that counts."""
    areas = Measured(words, "GE", 0)
    terms = 4 if part == _FOUR_TERMS else 1
    for target in report.ranked:
        figures = {
            name: Figure(each.value / terms, each.deviation) for name, each in report.areas(target, part).items()
        }
        areas.add(figures, in_unit=target.unit == "GE")
    return areas


def _delays(report: Report) -> Measured:
    """Delays of processing elements with one stage, mapped for speed."""
    delays = Measured(f"delay, {PROCESSING_ELEMENT} of one stage mapped for speed", "ns", 1)
    for target in report.targets:
        if target.recipe == "speed" and target.is_sound:
            results = report.by_format(target, PROCESSING_ELEMENT)
            spreads = {name: report.spread(result) for name, result in results.items()}
            delays.add(
                {
                    name: Figure(result.delay, spread.delay if (spread := spreads[name]) else None)
                    for name, result in results.items()
                    if result.delay
                }
            )
    return delays


def _energies(report: Report) -> Measured:
    """Energies of processing elements with one stage, mapped for area; deviations are those of the operands' seeds."""
    energies = Measured(f"energy, {PROCESSING_ELEMENT} of one stage mapped for area", "pJ", 1)
    by_library: dict[str, dict[str, Figure]] = {}
    for energy in report.played(PROCESSING_ELEMENT, NORMAL, stages=1):
        if energy.target.recipe == "area":
            by_library.setdefault(energy.target.name, {})[energy.format] = Figure(energy.total, energy.spread)
    for figures in by_library.values():
        energies.add(figures)
    return energies


def _sound(report: Report, fronts: Iterable[Front]) -> list[Front]:
    """The fronts on libraries that statements are about."""
    names = {target.name for target in report.ranked}
    return [front for front in fronts if front.library in names]


def _at_a_clock(cost: str, unit: str, digits: int, fronts: Iterable[Front]) -> Measured:
    costs = Measured(f"{cost}, {PROCESSING_ELEMENT} at the same clock", unit, digits)
    for clock in same_clocks(fronts):
        costs.add({name: Figure(value) for name, value in clock.costs.items()})
    return costs
