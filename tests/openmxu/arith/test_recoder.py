"""Recoded words: those of all numbers of a format, made of the numbers that the golden model says they are."""

from itertools import product

import numpy as np
import pytest

from openmxu.area.target.gates import gates
from openmxu.arith import Recoder
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.recoded import Recoded, is_recoded, word_width
from openmxu_sim.cosim.benches.reference import recode
from openmxu_sim.netlist.bitslice import Gates

from ...bits import same_bits


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "e2f1", "e2f10", "e3f8"])
def test_all_operands(name: str) -> None:
    fmt = FloatFormat.parse(name)
    operands = np.arange(1 << fmt.width, dtype=np.uint32)
    got = Gates(gates(Recoder(fmt)), ["i"], latency=0)(operands)
    same_bits(got, recode(operands, fmt), operands, fmt="", operand=name, note=name)


def test_words_of_bf16() -> None:
    """Worked out by hand: the smallest number, 1, the largest, a zero, an infinity and a NaN, each with its sign."""
    operands = np.array([0x0001, 0x3F80, 0xFF7F, 0x8000, 0x7F80, 0xFFFF], dtype=np.uint32)
    exponents = [127 + 65 - 133, 127 + 65, 254 + 65, 0, 3 << 7, 3 << 7]
    fractions, signs = [0, 0, 127, 0, 0, 127], [0, 0, 1, 1, 0, 1]
    words = [
        sign << 16 | exponent << 7 | fraction
        for sign, exponent, fraction in zip(signs, exponents, fractions, strict=True)
    ]
    assert Gates(gates(Recoder(FloatFormat.parse("bf16"))), ["i"], latency=0)(operands).tolist() == words


def test_layouts_have_room_for_all_numbers() -> None:
    """Exponents of zeros, numbers and special words are apart, in all formats."""
    for exponent, fraction, has_infinity in product(range(2, 9), range(1, 24), (True, False)):
        layout = Recoded(fmt := FloatFormat("any", exponent, fraction, has_infinity))
        lowest, highest = 1 - fraction + layout.offset, fmt.exponent_mask - has_infinity + layout.offset
        assert 1 << layout.zero_width <= lowest < highest < 3 << (layout.exponent_width - 2)


def test_operands_that_are_recoded() -> None:
    assert not is_recoded(FP32, "ieee")
    assert word_width(FP32, "ieee") == 32
    bf16 = FloatFormat.parse("bf16")
    assert [word_width(bf16, mode) for mode in ("flush", "ieee")] == [16, 17]
