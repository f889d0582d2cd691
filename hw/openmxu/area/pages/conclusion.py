"""What an area report says first: sentences and a table, whose verdicts come from the measurements."""

from collections.abc import Iterator, Sequence
from statistics import median

from openmxu.area.findings import CLAIMS, CONFIDENCE, Report
from openmxu.area.pages.energy import energy_sentence
from openmxu.area.pages.marked import span
from openmxu.area.points import ADDER, MULTIPLIER, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT, PRODUCT

__all__ = ["conclusion", "growth_sentence", "overview", "verdict"]

_TOLERANCE = 0.1
"""How far a ratio may be from a claim, as a fraction of the claim, and still be said to agree."""

_SQUARE = 0.2
"""How far an exponent may be from 2 and still be called the square."""


_NOT_MEASURED = (
    "Not measured: wires, clock trees, memories and leakage; areas, delays and energies are those of mapped cells "
    "before placing."
)
_ALSO_PLACED = _NOT_MEASURED.replace("wires, clock", "delays and energies of wires, clock").removesuffix(".") + (
    ", but where something is said to be placed."
)


def conclusion(report: Report) -> list[str]:
    """Five sentences; fewer, or none, if less was measured. What tables say is not said again."""
    said = [*_scope(report), *_inside(report), *energy_sentence(report)]
    last = _ALSO_PLACED if report.cores else _NOT_MEASURED
    return [*said, *([last] if said else []), *_failures(report)]


def overview(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table: each part's areas relative to bf16, over all targets, beside the claims."""
    exponents: dict[str, list[float]] = {}
    for fit in filter(lambda fit: fit.target.is_ranked, report.fits):
        exponents.setdefault(fit.part, []).append(fit.exponent.value)
    found = _by_part(report)
    rows = []
    for part in dict.fromkeys([*found, *exponents]):
        ratios = found.get(part, {})
        cells = [
            f"{span(ratios[name])}: {verdict(ratios[name], claim)}" if name in ratios else ""
            for name, claim in CLAIMS.items()
        ]
        rows.append([part, *cells, span(exponents[part]) if part in exponents else ""])
    claims = [f"{name}, bf16 = 1 (claim: {claim:.0f})" for name, claim in CLAIMS.items()]
    return ["part", *claims, "exponent of its growth"], rows


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


def growth_sentence(report: Report) -> Iterator[str]:
    """How fast the multiplier grows, on the first target."""
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
    """Where the claim holds, over all parts and targets."""
    for name, claim in CLAIMS.items():
        middles = {part: median(values[name]) for part, values in _by_part(report).items() if name in values}
        enough = [part for part, middle in middles.items() if middle >= claim * (1 - _TOLERANCE)]
        less = [part for part in middles if part not in enough]
        said = [
            f"{words} in {', '.join(found)}"
            for words, found in (("at least the claimed area", enough), ("less than the claimed area", less))
            if found
        ]
        if said:
            yield f"Against {name}, bf16 saves {', and '.join(said)} (medians over targets)."


def _inside(report: Report) -> Iterator[str]:
    """What is large in a processing element."""
    first = report.first
    areas = {
        words: area
        for words, name in (
            ("fp32 adder", f"{ADDER} fp32"),
            ("exact bf16 multiplier", f"{MULTIPLIER_TO_FP32} bf16"),
            ("significand product in that", f"{PRODUCT} 8 x 8"),
        )
        if (area := report.area(name, first))
    }
    whole = report.area(f"{PROCESSING_ELEMENT} bf16", first)
    if whole and len(areas) == 3:
        parts = ", ".join(f"the {words} {area / whole:.0%}" for words, area in areas.items())
        yield (
            f"Beside a bf16 processing element on {first.label}, measured one by one: {parts} of its area. The "
            f"{max(areas, key=lambda words: areas[words])} is the largest part."
        )


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
