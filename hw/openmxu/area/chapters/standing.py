"""The chapter of an area report on where bf16 stands among formats of 8 bits and fewer."""

from collections.abc import Iterable

from openmxu.area.finding.findings import Report
from openmxu.area.subject.block_elements import TERMS, block_point
from openmxu.area.subject.points import PROCESSING_ELEMENT, point
from openmxu.area.target.targets import Target
from openmxu.pages.tables import span, table
from openmxu.spec.blocks import MXFP8
from openmxu.spec.formats import BF16, FP8_E4M3

_STORED = {
    BF16.name: 16,
    FP8_E4M3.name: 8,
    MXFP8.name: 8.25,
    **{"int8": 8, "mxint8": 8.25, "mxfp6_e3m2": 6.25, "mxfp6_e2m3": 6.25, "mxfp4": 4.25, "nvfp4": 4.5},
}
"""Bits of a number in memory, with its share of a scale: 8 bits for 32 numbers, of NVFP4 for 16."""


def standing_section(report: Report) -> list[str]:
    """Areas per multiply-add relative to bf16's element of as many terms; empty where none was measured."""
    targets = [target for target in report.targets if target.is_ranked]
    rows = [
        [name, f"{bits:g}", *(_relative(report, targets, name, terms) for terms in TERMS)]
        for name, bits in _STORED.items()
    ]
    rows = [row for row in rows if any(row[2:])]
    if len(rows) < 3:
        return []
    return [
        "Elements of one stage that multiply other numbers, mapped by the same recipe: int8 into sums of 32 bits, all "
        "others into fp32 sums, rounded once for all terms. Numbers of up to 6 bits are multiplied as integers; MXFP8 "
        "is decoded to 9 bits where it enters. The scale of a block is an operand, beside each activation and each "
        "weight. Tests compare the gates with sums, by the golden model, of numbers that ml_dtypes decodes. Area per "
        "multiply-add, that of bf16's element of as many terms being 1:",
        table(["numbers", "bits each in memory", *(f"{n} term{'s' * (n > 1)}" for n in TERMS)], rows, words=1),
        "Ranges span all targets. What fewer bits save in memory and wires, and what conversion and scaling cost "
        "around the array, is not included; `openmxu study recipes` has what they do to networks.",
    ]


def _relative(report: Report, targets: Iterable[Target], name: str, terms: int) -> str:
    """The ratios on all targets; of bf16 its areas."""
    if name == MXFP8.name and terms == 1:
        return ""
    plain = {fmt.name: point(PROCESSING_ELEMENT, fmt, terms=terms) for fmt in (BF16, FP8_E4M3)}
    wanted = plain.get(name) or block_point(name, terms)
    pairs = [(report.area(wanted.name, each), report.area(plain[BF16.name].name, each), each) for each in targets]
    if name == BF16.name:
        areas = [area / terms for area, _, target in pairs if area and target.unit == "GE"]
        return f"{span(areas, 0)} GE" if areas else ""
    ratios = [area / base for area, base, _ in pairs if area and base]
    return span(ratios) if ratios else ""
