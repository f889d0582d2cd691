"""A systolic array from two arithmetic units: the code of the tutorial "From a multiplier to the wavefront"."""

from typing import Any

import numpy as np
from amaranth.hdl import Cat, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from openmxu.arith import Adder, Multiplier
from openmxu.spec.formats import BF16, FP32
from openmxu_sim.operands.aliases import Words


# [element]
class Element(wiring.Component):
    """``o_psum = i_psum + i_activation · weight``, a cycle later; the activation moves on to the right."""

    def __init__(self) -> None:
        super().__init__(
            {
                "i_activation": In(16),
                "o_activation": Out(16),
                "i_weight": In(16),
                "o_weight": Out(16),
                "i_load": In(1),
                "i_psum": In(32),
                "o_psum": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two units, three registers."""
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(BF16, FP32)
        m.submodules.adder = adder = Adder(FP32)
        m.d.comb += [
            multiplier.i_a.eq(self.i_activation),
            multiplier.i_b.eq(self.o_weight),
            adder.i_a.eq(self.i_psum),
            adder.i_b.eq(multiplier.o),
        ]
        m.d.sync += [self.o_activation.eq(self.i_activation), self.o_psum.eq(adder.o)]
        with m.If(self.i_load):
            m.d.sync += self.o_weight.eq(self.i_weight)
        return m


# [array]
class Array(wiring.Component):
    """Rows and columns of elements: activations enter from the left, weights from above; sums leave below."""

    def __init__(self, rows: int, columns: int, element: type[Element] = Element) -> None:
        self.rows, self.columns, self.element = rows, columns, element
        super().__init__(
            {
                "i_activations": In(16 * rows),
                "i_weights": In(16 * columns),
                "i_load": In(1),
                "o_psums": Out(32 * columns),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Each element beside its neighbours."""
        m = Module()
        above = [(self.i_weights.word_select(column, 16), 0) for column in range(self.columns)]
        for row in range(self.rows):
            activation: Value = self.i_activations.word_select(row, 16)
            for column in range(self.columns):
                m.submodules[f"element_{row}_{column}"] = element = self.element()
                weight, psum = above[column]
                m.d.comb += [
                    element.i_activation.eq(activation),
                    element.i_weight.eq(weight),
                    element.i_load.eq(self.i_load),
                    element.i_psum.eq(psum),
                ]
                activation = element.o_activation
                above[column] = element.o_weight, element.o_psum
        m.d.comb += self.o_psums.eq(Cat(psum for _, psum in above))
        return m


# [multiply]
def multiply(array: Array, a: Words, b: Words, *, skew: int = 1, depth: int = 1) -> Words:
    """The product of two matrices of bf16 patterns, as fp32 patterns.

    ``skew`` are the cycles that each row is behind the one above, ``depth`` those from an activation to its sum.
    """
    beats, rows, columns = len(a), array.rows, array.columns
    product = np.zeros((beats, columns), dtype=np.uint32)

    async def bench(ctx: Any) -> None:
        ctx.set(array.i_load, 1)
        for row in reversed(range(rows)):  # the last row's weights have the longest way
            ctx.set(array.i_weights, _pack(b[row]))
            await ctx.tick()
        ctx.set(array.i_load, 0)
        first = skew * (rows - 1) + depth  # from row 0's activation of a beat to its sum below column 0
        for cycle in range(beats + first + columns - 1):
            begun = [cycle - skew * row for row in range(rows)]
            words = [a[beat, row] if 0 <= beat < beats else 0 for row, beat in enumerate(begun)]
            ctx.set(array.i_activations, _pack(words))
            for column in range(columns):
                beat = cycle - first - column
                if 0 <= beat < beats:
                    product[beat, column] = ctx.get(array.o_psums.word_select(column, 32))
            await ctx.tick()

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return product


def _pack(words: Any) -> int:
    """bf16 patterns in one number, the first lowest."""
    return sum(int(word) << (16 * place) for place, word in enumerate(words))


# [end]
