"""Google's claim beside each ratio, the growth of the parts, and what others published."""

from collections.abc import Sequence
from statistics import median

from openmxu.area.finding.findings import CLAIMS, Ratio, Report
from openmxu.pages.tables import Table, span

_NEAR = 10
"""Per cent below a claim within which a ratio is near it."""

_VERDICTS = ("at least", f"within {_NEAR} % of", "less than")
"""The verdicts on a ratio beside a claim, from above."""


def verdict(values: Sequence[float], claim: float) -> str:
    """The verdict on the median of one or more measured ratios beside a claimed one: one of :data:`_VERDICTS`.

    ::

              90 %       claim
        less than │ within │ at least
        ──────────┴────────┴─────────▶  median, as printed
    """
    middle = _hundredths(values)
    return _VERDICTS[(middle < 100 * claim) + (middle < (100 - _NEAR) * claim)]


def verdicts(report: Report) -> Table:
    """Each part's areas relative to bf16, over all targets, beside the claims."""
    exponents: dict[str, list[float]] = {}
    for fit in report.fits:
        if fit.target.is_ranked:
            exponents.setdefault(fit.part, []).append(fit.exponent.value)
    by_part: dict[str, dict[str, list[float]]] = {}
    for ratio in report.ratios:
        for name, value in ratio.others.items() if ratio.target.is_ranked else ():
            by_part.setdefault(ratio.part, {}).setdefault(name, []).append(value)
    rows = []
    for part in dict.fromkeys([*by_part, *exponents]):
        ratios = by_part.get(part, {})
        cells = [_beside(ratios[name], claim) if name in ratios else "" for name, claim in CLAIMS.items()]
        rows.append([part, *cells, span(exponents[part]) if part in exponents else ""])
    claims = [f"{name}, bf16 = 1 (claim: {claim:.0f})" for name, claim in CLAIMS.items()]
    return Table(["part", *claims, "exponent of its growth"], rows)


def _beside(values: Sequence[float], claim: float) -> str:
    middle = f", median {_hundredths(values) / 100:.2f}" if len(values) > 1 else ""
    return f"{span(values)}{middle}: {verdict(values, claim)} the claim"


def _hundredths(values: Sequence[float]) -> int:
    """The printed median of the printed ratios, in hundredths, so that a reader can repeat the verdict."""
    return int(median(round(100 * round(value, 2)) for value in values) + 0.5)


def ratios(report: Report) -> Table:
    """Each ratio by target and part."""
    claims = [
        ["claimed", "multiplier", "1", *[f"{claim:.0f}" for claim in CLAIMS.values()]],
        ["p²", "for p = 8, 11, 24", "1", *[f"{(width / 8) ** 2:.2f}" for width in (11, 24)]],
    ]
    rows = [_ratio(ratio) for ratio in report.ratios]
    return Table(["", "part", "bf16", *CLAIMS], [*claims, *rows] if rows else [], words=2)


def _ratio(ratio: Ratio) -> list[str]:
    def spread(name: str, value: float, digits: int) -> str:
        return f" ± {ratio.deviations[name] * value:.{digits}f}" if name in ratio.deviations else ""

    others = {name: f"{value:.2f}{spread(name, value, 2)}" for name, value in ratio.others.items()}
    base = f"1 ({ratio.bf16:,.0f}{spread('bf16', ratio.bf16, 0)} {ratio.target.unit})"
    return [ratio.target.label, ratio.part, base, *[others.get(name, "-") for name in CLAIMS]]


def growth(report: Report) -> Table:
    """Each fit of areas over significand widths."""
    rows = [
        [
            fit.target.label,
            fit.part,
            f"{len(fit.widths)}, {min(fit.widths)} to {max(fit.widths)}",
            *map(str, (fit.exponent, fit.a, fit.b, fit.c)),
            f"{fit.r_squared:.4f}",
            f"{fit.worst:.0%}",
        ]
        for fit in report.fits
    ]
    return Table(["target", "part", "widths p", "exponent", "a", "b", "c", "R²", "largest deviation"], rows, words=3)
