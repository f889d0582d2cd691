"""The opening of an area report: sentences and a table, whose verdicts come from the measurements."""

from collections.abc import Iterator, Sequence
from statistics import median

from openmxu.area.finding.findings import CLAIMS, CONFIDENCE, Report
from openmxu.area.subject.points import ADDER, MULTIPLIER, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT, PRODUCT
from openmxu.pages.tables import span

_NEAR = 10
"""Per cent below a claim within which a ratio is near it."""

_VERDICTS = ("at least", f"within {_NEAR} % of", "less than")
"""The verdicts on a ratio beside a claim, from above."""

_SQUARE = 0.2
"""Largest distance from 2 of an exponent that is called the square."""


_NOT_MEASURED = (
    "Not measured: wires, clock trees, memories and leakage; areas, delays and energies are those of mapped cells "
    "before placing. `openmxu study layouts` measures elements with wires and clock trees."
)


def conclusion(report: Report) -> list[str]:
    """Five sentences; fewer, or none, if less was measured. They do not repeat tables."""
    sentences = [*_scope(report), *_inside(report)]
    sentences += [_NOT_MEASURED] if sentences else []
    failed = len(report.failed)
    return [*sentences, *([f"{failed} of {len(report.runs)} runs failed; see below."] if failed else [])]


def overview(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table: each part's areas relative to bf16, over all targets, beside the claims."""
    exponents: dict[str, list[float]] = {}
    for fit in filter(lambda fit: fit.target.is_ranked, report.fits):
        exponents.setdefault(fit.part, []).append(fit.exponent.value)
    by_part = _by_part(report)
    rows = []
    for part in dict.fromkeys([*by_part, *exponents]):
        ratios = by_part.get(part, {})
        cells = [_beside(ratios[name], claim) if name in ratios else "" for name, claim in CLAIMS.items()]
        rows.append([part, *cells, span(exponents[part]) if part in exponents else ""])
    claims = [f"{name}, bf16 = 1 (claim: {claim:.0f})" for name, claim in CLAIMS.items()]
    return ["part", *claims, "exponent of its growth"], rows


def verdict(values: Sequence[float], claim: float) -> str:
    """The verdict on the median of one or more measured ratios beside a claimed one: one of :data:`_VERDICTS`.

    ::

              90 %       claim
        less than │ within │ at least
        ──────────┴────────┴─────────▶  median, as printed
    """
    middle = _hundredths(values)
    return _VERDICTS[(middle < 100 * claim) + (middle < (100 - _NEAR) * claim)]


def _beside(values: Sequence[float], claim: float) -> str:
    middle = f", median {_middle(values)}" if len(values) > 1 else ""
    return f"{span(values)}{middle}: {verdict(values, claim)} the claim"


def _hundredths(values: Sequence[float]) -> int:
    """The printed median of the printed ratios, in hundredths, so that a reader can repeat the verdict."""
    return int(median(round(100 * round(value, 2)) for value in values) + 0.5)


def _middle(values: Sequence[float]) -> str:
    return f"{_hundredths(values) / 100:.2f}"


def growth_sentence(report: Report) -> Iterator[str]:
    """The growth of the multiplier with the significand width, on the first target."""
    fit = next((fit for fit in report.fits if fit.part == MULTIPLIER and fit.target == report.first), None)
    if fit is not None:
        exponent = fit.exponent
        words = (
            "about as the square"
            if abs(exponent.value - 2) <= _SQUARE
            else ("more slowly than the square" if exponent.value < 2 else "faster than the square")
        )
        yield (
            f"The multiplier grows with the significand width to the power of {exponent.value:.2f} on "
            f"{fit.target.label} ({CONFIDENCE:.0%} interval {exponent.low:.2f} to {exponent.high:.2f}): {words}."
        )


def _scope(report: Report) -> Iterator[str]:
    """The parts for which the claim holds, over all targets, and the rule for the verdicts."""
    by_part = _by_part(report)
    for name, claim in CLAIMS.items():
        parts: dict[str, list[str]] = {}
        for part, ratios in by_part.items():
            if name in ratios:
                parts.setdefault(verdict(ratios[name], claim), []).append(f"{part} ({_middle(ratios[name])})")
        savings = [f"{words} the claimed area in {', '.join(parts[words])}" for words in _VERDICTS if words in parts]
        if savings:
            yield f"Against {name}, bf16 saves {'; '.join(savings)}."
    if by_part:
        claims = " and ".join(f"{claim:.0f} for {name}" for name, claim in CLAIMS.items())
        yield (
            f"In brackets: area relative to bf16, the median over targets; the claims are {claims}. 'At least': the "
            f"claim or more; 'within {_NEAR} % of': up to {_NEAR} % below it; 'less than': lower still."
        )


def _inside(report: Report) -> Iterator[str]:
    """Shares of the parts in a processing element."""
    first = report.first
    areas = {
        words: area
        for words, name in (
            ("fp32 adder", f"{ADDER} fp32"),
            ("exact bf16 multiplier", f"{MULTIPLIER_TO_FP32} bf16"),
            ("significand product within it", f"{PRODUCT} 8 x 8"),
        )
        if (area := report.area(name, first))
    }
    whole = report.area(f"{PROCESSING_ELEMENT} bf16", first)
    if whole and len(areas) == 3:
        parts = ", ".join(f"{words} {area / whole:.0%}" for words, area in areas.items())
        yield (
            f"Measured separately on {first.label}, as shares of a bf16 processing element's area: {parts}. The "
            f"{max(areas, key=lambda words: areas[words])} is the largest part."
        )


def _by_part(report: Report) -> dict[str, dict[str, list[float]]]:
    """The ratios of each part and format, on all targets that count."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for ratio in filter(lambda ratio: ratio.target.is_ranked, report.ratios):
        for name, value in ratio.others.items():
            ratios.setdefault(ratio.part, {}).setdefault(name, []).append(value)
    return ratios
