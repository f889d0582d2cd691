"""Multiplication and addition against Berkeley SoftFloat, numpy and cases by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS
from openmxu_sim.golden.formats import Bits, is_nan
from openmxu_sim.operands.vectors import canonical, corners, pairs

from ...bits import same_bits
from .berkeley import flushed, softfloat
from .test_formats import OTHER_TYPES


def by_softfloat(fmt: str, operation: str, a: Bits, b: Bits) -> Bits:
    """Operate on patterns of fp32 or fp16 by SoftFloat; NaNs become the canonical one."""
    return canonical(softfloat(f"f{FORMATS[fmt].width}_{operation}", a, b), fmt)


def by_numpy(fmt: str, operation: str, a: Bits, b: Bits) -> Bits:
    """The same by numpy."""
    unsigned, floating = {"fp32": (np.uint32, np.float32), "fp16": (np.uint16, np.float16)}[fmt]
    x, y = (each.astype(unsigned).view(floating) for each in (a, b))
    with np.errstate(all="ignore"):
        return canonical((x + y if operation == "add" else x * y).view(unsigned), fmt)


def mixed(fmt: str, most: int | None, seed: int) -> tuple[Bits, Bits]:
    """Biased pairs, and every corner with every corner; not more than `most` of each."""
    edges = corners(fmt)
    both = np.array([np.repeat(edges, len(edges)), np.tile(edges, len(edges))])
    if most is not None and most < both.shape[1]:
        both = both[:, np.random.default_rng(seed).choice(both.shape[1], size=most, replace=False)]
    a, b = np.concatenate([pairs(fmt, most or 300_000, seed), both], axis=1)
    return a, b


def check_products(a: Bits, b: Bits, expected: Bits, operand: str, result: str, mode: str) -> None:
    """Compare products with those of an oracle."""
    got = golden.multiply(a, b, operand, result, subnormals=mode)
    same_bits(got, expected, a, b, fmt=result, operand=operand, note=mode)


ORACLES = pytest.mark.parametrize(("oracle", "most"), [(by_softfloat, 60_000), (by_numpy, None)])
Oracle = Callable[[str, str, Bits, Bits], Bits]


@ORACLES
@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_sums(fmt: str, oracle: Oracle, most: int | None) -> None:
    """Both modes. A sum below the smallest normal number is exact, so flushing it afterwards is right."""
    a, b = mixed(fmt, most, 40)
    theirs = oracle(fmt, "add", a, b)
    same_bits(golden.add(a, b, fmt, subnormals="ieee"), theirs, a, b, fmt=fmt, operand=fmt, note="ieee, seed 40")
    theirs = flushed(oracle(fmt, "add", flushed(a, fmt), flushed(b, fmt)), fmt)
    same_bits(golden.add(a, b, fmt), theirs, a, b, fmt=fmt, operand=fmt, note="flush, seed 40")


@ORACLES
@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_products_in_the_same_format(fmt: str, oracle: Oracle, most: int | None) -> None:
    """The ieee mode; flush mode decides on the exact product, which the oracles do not show."""
    a, b = mixed(fmt, most, 41)
    check_products(a, b, oracle(fmt, "mul", a, b), fmt, fmt, "ieee")


@ORACLES
def test_products_of_bf16(oracle: Oracle, most: int | None) -> None:
    """Both modes: the product of two bf16 numbers is exact below 2**-126 too, unless it is below 2**-149."""
    a, b = mixed("bf16", most, 42)
    wide = a << np.uint32(16), b << np.uint32(16)
    check_products(a, b, oracle("fp32", "mul", *wide), "bf16", "fp32", "ieee")
    theirs = oracle("fp32", "mul", *(flushed(each, "fp32") for each in wide))
    check_products(a, b, flushed(theirs, "fp32"), "bf16", "fp32", "flush")


@pytest.mark.parametrize("operand", ["fp16", "fp8_e5m2", "fp8_e4m3"])
def test_products_in_fp32_agree_with_numpy(operand: str) -> None:
    """The other operand formats of the unit, decoded by ml_dtypes and multiplied by numpy."""
    dtype = np.dtype(OTHER_TYPES[operand])
    a, b = mixed(operand, None, 44)
    with np.errstate(all="ignore"):
        x, y = (each.astype(f"u{dtype.itemsize}").view(dtype).astype(np.float32) for each in (a, b))
        expected = canonical((x * y).view(np.uint32), "fp32")
    check_products(a, b, expected, operand, "fp32", "ieee")


@pytest.mark.parametrize(
    ("operand", "result", "a", "b", "flush", "ieee"),
    [
        ("bf16", "fp32", 0x5F80, 0x5F80, 0x7F800000, 0x7F800000),  # 2**64 × 2**64
        ("bf16", "fp32", 0x5F80, 0xDF00, 0xFF000000, 0xFF000000),  # -(2**127)
        ("bf16", "fp32", 0x2000, 0x2000, 0x00800000, 0x00800000),  # 2**-63 × 2**-63
        ("bf16", "fp32", 0x2000, 0x1F80, 0x00000000, 0x00400000),
        ("bf16", "fp32", 0x2000, 0x9FFF, 0x80000000, 0x807F8000),
        ("bf16", "fp32", 0x1A80, 0x1A80, 0x00000000, 0x00000002),  # 2**-74 × 2**-74
        ("bf16", "fp32", 0x1A80, 0x1880, 0x00000000, 0x00000000),  # 2**-152: less than half of 2**-149
        ("bf16", "fp32", 0x1A80, 0x1980, 0x00000000, 0x00000000),  # 2**-150: a tie, down to even
        ("bf16", "fp32", 0x1A80, 0x1981, 0x00000000, 0x00000001),
        # Rounds up to the smallest normal number in ieee mode, is below it before rounding in flush mode.
        ("fp32", "fp32", 0x3F7FFFFF, 0x00800000, 0x00000000, 0x00800000),
        ("fp32", "fp32", 0xBF7FFFFF, 0x00800000, 0x80000000, 0x80800000),
        ("bf16", "bf16", 0x3F7F, 0x0080, 0x0000, 0x0080),
        ("fp16", "fp16", 0x3BFF, 0x0400, 0x0000, 0x0400),
        # E4M3 has no infinity.
        ("fp8_e4m3", "fp32", 0x7E, 0x7E, 0x48440000, 0x48440000),
        ("fp8_e4m3", "bf16", 0x7F, 0x38, 0x7FC0, 0x7FC0),
    ],
)
def test_multiply_by_hand(operand: str, result: str, *, a: int, b: int, flush: int, ieee: int) -> None:
    """Overflow, and underflow decided before rounding; in either order."""
    for mode, expected in (("flush", flush), ("ieee", ieee)):
        for x, y in ((a, b), (b, a)):
            assert golden.multiply(x, y, operand, result, subnormals=mode) == expected


@pytest.mark.parametrize(
    ("a", "b", "flush", "ieee"),
    [
        (0x3F800000, 0x33800000, 0x3F800000, 0x3F800000),  # 1 + 2**-24: a tie, down to even
        (0x3F800000, 0x33800001, 0x3F800001, 0x3F800001),
        (0x3F800001, 0x33800000, 0x3F800002, 0x3F800002),
        (0xBF800000, 0x33000000, 0xBF800000, 0xBF800000),  # 1 - 2**-25: a tie between binades
        (0xBF800000, 0x33000001, 0xBF7FFFFF, 0xBF7FFFFF),
        (0x7F7FFFFF, 0x73000000, 0x7F800000, 0x7F800000),  # half an ulp of the largest number
        (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF, 0x7F7FFFFF),
        (0x00400000, 0x00400000, 0x00000000, 0x00800000),  # subnormal operands
        # Near a tie no longer, but more bits than binary64 has.
        (0x3F800000, 0x30FFFFFF, 0x3F800000, 0x3F800000),
        (0x3F800000, 0xB0FFFFFF, 0x3F800000, 0x3F800000),
    ],
)
def test_add_by_hand(a: int, b: int, flush: int, ieee: int) -> None:
    """fp32, which is the default, in either order."""
    assert golden.add(a, b) == golden.add(b, a) == flush
    assert golden.add(a, b, "fp32", subnormals="ieee") == golden.add(b, a, subnormals="ieee") == ieee


def test_negative_zero_is_the_neutral_element() -> None:
    """What a padding row relies on: adding -0 changes no number, -0 included."""
    numbers = corners("fp32")
    numbers = numbers[~is_nan(numbers, FORMATS["fp32"])]
    assert np.array_equal(golden.add(numbers, 0x80000000, subnormals="ieee"), numbers)
    assert np.array_equal(golden.add(numbers, 0x80000000), flushed(numbers, "fp32"))
    assert golden.multiply(0x0000, 0x8000) == 0x80000000


def test_operands_broadcast() -> None:
    """As in numpy, scalars included."""
    column = np.array([[0x3F80], [0x4000]], dtype=np.uint16)
    row = np.array([0x3F80, 0x4000, 0x4040], dtype=np.uint32)
    assert golden.multiply(column, row).tolist() == [
        [0x3F800000, 0x40000000, 0x40400000],
        [0x40000000, 0x40800000, 0x40C00000],
    ]
    assert golden.add(row, 0, "bf16").tolist() == row.tolist()
    assert golden.add(0, 0).shape == ()
    assert golden.multiply(0x2000, 0x1F80) == golden.add(0x00800001, 0x80800000) == 0  # flush is the default
