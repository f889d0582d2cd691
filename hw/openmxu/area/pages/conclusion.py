"""What an area report says in plain language: sentences whose numbers and verdicts come from the measurements."""

from collections.abc import Iterator, Sequence
from statistics import median

from openmxu.area.findings import CLAIMS, CONFIDENCE, Fit, Report
from openmxu.area.points import ADDER, ARRAY, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT, PRODUCT

__all__ = ["conclusion", "verdict"]

_TOLERANCE = 0.1
"""How far a ratio may be from a claim, as a fraction of the claim, and still be said to agree."""

_SQUARE = 0.2
"""How far an exponent may be from 2 and still be called the square."""


def conclusion(report: Report) -> list[str]:
    """The sentences, one for each thing that was found; none if too little was measured."""
    return [*_scope(report), *_ratios(report), *_exponents(report), *_inside(report), *_costs(report), *_arrays(report),
            *_failures(report)]


def verdict(values: Sequence[float], claim: float) -> str:
    """What measured ratios, one or more, say of a claimed one."""
    near = [abs(value / claim - 1) <= _TOLERANCE for value in values]
    if all(near):
        return "agrees"
    if not any(near):
        if all(value < claim for value in values):
            return "bf16 saves less than claimed"
        if all(value > claim for value in values):
            return "bf16 saves more than claimed"
    return f"within {_TOLERANCE:.0%} of the claim on {sum(near)} of {len(near)} targets"


def _exponents(report: Report) -> Iterator[str]:
    by_part: dict[str, list[Fit]] = {}
    for fit in filter(lambda fit: fit.target.is_ranked, report.fits):
        by_part.setdefault(fit.part, []).append(fit)
    for part, fits in by_part.items():
        values = [fit.exponent.value for fit in fits]
        found = (f"the power of {fits[0].exponent.value:.2f} on {fits[0].target.label} ({CONFIDENCE:.0%} interval "
                 f"{fits[0].exponent.low:.2f} to {fits[0].exponent.high:.2f})")
        if len(fits) > 1:
            found += f", {min(values):.2f} to {max(values):.2f} on all {len(fits)} targets"
        middle = median(values)
        words = "about as the square" if abs(middle - 2) <= _SQUARE else (
            "more slowly than the square" if middle < 2 else "faster than the square")
        worst = max(fit.worst for fit in fits)
        yield (f"The {part} grows with the significand width to {found}: {words}. A square polynomial comes within "
               f"{worst:.0%} of each area.")


def _ratios(report: Report) -> Iterator[str]:
    for part, values in _by_part(report).items():
        words = [f"{name} {_span(found)} times bf16 (claim {CLAIMS[name]:.0f}: {verdict(found, CLAIMS[name])})"
                 for name, found in values.items()]
        yield f"{part[0].upper()}{part[1:]}: {'; '.join(words)}."


def _scope(report: Report) -> Iterator[str]:
    """Where the claim holds, over all parts and targets."""
    for name, claim in CLAIMS.items():
        middles = {part: median(values[name]) for part, values in _by_part(report).items() if name in values}
        enough = [part for part, middle in middles.items() if middle >= claim * (1 - _TOLERANCE)]
        less = [part for part in middles if part not in enough]
        said = [f"{words} in {', '.join(found)}" for words, found in
                (("at least the claimed area", enough), ("less than the claimed area", less)) if found]
        if said:
            yield f"Against {name}, bf16 saves {', and '.join(said)} (medians over targets)."


def _inside(report: Report) -> Iterator[str]:
    """What is large in a processing element."""
    first = report.first
    areas = {words: area for words, name in (
        ("fp32 adder", f"{ADDER} fp32"), ("exact bf16 multiplier", f"{MULTIPLIER_TO_FP32} bf16"),
        ("significand product in that", f"{PRODUCT} 8 x 8")) if (area := report.area(name, first))}
    whole = report.area(f"{PROCESSING_ELEMENT} bf16", first)
    if whole and len(areas) == 3:
        parts = ", ".join(f"the {words} {area / whole:.0%}" for words, area in areas.items())
        yield (f"Beside a bf16 processing element on {first.label}, measured one by one: {parts} of its area. The "
               f"{max(areas, key=lambda words: areas[words])} is the largest part.")


def _costs(report: Report) -> Iterator[str]:
    first = report.first
    by_subject: dict[str, list[str]] = {}
    for cost in report.costs:
        if cost.target == first:
            subject = f"{cost.ablation.whole.format} {cost.ablation.whole.part}"
            by_subject.setdefault(subject, []).append(f"{cost.ablation.feature} {cost.saved:.0%}")
    for subject, found in by_subject.items():
        yield f"What features take of the {subject} that has them, on {first.label}: {', '.join(found)}."


def _arrays(report: Report) -> Iterator[str]:
    first = report.first
    areas = {name: each for name, each in report.by_format(first, ARRAY).items() if name in ("bf16", *CLAIMS)}
    found = {name: each.area.area for name, each in areas.items() if each.area}
    if len(found) == 1 + len(CLAIMS):
        bf16 = areas["bf16"].point
        cells = bf16.cells
        words = ", ".join(f"{found[name] / cells:,.0f} for {name} ({found[name] / found['bf16']:.2f} times)"
                          for name in CLAIMS)
        yield (f"A {bf16.size} array takes {found['bf16'] / cells:,.0f} {first.unit} for each "
               f"processing element of bf16 on {first.label}, {words}; the sums are fp32 in all of them.")


def _failures(report: Report) -> Iterator[str]:
    if report.failed:
        yield f"{len(report.failed)} of {len(report.runs)} runs failed; see below."


def _by_part(report: Report) -> dict[str, dict[str, list[float]]]:
    """The ratios of each part and format, on all targets that count."""
    found: dict[str, dict[str, list[float]]] = {}
    for ratio in filter(lambda ratio: ratio.target.is_ranked, report.ratios):
        for name, value in ratio.others.items():
            found.setdefault(ratio.part, {}).setdefault(name, []).append(value)
    return found


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
