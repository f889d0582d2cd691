"""Recoded words: what operands are behind the edge of a unit with gradual underflow.

::

    bf16       sign, 8 bits of exponent + 127, 7 bits of fraction      a subnormal number lacks its hidden bit
    recoded    sign, 9 bits of exponent + 192, 7 bits of fraction      each number but zero has it

The edge normalises once what an element in each row or column would have to normalise again. Zeros and special words
are known by the top of their exponents. HardFloat recodes for the same reasons. Operands whose words would have more
than 32 bits, those of fp32, are not recoded: the engines in C hold an operand in one word.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import count

from openmxu.spec.formats import FloatFormat

_MOST_WIDTH = 32


@dataclass(frozen=True)
class Recoded:
    """The words that stand for those of a format. The offset is such that the sum of two exponents needs few gates."""

    fmt: FloatFormat
    """The format."""

    @cached_property
    def _widths(self) -> tuple[int, int]:
        """Bits of the exponent, and the binary logarithm of what it is offset by, less one."""
        most = self.fmt.exponent_mask - self.fmt.has_infinity
        for width in count(self.fmt.exponent_width + 1):
            for power in (width - 3, width - 2):
                lowest, highest = (exponent + 1 + (1 << power) for exponent in (1 - self.fmt.fraction_width, most))
                if lowest > 0 and highest < 3 << (width - 2):
                    return width, power
        raise AssertionError("wide enough exponents have all numbers")

    @property
    def exponent_width(self) -> int:
        """Bits of the exponent. A word is special, infinite or NaN, if the top two are set; NaN has the fraction's top
        bit, too.
        """
        return self._widths[0]

    @property
    def offset(self) -> int:
        """The number added to the format's biased exponent; a subnormal number's is below 1."""
        return 1 + (1 << self._widths[1])

    @property
    def zero_width(self) -> int:
        """Lower bits of the exponent that do not matter to a zero: those above are 0, and in no other number."""
        return (1 - self.fmt.fraction_width + self.offset).bit_length() - 1

    @property
    def width(self) -> int:
        """Bits in all."""
        return 1 + self.exponent_width + self.fmt.fraction_width


def is_recoded(subnormals: str, *formats: FloatFormat) -> bool:
    """Whether operands inside a unit, which have these formats, are recoded words: all of them, or none."""
    return subnormals == "ieee" and all(Recoded(fmt).width <= _MOST_WIDTH for fmt in formats)


def port_width(fmt: FloatFormat, subnormals: str, *, recoded: bool) -> int:
    """Bits of an operand's port.

    Raises
    ------
    ValueError
        Words are recoded without gradual underflow.
    """
    if recoded and subnormals != "ieee":
        raise ValueError(f"recoded must be False unless subnormals is 'ieee', not {subnormals!r}")
    return Recoded(fmt).width if recoded else fmt.width
