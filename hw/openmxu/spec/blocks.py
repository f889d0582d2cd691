"""Formats of numbers in blocks, several of which share a scale, and integers of 8 bits."""

from dataclasses import dataclass

from openmxu.spec.formats import FloatFormat


@dataclass(frozen=True)
class BlockFormat:
    """Numbers that a processing element multiplies as integers, and the scale that they share.

    ::

        e2m1, as stored          s e e m            e is 1 to 3; where it is 0, the number is m, without a hidden bit
        its magnitude        1 m << (e - 1)         0 to 12 halves
    """

    name: str
    """Name in reports."""
    element: FloatFormat | None
    """Widths of a number, every pattern of which is finite; none: 8 bits in two's complement."""
    scale: str = ""
    """``"e8m0"``, 2^(s - 127), 255 being NaN; ``"e4m3"``, an fp8_e4m3 number without its sign; empty: no scale."""
    point: int = 0
    """Fraction bits of a number in two's complement."""

    @property
    def width(self) -> int:
        """Bits of a number."""
        return self.element.width if self.element else 8

    @property
    def scale_width(self) -> int:
        """Bits of the scale."""
        return {"e8m0": 8, "e4m3": 7, "": 0}[self.scale]

    @property
    def largest(self) -> int:
        """The largest magnitude, as an integer."""
        element = self.element
        return ((2 << element.fraction_width) - 1) << ((1 << element.exponent_width) - 2) if element else 128

    @property
    def fraction_bits(self) -> int:
        """Places of such integers below the point."""
        return self.element.bias - 1 + self.element.fraction_width if self.element else self.point


BLOCK_FORMATS = {
    fmt.name: fmt
    for fmt in (
        BlockFormat("int8", None),
        BlockFormat("mxint8", None, "e8m0", 6),
        BlockFormat("mxfp6_e3m2", FloatFormat("e3m2", 3, 2), "e8m0"),
        BlockFormat("mxfp6_e2m3", FloatFormat("e2m3", 2, 3), "e8m0"),
        BlockFormat("mxfp4", FloatFormat("e2m1", 2, 1), "e8m0"),
        BlockFormat("nvfp4", FloatFormat("e2m1", 2, 1), "e4m3"),
    )
}
"""Integers; OCP Microscaling 1.0 but for its numbers of 8 bits with exponents; NVIDIA's FP4."""

MXFP8 = FloatFormat("mxfp8_e4m3", 5, 3)
"""Numbers of MXFP8 (E4M3) once subnormal ones have a hidden bit: decoded where they enter a unit, in 9 bits."""
