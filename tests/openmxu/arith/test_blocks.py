"""Numbers in blocks, and random rounding, on gates and in Amaranth's simulator; ml_dtypes decodes, golden adds."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from openmxu.arith import BlockMultiplyAdd, Converter, DotProductAdd, MultiplyAdd
from openmxu.spec.blocks import BLOCK_FORMATS, MXFP8, BlockFormat
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.forms import AREA, SPEED
from openmxu.unit.block_element import BlockElement
from openmxu_sim import golden
from openmxu_sim.golden.arithmetic import rounded, rounded_sum, rounded_terms
from openmxu_sim.golden.formats import Values, decode, encode
from openmxu_sim.operands import vectors

from ...clocked import clocked, give
from ...conftest import each_once, slow
from ...several_terms import Bits
from .conftest import check_gates

_COUNT = 20_000
_FP32 = golden.find_format("fp32")
_DTYPES = {
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4": ml_dtypes.float4_e2m1fn,
    "nvfp4": ml_dtypes.float4_e2m1fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e4m3": ml_dtypes.float8_e4m3fn,
}


def _values(patterns: npt.NDArray[Any], name: str, point: int = 0) -> Values:
    """What patterns mean: by ml_dtypes, or as integers."""
    octets = patterns.astype(np.uint8)
    return np.asarray(octets.view(_DTYPES.get(name, np.int8)).astype(float) * 2.0**-point)


def _drawn(width: int, terms: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Any numbers; of a tenth of the sums all but one are zero."""
    numbers = rng.integers(0, 1 << width, (_COUNT, terms))
    numbers[: _COUNT // 10, 1:] = 0
    return numbers


def _scales(block: BlockFormat, rng: np.random.Generator) -> tuple[Bits, Bits]:
    """Any scales; half of the products of powers of two are near one."""
    a, b = rng.integers(0, 1 << block.scale_width, (2, _COUNT), np.uint32)
    if block.scale == "e8m0":
        near = rng.random(_COUNT) < 0.5
        b[near] = np.clip(254 - a.astype(int) + rng.integers(-20, 20, _COUNT), 0, 255)[near]
    return a, b


def _beside(sums: Bits, rng: np.random.Generator) -> Bits:
    """What sums are added to: partners, near and exact opposites, anything."""
    opposite = (sums ^ np.uint32(1 << 31)) + rng.integers(-3, 4, _COUNT)
    choice = rng.random(_COUNT)
    partners = np.where(choice < 0.6, vectors.partners("fp32", sums, 5), vectors.operands("fp32", _COUNT, 6))
    return vectors.canonical(np.where(choice < 0.2, opposite, partners).astype(np.uint32))


def _case(block: BlockFormat, terms: int) -> tuple[list[npt.NDArray[Any]], Bits]:
    """Operands, port by port, and what is expected."""
    rng = np.random.default_rng(terms)
    a, b = _drawn(block.width, terms, rng), _drawn(block.width, terms, rng)
    exact = (_values(a, block.name, block.point) * _values(b, block.name, block.point)).sum(axis=1)
    if not block.scale:
        words = rng.integers(0, 1 << 32, _COUNT)
        return [*a.T, *b.T, words], ((words + exact.astype(np.int64)) & 0xFFFFFFFF).astype(np.uint32)
    scales = _scales(block, rng)
    factors = [_values(scale, block.scale) for scale in scales]
    if block.scale == "e4m3":
        factors = [np.where(factor < 2.0**-6, 0, factor) for factor in factors]
    sums = encode(rounded(exact * factors[0] * factors[1], _FP32, flush=True), _FP32)
    c = _beside(sums, rng)
    return [*a.T, *b.T, *scales, c], golden.add(c, sums)


@pytest.mark.parametrize(
    ("name", "terms"),
    [*each_once(list(BLOCK_FORMATS), (1, 4)), *(slow(*case) for case in product(BLOCK_FORMATS, (2, 8)))],
)
def test_block_multiply_add(name: str, terms: int) -> None:
    """Any numbers and scales; of one term all pairs of numbers, too, with scales of one."""
    dut, block = BlockMultiplyAdd(BLOCK_FORMATS[name], terms=terms), BLOCK_FORMATS[name]
    operands, expected = _case(block, terms)
    if terms == 1:
        every = np.arange(1 << block.width, dtype=np.uint32)
        a, b = map(np.ravel, np.meshgrid(every, every))
        exact = _values(a, name, block.point) * _values(b, name, block.point)
        pairs = encode(exact + 0.0, _FP32) if block.scale else exact.astype(np.int32).view(np.uint32)
        one = {"e8m0": [127, 127], "e4m3": [0x38, 0x38], "": []}[block.scale]
        more = [a, b, *(np.full(len(a), word) for word in (*one, 0))]
        operands = [np.concatenate(both) for both in zip(operands, more, strict=True)]
        expected = np.concatenate([expected, pairs])
    check_gates(dut, expected, *operands)


@pytest.mark.parametrize("terms", [2, slow(4), slow(8)])
@pytest.mark.parametrize("form", [AREA, slow(SPEED)])
def test_scaled_dot_product_add(terms: int, form: str) -> None:
    """Numbers of MXFP8, scaled after the exponents of products are compared."""
    rng = np.random.default_rng(terms)
    stored = rng.integers(0, 256, (2, _COUNT, terms))
    a, b = (encode(_values(side, "e4m3"), golden.find_format("e5f3")) for side in stored)
    values = [decode(side, golden.find_format("e5f3")) for side in (a, b)]
    scales = _scales(BLOCK_FORMATS["mxfp4"], rng)
    factors = _values(scales[0], "e8m0") * _values(scales[1], "e8m0")
    zero = np.zeros(_COUNT)
    products = values[0] * factors[:, np.newaxis], values[1]
    c = _beside(encode(rounded_terms(zero, *products, _FP32), _FP32), rng)
    expected = encode(rounded_terms(_flushed(c), *products, _FP32), _FP32)
    check_gates(DotProductAdd(MXFP8, terms=terms, scaled=True), expected, *a.T, *b.T, *scales, c, form=form)


def _flushed(words: Bits) -> Values:
    """The values of patterns of fp32."""
    return decode(golden.convert(words, "fp32", "fp32"), _FP32)


@pytest.mark.parametrize("operand", ["bf16", slow("fp16"), slow("fp8_e4m3")])
@pytest.mark.parametrize("form", [AREA, slow(SPEED)])
def test_stochastic_sums(operand: str, form: str) -> None:
    a, b = vectors.operands(operand, _COUNT, 1), vectors.operands(operand, _COUNT, 2)
    products = golden.multiply(a, b, operand)
    rng = np.random.default_rng(7)
    noise, c = _noise(24, rng), _beside(products, rng)
    way = {"rounding": "stochastic", "noise": np.ldexp(noise, -24)}
    total = rounded_sum(_flushed(c), decode(products, _FP32), _FP32, flush=True, **way)
    dut = MultiplyAdd(FloatFormat.parse(operand), stochastic=True)
    check_gates(dut, encode(total, _FP32), a, b, c, noise, form=form)


def _noise(width: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Words, the least and the largest among them."""
    return np.where(
        rng.random(_COUNT) < 0.1, rng.choice([0, (1 << width) - 1], _COUNT), rng.integers(0, 1 << width, _COUNT)
    )


@pytest.mark.parametrize("target", ["bf16", "tf32", "fp16", slow("fp8_e4m3"), slow("fp8_e5m2")])
def test_stochastic_conversion(target: str) -> None:
    words, fmt = vectors.operands("fp32", _COUNT, 1), golden.find_format(target)
    words[::2] = vectors.partners("fp32", golden.convert(vectors.operands(target, _COUNT // 2, 2), target, "fp32"), 3)
    width = 23 - fmt.fraction_width
    noise = _noise(width, np.random.default_rng(8))
    values = _flushed(words)
    numbers = rounded(values, fmt, flush=True, rounding="stochastic", noise=np.ldexp(noise, -width))
    expected = np.where(np.isnan(values), golden.convert(words, "fp32", target), encode(numbers, fmt))
    dut = Converter(FP32, FloatFormat.parse(target), stochastic=True)
    check_gates(dut, expected, words, noise, fmt=target, operand="fp32")


def _from(cycle: int, words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Words that begin in a cycle, and end early enough for others."""
    return np.pad(words, (cycle, 20 - cycle))


@pytest.mark.parametrize(
    ("name", "terms", "stages"),
    [("int8", 1, 1), ("int8", 4, 2), ("mxfp4", 4, 1), ("nvfp4", 1, 3), ("nvfp4", 2, 7), ("mxint8", 1, 6)],
)
def test_element(name: str, terms: int, stages: int) -> None:
    """A weight and an activation in each cycle: both are handed on, and multiplied, and a sum meets its product."""
    dut, block, count = BlockElement(name, terms=terms, stages=stages), BLOCK_FORMATS[name], 100
    operands, expected = _case(block, terms)
    *numbers, c = (words[-count:].astype(np.int64) for words in operands)
    sides = [numbers[:terms], numbers[terms : 2 * terms]]
    for side, scale in zip(sides, numbers[2 * terms :], strict=False):
        side.append(scale)  # none of integers
    a, b = (np.sum([word << (n * block.width) for n, word in enumerate(side)], axis=0) for side in sides)
    ones, late = np.ones(count + 20, int), 1 + dut.latency - dut.psum_latency
    inputs = dut.i_weight, dut.i_load, dut.i_swap, dut.i_activation, dut.i_psum
    rows: list[list[int]] = []  # before the end of each cycle

    async def testbench(ctx: Any) -> None:
        for values in zip(_from(0, b), ones, ones, _from(1, a), _from(late, c), strict=True):
            give(ctx, inputs, values)
            _, _, *seen = await ctx.tick().sample(dut.o_weight, dut.o_activation, dut.o_psum)
            rows.append(seen)

    clocked(dut, testbench)
    shown = np.array(rows).T
    for cycle, output, words in zip((1, 2, 1 + dut.latency), shown, (b, a, expected[-count:]), strict=True):
        assert np.array_equal(output[cycle:][:count], words), f"{dut.module_name}, cycle {cycle}"
