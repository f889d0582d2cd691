# amaranth: UnusedElaboratable=no
# (components that are built in one form go unused in others)
"""Other forms of the arithmetic: the same bits as the golden model's, and what they are made of."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.area.target.gates import gates
from openmxu.arith import Adder, DotProductAdd, MultiplyAdd
from openmxu.arith.datapath.anticipate import anticipate
from openmxu.export.verilog import to_rtlil
from openmxu.formal.proofs import about
from openmxu.formal.query import prove
from openmxu.spec.formats import BF16, FP32, SUBNORMALS, FloatFormat
from openmxu.spec.forms import AREA, FORMS, FPGA, SPEED, check_form
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ...conftest import slow

_WIDTH = 7


class _Anticipates(wiring.Component):
    """The leading zeros of a sum of two numbers of seven bits, the upper two of which are equal."""

    module_name = "anticipates"

    def __init__(self) -> None:
        super().__init__({"a": In(_WIDTH), "b": In(_WIDTH), "carry": In(1), "o": Out(3)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(anticipate(m, self.a, self.b, self.carry))
        return m


def test_anticipated_zeros_are_one_too_few_at_most() -> None:
    """All pairs of numbers of six bits, with and without a carry; a sum of six bits more or less is six zeros."""
    numbers = range(-(1 << _WIDTH - 2), 1 << _WIDTH - 2)
    a, b, carry = (np.array(each) for each in zip(*product(numbers, numbers, (0, 1)), strict=True))
    got = Gates(gates(_Anticipates()), ["a", "b", "carry"], latency=0)(
        *(each.astype(np.uint32) & ((1 << _WIDTH) - 1) for each in (a, b)), carry.astype(np.uint32)
    )
    significant = [int(total if total >= 0 else ~total).bit_length() for total in a + b + carry]
    zeros = _WIDTH - 1 - np.array(significant)
    assert set((zeros - got).tolist()) == {0, 1}


@pytest.mark.parametrize("subnormals", SUBNORMALS)
@pytest.mark.parametrize("name", ["e3f2", "fp32", *map(slow, ("bf16", "fp8_e4m3", "fp8_e5m2"))])
def test_adder_for_speed(name: str, subnormals: str) -> None:
    dut = Adder(FloatFormat.parse(name), subnormals=subnormals)
    a, b = vectors.pairs(name, 100_000, seed=1)
    got = Gates(gates(dut, form=SPEED), ["i_a", "i_b"], latency=0)(a, b)
    same_bits(got, golden.add(a, b, name, subnormals=subnormals), a, b, fmt=name, operand=name)


@pytest.mark.slow
def test_the_adder_for_speed_is_proven() -> None:
    """``openmxu verify`` proves the others."""
    for proof in about(Adder(FP32)):
        assert prove(replace(proof, form=SPEED), "bitwuzla").holds


@pytest.mark.parametrize(
    ("dut", "forms"),
    [
        (MultiplyAdd(BF16, stages=2), {SPEED}),
        (MultiplyAdd(BF16, stages=3), set()),  # a register inside the sum
        (DotProductAdd(BF16, stages=4), {SPEED, FPGA}),
    ],
)
def test_forms_differ_where_they_gain(dut: object, forms: set[str]) -> None:
    usual = to_rtlil(dut, form=AREA)
    assert {form for form in FORMS if to_rtlil(dut, form=form) != usual} == forms


def test_message() -> None:
    with pytest.raises(ValueError, match=r"^form must be one of area, speed, fpga, not 'fast'$"):
        check_form("fast")
