"""The matrix product: order of summation, tiles, passes, edges, and what it does not depend on."""

import operator
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.golden import from_bits, to_bits
from openmxu_sim.golden.formats import FORMATS, Bits, decode
from openmxu_sim.golden.passes import PASSES, split
from openmxu_sim.operands.vectors import canonical, corners, matrix, operands

from ...bits import matrices, same_bits
from ...conftest import slow
from .berkeley import flushed, softfloat

# As the contract has them: smallest products first, activations before weights.
ORDERS = {"default": "xx", "high": "rh hr hh", "highest": "mm hl lh hm mh hh", "exact9": "ll ml lm mm lh hl mh hm hh"}

# M, K, N, rows; with a ragged last tile, none, one tile shorter than the array; and more than is computed together.
SHAPES = [(1, 1, 1, 1), (4, 6, 3, 1), (5, 40, 4, 16), (5, 7, 4, 3), (3, 12, 5, 4), (6, 9, 2, 128)]
SHAPES += [(258, 2, 1, 1), (1, 2, 258, 1)]


Operation = Callable[[Any, Any], Any]


def steps(x: Any, y: Any, rows: int, multiply: Operation, add: Operation, total: Any = None) -> Any:
    """The contract's words as single operations on numbers, from tile to tile."""
    for start in range(0, len(y), rows):
        psum = np.zeros((len(x), y.shape[1]), x.dtype)
        for k in range(start, min(start + rows, len(y))):
            psum = add(psum, multiply(x[:, k, np.newaxis], y[k]))
        total = psum if total is None else add(total, psum)
    return total


def by_steps(a: Bits, b: Bits, rows: int, mode: str, operand: str, accumulate: str) -> Bits:
    """By the golden model's own operations; patterns of ``accumulate``."""
    x, y = (golden.convert(bits, "fp32", operand, subnormals=mode) for bits in (a, b))
    multiply = partial(golden.multiply, operand=operand, result=accumulate, subnormals=mode)
    return canonical(steps(x, y, rows, multiply, partial(golden.add, fmt=accumulate, subnormals=mode)), accumulate)


def by_softfloat(a: Bits, b: Bits, rows: int, flush: bool) -> Bits:
    """For bf16 operands, by SoftFloat and nothing of the model."""

    def checked(bits: Bits) -> Bits:
        return canonical(flushed(bits) if flush else bits)

    x, y = (checked(softfloat("f32_to_bf16", checked(bits)) << np.uint32(16)) for bits in (a, b))
    multiply, add = (lambda p, q, name=name: checked(softfloat(name, p, q)) for name in ("f32_mul", "f32_add"))
    return steps(x, y, rows, multiply, add)


SUMS = [
    *product([*SHAPES, (6, 9, 7, 4)], ["fp8_e4m3", "fp32"], ["fp32"]),
    *product([(6, 9, 7, 4)], ["bf16", "fp8_e4m3", "fp32"], ["bf16", "fp16", "fp8_e4m3", "e8f22", "e2f1"]),
]


@pytest.mark.parametrize(("shape", "operand", "accumulate"), SUMS)
def test_agrees_with_single_steps(shape: tuple[int, ...], operand: str, accumulate: str, mode: str) -> None:
    m, k, n, rows = shape
    a, b = matrices(m, k, n, 67)
    expected = by_steps(to_bits(a), to_bits(b), rows, mode, operand, accumulate)
    for result in {"fp32", "bf16", accumulate}:
        got = golden.matmul(a, b, rows=rows, subnormals=mode, operand=operand, accumulate=accumulate, result=result)
        converted = canonical(golden.convert(expected, accumulate, result, subnormals=mode), result)
        same_bits(got, golden.to_array(converted, result), note=f"{result}, seed 67")


@pytest.mark.parametrize("precision", ORDERS)
def test_several_passes_agree_with_single_steps(precision: str, mode: str) -> None:
    a, b = matrix((4, 7), "fp32", 3), matrix((3, 7), "fp32", 4).T
    operations = partial(golden.multiply, subnormals=mode), partial(golden.add, subnormals=mode)
    total: Any = None
    for names in ORDERS[precision].split():
        if names == "hh" and total is not None:
            total = np.where(total & 0x7FFFFFFF > 0x7F800000, np.uint32(0), total)
        x, y = (split(bits, part, subnormals=mode) for bits, part in zip((a, b), names, strict=True))
        total = steps(x, y, 3, *operations, total)
    got = golden.matmul(from_bits(a), from_bits(b), rows=3, precision=precision, subnormals=mode)
    same_bits(to_bits(got), total, note=f"{precision}, {mode}")


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e5m2"])
def test_narrow_sums_agree_with_numpy(name: str) -> None:
    """Its types have gradual underflow; ml_dtypes' round fp32 numbers, which is innocuous in so few bits."""
    dtype = golden.DTYPES[name]
    for seed, scale in ((1, 1.0), (2, 2.0**-12), (3, 2.0**7)):
        normal = np.random.default_rng(seed).standard_normal
        a, b = ((normal(shape) * scale).astype(dtype) for shape in ((9, 12), (12, 8)))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            total = steps(a, b, 5, operator.mul, operator.add)
        assert total.dtype == dtype
        got = golden.matmul(a, b, rows=5, subnormals="ieee", operand=name, accumulate=name, result=name)
        right = golden.to_array(canonical(total.view(f"u{dtype.itemsize}"), name), name)
        same_bits(got, right, note=f"{name}, {seed}")


@pytest.mark.parametrize("name", golden.DTYPES)
def test_arrays_of_other_types_count_as_their_widened_selves(name: str, mode: str) -> None:
    patterns = matrix((6, 7), name, 3), matrix((5, 7), name, 4).T
    a, b = (golden.to_array(each, name) for each in patterns)
    wide_a, wide_b = (golden.from_bits(golden.convert(each, name, "fp32", subnormals="ieee")) for each in patterns)
    assert {a.dtype, b.dtype} == {golden.DTYPES[name]}
    expected = golden.matmul(wide_a, wide_b, rows=3, subnormals=mode, operand=name)
    for left, right in ((a, b), (a, wide_b), (wide_a, b)):
        same_bits(golden.matmul(left, right, rows=3, subnormals=mode, operand=name), expected)


@np.errstate(all="raise")  # nothing underflows or overflows in binary64, whatever the caller's settings
@pytest.mark.parametrize(("m", "k", "n", "rows"), [*SHAPES, (32, 100, 32, 32)])
@pytest.mark.parametrize("seed", [61, 63])
def test_agrees_with_softfloat(*, m: int, k: int, n: int, rows: int, mode: str, seed: int) -> None:
    a, b = matrices(m, k, n, seed)
    expected = by_softfloat(to_bits(a), to_bits(b), rows, mode == "flush")
    same_bits(to_bits(golden.matmul(a, b, rows=rows, subnormals=mode)), expected, note=f"{rows=}, {mode}, {seed=}")


@pytest.mark.parametrize("matmul", [golden.matmul, model.matmul], ids=["golden", "model"])
@pytest.mark.parametrize("shape", [(3, 0, 2), (0, 4, 2), (3, 4, 0), (0, 0, 0), (1 << 60, 0, 0), (0, 0, 1 << 60)])
def test_empty_dimensions(shape: tuple[int, int, int], matmul: Callable[..., Any], mode: str) -> None:
    """K = 0 gives +0, M = 0 or N = 0 an empty array, however long the other is."""
    m, k, n = shape
    got = matmul(np.ones((m, k), np.float32), np.ones((k, n), ml_dtypes.bfloat16), rows=4, subnormals=mode)
    same_bits(got, np.zeros((m, n), np.float32))


def test_bits_and_arrays_are_the_same_patterns() -> None:
    """No payload of a NaN is touched on the way, not even a signalling one's."""
    patterns = np.array([[0x7F800001, 0xFFABCDEF], [0x00000001, 0x80000000]], dtype=np.uint32)
    assert from_bits(patterns).dtype == np.float32
    assert to_bits(from_bits(patterns)).tolist() == patterns.tolist()
    narrow = np.array([0x7F81, 0x0001, 0xC000], dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert to_bits(narrow).tolist() == [0x7F810000, 0x00010000, 0xC0000000]
    assert to_bits(np.float32(-2.0)) == 0xC0000000


@pytest.mark.parametrize(("m", "k", "rows"), [(1, 1 << 20, 128), (16, 5000, 1), slow(1, 70000, 1)])
def test_a_long_inner_dimension_takes_no_memory(m: int, k: int, rows: int) -> None:
    """Sums of ones are exact up to 2^24, whatever their order; and more tiles than are added up together."""
    a, b = np.ones((m, k), np.float32), np.ones((k, 1), np.float32)
    tracemalloc.start()
    try:
        result = golden.matmul(a, b, rows=rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.tolist() == [[k]] * m
    assert peak < 16 << 20


# Dot products whose results say in which order there was added, where rounded and where flushed


INF, NAN = np.inf, np.nan
T = 2.0**-24  # half of the last place of 1
TINY, LAST = 2.0**-126, 2.0**-149  # the smallest normal and the smallest subnormal number
ODD, JUST = 1 + 2.0**-7, 2 - 2.0**-7
LARGE = JUST * 2.0**127  # the largest bf16 number
TO_MINUS_ZERO = [TINY, -1.5 * TINY]  # a sum that is flushed
QUARTERS = [2.0**-75] * 4
BELOW = golden.from_bits(0x007F8000)  # would round up to the smallest normal bf16 number
SIGNALLING = golden.from_bits([0xFF800001, 0x3F800000])

DOTS: dict[str, tuple[Any, list[Any], int, float, float]] = {
    # activations, weights, rows, result in flush mode, in ieee mode
    "1 first": ([1, 1, 1], [1, T, T], 3, 1, 1),
    "1 last": ([1, 1, 1], [T, T, 1], 3, 1 + 2 * T, 1 + 2 * T),
    "1 and half of the rest first": ([1, 1, 1], [1, T, T], 2, 1, 1),
    "1 in the middle": ([1, 1, 1], [T, 1, T], 1, 1, 1),
    "1 in a tile of its own": ([1, 1, 1, 1], [1, 0, T, T], 2, 1 + 2 * T, 1 + 2 * T),
    "1 in the same tile": ([1, 1, 1, 1], [1, 0, T, T], 4, 1, 1),
    # Products are rounded before they are added: one that overflows or is flushed cannot be brought back.
    "a product too large beside -2^127": ([-(2.0**127), 2.0**64], [1, 2.0**64], 128, INF, INF),
    "a product that just overflows": ([-(2.0**63), JUST * 2.0**63], [JUST * 2.0**64] * 2, 128, INF, INF),
    "products too large of both signs": ([2.0**64] * 2, [2.0**64, -(2.0**64)], 128, NAN, NAN),
    "two products flushed": ([TINY, 2.0**-63, 2.0**-63], [1, 2.0**-64, 2.0**-64], 3, TINY, 2 * TINY),
    "two halves flushed": ([TINY, 0.5, 0.5], [1, TINY, TINY], 128, TINY, 2 * TINY),
    "a flushed product lifts no sum": ([*TO_MINUS_ZERO, 0.5], [1, 1, -TINY], 128, -0.0, -TINY),
    "8320.5 and 16641": ([ODD * 2.0**-67, ODD * 2.0**-68], [ODD * 2.0**-68] * 2, 128, 0, 24961 * LAST),
    "a tie below the last place": ([2.0**-75], [2.0**-75], 128, 0, 0),
    "above a tie": ([2.0**-75], [ODD * 2.0**-75], 128, 0, LAST),
    "a tie up to even": ([3 * 2.0**-75], [2.0**-75], 128, 0, 2 * LAST),
    "three last places and a tie": (QUARTERS, [2.0**-74] * 3 + [2.0**-75], 128, 0, 3 * LAST),
    # A sum of -0 can only come from flushing: the first tile is taken, as adding it to +0 would lose the sign.
    "flushed to -0": (TO_MINUS_ZERO, [1, 1], 128, -0.0, -TINY / 2),
    "flushed to -0 in tiles": (TO_MINUS_ZERO, [1, 1], 1, -0.0, -TINY / 2),
    "flushed to -0, then +0": ([*TO_MINUS_ZERO, 1], [1, 1, 0], 128, 0, -TINY / 2),
    "flushed to -0, then a product of -0": ([*TO_MINUS_ZERO, TINY], [1, 1, -0.5], 128, -0.0, -TINY),
    "flushed to -0 twice": (TO_MINUS_ZERO * 2, [1] * 4, 2, -0.0, -TINY),
    "flushed to -0, then a tile of -0": ([*TO_MINUS_ZERO, TINY], [1, 1, -0.5], 2, 0, -TINY),
    "only -0, as a column starts from +0": ([-0.0, -0.0], [1, 1], 2, 0, 0),
    "only -0 in tiles": ([-0.0, -0.0], [1, 1], 1, 0, 0),
    "a sum too large": ([LARGE] * 2, [1, 1], 128, INF, INF),
    "a sum too large of tiles": ([LARGE] * 2, [1, 1], 1, INF, INF),
    "a sum too large stays so": ([LARGE, LARGE, -LARGE], [1] * 3, 128, INF, INF),
    "sums too large of both signs": ([LARGE, LARGE, -LARGE, -LARGE], [1] * 4, 2, NAN, NAN),
    "infinity and 0": ([INF, 0], [1, 1], 128, INF, INF),
    "infinity times 0": ([INF], [0], 128, NAN, NAN),
    "infinity times a subnormal number": ([INF], [2.0**-130], 1, NAN, INF),
    "a NaN with a sign and a payload": (SIGNALLING, [1, 1], 2, NAN, NAN),
    "such a NaN in tiles": (SIGNALLING, [1, 1], 1, NAN, NAN),
    # Operands are flushed before they are rounded.
    "an activation that rounds up": ([BELOW], [2.0**100], 1, 0, 2.0**-26),
    "a weight that rounds up": ([2.0**100], [BELOW], 1, 0, 2.0**-26),
}


@pytest.mark.parametrize("matmul", [golden.matmul, model.matmul], ids=["golden", "model"])
@pytest.mark.parametrize("name", DOTS)
def test_dot_products(name: str, matmul: Callable[..., Any], mode: str) -> None:
    a, b, rows, flush, ieee = DOTS[name]
    got = matmul(np.float32([a]), np.float32(b)[:, np.newaxis], rows=rows, subnormals=mode)
    same_bits(got, np.float32([[flush if mode == "flush" else ieee]]), note=name)


# Parts of numbers against SoftFloat, and sums of several passes that say how accurate they are


def parts_of(bits: Bits, flush: bool) -> dict[str, Bits]:
    sign = bits & np.uint32(0x80000000)
    numbers = flushed(bits) if flush else bits

    def narrow(words: Bits) -> Bits:
        kept = softfloat("f32_to_bf16", flushed(words) if flush else words)
        return kept & np.uint32(0x7FFF) | sign >> np.uint32(16)

    high = numbers & np.uint32(0xFFFF0000)
    rest = softfloat("f32_sub", numbers, high)
    middle = rest & np.uint32(0xFFFF0000)
    parts = {"x": numbers, "h": high, "r": rest, "m": middle, "l": softfloat("f32_sub", rest, middle)}
    special = bits & 0x7FFFFFFF >= 0x7F800000
    quiet = bits >> 16 | np.where(bits & 0x007FFFFF, np.uint32(0x40), np.uint32(0))
    return {
        name: np.where(special, quiet if name in "xh" else np.uint32(0x7FC0), narrow(words))
        for name, words in parts.items()
    }


def test_parts(mode: str) -> None:
    ranges = np.arange(0x00000000, 0x00001000, 7), np.arange(0x007FF000, 0x04000000, 0x3E11D)
    bits = np.concatenate([corners("fp32"), operands("fp32", 4000, 1), *ranges]).astype(np.uint32)
    bits = np.concatenate([bits, bits ^ np.uint32(0x80000000)])
    for part, expected in parts_of(bits, mode == "flush").items():
        same_bits(split(bits, part, subnormals=mode), expected, bits, fmt="bf16", note=f"{part}, {mode}")


def test_three_parts_are_the_whole_number() -> None:
    """Down to where the lowest part is no normal number any more."""
    bits = operands("fp32", 20000, 2)
    values = decode(bits, FORMATS["fp32"])
    bits = bits[np.isfinite(values) & (np.abs(values) >= 2.0**-102)]
    parts = [from_bits(split(bits, part, subnormals="flush"), "bf16").astype(np.float64) for part in "hml"]
    np.testing.assert_array_equal(sum(parts), from_bits(bits).astype(np.float64))


def test_each_precision_is_better_than_the_one_before() -> None:
    """Largest error, against binary64, in units of the largest sum of magnitudes."""
    generator = np.random.default_rng(5)
    a, b = (generator.normal(size=shape).astype(np.float32) for shape in ((16, 128), (128, 16)))
    exact, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    errors = {each: np.max(np.abs(golden.matmul(a, b, rows=128, precision=each) - exact) / size) for each in PASSES}
    assert errors["default"] > 2.0**-11
    assert errors["high"] < 2.0**-16 < errors["default"]
    assert errors["highest"] < 2.0**-20 < errors["high"]
    assert errors["exact9"] < 2.0**-20


@pytest.mark.parametrize("precision", ["high", "highest", "exact9"])
def test_infinite_and_large_operands(precision: str) -> None:
    """The low passes turn NaN and are forgotten; a large number does not become infinite as in one pass."""
    large = from_bits([0x7F7F8000])[0]  # half-way between the largest bf16 number and 2^128
    a = np.float32([[np.inf, 1], [np.inf, -np.inf], [np.inf, 0], [np.nan, 1], [large, 0]])
    got = golden.matmul(a, np.float32([[2], [3]]), rows=2, precision=precision)[:, 0]
    same_bits(got, np.float32([np.inf, np.nan, np.inf, np.nan, np.inf]))
    ones = np.float32([[1], [1]])
    assert golden.matmul(a, ones, rows=2, precision=precision)[4, 0] == large
    assert golden.matmul(a, ones, rows=2)[4, 0] == np.inf
