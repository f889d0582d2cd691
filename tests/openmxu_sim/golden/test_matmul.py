"""The matrix product: order of summation, tiles, edges, and what it does not depend on."""

import tracemalloc
from collections.abc import Callable
from functools import partial

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
from .dots import DOTS, check_dot

Floats = npt.NDArray[np.float32]

MODES = pytest.mark.parametrize("mode", ["flush", "ieee"])

# As the contract has them: smallest products first, activations before weights.
ORDERS = {"default": "xx", "high": "rh hr hh", "highest": "mm hl lh hm mh hh", "exact9": "ll ml lm mm lh hl mh hm hh"}

SHAPES = [
    # M, K, N, rows
    (1, 1, 1, 1),
    (4, 6, 3, 1),
    (5, 7, 4, 3),  # a ragged last tile
    (3, 12, 5, 4),  # no ragged tile
    (6, 9, 2, 128),  # one tile, shorter than the array
    (5, 40, 4, 16),
    (258, 2, 1, 1),  # more than is computed together
    (1, 2, 258, 1),
]


def generated(m: int, k: int, n: int, seed: int) -> tuple[Floats, Floats]:
    """Two fp32 matrices with all sorts of patterns."""
    return from_bits(matrix((m, k), "fp32", seed)), from_bits(matrix((n, k), "fp32", seed + 1).T)


Operation = Callable[[Bits, Bits], Bits]


def steps(x: Bits, y: Bits, rows: int, multiply: Operation, add: Operation, total: Bits | None = None) -> Bits:
    """The contract's words as single operations on numbers, from tile to tile."""
    for start in range(0, len(y), rows):
        psum = np.zeros((len(x), y.shape[1]), np.uint32)
        for k in range(start, min(start + rows, len(y))):
            psum = add(psum, multiply(x[:, k, np.newaxis], y[k]))
        total = psum if total is None else add(total, psum)
    assert total is not None
    return total


def by_steps(a: Bits, b: Bits, rows: int, mode: str, operand: str, accumulate: str = "fp32") -> Bits:
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


@MODES
@pytest.mark.parametrize(("m", "k", "n", "rows"), SHAPES)
def test_agrees_with_single_steps(*, m: int, k: int, n: int, rows: int, mode: str) -> None:
    """All shapes; other operands than SoftFloat's."""
    a, b = generated(m, k, n, 60)
    for operand in ("fp8_e4m3", "fp32"):
        got = golden.matmul(a, b, rows=rows, subnormals=mode, operand=operand)
        expected = by_steps(to_bits(a), to_bits(b), rows, mode, operand)
        same_bits(got, from_bits(expected), note=f"{operand}, seed 60")


@MODES
@pytest.mark.parametrize("precision", ORDERS)
def test_several_passes_agree_with_single_steps(precision: str, mode: str) -> None:
    a, b = matrix((4, 7), "fp32", 3), matrix((3, 7), "fp32", 4).T
    operations = partial(golden.multiply, subnormals=mode), partial(golden.add, subnormals=mode)
    total: Bits | None = None
    for names in ORDERS[precision].split():
        if names == "hh" and total is not None:
            total = np.where(total & 0x7FFFFFFF > 0x7F800000, np.uint32(0), total)
        x, y = (split(bits, part, subnormals=mode) for bits, part in zip((a, b), names, strict=True))
        total = steps(x, y, 3, *operations, total)
    got = golden.matmul(from_bits(a), from_bits(b), rows=3, precision=precision, subnormals=mode)
    assert total is not None
    same_bits(to_bits(got), total, note=f"{precision}, {mode}")


@MODES
@pytest.mark.parametrize("accumulate", ["bf16", "fp16", "fp8_e4m3", "e8f22", "e2f1"])
@pytest.mark.parametrize("operand", ["bf16", "fp8_e4m3", "fp32"])
def test_narrow_sums_agree_with_single_steps(operand: str, accumulate: str, mode: str) -> None:
    """In their own format, and converted."""
    a, b = generated(6, 9, 7, 67)
    expected = by_steps(to_bits(a), to_bits(b), 4, mode, operand, accumulate)
    for result in ("fp32", "bf16", accumulate):
        got = golden.matmul(a, b, rows=4, subnormals=mode, operand=operand, accumulate=accumulate, result=result)
        converted = canonical(golden.convert(expected, accumulate, result, subnormals=mode), result)
        same_bits(got, golden.to_array(converted, result), note=f"{result}, seed 67")


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e5m2"])
def test_narrow_sums_agree_with_numpy(name: str) -> None:
    """Its types have gradual underflow; ml_dtypes' round fp32 numbers, which is innocuous in so few bits."""
    dtype = golden.DTYPES[name]
    for seed, scale in ((1, 1.0), (2, 2.0**-12), (3, 2.0**7)):
        a, b = (
            (np.random.default_rng(seed + more).standard_normal(shape) * scale).astype(dtype)
            for more, shape in ((0, (9, 12)), (100, (12, 8)))
        )
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            tiles = []
            for start in range(0, 12, 5):
                psum = np.zeros((9, 8), dtype)
                for k in range(start, min(start + 5, 12)):
                    psum = psum + a[:, k : k + 1] * b[k]
                tiles.append(psum)
            total = tiles[0] + tiles[1] + tiles[2]
        assert total.dtype == dtype
        got = golden.matmul(a, b, rows=5, subnormals="ieee", operand=name, accumulate=name, result=name)
        right = golden.to_array(canonical(total.view(f"u{dtype.itemsize}"), name), name)
        same_bits(got, right, note=f"{name}, {seed}")


def test_a_sum_of_e4m3_that_is_too_large_is_the_one_nan() -> None:
    a, b = np.full((1, 3), 448, np.float32), np.float32([[-1], [-1], [1]])
    options = {"operand": "fp8_e4m3", "accumulate": "fp8_e4m3"}
    assert to_bits(golden.matmul(a, b, rows=3, **options)).tolist() == [[0x7FC00000]]
    got = golden.matmul(a, b, rows=3, result="fp8_e4m3", **options)
    assert got.view(np.uint8).tolist() == [[0x7F]]


@MODES
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


@MODES
@np.errstate(all="raise")  # nothing underflows or overflows in binary64, whatever the caller's settings
@pytest.mark.parametrize(("m", "k", "n", "rows"), [*SHAPES, (32, 100, 32, 32)])
@pytest.mark.parametrize("seed", [61, 63])
def test_agrees_with_softfloat(*, m: int, k: int, n: int, rows: int, mode: str, seed: int) -> None:
    """All shapes, and one large enough for every sort of result."""
    a, b = generated(m, k, n, seed)
    got = golden.matmul(a, b, rows=rows, subnormals=mode)
    same_bits(
        to_bits(got), by_softfloat(to_bits(a), to_bits(b), rows, mode == "flush"), note=f"{rows=}, {mode}, {seed=}"
    )


@MODES
@pytest.mark.parametrize("name", DOTS)
def test_dot_products(name: str, mode: str) -> None:
    check_dot(golden.matmul, name, mode)


@MODES
def test_padding_with_minus_zero_products_changes_nothing(mode: str) -> None:
    """What hardware feeds to missing rows: activation +0, weight -0. No sum may notice."""
    a, b = generated(7, 5, 6, 64)
    flushed_a = np.array([[1.5 * 2.0**-126, -1.75 * 2.0**-126, 0, 0, 0]], dtype=np.float32)
    a = np.vstack([a, flushed_a * [1, 1, -0.0, -0.0, -0.0]]).astype(np.float32)
    padded_a = np.hstack([a, np.zeros((8, 3), dtype=np.float32)])
    padded_b = np.vstack([b, np.full((3, 6), -0.0, dtype=np.float32)])
    plain = golden.matmul(a, b, rows=8, subnormals=mode)
    padded = golden.matmul(padded_a, padded_b, rows=8, subnormals=mode)
    same_bits(padded, plain)


@MODES
def test_empty_dimensions(mode: str) -> None:
    """K = 0 gives +0, M = 0 or N = 0 an empty array."""
    for m, k, n in ((3, 0, 2), (0, 4, 2), (3, 4, 0), (0, 0, 0)):
        a = np.ones((m, k), dtype=np.float32)
        b = np.ones((k, n), dtype=ml_dtypes.bfloat16)
        got = golden.matmul(a, b, rows=4, subnormals=mode)
        assert got.shape == (m, n)
        assert got.dtype == np.float32
        assert not to_bits(got).any()


def test_inputs_may_be_views_and_stay_as_they_are() -> None:
    """Transposed, strided and read-only arrays."""
    a, b = generated(6, 8, 5, 68)
    expected = to_bits(golden.matmul(a, b, rows=4))
    strided = np.repeat(a, 2, axis=1)[:, ::2]
    transposed = np.asfortranarray(b)
    strided.flags.writeable = False
    before = to_bits(transposed).copy()
    same_bits(to_bits(golden.matmul(strided, transposed, rows=4)), expected)
    same_bits(to_bits(transposed), before)


def test_bits_and_arrays_are_the_same_patterns() -> None:
    """No payload of a NaN is touched on the way, not even a signalling one's."""
    patterns = np.array([[0x7F800001, 0xFFABCDEF], [0x00000001, 0x80000000]], dtype=np.uint32)
    assert from_bits(patterns).dtype == np.float32
    assert to_bits(from_bits(patterns)).tolist() == patterns.tolist()
    narrow = np.array([0x7F81, 0x0001, 0xC000], dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert to_bits(narrow).tolist() == [0x7F810000, 0x00010000, 0xC0000000]
    assert to_bits(np.float32(-2.0)) == 0xC0000000


def test_a_long_inner_dimension_takes_no_memory() -> None:
    """Sums of ones are exact up to 2^24, whatever their order."""
    k = 1 << 20
    a, b = np.ones((1, k), np.float32), np.ones((k, 1), np.float32)
    tracemalloc.start()
    try:
        result = golden.matmul(a, b, rows=128)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.tolist() == [[k]]
    assert peak < 16 << 20


def test_more_tiles_than_are_added_up_together() -> None:
    a, b = np.ones((1, 70000), np.float32), np.ones((70000, 1), np.float32)
    assert golden.matmul(a, b, rows=1).tolist() == [[70000]]


def test_empty_matrices_may_have_any_length() -> None:
    a, b = np.zeros((1 << 60, 0), np.float32), np.zeros((0, 1 << 60), np.float32)
    assert golden.matmul(a, b[:, :0], rows=2).shape == (1 << 60, 0)
    assert golden.matmul(a[:0], b, rows=2).shape == (0, 1 << 60)
    assert golden.matmul(a.T[:, :0], a[:0].T[:0], rows=2).shape == (0, 0)
