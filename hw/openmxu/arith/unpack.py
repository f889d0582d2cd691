"""Unpacking: the only place that takes a bit pattern apart."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data

from openmxu.formats import FloatFormat

__all__ = ["Unpacked", "unpack"]


class Unpacked(data.StructLayout):
    """A bit pattern taken apart.

    Members
    -------
    sign : 1
    exponent : exponent_width
        Biased; 1 for a subnormal number, which has the smallest normal number's exponent.
    significand : significand_width
        With the hidden bit on top; 0 for everything that counts as zero.
    infinite, nan : 1
        If one of them is set, exponent and significand mean nothing.
    """

    def __init__(self, fmt: FloatFormat) -> None:
        super().__init__(
            {"sign": 1, "exponent": fmt.exponent_width, "significand": fmt.significand_width, "infinite": 1, "nan": 1}
        )


def unpack(m: Module, bits: Value, fmt: FloatFormat, subnormals: str, *, name: str) -> Any:
    """The :class:`Unpacked` view of ``bits``, in which flushed subnormal operands are zeros already.

    Parameters
    ----------
    m
        The module that the logic is written into.
    bits
        A pattern of ``fmt.width`` bits.
    fmt, subnormals
        Its format, and ``"flush"`` or ``"ieee"``.
    name
        What the signal is called in waveforms.
    """
    fraction = bits[: fmt.fraction_width]
    exponent = bits[fmt.fraction_width : -1]
    hidden = exponent.any()
    unpacked = Signal(Unpacked(fmt), name=name)
    kept = fraction & hidden.replicate(fmt.fraction_width) if subnormals == "flush" else fraction
    m.d.comb += [
        unpacked.sign.eq(bits[-1]),
        unpacked.exponent.eq(Cat(exponent[0] | ~hidden, exponent[1:])),
        unpacked.significand.eq(Cat(kept, hidden)),
    ]
    if fmt.has_infinity:
        m.d.comb += [
            unpacked.infinite.eq(exponent.all() & ~fraction.any()),
            unpacked.nan.eq(exponent.all() & fraction.any()),
        ]
    else:
        m.d.comb += unpacked.nan.eq(bits[:-1].all())
    return unpacked
