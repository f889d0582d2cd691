"""Floating-point formats: the one table that the hardware is built from.

See the numerics page of the documentation for what each format means bit for bit.
"""

from dataclasses import dataclass

from openmxu.spec.integers import check_integer

SUBNORMALS = ("flush", "ieee")
"""The two treatments of subnormal numbers, flush to zero, or IEEE 754 gradual underflow."""


def check_subnormals(mode: str) -> str:
    """Return ``mode``, or raise :exc:`ValueError` if it is not one of :data:`SUBNORMALS`."""
    if mode not in SUBNORMALS:
        raise ValueError(f"subnormals must be 'flush' or 'ieee', not {mode!r}")
    return mode


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format: sign, biased exponent, fraction, from the top bit down.

    Raises
    ------
    TypeError
        A width is not an integer.
    ValueError
        A width is out of range.
    """

    name: str
    """Name in reports and generated module names."""
    exponent_width: int
    """Bits of the biased exponent, 2 to 8."""
    fraction_width: int
    """Stored bits of the significand, 1 to 23."""
    has_infinity: bool = True
    """``True``: the all-ones exponent holds infinity and NaN, as in IEEE 754. ``False``: it holds ordinary numbers,
    except the all-ones pattern, which is NaN, as in OCP FP8 E4M3."""

    def __post_init__(self) -> None:
        for noun, least, most in (("exponent_width", 2, 8), ("fraction_width", 1, 23)):
            object.__setattr__(self, noun, check_integer(noun, getattr(self, noun), least, most))

    @classmethod
    def parse(cls, text: str, noun: str = "format") -> "FloatFormat":
        """The format called ``text``: a name from :data:`FORMATS`, or ``eXfY`` for any other widths. Errors name
        ``noun``.

        >>> from openmxu.spec.formats import FloatFormat
        >>> FloatFormat.parse("bf16").width, FloatFormat.parse("e6f9").width
        (16, 16)
        """
        if isinstance(text, str):
            if text in FORMATS:
                return FORMATS[text]
            exponent, _, fraction = text.removeprefix("e").partition("f")
            if text.startswith("e") and exponent.isdecimal() and fraction.isdecimal():
                return cls(text, int(exponent), int(fraction))
        raise ValueError(
            f"{noun} must be one of {', '.join(FORMATS)} or eXfY (X exponent, Y fraction bits), not {text!r}"
        )

    @property
    def width(self) -> int:
        """Bits in all."""
        return 1 + self.exponent_width + self.fraction_width

    @property
    def significand_width(self) -> int:
        """Bits of the significand, the hidden one included; the p of the literature."""
        return self.fraction_width + 1

    @property
    def bias(self) -> int:
        """The number that is added to an exponent before it is stored."""
        return (1 << (self.exponent_width - 1)) - 1

    @property
    def exponent_mask(self) -> int:
        """The all-ones biased exponent."""
        return (1 << self.exponent_width) - 1

    @property
    def largest(self) -> int:
        """The bit pattern of the largest finite number."""
        if self.has_infinity:
            return (self.exponent_mask << self.fraction_width) - 1
        return (self.exponent_mask << self.fraction_width) + (1 << self.fraction_width) - 2

    @property
    def overflow(self) -> int:
        """The bit pattern, without sign, of a result that is too large: infinity if the format has it, else NaN."""
        return self.largest + 1

    @property
    def quiet_nan(self) -> int:
        """The bit pattern of the canonical quiet NaN."""
        if self.has_infinity:
            return (self.exponent_mask << self.fraction_width) | (1 << (self.fraction_width - 1))
        return self.overflow

    def __str__(self) -> str:
        """The name, followed by the widths unless the name contains them."""
        widths = f"e{self.exponent_width}f{self.fraction_width}{'' if self.has_infinity else '_finite'}"
        return self.name if self == FORMATS.get(self.name) or self.name == widths else f"{self.name}_{widths}"


def pair_name(operand: FloatFormat, weight: FloatFormat) -> str:
    """The formats of activations and weights in names: one, if they are equal."""
    return str(operand) if weight == operand else f"{operand}_x_{weight}"


BF16 = FloatFormat("bf16", 8, 7)
FP16 = FloatFormat("fp16", 5, 10)
TF32 = FloatFormat("tf32", 8, 10)
FP8_E5M2 = FloatFormat("fp8_e5m2", 5, 2)
FP8_E4M3 = FloatFormat("fp8_e4m3", 4, 3, has_infinity=False)
FP32 = FloatFormat("fp32", 8, 23)

FORMATS: dict[str, FloatFormat] = {f.name: f for f in (BF16, FP16, TF32, FP8_E5M2, FP8_E4M3, FP32)}
"""The named formats."""
