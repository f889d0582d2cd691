"""Places at which a datapath may be cut by registers."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Module, Signal

__all__ = ["Pipeline"]


class Pipeline:
    """A datapath whose named intermediate results are wires, or registers where ``registered`` says so.

    The registers have no reset: what flows through a rigid pipeline before the first operand is
    garbage that nobody looks at.

    Parameters
    ----------
    m
        The module that the datapath is written into.
    registered
        Names of the cuts that become registers; each adds one cycle of latency.
    """

    def __init__(self, m: Module, registered: Collection[str]) -> None:
        self._m = m
        self._registered = registered

    def cut(self, name: str, value: Any) -> Any:
        """``value`` after the cut ``name``: a signal of the same shape."""
        signal = Signal.like(value, name=name, reset_less=True)
        if name in self._registered:
            self._m.d.sync += signal.eq(value)
        else:
            self._m.d.comb += signal.eq(value)
        return signal
