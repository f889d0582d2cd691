"""Nested loops as counters and one adder.

::

    level     2    1    0          trips 2, 2, 3; strides 100, 10, 1; base 5

    left      1    1    2  ┐
              1    1    1  │ step_0 = 1
              1    1    0  ┘                                   address  5   6   7
              1    0    2    step_1 = 10 - 2 · 1 = 8                   15  16  17
              0    1    2    step_2 = 100 - 1 · 10 - 2 · 1 = 88       105 ...

Invariant: the level that advances is the innermost one that has trips left; all inner ones begin again.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.commands import KINDS

TRIPS = KINDS["matmul"].trips()["x"].width
"""Bits of a level's trips."""

STEP = KINDS["matmul"].steps(1)["x"].width
"""Bits of a step, and of an address in a loop: a scratchpad has fewer rows, so that one outside is seen as such."""


class LevelLayout(data.StructLayout):
    """A level: ``trips``, at least one, and the ``step`` that the address takes as it advances."""

    def __init__(self) -> None:
        super().__init__({"trips": TRIPS, "step": STEP})


def next_step(last: Value, steps: Sequence[Value]) -> Value:
    """The step of the level that advances, where the levels of ``last`` begin again."""
    step = steps[-1]
    for level in reversed(range(len(steps) - 1)):
        step = Mux(last[level], step, steps[level])
    return step


class Loop(wiring.Component):
    """Addresses of nested loops, one in each cycle.

    Latency: none; ``o_address`` is the first one from the cycle after ``i_begin`` on. Throughput: an address in a
    cycle. Back-pressure: it stays until ``i_next``.

    Parameters
    ----------
    levels
        Number of levels.

    Members
    -------
    i_base : In(STEP)
    i_levels : In(levels of LevelLayout)
        Level 0, the innermost, lowest. Constant from ``i_begin`` to the last address.
    i_begin : In(1)
        Begin with the base; ``i_next`` does nothing then.
    i_next : In(1)
        Go on to the next address; from the last one back to the first indices, at an address of no meaning.
    o_address : Out(STEP)
        Modulo 2^STEP.
    o_last : Out(levels)
        Levels on their last trip.
    """

    def __init__(self, levels: int) -> None:
        self.levels = levels
        super().__init__(
            {
                "i_base": In(STEP),
                "i_levels": In(data.ArrayLayout(LevelLayout(), levels)),
                "i_begin": In(1),
                "i_next": In(1),
                "o_address": Out(STEP),
                "o_last": Out(levels),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"loop_{self.levels}"

    def elaborate(self, platform: object) -> Module:
        """Count each level down; add the step of the level that advances."""
        m = Module()
        lefts = [Signal(TRIPS, name=f"left_{level}") for level in range(self.levels)]
        m.d.comb += self.o_last.eq(Cat(left == 0 for left in lefts))
        step = next_step(self.o_last, [level.step for level in self.i_levels])
        with m.If(self.i_begin):
            m.d.sync += self.o_address.eq(self.i_base)
        with m.Elif(self.i_next):
            m.d.sync += self.o_address.eq(self.o_address + step)
        for level, left in enumerate(lefts):
            first = self.i_levels[level].trips - 1
            with m.If(self.i_begin):
                m.d.sync += left.eq(first)
            with m.Elif(self.i_next & self.o_last[:level].all()):
                m.d.sync += left.eq(Mux(self.o_last[level], first, left - 1))
        return m
