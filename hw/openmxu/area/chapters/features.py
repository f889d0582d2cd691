"""Costs of features, and of elements of other numbers beside bf16's."""

from collections import Counter

from openmxu.area.finding.findings import Cost, Report
from openmxu.area.subject.block_elements import TERMS, block_point
from openmxu.area.subject.points import PROCESSING_ELEMENT, point
from openmxu.area.target.targets import Target
from openmxu.pages.tables import Table, counted, span
from openmxu.spec.blocks import MXFP8
from openmxu.spec.formats import BF16, FP8_E4M3

_STORED = {
    BF16.name: 16,
    FP8_E4M3.name: 8,
    MXFP8.name: 8.25,
    **{"int8": 8, "mxint8": 8.25, "mxfp6_e3m2": 6.25, "mxfp6_e2m3": 6.25, "mxfp4": 4.25, "nvfp4": 4.5},
}
"""Bits of a number in memory, with its share of a scale: 8 bits for 32 numbers, of NVFP4 for 16."""


def costs(report: Report) -> Table:
    """A row for each feature, a column for each target that has at least half of them."""
    counts = Counter(cost.target for cost in report.costs)
    targets = [target for target, count in counts.items() if 2 * count >= max(counts.values())]
    features: dict[tuple[str, str], dict[Target, Cost]] = {}
    for cost in report.costs:
        features.setdefault((cost.ablation.subject, cost.ablation.feature), {})[cost.target] = cost
    rows = [
        [*feature, *[f"{-found[target].saved:+.1%}" if target in found else "" for target in targets]]
        for feature, found in features.items()
    ]
    return Table(["part", "left out", *[target.label for target in targets]], rows, words=2)


def standing(report: Report) -> Table:
    """Areas per multiply-add relative to bf16's element of as many terms; no rows without a third kind of numbers."""
    rows = [[name, f"{bits:g}", *(_relative(report, name, terms) for terms in TERMS)] for name, bits in _STORED.items()]
    rows = [row for row in rows if any(row[2:])]
    headings = ["numbers", "bits each in memory", *(counted(n, "term") for n in TERMS)]
    return Table(headings, rows if len(rows) > 2 else [])


def _relative(report: Report, name: str, terms: int) -> str:
    """The ratios on all targets; of bf16 its areas."""
    if name == MXFP8.name and terms == 1:
        return ""
    plain = {fmt.name: point(PROCESSING_ELEMENT, fmt, terms=terms) for fmt in (BF16, FP8_E4M3)}
    wanted = (plain.get(name) or block_point(name, terms)).name
    base = plain[BF16.name].name
    if name == BF16.name:
        areas = [
            area / terms for target in report.ranked if target.unit == "GE" and (area := report.area(base, target))
        ]
        return f"{span(areas, 0)} GE" if areas else ""
    pairs = [(report.area(wanted, target), report.area(base, target)) for target in report.ranked]
    ratios = [area / beside for area, beside in pairs if area and beside]
    return span(ratios) if ratios else ""
