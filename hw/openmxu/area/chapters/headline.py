"""Costs of the formats, relative to bf16, over all targets, beside the claims: the first table of an area report, and
the longer one of all quantities.

::

    by target, bf16 = 1     deviation over orders, or over seeds of operands
      1.60  1.62  1.77        0.4 %  0.3 %  0.6 %
        └────┬────┘             └─────┬──────┘
             └──▶ 1.60 to 1.77 ± 0.01 ◀┘ the largest
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot

from openmxu.area.finding.findings import AS_BUILT, CLAIMS, Report
from openmxu.area.finding.fronts import Front, same_clocks
from openmxu.area.run.energy import NORMAL
from openmxu.area.subject.points import ELEMENTS, MULTIPLIER, PROCESSING_ELEMENT, PRODUCT
from openmxu.pages.tables import span
from openmxu.spec.formats import FORMATS

CLAIM = "Google's claim, of a multiplier"

_BASE = "bf16"

_AREA = f"area, {PROCESSING_ELEMENT}"
_FOUR_TERMS = f"area per multiply-add, {PROCESSING_ELEMENT} of four terms"
_ENERGY = f"energy, {PROCESSING_ELEMENT} of one stage mapped for area"
_SAME_AREA, _SAME_ENERGY = (f"{cost}, {PROCESSING_ELEMENT} at the same clock" for cost in ("area", "energy"))

_AS_BUILT = f"area, {AS_BUILT}"
_OPENING = ((f"area, {MULTIPLIER}",), (_AS_BUILT,), (_SAME_AREA, _AREA), (_FOUR_TERMS,), (_SAME_ENERGY, _ENERGY))
"""The rows of the first table; each shows its first quantity that was measured."""

_BESIDE = (_AS_BUILT, _FOUR_TERMS)
"""Rows of the first table that do not make a report long."""


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
    ratios: dict[str, list[tuple[float, float | None]]] = field(default_factory=dict)
    """By format: its figures relative to bf16, and their standard deviations, where these are known, one pair for
    each target, or for each clock."""

    def add(self, figures: Mapping[str, tuple[float, float | None]], *, in_unit: bool = True) -> None:
        """Add the figures of one target or clock, by format, with their deviations as fractions."""
        if _BASE not in figures:
            return
        base, deviation = figures[_BASE]
        if in_unit:
            self.bases.append(base)
        for name, (figure, own) in figures.items():
            if name != _BASE:
                both = None if deviation is None or own is None else hypot(deviation, own) * figure / base
                self.ratios.setdefault(name, []).append((figure / base, both))


def quantities(report: Report) -> list[Measured]:
    """The quantities that were measured for more formats than bf16, on all targets that count."""
    measured = [
        *(_areas(report, part) for part in (PRODUCT, MULTIPLIER, AS_BUILT, PROCESSING_ELEMENT, ELEMENTS[4])),
        _at_a_clock(_SAME_AREA, "GE", 0, _sound(report, report.fronts)),
        _delays(report),
        _energies(report),
        _at_a_clock(_SAME_ENERGY, "pJ", 1, _sound(report, report.energy_fronts)),
    ]
    return [quantity for quantity in measured if quantity.ratios]


def claimed(report: Report) -> list[Measured]:
    """The quantities to draw: those of the longer table that were measured for a format of the claims."""
    measured = quantities(report)
    return [quantity for quantity in measured if set(CLAIMS) & set(quantity.ratios)] if _is_long(measured) else []


def _is_long(measured: Sequence[Measured]) -> bool:
    """Whether there are more quantities than the first table shows."""
    return len([quantity for quantity in measured if quantity.words not in _BESIDE]) > len(_OPENING) - len(_BESIDE)


def panels(report: Report) -> list[str]:
    """Plots of multipliers and their products: ``widths`` for two or more widths, ``ratios`` if there are any."""
    parts = (MULTIPLIER, PRODUCT)
    results = [result for result in report.results if result.target == report.first and result.point.part in parts]
    widths = {result.point.width for result in results if result.area and result.area.area and not result.point.variant}
    ratios = [ratio for ratio in report.ratios if ratio.part in parts and ratio.target.is_ranked]
    return ["widths"] * (len(widths) > 1) + ["ratios"] * bool(ratios)


def headline(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the first table: costs of multiplier and processing element."""
    measured = quantities(report)
    if _is_long(measured):
        by_words = {quantity.words: quantity for quantity in measured}
        first = [next((by_words[words] for words in row if words in by_words), None) for row in _OPENING]
        measured = [quantity for quantity in first if quantity]
    return _table(measured)


def everything(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table of all quantities; no rows where the first table has them all."""
    measured = quantities(report)
    headings, rows = _table(measured)
    return headings, rows if _is_long(measured) else []


def _table(measured: Sequence[Measured]) -> tuple[list[str], list[list[str]]]:
    """A row for each quantity, formats beside each other; no rows if there is none."""
    names = [name for name in FORMATS if name in CLAIMS or any(name in row.ratios for row in measured)]
    names = [*CLAIMS, *(name for name in names if name not in (*CLAIMS, _BASE))]
    claims = [CLAIM, *[f"{CLAIMS[name]:.0f}" if name in CLAIMS else "" for name in names], ""]
    rows = [[row.words, *[_ratio(row.ratios.get(name, [])) for name in names], _base(row)] for row in measured]
    return [f"{_BASE} = 1", *names, _BASE], [claims, *rows] if rows else []


def _base(measured: Measured) -> str:
    return f"{span(measured.bases, measured.digits)} {measured.unit}" if measured.bases else ""


def _ratio(ratios: Iterable[tuple[float, float | None]]) -> str:
    """The smallest and the largest ratio, and the largest deviation."""
    values = list(ratios)
    deviations = [deviation for _, deviation in values if deviation is not None]
    spread = f" ± {max(deviations):.2f}" if deviations else ""
    return f"{span([value for value, _ in values])}{spread}" if values else ""


def _areas(report: Report, part: str) -> Measured:
    """Areas of a part, for each of its terms, on each target that counts."""
    areas = Measured(_FOUR_TERMS if part == ELEMENTS[4] else f"area, {part}", "GE", 0)
    for target in filter(lambda target: target.is_ranked, report.targets):
        figures = {}
        for name, result in report.by_format(target, part).items():
            spread = report.spread(result)
            if result.area and result.area.area and name in FORMATS:
                figures[name] = (result.area.area / result.point.terms, spread.area if spread else None)
        areas.add(figures, in_unit=target.unit == "GE")
    return areas


def _delays(report: Report) -> Measured:
    """Delays of processing elements with one stage, mapped for speed."""
    delays = Measured(f"delay, {PROCESSING_ELEMENT} of one stage mapped for speed", "ns", 1)
    for target in report.targets:
        if target.recipe == "speed" and not (target.library and target.library.doubt):
            figures = {}
            for name, result in report.by_format(target, PROCESSING_ELEMENT).items():
                spread = report.spread(result)
                if result.delay and name in FORMATS:
                    figures[name] = (result.delay, spread.delay if spread else None)
            delays.add(figures)
    return delays


def _energies(report: Report) -> Measured:
    """Energies of processing elements with one stage, mapped for area; deviations are those of the operands' seeds."""
    energies = Measured(_ENERGY, "pJ", 1)
    by_library: dict[str, dict[str, tuple[float, float | None]]] = {}
    for energy in report.energies:
        point, target = energy.result.point, energy.result.target
        is_one = point.part == PROCESSING_ELEMENT and point.options["stages"] == 1 and target.recipe == "area"
        if is_one and energy.operands == NORMAL and not energy.error:
            by_library.setdefault(target.name, {})[str(point.format)] = (energy.total, energy.spread)
    for figures in by_library.values():
        energies.add(figures)
    return energies


def _sound(report: Report, fronts: Iterable[Front]) -> list[Front]:
    """The fronts on libraries that statements are about."""
    names = {target.name for target in report.targets if target.is_ranked}
    return [front for front in fronts if front.library in names]


def _at_a_clock(words: str, unit: str, digits: int, fronts: Iterable[Front]) -> Measured:
    """Costs at equal delays."""
    costs = Measured(words, unit, digits)
    for clock in same_clocks(fronts):
        costs.add({name: (cost, None) for name, cost in clock.costs.items()})
    return costs
