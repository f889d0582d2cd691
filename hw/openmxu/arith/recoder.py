"""Recoding of operands."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.shift import masked, normalise
from openmxu.arith.datapath.unpack import unpack
from openmxu.spec.formats import FloatFormat
from openmxu.spec.recoded import Recoded


class Recoder(wiring.Component):
    """The recoded word of an operand; see :mod:`openmxu.spec.recoded`. Combinational.

    Exact: a word stands for the same number, infinity or NaN. A NaN becomes quiet.

    Parameters
    ----------
    fmt
        Format of the operand. Subnormal numbers are kept.

    Members
    -------
    i : In(fmt.width)
    o : Out(Recoded(fmt).width)
    """

    latency = 0

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt = fmt
        super().__init__({"i": In(fmt.width), "o": Out(Recoded(fmt).width)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"recoder_{self.fmt}"

    def elaborate(self, platform: object) -> Module:
        """Normalise, and give zeros and special words their exponents."""
        m = Module()
        width = Recoded(self.fmt).exponent_width
        number = unpack(m, self.i, self.fmt, "ieee", name="number")
        significand, shift, _ = normalise(m, number.significand, name="number_normalised")
        exponent = Signal(width, name="number_exponent")
        special = number.infinite | number.nan
        field = Mux(special, 3 << (width - 2), masked(exponent, ~number.zero))
        top = (significand[-2] & ~special) | number.nan
        m.d.comb += [
            exponent.eq(number.exponent + Recoded(self.fmt).offset - shift),
            self.o.eq(Cat(significand[:-2], top, field, number.sign)),
        ]
        return m
