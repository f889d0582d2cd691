"""The chapter of an area report on where bf16 stands among formats of 8 bits and fewer."""

from collections.abc import Iterable

from openmxu.area.finding.findings import Report
from openmxu.area.subject.block_elements import BLOCK_LENGTHS, TERMS, block_point
from openmxu.area.subject.points import PROCESSING_ELEMENT, point
from openmxu.area.target.targets import Target
from openmxu.pages.tables import span, table
from openmxu.spec.blocks import BLOCK_FORMATS, MXFP8
from openmxu.spec.formats import BF16, FP8_E4M3


def standing_section(report: Report) -> list[str]:
    """Areas per multiply-add relative to bf16's element of as many terms; empty where none was measured."""
    names = [BF16.name, FP8_E4M3.name, MXFP8.name, *BLOCK_FORMATS]
    targets = [target for target in report.targets if target.is_ranked]
    rows = [
        [name, f"{_stored(name):g}", *(_relative(report, targets, name, terms) for terms in TERMS)] for name in names
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


def _stored(name: str) -> float:
    """Bits of a number in memory, with its share of a scale."""
    if name in (BF16.name, FP8_E4M3.name):
        return {BF16.name: BF16, FP8_E4M3.name: FP8_E4M3}[name].width
    scale = "e8m0" if name == MXFP8.name else BLOCK_FORMATS[name].scale
    width = 8 if name == MXFP8.name else BLOCK_FORMATS[name].width
    return width + (8 / BLOCK_LENGTHS[scale] if scale else 0)


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
