"""Places at which a datapath may be cut by registers."""

import operator
from collections.abc import Collection
from typing import Any

from amaranth.hdl import Module, Signal

__all__ = ["Pipeline", "check_stages"]


def check_stages(stages: int, known: Collection[int]) -> int:
    """Return ``stages`` as an integer, or say which numbers of stages are ``known``.

    Raises
    ------
    TypeError
        ``stages`` is not an integer.
    ValueError
        There is no such number of stages.
    """
    domain = f"stages must be an integer from {min(known)} to {max(known)}, not {stages!r}"
    try:
        stages = operator.index(stages)
    except TypeError:
        raise TypeError(domain) from None
    if stages not in known:
        raise ValueError(domain)
    return stages


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
        """``value`` behind the cut ``name``: a signal of the same shape."""
        signal = Signal.like(value, name=name, reset_less=True)
        if name in self._registered:
            self._m.d.sync += signal.eq(value)
        else:
            self._m.d.comb += signal.eq(value)
        return signal
