# amaranth: UnusedElaboratable=no
# (components that are refused, or asked for latencies, go unused)
"""The sum of several products on the gates that synthesis makes of it, against the golden model."""

from functools import cache

import numpy as np
import pytest

from openmxu.area.target.gates import gates
from openmxu.arith import DotProductAdd
from openmxu.spec.formats import BF16, FP32, FloatFormat
from openmxu.spec.forms import AREA, FPGA, SPEED
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import BLOCK, Gates
from openmxu_sim.operands import vectors
from openmxu_sim.verify.exhaustion import apart

from ...bits import same_bits
from ...conftest import slow
from ...several_terms import Bits, drawn


@cache
def _gates(operand: str, result: str, terms: int, stages: int = 0, form: str = AREA) -> Gates:
    formats = FloatFormat.parse(operand), FloatFormat.parse(result)
    dut = DotProductAdd(*formats, terms=terms, stages=stages)
    return Gates(*apart(gates(dut, form=form), terms), latency=stages)


def _check(operand: str, result: str, terms: int, c: Bits, a: Bits, b: Bits, form: str = AREA) -> None:
    got = _gates(operand, result, terms, form=form)(*a.T, *b.T, c)
    expected = golden.dot_product_add(c, a, b, operand, result)
    same_bits(got, expected, c, *a.T, *b.T, fmt=result, operand="", note=f"{operand}, {result}, {terms} terms")


@pytest.mark.parametrize(
    ("operand", "result", "terms"),
    [
        ("bf16", "fp32", 2),
        ("bf16", "fp32", 4),
        ("fp8_e4m3", "fp32", 4),
        ("bf16", "e8f9", 2),  # sums of 16 bits, as those of 32 bits with 8 terms: the longest shift leaves no top bit
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("bf16", "fp32", 8),
                ("fp16", "fp32", 4),
                ("tf32", "fp32", 2),
                ("fp32", "fp32", 2),  # products are wider than the window
                ("fp8_e5m2", "fp16", 4),
                ("e8f1", "bf16", 8),
            ]
        ),
    ],
)
def test_any_operands(operand: str, result: str, terms: int) -> None:
    _check(operand, result, terms, *drawn(operand, result, terms, 40_000, seed=terms))


@pytest.mark.parametrize(
    ("form", "operand", "result", "terms"),
    [
        slow(SPEED, "bf16", "fp32", 4),
        (FPGA, "bf16", "fp32", 2),
        slow(SPEED, "fp16", "fp32", 2),
        slow(SPEED, "e8f1", "bf16", 8),
        slow(FPGA, "e8f1", "bf16", 8),
    ],
)
def test_other_forms(form: str, operand: str, result: str, terms: int) -> None:
    _check(operand, result, terms, *drawn(operand, result, terms, 40_000, seed=terms), form)


@pytest.mark.parametrize("result", ["e4f3", pytest.param("e3f5", marks=pytest.mark.slow)])
def test_all_operands_of_a_small_format(result: str) -> None:
    """All 2^16 operands of two terms, with as many sums as a second takes: 64 of them, those at the edges included."""
    words = np.arange(16, dtype=np.uint32)
    a = np.stack(np.meshgrid(words, words, words, words), axis=-1).reshape(-1, 4)
    every = vectors.canonical(np.arange(1 << FloatFormat.parse(result).width), result)
    sums = np.unique(np.concatenate([vectors.canonical(vectors.corners(result), result), every]))
    for c in np.random.default_rng(1).permutation(sums)[:64]:
        _check("e2f1", result, 2, np.full(len(a), c), a[:, :2], a[:, 2:])


def test_small_integers() -> None:
    """Each term that is subtracted needs its + 1: -1 + 24 + 32 is 55, and was wrong on other silicon."""
    rng = np.random.default_rng(2)
    whole = rng.integers(-64, 65, size=(9, 20_000)).astype(np.float32)
    whole[:, 0] = [0, -1, 24, 32, 0, 1, 1, 1, 0]
    bits = golden.to_bits(whole) >> 16
    gates_of_four = _gates("bf16", "fp32", 4, form=AREA)  # as _check asks for them: made once
    got = gates_of_four(*bits[1:5], *bits[5:], bits[0] << 16)
    same_bits(got, golden.to_bits(whole[0] + (whole[1:5] * whole[5:]).sum(axis=0)), *bits, operand="bf16")
    assert golden.from_bits(got[:1]) == 55


@pytest.mark.slow
@pytest.mark.parametrize("stages", range(1, 8))
def test_pipelines(stages: int) -> None:
    """The sum comes in when the products are there; a block of operands passes in each cycle."""
    dut = DotProductAdd(BF16, terms=2, stages=stages)
    c, a, b = drawn("bf16", "fp32", 2, 8 * BLOCK, seed=stages)
    later = (dut.latency - dut.addend_latency) * BLOCK
    none = np.zeros((later, 2), dtype=np.uint32)
    operands = *np.concatenate([a, none]).T, *np.concatenate([b, none]).T, np.concatenate([none[:, 0], c])
    got = _gates("bf16", "fp32", 2, stages)(*operands)[: len(c)]
    same_bits(got, golden.dot_product_add(c, a, b), c, *a.T, *b.T, operand="", note=f"{stages} stages")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terms": 3}, "terms must be 1, 2, 4 or 8, not 3"),
        ({"terms": 4, "subnormals": "ieee"}, "terms must be 1 with gradual underflow, .*, not 4"),
        ({"terms": 1}, "terms must be 2, 4 or 8 in a sum of products, not 1"),
        ({"terms": 4.5}, "terms must be 1, 2, 4 or 8, not 4.5"),
        ({"stages": 8}, "stages must be an integer from 0 to 7, not 8"),
    ],
)
def test_messages(options: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        DotProductAdd(BF16, FP32, **options)  # type: ignore[arg-type]  # wrong on purpose
