"""Decoding, encoding, conversion and arithmetic of the golden model's formats against other people's."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import Bits, Format, decode, encode, is_nan
from openmxu_sim.operands.vectors import canonical, corners, operands, pairs

from ...bits import same_bits
from .berkeley import flushed, softfloat

# Those small enough to decode every pattern, and who else knows them.
OTHER_TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp8_e5m2": ml_dtypes.float8_e5m2}
OTHER_TYPES |= {"fp8_e4m3": ml_dtypes.float8_e4m3fn, "e4f3": ml_dtypes.float8_e4m3, "e3f4": ml_dtypes.float8_e3m4}
TYPES = {name: np.dtype(dtype) for name, dtype in (OTHER_TYPES | {"fp32": np.float32}).items()}


def drawn(fmt: Format, seed: int) -> Bits:
    """All patterns; of wide formats uniform ones, of which a third has an exponent of zeros and a third one of ones."""
    if fmt.width <= 19:
        return np.arange(1 << fmt.width, dtype=np.uint32)
    patterns = np.random.default_rng(seed).integers(1 << fmt.width, size=200_000).astype(np.uint32)
    patterns[::3] &= ~np.uint32(fmt.exponent_mask)
    patterns[1::3] |= np.uint32(fmt.exponent_mask)
    return patterns


@pytest.mark.parametrize("name", TYPES)
def test_decodes_every_pattern_as_others_do(name: str) -> None:
    fmt, dtype = find_format(name), TYPES[name]
    limits = ml_dtypes.finfo(dtype)
    assert (fmt.width, fmt.min_normal, fmt.max_finite) == (limits.bits, limits.smallest_normal, limits.max)
    patterns = drawn(fmt, 20)
    with np.errstate(invalid="ignore"):  # casting a signalling NaN
        theirs = patterns.astype(f"u{dtype.itemsize}").view(dtype).astype(np.float64)
    ours = decode(patterns, fmt)
    numbers = ~np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), ~numbers)
    assert np.array_equal(is_nan(patterns, fmt), ~numbers)
    # As patterns, so that -0 is not +0.
    assert np.array_equal(ours[numbers].view(np.uint64), theirs[numbers].view(np.uint64))


@pytest.mark.parametrize("name", [*FORMATS, "e2f1", "e2f23", "e3f2", "e5f7", "e6f9", "e8f1"])
def test_encode_undoes_decode(name: str) -> None:
    fmt = find_format(name)
    patterns = drawn(fmt, 21)
    expected = np.where(is_nan(patterns, fmt), np.uint32(fmt.canonical_nan), patterns)
    assert np.array_equal(encode(decode(patterns, fmt), fmt), expected)


def sources(seed: int) -> Bits:
    """fp32 patterns: every bf16 number and every fp16 number with a few bits more, corners, and a biased mix."""
    upper = np.arange(1 << 16, dtype=np.uint32)[:, np.newaxis] << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    near_halves = halves[:, np.newaxis] | np.array([0, 1, 0xFFF, 0x1000, 0x1001], dtype=np.uint32)
    grids = (upper | lower).ravel(), near_halves.ravel()
    return np.concatenate([*grids, corners("fp32"), operands("fp32", 300_000, seed)])


@pytest.mark.parametrize(
    ("source", "target"), [*(("fp32", name) for name in OTHER_TYPES), *((name, "fp32") for name in OTHER_TYPES)]
)
def test_ieee_mode_agrees_with_casts(source: str, target: str) -> None:
    """All that is no NaN, infinities and overflow included, as numpy and ml_dtypes cast it."""
    fmt, dtype = find_format(source), TYPES[source]
    bits = sources(30) if source == "fp32" else np.arange(1 << fmt.width, dtype=np.uint32)
    bits = bits[~is_nan(bits, fmt)]
    with np.errstate(over="ignore", under="ignore"):
        expected = bits.astype(f"u{dtype.itemsize}").view(dtype).astype(TYPES[target])
    got = golden.convert(bits, source, target, subnormals="ieee")
    same_bits(got, expected.view(f"u{expected.itemsize}"), bits, fmt=target, operand=source, note="seed 30")


@pytest.mark.parametrize("target", OTHER_TYPES)
def test_flush_mode_differs_below_the_smallest_normal_number_only(target: str) -> None:
    """Flush mode by comparing values: too small ones are zeros, all others as in ieee mode."""
    bits = sources(31)
    fmt = find_format(target)
    magnitudes = np.abs(decode(bits, FORMATS["fp32"]))
    small = magnitudes < max(fmt.min_normal, FORMATS["fp32"].min_normal)
    signs = np.where(bits >> 31 == 1, np.uint32(fmt.sign_bit), np.uint32(0))
    expected = np.where(small, signs, golden.convert(bits, "fp32", target, subnormals="ieee"))
    got = golden.convert(bits, "fp32", target, subnormals="flush")
    same_bits(got, expected, bits, fmt=target, note="seed 31")


def test_shapes_and_types_of_patterns() -> None:
    for dtype in (np.uint16, np.uint32, np.uint64, np.int32, np.int64):
        bits = np.array([[0x3F80, 0x4000, 0x0001]], dtype=dtype)
        same_bits(golden.convert(bits, "bf16", "fp32"), np.uint32([[0x3F800000, 0x40000000, 0]]))
        assert bits.tolist() == [[0x3F80, 0x4000, 0x0001]]
    assert golden.convert(0x3F800000).shape == ()
    assert golden.convert([0x3F818000, 0x007F8000]).tolist() == [0x3F82, 0]  # to bf16 and flushed
    assert golden.convert(np.zeros((0, 3), dtype=np.uint32)).shape == (0, 3)


# Multiplication and addition against Berkeley SoftFloat and numpy


def by_softfloat(fmt: str, operation: str, a: Bits, b: Bits) -> Bits:
    """Operate on patterns of fp32 or fp16 by SoftFloat; NaNs become the canonical one."""
    return canonical(softfloat(f"f{FORMATS[fmt].width}_{operation}", a, b), fmt)


def by_numpy(fmt: str, operation: str, a: Bits, b: Bits, result: str = "") -> Bits:
    """The same by numpy, after ml_dtypes has decoded what numpy does not have."""
    dtype, wide = TYPES[fmt], TYPES[result or fmt]
    x, y = (each.astype(f"u{dtype.itemsize}").view(dtype) for each in (a, b))
    with np.errstate(all="ignore"):
        x, y = x.astype(wide), y.astype(wide)
        return canonical((x + y if operation == "add" else x * y).view(f"u{wide.itemsize}"), result or fmt)


def mixed(fmt: str, most: int | None, seed: int) -> tuple[Bits, Bits]:
    """Biased pairs, and every corner with every corner; not more than `most` of each."""
    edges = corners(fmt)
    both = np.array([np.repeat(edges, len(edges)), np.tile(edges, len(edges))])
    if most is not None and most < both.shape[1]:
        both = both[:, np.random.default_rng(seed).choice(both.shape[1], size=most, replace=False)]
    a, b = np.concatenate([pairs(fmt, most or 300_000, seed), both], axis=1)
    return a, b


def check_products(a: Bits, b: Bits, expected: Bits, operand: str, result: str, mode: str) -> None:
    got = golden.multiply(a, b, operand, result, subnormals=mode)
    same_bits(got, expected, a, b, fmt=result, operand=operand, note=mode)


ORACLES = pytest.mark.parametrize(("oracle", "most"), [(by_softfloat, 60_000), (by_numpy, None)])
Oracle = Callable[[str, str, Bits, Bits], Bits]


@ORACLES
@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_sums_and_products_in_the_same_format(fmt: str, oracle: Oracle, most: int | None) -> None:
    """Sums in both modes: one below the smallest normal number is exact, so flushing it afterwards is right.

    Products in the ieee mode: flush mode decides on the exact product, which the oracles do not show.
    """
    a, b = mixed(fmt, most, 40)
    theirs = oracle(fmt, "add", a, b)
    same_bits(golden.add(a, b, fmt, subnormals="ieee"), theirs, a, b, fmt=fmt, operand=fmt, note="ieee, seed 40")
    theirs = flushed(oracle(fmt, "add", flushed(a, fmt), flushed(b, fmt)), fmt)
    same_bits(golden.add(a, b, fmt), theirs, a, b, fmt=fmt, operand=fmt, note="flush, seed 40")
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
    a, b = mixed(operand, None, 44)
    check_products(a, b, by_numpy(operand, "mul", a, b, "fp32"), operand, "fp32", "ieee")


def test_operands_broadcast() -> None:
    column, row = np.uint16([[0x3F80], [0x4000]]), np.uint32([0x3F80, 0x4000, 0x4040])
    products = [[0x3F800000, 0x40000000, 0x40400000], [0x40000000, 0x40800000, 0x40C00000]]
    assert golden.multiply(column, row).tolist() == products
    assert golden.add(row, 0, "bf16").tolist() == row.tolist()
    assert golden.add(0, 0).shape == ()
    assert golden.multiply(0x2000, 0x1F80) == golden.add(0x00800001, 0x80800000) == 0  # flush is the default
