# amaranth: UnusedElaboratable=no
# (components whose latencies are asked for, and refused ones, go unused)
"""The multiply-add on the gates that synthesis makes of it, against the golden model's product and sum."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openmxu.area.target.gates import gates
from openmxu.arith import Adder, Multiplier, MultiplyAdd
from openmxu.spec.formats import BF16, FP32, SUBNORMALS, FloatFormat
from openmxu.spec.forms import AREA, SPEED
from openmxu_sim import golden
from openmxu_sim.cosim.benches.reference import recode
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ...conftest import slow

_COUNT = 20_000
_Bits = npt.NDArray[np.uint32]


def _check(dut: MultiplyAdd, a: _Bits, b: _Bits, c: _Bits, form: str = AREA) -> None:
    """Compare all results with those of a multiplier and an adder of the golden model."""
    words = [recode(each, dut.operand) if dut.recoded else each for each in (a, b)]
    got = Gates(gates(dut, form=form), ["i_a", "i_b", "i_c"], latency=0)(*words, c)
    operand, result = str(dut.operand), str(dut.result)
    products = golden.multiply(a, b, operand, result, subnormals=dut.subnormals)
    expected = golden.add(c, products, result, subnormals=dut.subnormals)
    same_bits(got, expected, a, b, c, fmt=result, operand=operand, note=f"{dut.module_name}, {form}")


_NAMES = ("subnormals", "form", "recoded")
_FORMS = [(mode, form, recoded) for mode in SUBNORMALS for form in (AREA, SPEED) for recoded in {False, mode == "ieee"}]


@pytest.mark.parametrize(
    ("operand", "result", *_NAMES),
    [
        # Products that are tiny, huge and ordinary; two places to spare below them.
        *(("e3f1", "e3f5", *form) for form in _FORMS),
        # More exponents than the sum has; none to spare.
        *(("e4f1", "e3f3", *form) for form in _FORMS[::3]),
        # Products that are never tiny or huge.
        *(("e2f2", "e4f5", *form) for form in _FORMS[1::3]),
    ],
)
def test_all_operands(operand: str, result: str, subnormals: str, form: str, recoded: bool) -> None:
    formats = FloatFormat.parse(operand), FloatFormat.parse(result)
    dut = MultiplyAdd(*formats, subnormals=subnormals, recoded=recoded)
    assert dut.is_one_datapath
    sums = np.unique(vectors.canonical(np.arange(1 << formats[1].width), str(formats[1])))
    factors = np.arange(1 << formats[0].width, dtype=np.uint32)
    a, b, c = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(factors, factors, sums))
    _check(dut, a, b, c, form)


@pytest.mark.parametrize(
    ("operand", *_NAMES),
    [
        *(("bf16", *form) for form in _FORMS),
        *(
            slow(operand, *form)
            for operand, form in zip(["fp16", "tf32", "fp8_e4m3", "e2f1"] * 2, _FORMS, strict=False)
        ),
    ],
)
def test_sums_in_fp32(operand: str, subnormals: str, form: str, recoded: bool) -> None:
    dut = MultiplyAdd(FloatFormat.parse(operand), subnormals=subnormals, recoded=recoded)
    assert dut.is_one_datapath
    a, b = vectors.pairs(operand, _COUNT, seed=1)
    products = golden.multiply(a, b, operand, "fp32", subnormals=subnormals)
    addends = _addends(products)
    _check(dut, *(np.tile(each, len(addends)) for each in (a, b)), vectors.canonical(np.concatenate(addends)), form)


def _addends(products: _Bits) -> Sequence[_Bits]:
    """Partners of any kind; then those that nearly cancel; then subnormal ones and small ones."""
    generator = np.random.default_rng(2)
    count = len(products)
    opposite = (products ^ np.uint32(1 << 31)).astype(np.int64)
    near = opposite + (generator.integers(-3, 4, count) << 23) + generator.integers(-(1 << 22), 1 << 22, count)
    small = generator.integers(0, 1 << 25, count) | (generator.integers(0, 2, count) << 31)
    ulps = opposite + generator.integers(-3, 4, count)
    return [vectors.partners("fp32", products, 3), *(each.astype(np.uint32) for each in (near, ulps, small))]


@pytest.mark.parametrize(
    ("operand", "result", "options"),
    [
        slow(FP32, FP32, {}),
        (BF16, BF16, {}),
        (BF16, FloatFormat.parse("fp8_e4m3"), {}),
        slow(FloatFormat.parse("e8f13"), FP32, {"subnormals": "ieee", "recoded": True}),
    ],
)
def test_two_parts_where_products_do_not_fit(
    operand: FloatFormat, result: FloatFormat, options: dict[str, Any]
) -> None:
    dut = MultiplyAdd(operand, result, **options)
    assert not dut.is_one_datapath
    a, b = vectors.pairs(str(operand), _COUNT // 10, seed=4)
    c = vectors.partners(str(result), golden.multiply(a, b, str(operand), str(result)), 5)
    _check(dut, a, b, c)


@pytest.mark.parametrize("stages", range(8))
def test_latencies(stages: int) -> None:
    dut = MultiplyAdd(BF16, stages=stages)
    assert (dut.latency, dut.addend_latency <= stages) == (stages, True)
    apart = MultiplyAdd(FP32, stages=stages)
    assert (dut.latency, dut.addend_latency) == (apart.latency, apart.addend_latency)


def test_smaller_than_its_parts() -> None:
    """The reason why it is there."""
    whole, *parts = (len(gates(each).cells) for each in (MultiplyAdd(BF16), Multiplier(BF16, FP32), Adder(FP32)))
    assert whole < sum(parts)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stages": 8}, ValueError, "stages must be an integer from 0 to 7, not 8"),
        ({"recoded": True}, ValueError, "recoded must be False unless subnormals is 'ieee', not 'flush'"),
        ({"stages": "2"}, TypeError, "stages must be an integer from 0 to 7, not '2'"),
        ({"subnormals": "no"}, ValueError, "subnormals must be 'flush' or 'ieee', not 'no'"),
    ],
)
def test_mistakes(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        MultiplyAdd(BF16, **options)
