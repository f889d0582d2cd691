"""Recoded words, see :mod:`openmxu.spec.recoded`: made of bit patterns, and taken apart."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from openmxu.arith.datapath.shift import masked, normalise
from openmxu.arith.datapath.unpack import Unpacked, unpack
from openmxu.spec.formats import FloatFormat
from openmxu.spec.recoded import Recoded


def recode(m: Module, bits: Value, fmt: FloatFormat, *, name: str) -> Value:
    """The recoded word of a bit pattern: normalised, with an exponent that tells zeros and special words."""
    width = Recoded(fmt).exponent_width
    number = unpack(m, bits, fmt, "ieee", name=name)
    significand, shift, _ = normalise(m, number.significand, name=f"{name}_normalised")
    exponent = Signal(width, name=f"{name}_exponent")
    m.d.comb += exponent.eq(number.exponent + Recoded(fmt).offset - shift)
    special = number.infinite | number.nan
    field = Mux(special, 3 << (width - 2), masked(exponent, ~number.zero))
    top = (significand[-2] & ~special) | number.nan
    return Cat(significand[:-2], top, field, number.sign)


def unpack_recoded(m: Module, word: Value, fmt: FloatFormat, *, name: str) -> Any:
    """The :class:`~openmxu.arith.datapath.unpack.Unpacked` view of a recoded word: the exponent as the word has it."""
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
