"""Design points: what an area report measures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openmxu.arith import Adder, Multiplier, SignificandProduct
from openmxu.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, TF32, FloatFormat
from openmxu.pe import ProcessingElement
from openmxu.verilog import to_rtlil

__all__ = ["ADDER", "MULTIPLIER", "MULTIPLIER_TO_FP32", "PROCESSING_ELEMENT", "PRODUCT", "Point",
           "default_points", "quick_points"]

PRODUCT = "significand product"
MULTIPLIER = "multiplier"
ADDER = "adder"
MULTIPLIER_TO_FP32 = "multiplier to fp32"
PROCESSING_ELEMENT = "processing element"

SWEEP = (3, 4, 6, 8, 11, 14, 17, 20, 24)
"""Significand widths of the sweep; among them those of bf16 (8), tf32 and fp16 (11), and fp32 (24)."""


@dataclass(frozen=True)
class Point:
    """One design to measure.

    Parameters
    ----------
    part
        What it is, in words.
    width
        Significand width of its operands.
    format
        Format of its operands; none for a bare product of significands.
    options
        What else it was built with, by name.
    top
        Name of its top module.
    rtlil
        Gives its RTLIL.
    """

    part: str
    width: int
    format: FloatFormat | None
    top: str
    rtlil: Callable[[], str] = field(repr=False)
    options: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Part and operands in words."""
        return f"{self.part} {self.format or f'{self.width} x {self.width}'}"


def _point(part: str, operand: FloatFormat | int, make: Callable[[], Any], **options: str | int) -> Point:
    """A point whose component is made when it is asked for: Amaranth warns of components never used."""
    fmt = operand if isinstance(operand, FloatFormat) else None
    width = operand if isinstance(operand, int) else operand.significand_width
    top = f"{part}_{operand}".replace(" ", "_")
    return Point(part, width, fmt, top, lambda: to_rtlil(make(), name=top), options)


def _product(width: int) -> Point:
    return _point(PRODUCT, width, lambda: SignificandProduct(width))


def _multiplier(fmt: FloatFormat) -> Point:
    return _point(MULTIPLIER, fmt, lambda: Multiplier(fmt, fmt), subnormals="flush", stages=0)


def _with_width(width: int) -> FloatFormat:
    """The format with 8 exponent bits and a significand of ``width``, under its own name if it has one."""
    named = {fmt.significand_width: fmt for fmt in (BF16, TF32, FP32)}
    return named.get(width) or FloatFormat(f"e8f{width - 1}", 8, width - 1)


def _units() -> list[Point]:
    """What a matrix unit is made of, beside multipliers to their own format."""
    return [
        _point(MULTIPLIER_TO_FP32, BF16, lambda: Multiplier(BF16, FP32), subnormals="flush", stages=0),
        _point(ADDER, FP32, lambda: Adder(FP32), subnormals="flush", stages=0),
        _point(PROCESSING_ELEMENT, BF16, lambda: ProcessingElement(BF16), subnormals="flush", stages=1),
    ]


def default_points() -> list[Point]:
    """The points of a full report: all named formats, and both sweeps of the significand width."""
    formats = [_with_width(width) for width in SWEEP] + [FP16, FP8_E5M2, FP8_E4M3]
    return [*map(_product, SWEEP), *map(_multiplier, formats), *_units()]


def quick_points() -> list[Point]:
    """As few points as show the same: enough widths for a curve, and the three formats of the claims."""
    widths = (4, 8, 11, 24)
    formats = [_with_width(width) for width in widths] + [FP16]
    return [*map(_product, widths), *map(_multiplier, formats), *_units()]
