"""Recoding of operands."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.recode import recode
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
        """Recode."""
        m = Module()
        m.d.comb += self.o.eq(recode(m, self.i, self.fmt, name="number"))
        return m
