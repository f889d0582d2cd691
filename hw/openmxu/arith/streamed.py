"""Streams around rigid arithmetic."""

from typing import Any

from amaranth.hdl import EnableInserter, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


class Streamed(wiring.Component):
    """A rigid arithmetic component between two streams.

    ``o`` carries the results for the operands taken from ``i``, in order.

    Latency: that of the component. Throughput: one per cycle. Back-pressure: the whole pipeline stops while
    a result waits; a combinational component stays combinational, ``ready`` and ``valid`` included.

    Parameters
    ----------
    unit
        The component: inputs named ``i`` or ``i_*``, one output ``o``, and a property ``latency``.

    Members
    -------
    i : In(stream of the operands)
        The payload is a structure of the unit's inputs, in their order, named without the ``i_``.
    o : Out(stream of the result)
    """

    def __init__(self, unit: Any) -> None:
        self.unit = unit
        inputs = {name: member for name, member in unit.signature.members.items() if member.flow == In}
        operands = data.StructLayout({name.removeprefix("i_"): member.shape for name, member in inputs.items()})
        super().__init__(
            {"i": In(stream.Signature(operands)), "o": Out(stream.Signature(unit.signature.members["o"].shape))}
        )
        self._inputs = tuple(inputs)

    @property
    def latency(self) -> int:
        """Cycles from operands to result, if nothing waits."""
        return self.unit.latency

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"streamed_{self.unit.module_name}"

    def elaborate(self, platform: object) -> Module:
        """Valid marks travel beside the unit; both stop together."""
        m = Module()
        enable = Signal()
        m.submodules.unit = EnableInserter(enable)(self.unit)
        for name in self._inputs:
            m.d.comb += getattr(self.unit, name).eq(self.i.payload[name.removeprefix("i_")])
        valid = self.i.valid
        for stage in range(self.unit.latency):
            mark = Signal(name=f"valid_{stage}")
            with m.If(enable):
                m.d.sync += mark.eq(valid)
            valid = mark
        m.d.comb += [
            self.o.valid.eq(valid),
            self.o.payload.eq(self.unit.o),
            enable.eq(self.o.ready | ~valid),
            self.i.ready.eq(self.o.ready if self.unit.latency == 0 else enable),
        ]
        return m
