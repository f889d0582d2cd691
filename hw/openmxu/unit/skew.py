"""Lines of registers: alignment of lanes at the edges of the array, and marks that travel beside data.

::

    lane 0  ─[ base ]─────────────────────▶     A triangle of registers: lane n waits n steps.
    lane 1  ─[ base ]─[ step ]────────────▶     It costs width · (base · lanes + step · lanes · (lanes - 1) / 2)
    lane 2  ─[ base ]─[ step ]─[ step ]───▶     registers, without reset: they hold data, and marks say when it counts.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def delay(m: Module, value: Value, cycles: int, *, name: str) -> Value:
    """``value``, ``cycles`` later, through registers without reset."""
    if cycles == 0:
        return value
    line = Signal(cycles * len(value), name=name, reset_less=True)
    m.d.sync += line.eq(Cat(value, line))
    return line[-len(value) :]


def delay_marks(m: Module, marks: Any, cycles: int, *, name: str) -> Any:
    """``marks``, ``cycles`` later, through registers that a reset clears: nothing is valid after it."""
    for cycle in range(cycles):
        later = Signal.like(marks, name=f"{name}_{cycle}")
        m.d.sync += later.eq(marks)
        marks = later
    return marks


class Skew(wiring.Component):
    """A triangle of registers: lane ``n`` of so many comes out ``base + n · step`` cycles later; lane 0 lowest.

    Throughput: one value per lane and cycle. Back-pressure: none.
    """

    def __init__(self, width: int, lanes: int, *, step: int = 1, base: int = 0) -> None:
        self.width = width
        self.lanes = lanes
        self.step = step
        self.base = base
        super().__init__({"i": In(lanes * width), "o": Out(lanes * width)})

    def elaborate(self, platform: object) -> Module:
        """One shift register per lane."""
        m = Module()
        m.d.comb += self.o.eq(
            Cat(
                delay(m, self.i.word_select(lane, self.width), self.base + lane * self.step, name=f"lane_{lane}")
                for lane in range(self.lanes)
            )
        )
        return m
