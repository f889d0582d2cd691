"""Solutions of the exercises of the tutorial "From a multiplier to the wavefront"."""

import numpy as np
from amaranth.hdl import Module, Signal
from first_array import Element

from openmxu.arith import Adder, Multiplier
from openmxu.spec.formats import BF16, FP8_E4M3, FP32
from openmxu_sim.operands.aliases import Words


# [unskewed]
def unskewed(a: Words) -> Words:
    """The activations that meet in a sum where no row waits for the one above: the array multiplies these with b."""
    rows = a.shape[1]
    met = np.zeros_like(a)
    for row in range(rows):
        late = rows - 1 - row  # a sum that passed this row was begun so many cycles before it leaves the last one
        met[late:, row] = a[: len(a) - late, row]
    return met


# [cycles]
def cycles(rows: int, columns: int, beats: int) -> int:
    """From the first weight to the last sum: the weights, the beats, and the way from one corner to the other."""
    return rows + beats + (rows + columns - 1)


# [pipelined]
class Pipelined(Element):
    """With a register between product and sum: ``depth`` is 2, and each path about half as long. ``skew`` stays 1."""

    def elaborate(self, platform: object) -> Module:
        """As before, but for one register."""
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(BF16, FP32)
        m.submodules.adder = adder = Adder(FP32)
        product = Signal(32)
        m.d.comb += [
            multiplier.i_a.eq(self.i_activation),
            multiplier.i_b.eq(self.o_weight),
            adder.i_a.eq(self.i_psum),
            adder.i_b.eq(product),
        ]
        m.d.sync += [product.eq(multiplier.o), self.o_activation.eq(self.i_activation), self.o_psum.eq(adder.o)]
        with m.If(self.i_load):
            m.d.sync += self.o_weight.eq(self.i_weight)
        return m


# [narrow]
class Narrow(Element):
    """Of OCP's FP8 numbers E4M3 in the lower halves of the words; sums stay fp32."""

    def elaborate(self, platform: object) -> Module:
        """As before, but for the multiplier."""
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(FP8_E4M3, FP32)
        m.submodules.adder = adder = Adder(FP32)
        m.d.comb += [
            multiplier.i_a.eq(self.i_activation[:8]),
            multiplier.i_b.eq(self.o_weight[:8]),
            adder.i_a.eq(self.i_psum),
            adder.i_b.eq(multiplier.o),
        ]
        m.d.sync += [self.o_activation.eq(self.i_activation), self.o_psum.eq(adder.o)]
        with m.If(self.i_load):
            m.d.sync += self.o_weight.eq(self.i_weight)
        return m


# [end]
