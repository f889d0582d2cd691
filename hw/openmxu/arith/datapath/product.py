"""Exact products: the part that multiplier and multiply-add share."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.shift import normalise
from openmxu.arith.datapath.unpack import unpack, unpack_recoded
from openmxu.spec.formats import FloatFormat
from openmxu.spec.recoded import Recoded

_MOST_WIDTH = 1024
"""The widest operand, in bits, that Yosys still maps in minutes."""


class SignificandProduct(wiring.Component):
    """Unsigned product of two significands, ``o = i_a · i_b``, combinational.

    The part of a multiplier whose area is said to grow with the square of the significand width.

    Parameters
    ----------
    width
        Bits of each operand, from 1 to 1024.
    other
        Bits of ``i_b``, if they are not as many.

    Members
    -------
    i_a, i_b : In(width)
    o : Out(2 · width)

    Raises
    ------
    ValueError
        ``width`` is not an integer from 1 to 1024.
    """

    def __init__(self, width: int, other: int | None = None) -> None:
        other = width if other is None else other
        for bits in (width, other):
            if not isinstance(bits, int) or not 1 <= bits <= _MOST_WIDTH:
                raise ValueError(f"width must be an integer from 1 to {_MOST_WIDTH}, not {bits!r}")
        self.width, self.other = width, other
        super().__init__({"i_a": In(width), "i_b": In(other), "o": Out(width + other)})

    latency = 0

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"significand_product_{self.width}{f'x{self.other}' if self.other != self.width else ''}"

    def elaborate(self, platform: object) -> Module:
        """Leave the structure of the product to the synthesis tool."""
        m = Module()
        m.d.comb += self.o.eq(self.i_a * self.i_b)
        return m


Formats = tuple[FloatFormat, FloatFormat]
"""Those of two operands."""


def product_width(formats: Formats) -> int:
    """Bits of the product of two significands."""
    return sum(fmt.significand_width for fmt in formats)


class ExactProduct(data.StructLayout):
    """The product of two numbers, before any rounding."""

    def __init__(self, formats: Formats, subnormals: str, *, recoded: bool = False) -> None:
        width = max((Recoded(fmt) if recoded else fmt).exponent_width for fmt in formats)
        super().__init__(
            {
                "sign": 1,
                # The weight of the significand's top bit is 2**(exponent - biases), those of both formats; with gradual
                # underflow 2**(exponent - 1 - biases), and signed; of recoded words the sum of their exponents.
                "exponent": width + 1 if subnormals == "flush" or recoded else signed(width + 3),
                # Of two whose top bits are set: its own top bit is set, or else the one below.
                "significand": product_width(formats),
                # They override the number; each overrides those named before it.
                **dict.fromkeys(("zero", "infinite", "nan"), 1),
            }
        )


def multiply(
    m: Module, bits_a: Value, bits_b: Value, formats: Formats, subnormals: str, *, recoded: bool = False
) -> data.View:
    """The :class:`ExactProduct` of two bit patterns, or of two recoded words."""
    widths = [fmt.significand_width for fmt in formats]
    m.submodules.significands = significands = SignificandProduct(*widths)
    product = Signal(ExactProduct(formats, subnormals, recoded=recoded), name="exact")
    operands = tuple(zip((bits_a, bits_b), formats, "ab", strict=True))
    if recoded:
        a, b = (unpack_recoded(m, word, fmt, name=name) for word, fmt, name in operands)
    else:
        a, b = (unpack(m, bits, fmt, subnormals, name=name) for bits, fmt, name in operands)
    # A zero is multiplied as if it had a hidden bit: its product is overridden.
    factors: list[Value] = [Cat(each.significand[:-1], 1) for each in (a, b)]
    exponent = a.exponent + b.exponent
    if subnormals == "flush":
        exponent = exponent + 1
    elif not recoded:
        shifted = [normalise(m, each.significand, name=f"{name}_normalised") for each, name in ((a, "a"), (b, "b"))]
        factors = [each.value for each in shifted]
        rest = Signal(signed(2 + max(widths).bit_length()), name="two_less_shifts")
        m.d.comb += rest.eq(2 - (shifted[0].shift + shifted[1].shift))
        exponent = exponent + rest
    m.d.comb += [
        significands.i_a.eq(factors[0]),
        significands.i_b.eq(factors[1]),
        product.exponent.eq(exponent),
        product.sign.eq(a.sign ^ b.sign),
        product.significand.eq(significands.o),
        product.zero.eq(a.zero | b.zero),
        product.infinite.eq(a.infinite | b.infinite),
        product.nan.eq(a.nan | b.nan | (a.infinite & b.zero) | (b.infinite & a.zero)),
    ]
    return product


def rebias_offset(formats: Formats, result: FloatFormat, *, recoded: bool = False) -> int:
    """The number that :func:`rebias` adds to the exponent of an :class:`ExactProduct` of ``formats``."""
    return result.bias - 1 - sum(fmt.bias + (Recoded(fmt).offset - 1 if recoded else 0) for fmt in formats)


def rebias(exponent: Value, formats: Formats, result: FloatFormat, *, recoded: bool = False) -> Value:
    """The exponent of an :class:`ExactProduct` of ``formats``, biased for ``result``; in flush mode less one. Signed.

    The constant to be added is mostly a multiple of a large power of two: few bits change.
    """
    offset = rebias_offset(formats, result, recoded=recoded)
    if not offset:
        return exponent
    low = (offset & -offset).bit_length() - 1
    high = exponent[low:].as_signed() if exponent.shape().signed else exponent[low:]
    changed = high + (offset >> low)
    return Cat(exponent[:low], changed, *([] if changed.shape().signed else [Const(0, 1)])).as_signed()
