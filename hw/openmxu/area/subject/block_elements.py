"""Elements of other numbers, integers and numbers in blocks with scales, beside those of the same number of terms."""

from openmxu.area.subject.points import PROCESSING_ELEMENT, Point, made_point, point
from openmxu.pages.tables import counted
from openmxu.spec.blocks import BLOCK_FORMATS, MXFP8
from openmxu.spec.formats import BF16, FP8_E4M3
from openmxu.unit.block_element import BlockElement

BLOCK_ELEMENT = "element of blocks"

TERMS = (1, 4, 8)
"""Products that an element adds at once, over which the cost of a scale is spread."""


def block_point(name: str, terms: int) -> Point:
    """An element of one stage of integers, or of numbers in blocks."""
    width = MXFP8.significand_width if name == MXFP8.name else BLOCK_FORMATS[name].largest.bit_length()
    return made_point(
        BLOCK_ELEMENT,
        None,
        width,
        lambda: BlockElement(name, terms=terms),
        (BlockElement, name, terms),
        variant=f"{name}, {counted(terms, 'term')}",
        options={"numbers": name, "terms": terms, "stages": 1},
    )


def other_points() -> list[Point]:
    """Elements of all block formats, and of bf16 and fp8_e4m3."""
    return [
        *(point(PROCESSING_ELEMENT, fmt, terms=terms, scope="area") for fmt in (BF16, FP8_E4M3) for terms in TERMS),
        *(block_point(MXFP8.name, terms) for terms in TERMS[1:]),
        *(block_point(name, terms) for name in BLOCK_FORMATS for terms in TERMS),
    ]
