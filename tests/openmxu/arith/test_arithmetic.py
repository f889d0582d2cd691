# amaranth: UnusedElaboratable=no
# (what test_messages makes is refused, so nobody uses it)
"""Every format the arithmetic offers, on Amaranth's simulator against the golden model.

The formats of the unit itself are tested with far more operands by the cocotb benches at the end.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openmxu.arith import (
    Adder,
    BlockMultiplyAdd,
    Converter,
    DotProductAdd,
    Multiplier,
    MultiplyAdd,
    SignificandProduct,
    Splitter,
)
from openmxu.spec.blocks import BLOCK_FORMATS
from openmxu.spec.formats import BF16, FP8_E5M2, FP16, FP32, SUBNORMALS, FloatFormat
from openmxu.spec.forms import check_form
from openmxu.spec.passes import Part
from openmxu.unit.block_element import BlockElement
from openmxu_sim import golden
from openmxu_sim.golden.passes import split
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ...clocked import clocked, give
from ...conftest import Bench, each_once, slow, thorough

_COUNT = 400
_FORMATS = ["bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "fp32", "e3f2"]
_OTHER_FORMATS = ["tf32", "e2f1", "e5f17", "e8f1"]
"""Left to `make slow`."""


def check(dut: Any, expected: npt.ArrayLike, *operands: npt.ArrayLike) -> None:
    """Compare what a rigid component (inputs ``i`` or ``i_*``, output ``o``) makes of operands given cycle by cycle."""
    rows = list(zip(*operands, strict=True))
    inputs = [getattr(dut, name) for name in dut.signature.members if name.startswith("i")]
    results: list[int] = []

    async def testbench(ctx: Any) -> None:
        for row in rows + rows[-1:] * dut.latency:
            give(ctx, inputs, row)
            if dut.latency:
                *_, bits = await ctx.tick().sample(dut.o)
            else:
                await ctx.delay(1e-6)
                bits = ctx.get(dut.o)
            results.append(bits)

    clocked(dut, testbench)
    got = np.array(results[dut.latency :], np.uint32)
    same_bits(got, expected, *operands, fmt="", operand="", note=dut.module_name)


@pytest.mark.parametrize(
    ("name", "subnormals"),
    [*each_once(_FORMATS, SUBNORMALS), *(slow(*case) for case in product(_OTHER_FORMATS, SUBNORMALS))],
)
def test_adder(name: str, subnormals: str) -> None:
    a, b = vectors.pairs(name, _COUNT, seed=1)
    dut = Adder(FloatFormat.parse(name), subnormals=subnormals)
    check(dut, golden.add(a, b, name, subnormals=subnormals), a, b)


_PRODUCTS = [
    *((name, name) for name in _FORMATS),
    *((name, "fp32") for name in _FORMATS if name != "fp32"),
    *(("fp32", "bf16"), ("fp16", "fp8_e4m3"), ("fp8_e5m2", "e2f1"), ("e2f1", "bf16")),
]
_OTHER_PRODUCTS = [
    *((name, name) for name in _OTHER_FORMATS),
    *((name, "fp32") for name in _OTHER_FORMATS),
    ("bf16", "fp16"),
]


@pytest.mark.parametrize(
    ("formats", "subnormals"),
    [*each_once(_PRODUCTS, SUBNORMALS), *(slow(*case) for case in product(_OTHER_PRODUCTS, SUBNORMALS))],
    ids=str,
)
def test_multiplier(formats: tuple[str, str], subnormals: str) -> None:
    operand, result = formats
    a, b = vectors.pairs(operand, _COUNT, seed=2)
    dut = Multiplier(FloatFormat.parse(operand), FloatFormat.parse(result), subnormals=subnormals)
    check(dut, golden.multiply(a, b, operand, result, subnormals=subnormals), a, b)


@pytest.mark.parametrize("subnormals", ["flush", slow("ieee")])
@pytest.mark.parametrize(("part", "name"), list(zip(Part, "xhrml", strict=True)))
def test_splitter(part: Part, name: str, subnormals: str) -> None:
    small = np.arange(0, 0x0D000000, 0x4F1D5, dtype=np.uint32)  # where what is left is subnormal
    bits = np.concatenate([vectors.corners("fp32"), vectors.operands("fp32", _COUNT, seed=5), small])
    parts = np.full_like(bits, int(part))
    check(Splitter(subnormals=subnormals), split(bits, name, subnormals=subnormals), bits, parts)


_CONVERSIONS = [
    *(("fp32", name) for name in [*_FORMATS, *_OTHER_FORMATS]),
    *((name, "fp32") for name in [*_FORMATS, *_OTHER_FORMATS] if name != "fp32"),
    *(("bf16", "fp16"), ("fp16", "bf16"), ("fp16", "fp8_e4m3"), ("fp8_e4m3", "fp8_e5m2"), ("e2f1", "e5f17")),
]


@pytest.mark.parametrize(("formats", "subnormals"), each_once(_CONVERSIONS, SUBNORMALS), ids=str)
def test_converter(formats: tuple[str, str], subnormals: str) -> None:
    source, target = formats
    bits = np.concatenate([vectors.corners(source), vectors.operands(source, _COUNT, seed=3)])
    dut = Converter(FloatFormat.parse(source), FloatFormat.parse(target), subnormals=subnormals)
    check(dut, golden.convert(bits, source, target, subnormals=subnormals), bits)


_PIPELINES: dict[str, Any] = {
    "adder": (partial(Adder, FP32), golden.add, vectors.pairs("fp32", 200, seed=4)),
    "multiplier": (partial(Multiplier, BF16, FP32), golden.multiply, vectors.pairs("bf16", 200, seed=5)),
    "converter": (partial(Converter, FP32, BF16), golden.convert, (vectors.operands("fp32", 200, seed=6),)),
    "two formats": (
        partial(Multiplier, FP8_E5M2, FP32, weight=BF16),
        partial(golden.multiply, operand="fp8_e5m2", weight="bf16"),
        (vectors.operands("fp8_e5m2", 200, 6), vectors.operands("bf16", 200, 7)),
    ),
}
"""Components, what their results should be, and operands."""


@pytest.mark.parametrize(
    ("name", "stages", "subnormals"),
    [
        *(("adder", n, "flush") for n in sorted(Adder.CUTS)[1::2]),
        *(slow("adder", n, "flush") for n in sorted(Adder.CUTS)[::2]),
        *(slow("adder", n, "ieee") for n in sorted(Adder.CUTS)),
        *((name, n, "flush") for name, (make, *_) in [*_PIPELINES.items()][1:] for n in sorted(make.func.CUTS)),
        *(slow("two formats", n, "ieee") for n in sorted(Multiplier.CUTS)[:-1]),
        ("two formats", max(Multiplier.CUTS), "ieee"),
    ],
)
def test_pipelines(name: str, stages: int, subnormals: str) -> None:
    make, model, operands = _PIPELINES[name]
    dut = make(stages=stages, subnormals=subnormals)
    assert dut.latency == stages
    check(dut, model(*operands, subnormals=subnormals), *operands)


dot: Callable[..., object] = partial(DotProductAdd, BF16)
fused: Callable[..., object] = partial(MultiplyAdd, BF16)
_BLOCKS = ", ".join(BLOCK_FORMATS)
_STOCHASTIC = "stochastic must be False with gradual underflow, or where"


def block(name: str, **options: int) -> object:
    return BlockMultiplyAdd(BLOCK_FORMATS[name], **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Adder(FP32, stages=6), ValueError, "stages must be an integer from 0 to 5, not 6"),
        (lambda: Adder(FP32, stages="2"), TypeError, "stages must be an integer from 0 to 5, not '2'"),
        (lambda: Adder(FP32, subnormals="no"), ValueError, "subnormals must be 'flush' or 'ieee', not 'no'"),
        (lambda: Multiplier(BF16, FP32, stages=3), ValueError, "stages must be an integer from 0 to 2, not 3"),
        (lambda: Converter(FP32, BF16, stages=-1), ValueError, "stages must be an integer from 0 to 1, not -1"),
        (lambda: fused(stages=8), ValueError, "stages must be an integer from 0 to 7, not 8"),
        (lambda: fused(stages="2"), TypeError, "stages must be an integer from 0 to 7, not '2'"),
        (lambda: fused(subnormals="no"), ValueError, "subnormals must be 'flush' or 'ieee', not 'no'"),
        (lambda: fused(recoded=True), ValueError, "recoded must be False unless subnormals is 'ieee', not 'flush'"),
        (lambda: dot(terms=3), ValueError, "terms must be 1, 2, 4 or 8, not 3"),
        (lambda: dot(terms=4.5), TypeError, "terms must be 1, 2, 4 or 8, not 4.5"),
        (lambda: dot(terms=1), ValueError, "terms must be 2, 4 or 8 in a sum of products, not 1"),
        (lambda: dot(terms=4, subnormals="ieee"), ValueError, "terms must be 1 with gradual underflow, .*, not 4"),
        (lambda: dot(stages=8), ValueError, "stages must be an integer from 0 to 7, not 8"),
        (lambda: check_form("fast"), ValueError, "form must be one of area, speed, fpga, not 'fast'"),
        (lambda: SignificandProduct(0), ValueError, "width must be an integer from 1 to 1024, not 0"),
        (lambda: SignificandProduct(10**6), ValueError, "width must be an integer from 1 to 1024, not 1000000"),
        (lambda: block("int8", stages=3), ValueError, "stages must be an integer from 0 to 2, not 3"),
        (lambda: block("mxfp4", terms=3), ValueError, "terms must be 1, 2, 4 or 8, not 3"),
        (lambda: BlockElement("fp4"), ValueError, f"block must be one of mxfp8_e4m3, {_BLOCKS}, not 'fp4'"),
        (lambda: BlockElement("mxfp8_e4m3", terms=1), ValueError, "terms must be 2, 4 or 8 of mxfp8_e4m3, not 1"),
        (lambda: BlockElement("int8", stages=3), ValueError, "stages must be an integer from 1 to 2, not 3"),
        (lambda: BlockElement("mxfp4", stages=0), ValueError, "stages must be an integer from 1 to 7, not 0"),
        (lambda: MultiplyAdd(FP32, stochastic=True), ValueError, f"{_STOCHASTIC} products are rounded"),
        (lambda: fused(subnormals="ieee", stochastic=True), ValueError, f"{_STOCHASTIC} products are rounded"),
        (lambda: Converter(BF16, FP16, stochastic=True), ValueError, f"{_STOCHASTIC} no bits are cut off"),
    ],
)
def test_messages(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        make()


_LONGER = "product multiplier multiplier_fp32 adder adder_pipelined converter splitter stream_multiplier stream_adder"
_LONGEST = "multiplier_ieee multiplier_bf16 multiplier_fp16 adder_ieee converter_ieee splitter_ieee"


@pytest.mark.parametrize(
    ("design", "how"),
    [
        ("stream_converter", {}),
        *(slow(design, {}) for design in _LONGER.split()),
        *(thorough(design, {}) for design in _LONGEST.split()),
        # Few vectors: Icarus is slow.
        ("converter", {"count": 200, "simulator": "icarus"}),
        *(slow(design, {"count": 200, "simulator": "icarus"}) for design in ("adder_pipelined", "stream_adder")),
    ],
)
def test_bench(bench: Bench, design: str, how: dict[str, Any]) -> None:
    bench(design, **how)
