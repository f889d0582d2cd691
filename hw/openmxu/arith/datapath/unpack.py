"""Unpacking: the only place that takes bit patterns and recoded words apart."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data

from openmxu.spec.formats import FloatFormat
from openmxu.spec.recoded import Recoded


class Unpacked(data.StructLayout):
    """A bit pattern taken apart."""

    def __init__(self, fmt: FloatFormat, exponent_width: int | None = None) -> None:
        super().__init__(
            {
                "sign": 1,
                # Biased. A subnormal number that is not flushed has the smallest normal number's, 1.
                "exponent": exponent_width or fmt.exponent_width,
                "significand": fmt.significand_width,  # with the hidden bit on top
                # It counts as zero. If it is a flushed subnormal number, the significand's lower bits are not 0.
                "zero": 1,
                **dict.fromkeys(("infinite", "nan"), 1),  # if one is set, exponent and significand mean nothing
            }
        )


def unpack(m: Module, bits: Value, fmt: FloatFormat, subnormals: str, *, name: str, canonical: bool = False) -> Any:
    """The :class:`Unpacked` view of ``bits``."""
    fraction = bits[: fmt.fraction_width]
    exponent = bits[fmt.fraction_width : -1]
    hidden = exponent.any()
    unpacked = Signal(Unpacked(fmt), name=name)
    m.d.comb += [
        unpacked.sign.eq(bits[-1]),
        unpacked.exponent.eq(exponent if subnormals == "flush" else Cat(exponent[0] | ~hidden, exponent[1:])),
        unpacked.significand.eq(Cat(fraction, hidden)),
        unpacked.zero.eq(~hidden if subnormals == "flush" else ~bits[:-1].any()),
    ]
    if fmt.has_infinity:
        is_nan = fraction[-1] if canonical else fraction.any()
        m.d.comb += [unpacked.infinite.eq(exponent.all() & ~is_nan), unpacked.nan.eq(exponent.all() & is_nan)]
    else:
        m.d.comb += unpacked.nan.eq(bits[:-1].all())
    return unpacked


def unpack_recoded(m: Module, word: Value, fmt: FloatFormat, *, name: str) -> Any:
    """The :class:`Unpacked` view of a recoded word: the exponent as the word has it."""
    recoded = Recoded(fmt)
    fraction, exponent = word[: fmt.fraction_width], word[fmt.fraction_width : -1]
    special = exponent[-2:].all()
    unpacked = Signal(Unpacked(fmt, recoded.exponent_width), name=name)
    m.d.comb += [
        unpacked.sign.eq(word[-1]),
        unpacked.exponent.eq(exponent),
        unpacked.significand.eq(Cat(fraction, 1)),
        unpacked.zero.eq(~exponent[recoded.zero_width :].any()),
        unpacked.infinite.eq(special & ~fraction[-1]),
        unpacked.nan.eq(special & fraction[-1]),
    ]
    return unpacked
