# amaranth: UnusedElaboratable=no
# (components whose names are asked for go unused)
"""Products of operands in two formats, on gates and in Amaranth's simulator, against the golden model."""

import numpy as np
import pytest

from openmxu.area.target.gates import gates
from openmxu.arith import DotProductAdd, Multiplier, MultiplyAdd, SignificandProduct
from openmxu.formal.proofs import about
from openmxu.spec.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, SUBNORMALS, FloatFormat
from openmxu.spec.forms import AREA, SPEED
from openmxu.unit.pe import ProcessingElement
from openmxu_sim import golden
from openmxu_sim.cosim.benches.reference import recode
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands import vectors
from openmxu_sim.verify.exhaustion import apart

from ...bits import same_bits
from ...conftest import slow
from ...several_terms import Bits
from .test_arithmetic import check

_COUNT = 20_000
_HYBRID = [("fp8_e5m2", "fp8_e4m3"), ("fp8_e4m3", "fp8_e5m2")]
_WAYS = [("flush", False), ("ieee", False), ("ieee", True)]
"""The mode of subnormal numbers, and whether operands are recoded."""


def _words(dut: Multiplier | MultiplyAdd, a: Bits, b: Bits) -> tuple[Bits, ...]:
    """Operands as the component takes them."""
    sides = zip((a, b), dut.formats, strict=True)
    return tuple(recode(words, fmt) if dut.recoded else words for words, fmt in sides)


def _check_products(dut: Multiplier, a: Bits, b: Bits) -> None:
    operand, weight, result = map(str, (*dut.formats, dut.result))
    got = Gates(gates(dut), ["i_a", "i_b"], latency=0)(*_words(dut, a, b))
    expected = golden.multiply(a, b, operand, result, weight=weight, subnormals=dut.subnormals)
    same_bits(got, expected, a, b, fmt=result, operand="", note=f"{dut.module_name}, {dut.recoded=}")


def _every(operand: str, weight: str) -> tuple[Bits, Bits]:
    """All pairs."""
    a, b = np.meshgrid(*(np.arange(1 << golden.find_format(name).width, dtype=np.uint32) for name in (operand, weight)))
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


def _multiplier(operand: str, weight: str, result: str, subnormals: str, *, recoded: bool) -> Multiplier:
    first, second, third = map(FloatFormat.parse, (operand, weight, result))
    return Multiplier(first, third, weight=second, subnormals=subnormals, recoded=recoded)


@pytest.mark.parametrize(
    ("operand", "weight", "result"),
    [
        *((*pair, result) for pair in _HYBRID for result in ("fp32", "fp8_e4m3", "bf16")),
        ("e2f1", "e8f1", "fp16"),  # a zero times a number that is too large
        ("e8f3", "e3f2", "e4f3"),
        ("e2f4", "e2f4", "e2f4"),  # a zero times a zero, in one format, too: its exponent wraps
        ("e2f1", "e4f8", "e5f2"),  # subnormal operands alone have a subnormal product
    ],
)
@pytest.mark.parametrize(("subnormals", "recoded"), _WAYS)
def test_all_pairs(operand: str, weight: str, result: str, subnormals: str, recoded: bool) -> None:
    _check_products(_multiplier(operand, weight, result, subnormals, recoded=recoded), *_every(operand, weight))


@pytest.mark.parametrize(("subnormals", "recoded"), _WAYS)
@pytest.mark.parametrize(
    ("operand", "weight"),
    [("bf16", "fp8_e4m3"), ("fp16", "bf16"), ("tf32", "e2f1"), slow("fp8_e5m2", "bf16"), slow("tf32", "fp16")],
)
@pytest.mark.parametrize("form", [AREA, slow(SPEED)])
def test_multiply_add(operand: str, weight: str, subnormals: str, recoded: bool, form: str) -> None:
    """Products alone, then added: to partners, to near opposites, and to their exact opposites."""
    _check_products(_multiplier(operand, weight, "fp32", subnormals, recoded=recoded), *_pairs(operand, weight))
    dut = MultiplyAdd(
        FloatFormat.parse(operand), weight=FloatFormat.parse(weight), subnormals=subnormals, recoded=recoded
    )
    assert dut.is_one_datapath
    _check_sums(dut, form)


def test_products_that_do_not_fit() -> None:
    """fp32 x bf16: neither is recoded; a multiplier and an adder."""
    for subnormals in SUBNORMALS:
        dut = MultiplyAdd(FP32, weight=BF16, subnormals=subnormals)
        assert not dut.is_one_datapath
        _check_sums(dut, AREA)


def _pairs(operand: str, weight: str) -> tuple[Bits, Bits]:
    """Operands of every sort, a half of whose products is near the middle of the range."""
    a, b = vectors.operands(operand, _COUNT, 1), vectors.operands(weight, _COUNT, 2)
    near = golden.convert(vectors.partners(operand, a, 3), operand, weight, subnormals="ieee")
    return a, np.where(np.arange(_COUNT) % 2, b, near).astype(np.uint32)


def _check_sums(dut: MultiplyAdd, form: str) -> None:
    operand, weight = map(str, dut.formats)
    a, b = _pairs(operand, weight)
    products = golden.multiply(a, b, operand, "fp32", weight=weight, subnormals=dut.subnormals)
    generator = np.random.default_rng(4)
    near = ((products ^ np.uint32(1 << 31)) + generator.integers(-3, 4, _COUNT)).astype(np.uint32)
    opposite = np.where(generator.random(_COUNT) < 0.1, products ^ np.uint32(1 << 31), near)
    c = vectors.canonical(np.where(generator.random(_COUNT) < 0.6, vectors.partners("fp32", products, 5), opposite))
    got = Gates(gates(dut, form=form), ["i_a", "i_b", "i_c"], latency=0)(*_words(dut, a, b), c)
    expected = golden.add(c, products, subnormals=dut.subnormals)
    same_bits(got, expected, a, b, c, operand="", note=f"{dut.module_name}, {dut.recoded=}, {form}")


@pytest.mark.parametrize(
    ("operand", "weight", "terms"),
    [*((*pair, 4) for pair in _HYBRID), ("bf16", "fp8_e4m3", 2), ("fp16", "bf16", 2), slow("tf32", "fp8_e5m2", 8)],
)
def test_dot_product_add(operand: str, weight: str, terms: int) -> None:
    """Any operands, terms that meet, and sums that they meet."""
    dut = DotProductAdd(FloatFormat.parse(operand), weight=FloatFormat.parse(weight), terms=terms)
    b = vectors.operands(weight, _COUNT * terms, 1).reshape(_COUNT, terms)
    alike = golden.convert(b, weight, operand, subnormals="ieee")
    any_words = vectors.operands(operand, _COUNT * terms, 2).reshape(_COUNT, terms)
    a = np.where(np.arange(_COUNT)[:, np.newaxis] % 3, vectors.matching(operand, alike, 3), any_words)
    totals = golden.dot_product_add(np.zeros(_COUNT, np.uint32), a, b, operand, weight=weight)
    partners = vectors.partners("fp32", totals, 4)
    c = vectors.canonical(np.where(np.arange(_COUNT) % 2, partners, vectors.operands("fp32", _COUNT, 5)))
    got = Gates(*apart(gates(dut), terms), latency=0)(*np.ascontiguousarray(a.T), *np.ascontiguousarray(b.T), c)
    expected = golden.dot_product_add(c, a, b, operand, weight=weight)
    same_bits(got, expected, c, *a.T, *b.T, operand="", note=dut.module_name)


@pytest.mark.parametrize("stages", sorted(Multiplier.CUTS))
def test_pipelines(stages: int) -> None:
    a, b = vectors.operands("fp8_e5m2", 200, 6), vectors.operands("bf16", 200, 7)
    for mode in SUBNORMALS:
        dut = Multiplier(FP8_E5M2, FP32, weight=BF16, subnormals=mode, stages=stages)
        check(dut, golden.multiply(a, b, "fp8_e5m2", weight="bf16", subnormals=mode), a, b)


def test_names_and_widths() -> None:
    names = [
        (Multiplier(FP8_E5M2, FP32, weight=FP8_E4M3), "multiplier_fp8_e5m2_x_fp8_e4m3_fp32_flush_s0"),
        (MultiplyAdd(FP8_E4M3, weight=FP8_E5M2), "multiply_add_fp8_e4m3_x_fp8_e5m2_fp32_flush_s0"),
        (DotProductAdd(BF16, weight=FP16), "dot_product_add_bf16_x_fp16_fp32_flush_t4_s0"),
        (ProcessingElement(FP8_E5M2, weight=FP8_E4M3, terms=2), "pe_fp8_e5m2_x_fp8_e4m3_flush_t2_s1"),
        (SignificandProduct(3, 4), "significand_product_3x4"),
    ]
    for component, name in names:
        assert component.module_name == name
    for formats in ((FP8_E5M2, FP16), (FP16, FP8_E5M2)):
        sides = [Multiplier(formats[0], FP32, weight=formats[1], subnormals="ieee", recoded=word) for word in (0, 1)]
        widths = [(len(dut.i_a), len(dut.i_b)) for dut in sides]
        expected = [tuple(fmt.width + extra for fmt in formats) for extra in (0, 1)]
        assert widths == expected


def test_one_format_given_twice() -> None:
    """Equal components have equal names; proofs about bf16 are about no other format of weights."""
    assert Multiplier(BF16, FP32, weight=BF16).module_name == Multiplier(BF16, FP32).module_name
    assert list(about(Multiplier(BF16, FP32, weight=BF16)))
    for component in (Multiplier(BF16, FP32, weight=FP8_E4M3), ProcessingElement(BF16, weight=FP8_E4M3)):
        assert not list(about(component))
