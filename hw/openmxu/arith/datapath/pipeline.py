"""Places at which a datapath may be cut by registers, the structures that pass them, and the latencies that follow."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring


class Pipeline:
    """A datapath whose named intermediate results are wires, or registers where ``registered`` says so.

    The registers have no reset: the values in a rigid pipeline before the first operand are garbage
    that nothing reads.
    """

    def __init__(self, m: Module, registered: Collection[str]) -> None:
        self._m = m
        self._registered = frozenset(registered)

    def cuts(self, names: Collection[str]) -> bool:
        """Whether any of some places is a register."""
        return not self._registered.isdisjoint(names)

    def cut(self, name: str, value: Any) -> Any:
        """``value`` after the cut ``name``: a signal of the same shape.

        Each field of a structure has a register of its own: Yosys 0.70 packs a register into iCE40's SB_MAC16 whole if
        a part of it is the product, and loses the rest.
        """
        signal = Signal.like(value, name=name, reset_less=True)
        if name not in self._registered:
            self._m.d.comb += signal.eq(value)
        elif isinstance(value, data.View):
            for field, _ in value.shape():
                register = Signal.like(value[field], name=f"{name}_{field}", reset_less=True)
                self._m.d.sync += register.eq(value[field])
                self._m.d.comb += signal[field].eq(register)
        else:
            self._m.d.sync += signal.eq(value)
        return signal


class Rigid(wiring.Component):
    """Arithmetic that never stalls."""

    stages: int

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.stages


class RigidSum(Rigid):
    """The same, with an addend ``i_c`` that comes later than the other operands."""

    _sum_stages: int

    @property
    def addend_latency(self) -> int:
        """Cycles from ``i_c`` to the result."""
        return self._sum_stages


def structure(m: Module, name: str, fields: dict[str, Any]) -> data.View:
    """A structure of ``fields``."""
    signal = Signal(data.StructLayout({field: len(value) for field, value in fields.items()}), name=name)
    m.d.comb += [signal[field].eq(value) for field, value in fields.items()]
    return signal
