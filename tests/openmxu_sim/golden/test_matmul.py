"""The matrix product: order of summation, tiles, edges, and what it does not depend on."""

import operator
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import from_bits, to_bits
from openmxu_sim.golden.formats import Bits
from openmxu_sim.golden.passes import split
from openmxu_sim.operands.vectors import canonical, matrix

from ...bits import same_bits
from .berkeley import flushed, softfloat

Floats = npt.NDArray[np.float32]

# As the contract has them: smallest products first, activations before weights.
ORDERS = {"default": "xx", "high": "rh hr hh", "highest": "mm hl lh hm mh hh", "exact9": "ll ml lm mm lh hl mh hm hh"}

# M, K, N, rows; with a ragged last tile, none, one tile shorter than the array; and more than is computed together.
SHAPES = [(1, 1, 1, 1), (4, 6, 3, 1), (5, 40, 4, 16), (5, 7, 4, 3), (3, 12, 5, 4), (6, 9, 2, 128)]
SHAPES += [(258, 2, 1, 1), (1, 2, 258, 1)]


def generated(m: int, k: int, n: int, seed: int) -> tuple[Floats, Floats]:
    return from_bits(matrix((m, k), "fp32", seed)), from_bits(matrix((n, k), "fp32", seed + 1).T)


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
    """Other operands than SoftFloat's, in all shapes; and narrow sums, in their own format, and converted."""
    m, k, n, rows = shape
    a, b = generated(m, k, n, 67)
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
    """Also where only one of both is narrow."""
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
    """All shapes, and one large enough for every sort of result."""
    a, b = generated(m, k, n, seed)
    expected = by_softfloat(to_bits(a), to_bits(b), rows, mode == "flush")
    same_bits(to_bits(golden.matmul(a, b, rows=rows, subnormals=mode)), expected, note=f"{rows=}, {mode}, {seed=}")


@pytest.mark.parametrize("shape", [(3, 0, 2), (0, 4, 2), (3, 4, 0), (0, 0, 0), (1 << 60, 0, 0), (0, 0, 1 << 60)])
def test_empty_dimensions(shape: tuple[int, int, int], mode: str) -> None:
    """K = 0 gives +0, M = 0 or N = 0 an empty array, however long the other is."""
    m, k, n = shape
    got = golden.matmul(np.ones((m, k), np.float32), np.ones((k, n), ml_dtypes.bfloat16), rows=4, subnormals=mode)
    assert (got.shape, got.dtype.name) == ((m, n), "float32")
    assert not to_bits(got).any()


def test_inputs_may_be_views_and_stay_as_they_are() -> None:
    a, b = generated(6, 8, 5, 68)
    strided, transposed = np.repeat(a, 2, axis=1)[:, ::2], np.array(b, order="F")
    strided.flags.writeable = False
    same_bits(golden.matmul(strided, transposed, rows=4), golden.matmul(a, b, rows=4))
    same_bits(transposed, b)


def test_bits_and_arrays_are_the_same_patterns() -> None:
    """No payload of a NaN is touched on the way, not even a signalling one's."""
    patterns = np.array([[0x7F800001, 0xFFABCDEF], [0x00000001, 0x80000000]], dtype=np.uint32)
    assert from_bits(patterns).dtype == np.float32
    assert to_bits(from_bits(patterns)).tolist() == patterns.tolist()
    narrow = np.array([0x7F81, 0x0001, 0xC000], dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert to_bits(narrow).tolist() == [0x7F810000, 0x00010000, 0xC0000000]
    assert to_bits(np.float32(-2.0)) == 0xC0000000


@pytest.mark.parametrize(("k", "rows"), [(1 << 20, 128), (70000, 1)])
def test_a_long_inner_dimension_takes_no_memory(k: int, rows: int) -> None:
    """Sums of ones are exact up to 2^24, whatever their order; and more tiles than are added up together."""
    a, b = np.ones((1, k), np.float32), np.ones((k, 1), np.float32)
    tracemalloc.start()
    try:
        result = golden.matmul(a, b, rows=rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.tolist() == [[k]]
    assert peak < 16 << 20
