# amaranth: UnusedElaboratable=no
# (components whose names and latencies are asked for, and those that are built in one form only, go unused)
"""The arithmetic on the gates that synthesis makes of it, in all forms, against the golden model."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.area.target.gates import gates
from openmxu.arith import Adder, DotProductAdd, Multiplier, MultiplyAdd, Recoder, SignificandProduct
from openmxu.arith.datapath.anticipate import anticipate
from openmxu.export.verilog import to_rtlil
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, SUBNORMALS, FloatFormat
from openmxu.spec.forms import AREA, FORMS, FPGA, SPEED
from openmxu.spec.recoded import Recoded, is_recoded
from openmxu.unit.pe import ProcessingElement
from openmxu_evidence.formal.proofs import about
from openmxu_evidence.formal.query import prove
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import BLOCK, Gates
from openmxu_sim.operands import vectors
from openmxu_sim.operands.reference import recode

from ...bits import same_bits
from ...conftest import each_once, slow
from ...several_terms import Bits, drawn
from .conftest import check_gates, on_gates

_COUNT = 20_000


def _check_multiply_add(dut: MultiplyAdd, a: Bits, b: Bits, c: Bits, form: str = AREA) -> None:
    """Compare all results with those of a multiplier and an adder of the golden model."""
    operand, weight, result = map(str, (*dut.formats, dut.result))
    products = golden.multiply(a, b, operand, result, weight=weight, subnormals=dut.subnormals)
    check_gates(dut, golden.add(c, products, result, subnormals=dut.subnormals), a, b, c, form=form, fmt=result)


_NAMES = ("subnormals", "form", "recoded")
_FORMS = [(mode, form, recoded) for mode in SUBNORMALS for form in (AREA, SPEED) for recoded in {False, mode == "ieee"}]


@pytest.mark.parametrize(
    ("operand", "result", *_NAMES),
    [
        # Products that are tiny, huge and ordinary; two places to spare below them.
        *(("e3f1", "e3f5", *form) for form in _FORMS[2::3]),
        *(slow("e3f1", "e3f5", *form) for form in (*_FORMS[::3], *_FORMS[1::3])),
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
    _check_multiply_add(dut, *map(np.ravel, np.meshgrid(factors, factors, sums)), form)


@pytest.mark.parametrize(
    ("operand", *_NAMES),
    [
        *(("bf16", *form) for form in (_FORMS[0], _FORMS[-1])),
        *(slow("bf16", *form) for form in _FORMS[1:-1]),
        *(slow(name, *form) for name, form in zip(["fp16", "tf32", "fp8_e4m3", "e2f1"] * 2, _FORMS, strict=False)),
    ],
)
def test_sums_in_fp32(operand: str, subnormals: str, form: str, recoded: bool) -> None:
    dut = MultiplyAdd(FloatFormat.parse(operand), subnormals=subnormals, recoded=recoded)
    assert dut.is_one_datapath
    _check_sums(dut, *vectors.pairs(operand, _COUNT, seed=1), form)


def _check_sums(dut: MultiplyAdd, a: Bits, b: Bits, form: str) -> None:
    """With partners of any kind; then those that nearly cancel, or do; then subnormal ones and small ones."""
    operand, weight = map(str, dut.formats)
    products = golden.multiply(a, b, operand, "fp32", weight=weight, subnormals=dut.subnormals)
    generator = np.random.default_rng(2)
    opposite = (products ^ np.uint32(1 << 31)).astype(np.int64)
    near = opposite + (generator.integers(-3, 4, _COUNT) << 23) + generator.integers(-(1 << 22), 1 << 22, _COUNT)
    small = generator.integers(0, 1 << 25, _COUNT) | (generator.integers(0, 2, _COUNT) << 31)
    ulps = opposite + generator.integers(-3, 4, _COUNT)
    addends = [vectors.partners("fp32", products, 3), *(each.astype(np.uint32) for each in (near, ulps, small))]
    _check_multiply_add(dut, np.tile(a, 4), np.tile(b, 4), vectors.canonical(np.concatenate(addends)), form)


@pytest.mark.parametrize(
    ("operand", "result", "options"),
    [
        slow(FP32, FP32, {}),
        slow(BF16, BF16, {}),
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
    _check_multiply_add(dut, a, b, c)


@pytest.mark.parametrize("stages", range(8))
def test_latencies(stages: int) -> None:
    dut = MultiplyAdd(BF16, stages=stages)
    assert (dut.latency, dut.addend_latency <= stages) == (stages, True)
    two_parts = MultiplyAdd(FP32, stages=stages)
    assert (dut.latency, dut.addend_latency) == (two_parts.latency, two_parts.addend_latency)


def test_smaller_than_its_parts() -> None:
    whole, *parts = (len(gates(each).cells) for each in (MultiplyAdd(BF16), Multiplier(BF16, FP32), Adder(FP32)))
    assert whole < sum(parts)


@pytest.mark.parametrize("name", ["bf16", "fp8_e4m3", *map(slow, ("fp16", "fp8_e5m2", "e2f1", "e2f10", "e3f8"))])
def test_recoded_words(name: str) -> None:
    fmt = FloatFormat.parse(name)
    operands = np.arange(1 << fmt.width, dtype=np.uint32)
    check_gates(Recoder(fmt), recode(operands, fmt), operands, fmt="", operand=name)


def test_words_of_bf16() -> None:
    """Worked out by hand: the smallest number, 1, the largest, a zero, an infinity and a NaN, each with its sign."""
    operands = np.array([0x0001, 0x3F80, 0xFF7F, 0x8000, 0x7F80, 0xFFFF], dtype=np.uint32)
    signs, fractions = np.array([[0, 0, 1, 1, 0, 1], [0, 0, 127, 0, 0, 127]])
    exponents = np.array([127 + 65 - 133, 127 + 65, 254 + 65, 0, 3 << 7, 3 << 7])
    assert on_gates(Recoder(BF16))(operands).tolist() == (signs << 16 | exponents << 7 | fractions).tolist()


def test_layouts_have_room_for_all_numbers() -> None:
    """Exponents of zeros, numbers and special words are apart, in all formats."""
    for exponent, fraction, has_infinity in product(range(2, 9), range(1, 24), (True, False)):
        layout = Recoded(fmt := FloatFormat("any", exponent, fraction, has_infinity))
        lowest, highest = 1 - fraction + layout.offset, fmt.exponent_mask - has_infinity + layout.offset
        assert 1 << layout.zero_width <= lowest < highest < 3 << (layout.exponent_width - 2)


def test_operands_that_are_recoded() -> None:
    """Both or neither."""
    cases = [("ieee", FP32), ("ieee", BF16, FP16), ("flush", BF16), ("ieee", BF16, FP32)]
    assert [is_recoded(*case) for case in cases] == [False, True, False, False]
    for weight, widths in ((FP32, [(16, 32), (16, 32)]), (FP16, [(16, 16), (17, 17)]), (None, [(16, 16), (17, 17)])):
        units = [MxuConfig(2, 2, subnormals=mode, weight=weight) for mode in SUBNORMALS]
        assert [(unit.word_width, unit.weight_width) for unit in units] == widths, weight


@pytest.mark.parametrize(
    ("operand", "result", "terms", "form"),
    [
        slow("bf16", "fp32", 2, AREA),
        slow("bf16", "fp32", 4, AREA),
        ("fp8_e4m3", "fp32", 4, AREA),
        # Sums of 16 bits, as those of 32 bits with 8 terms: the longest shift leaves no top bit.
        ("bf16", "e8f9", 2, AREA),
        slow("bf16", "fp32", 8, AREA),
        slow("fp16", "fp32", 4, AREA),
        slow("tf32", "fp32", 2, AREA),
        slow("fp32", "fp32", 2, AREA),  # products are wider than the window
        slow("fp8_e5m2", "fp16", 4, AREA),
        slow("e8f1", "bf16", 8, AREA),
        slow("bf16", "fp32", 4, SPEED),
        ("bf16", "fp32", 2, FPGA),
        slow("fp16", "fp32", 2, SPEED),
        slow("e8f1", "bf16", 8, SPEED),
        slow("e8f1", "bf16", 8, FPGA),
    ],
)
def test_any_operands(operand: str, result: str, terms: int, form: str) -> None:
    c, a, b = drawn(operand, result, terms, 40_000, seed=terms)
    dut = DotProductAdd(FloatFormat.parse(operand), FloatFormat.parse(result), terms=terms)
    check_gates(dut, golden.dot_product_add(c, a, b, operand, result), *a.T, *b.T, c, form=form, fmt=result)


@pytest.mark.parametrize("result", ["e4f3", slow("e3f5")])
def test_all_operands_of_a_small_format(result: str) -> None:
    """All 2^16 operands of two terms, with as many sums as a second takes: 64 of them, those at the edges included."""
    words = np.arange(16, dtype=np.uint32)
    terms = np.stack(np.meshgrid(words, words, words, words), axis=-1).reshape(-1, 4)
    every = vectors.canonical(np.arange(1 << FloatFormat.parse(result).width), result)
    sums = np.unique(np.concatenate([vectors.canonical(vectors.corners(result), result), every]))
    add = on_gates(DotProductAdd(FloatFormat.parse("e2f1"), FloatFormat.parse(result), terms=2))
    for c in np.random.default_rng(1).permutation(sums)[:64]:
        expected = golden.dot_product_add(np.full(len(terms), c), terms[:, :2], terms[:, 2:], "e2f1", result)
        same_bits(add(*terms.T, int(c)), expected, *terms.T, fmt=result, operand="", note=f"{c:x}")


def test_small_integers() -> None:
    """Each term that is subtracted needs its + 1: -1 + 24 + 32 is 55, and was wrong on other silicon."""
    rng = np.random.default_rng(2)
    whole = rng.integers(-64, 65, size=(9, 20_000)).astype(np.float32)
    whole[:, 0] = [0, -1, 24, 32, 0, 1, 1, 1, 0]
    bits, totals = golden.to_bits(whole) >> 16, whole[0] + (whole[1:5] * whole[5:]).sum(axis=0)
    assert totals[0] == 55
    check_gates(DotProductAdd(BF16, terms=4), golden.to_bits(totals), *bits[1:], bits[0] << 16)


@pytest.mark.slow
@pytest.mark.parametrize("stages", range(1, 8))
def test_pipelines(stages: int) -> None:
    """The sum comes in when the products are there; a block of operands passes in each cycle."""
    dut = DotProductAdd(BF16, terms=2, stages=stages)
    c, a, b = drawn("bf16", "fp32", 2, 8 * BLOCK, seed=stages)
    later = (dut.latency - dut.addend_latency) * BLOCK
    none = np.zeros((later, 2), dtype=np.uint32)
    operands = *np.concatenate([a, none]).T, *np.concatenate([b, none]).T, np.concatenate([none[:, 0], c])
    got = on_gates(dut)(*operands)[: len(c)]
    same_bits(got, golden.dot_product_add(c, a, b), c, *a.T, *b.T, operand="", note=f"{stages} stages")


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
    got = Gates(gates(_Anticipates()), ["a", "b", "carry"])(
        *(each.astype(np.uint32) & ((1 << _WIDTH) - 1) for each in (a, b)), carry.astype(np.uint32)
    )
    significant = [int(total if total >= 0 else ~total).bit_length() for total in a + b + carry]
    zeros = _WIDTH - 1 - np.array(significant)
    assert set((zeros - got).tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("name", "subnormals"),
    [
        *each_once(["e3f2", "fp32"], SUBNORMALS),
        *(slow(*case) for case in product(("bf16", "fp8_e4m3", "fp8_e5m2"), SUBNORMALS)),
    ],
)
def test_adder_for_speed(name: str, subnormals: str) -> None:
    dut = Adder(FloatFormat.parse(name), subnormals=subnormals)
    a, b = vectors.pairs(name, 100_000, seed=1)
    check_gates(dut, golden.add(a, b, name, subnormals=subnormals), a, b, form=SPEED, fmt=name, operand=name)


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


# Products of operands in two formats

_HYBRID = [("fp8_e5m2", "fp8_e4m3"), ("fp8_e4m3", "fp8_e5m2")]
_WAYS = [("flush", False), ("ieee", False), ("ieee", True)]
"""The mode of subnormal numbers, and whether operands are recoded."""


def _check_products(names: tuple[str, str, str], way: tuple[str, bool], a: Bits, b: Bits) -> None:
    """Of formats of two operands and of the result."""
    operand, weight, result = map(FloatFormat.parse, names)
    subnormals, recoded = way
    dut = Multiplier(operand, result, weight=weight, subnormals=subnormals, recoded=recoded)
    expected = golden.multiply(a, b, names[0], names[2], weight=names[1], subnormals=subnormals)
    check_gates(dut, expected, a, b, fmt=names[2])


_THREE_FORMATS = [
    *((*pair, result) for pair in _HYBRID for result in ("fp32", "fp8_e4m3", "bf16")),
    ("e2f1", "e8f1", "fp16"),  # a zero times a number that is too large
    ("e8f3", "e3f2", "e4f3"),
    ("e2f4", "e2f4", "e2f4"),  # a zero times a zero, in one format, too: its exponent wraps
    ("e2f1", "e4f8", "e5f2"),  # subnormal operands alone have a subnormal product
]


@pytest.mark.parametrize(("names", "way"), each_once(_THREE_FORMATS, _WAYS), ids=repr)
def test_all_pairs(names: tuple[str, str, str], way: tuple[str, bool]) -> None:
    words = (np.arange(1 << FloatFormat.parse(name).width, dtype=np.uint32) for name in names[:2])
    _check_products(names, way, *map(np.ravel, np.meshgrid(*words)))


@pytest.mark.parametrize(
    ("names", "way"),
    [
        *each_once([("bf16", "fp8_e4m3"), ("fp16", "bf16"), ("tf32", "e2f1")], _WAYS),
        *(slow(*case) for case in product((("fp8_e5m2", "bf16"), ("tf32", "fp16")), _WAYS)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("form", [AREA, slow(SPEED)])
def test_two_formats(names: tuple[str, str], way: tuple[str, bool], form: str) -> None:
    """Products alone, then added."""
    a, b = _pairs(*names)
    _check_products((*names, "fp32"), way, a, b)
    (first, second), (subnormals, recoded) = map(FloatFormat.parse, names), way
    dut = MultiplyAdd(first, weight=second, subnormals=subnormals, recoded=recoded)
    assert dut.is_one_datapath
    _check_sums(dut, a, b, form)


@pytest.mark.parametrize("subnormals", ["flush", slow("ieee")])
def test_two_formats_whose_products_do_not_fit(subnormals: str) -> None:
    """fp32 x bf16: neither is recoded; a multiplier and an adder."""
    dut = MultiplyAdd(FP32, weight=BF16, subnormals=subnormals)
    assert not dut.is_one_datapath
    _check_sums(dut, *_pairs("fp32", "bf16"), AREA)


def _pairs(operand: str, weight: str) -> tuple[Bits, Bits]:
    """Operands of every sort, a half of whose products is near the middle of the range."""
    a, b = vectors.operands(operand, _COUNT, 1), vectors.operands(weight, _COUNT, 2)
    near = golden.convert(vectors.partners(operand, a, 3), operand, weight, subnormals="ieee")
    return a, np.where(np.arange(_COUNT) % 2, b, near).astype(np.uint32)


@pytest.mark.parametrize(
    ("operand", "weight", "terms"),
    [
        ("fp8_e5m2", "fp8_e4m3", 4),
        slow("fp8_e4m3", "fp8_e5m2", 4),
        slow("bf16", "fp8_e4m3", 2),
        slow("fp16", "bf16", 2),
        slow("tf32", "fp8_e5m2", 8),
    ],
)
def test_sums_of_two_formats(operand: str, weight: str, terms: int) -> None:
    """Any operands, terms that meet, and sums that they meet."""
    dut = DotProductAdd(FloatFormat.parse(operand), weight=FloatFormat.parse(weight), terms=terms)
    b = vectors.operands(weight, _COUNT * terms, 1).reshape(_COUNT, terms)
    alike = golden.convert(b, weight, operand, subnormals="ieee")
    any_words = vectors.operands(operand, _COUNT * terms, 2).reshape(_COUNT, terms)
    a = np.where(np.arange(_COUNT)[:, np.newaxis] % 3, vectors.matching(operand, alike, 3), any_words)
    totals = golden.dot_product_add(np.zeros(_COUNT, np.uint32), a, b, operand, weight=weight)
    partners = vectors.partners("fp32", totals, 4)
    c = vectors.canonical(np.where(np.arange(_COUNT) % 2, partners, vectors.operands("fp32", _COUNT, 5)))
    check_gates(dut, golden.dot_product_add(c, a, b, operand, weight=weight), *a.T, *b.T, c)


def test_names_and_widths_of_two_formats() -> None:
    """Equal components have equal names; proofs about bf16 are about no other format of weights."""
    for component, name in (
        (Multiplier(FP8_E5M2, FP32, weight=FP8_E4M3), "multiplier_fp8_e5m2_x_fp8_e4m3_fp32_flush_s0"),
        (Multiplier(BF16, FP32, weight=BF16), Multiplier(BF16, FP32).module_name),
        (MultiplyAdd(FP8_E4M3, weight=FP8_E5M2), "multiply_add_fp8_e4m3_x_fp8_e5m2_fp32_flush_s0"),
        (DotProductAdd(BF16, weight=FP16), "dot_product_add_bf16_x_fp16_fp32_flush_t4_s0"),
        (ProcessingElement(FP8_E5M2, weight=FP8_E4M3, terms=2), "pe_fp8_e5m2_x_fp8_e4m3_flush_t2_s1"),
        (SignificandProduct(3, 4), "significand_product_3x4"),
    ):
        assert component.module_name == name
    given = Multiplier(BF16, FP32, weight=BF16), Multiplier(BF16, FP32, weight=FP8_E4M3)
    assert [bool([*about(each)]) for each in (*given, ProcessingElement(BF16, weight=FP8_E4M3))] == [True, False, False]
    for formats in ((FP8_E5M2, FP16), (FP16, FP8_E5M2)):
        sides = [Multiplier(formats[0], FP32, weight=formats[1], subnormals="ieee", recoded=word) for word in (0, 1)]
        widths = [(len(dut.i_a), len(dut.i_b)) for dut in sides]
        expected = [tuple(fmt.width + extra for fmt in formats) for extra in (0, 1)]
        assert widths == expected
