"""The matrix product: order of summation, tiles, edges, and what it does not depend on."""

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import softfloatpy as softfloat

from openmxu_sim import golden
from openmxu_sim.golden import from_bits, to_bits
from openmxu_sim.operands.vectors import canonical, matrix

from ...bits import same_bits

Bits = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

MODES = pytest.mark.parametrize("mode", ["flush", "ieee"])
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


def by_scalars(a: Bits, b: Bits, rows: int, mode: str, operand: str, accumulate: str = "fp32") -> Bits:
    """The contract's words as loops over single numbers; patterns of ``accumulate``."""
    m, inner = a.shape
    n = b.shape[1]
    x = golden.convert(a, "fp32", operand, subnormals=mode)
    y = golden.convert(b, "fp32", operand, subnormals=mode)
    results = np.zeros((m, n), dtype=np.uint32)
    for i in range(m):
        for j in range(n):
            tiles: list[npt.ArrayLike] = []
            for start in range(0, inner, rows):
                psum: npt.ArrayLike = 0
                for k in range(start, min(start + rows, inner)):
                    product = golden.multiply(x[i, k], y[k, j], operand, accumulate, subnormals=mode)
                    psum = golden.add(psum, product, accumulate, subnormals=mode)
                tiles.append(psum)
            total = tiles[0]
            for tile in tiles[1:]:
                total = golden.add(total, tile, accumulate, subnormals=mode)
            results[i, j] = total
    return canonical(results, accumulate)


def by_softfloat(a: Bits, b: Bits, rows: int, flush: bool) -> Bits:
    """The same for bf16 operands, by SoftFloat and nothing of the model."""

    def canonical(pattern: int) -> int:
        if flush and pattern & 0x7F800000 == 0:
            return pattern & 0x80000000
        return 0x7FC00000 if pattern & 0x7FFFFFFF > 0x7F800000 else pattern

    def single(pattern: int) -> Any:
        return softfloat.Float32.from_bytes(canonical(pattern).to_bytes(4, "big"))

    def operand(pattern: int) -> Any:
        narrow = softfloat.f32_to_bf16(single(pattern)).to_bytes()
        return single(int.from_bytes(narrow, "big") << 16)

    def checked(result: Any) -> Any:
        return single(int.from_bytes(result.to_bytes(), "big"))

    results = np.zeros((a.shape[0], b.shape[1]), dtype=np.uint32)
    for i, row in enumerate(a.tolist()):
        x = [operand(each) for each in row]
        for j, column in enumerate(b.T.tolist()):
            y = [operand(each) for each in column]
            tiles = []
            for start in range(0, len(row), rows):
                psum = single(0)
                for left, right in zip(x[start : start + rows], y[start : start + rows], strict=True):
                    psum = checked(softfloat.f32_add(psum, checked(softfloat.f32_mul(left, right))))
                tiles.append(psum)
            total = tiles[0]
            for tile in tiles[1:]:
                total = checked(softfloat.f32_add(total, tile))
            results[i, j] = int.from_bytes(total.to_bytes(), "big")
    return results


@MODES
@pytest.mark.parametrize(("m", "k", "n", "rows"), SHAPES)
def test_agrees_with_a_loop_over_scalars(*, m: int, k: int, n: int, rows: int, mode: str) -> None:
    """All shapes, for the default operand and for two others."""
    a, b = generated(m, k, n, 60)
    for operand in ("bf16", "fp8_e4m3", "fp32"):
        got = golden.matmul(a, b, rows=rows, subnormals=mode, operand=operand)
        expected = by_scalars(to_bits(a), to_bits(b), rows, mode, operand)
        same_bits(got, from_bits(expected), note=f"{operand}, seed 60")


@MODES
@pytest.mark.parametrize("accumulate", ["bf16", "fp16", "fp8_e4m3", "e8f22", "e2f1"])
@pytest.mark.parametrize("operand", ["bf16", "fp8_e4m3", "fp32"])
def test_narrow_sums_agree_with_a_loop_over_scalars(operand: str, accumulate: str, mode: str) -> None:
    """In their own format, and converted."""
    a, b = generated(6, 9, 7, 67)
    expected = by_scalars(to_bits(a), to_bits(b), 4, mode, operand, accumulate)
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
    patterns = matrix((6, 7), name, 3), matrix((5, 7), name, 4).T
    narrow = [golden.to_array(each, name) for each in patterns]
    wide = [golden.from_bits(golden.convert(each, name, "fp32", subnormals="ieee")) for each in patterns]
    assert {each.dtype for each in narrow} == {golden.DTYPES[name]}
    same_bits(*(golden.matmul(*each, rows=3, subnormals=mode, operand=name) for each in (narrow, wide)))


@MODES
@pytest.mark.parametrize(("m", "k", "n", "rows"), [*SHAPES, (32, 100, 32, 32)])
@pytest.mark.parametrize("seed", [61, 63])
def test_agrees_with_softfloat(*, m: int, k: int, n: int, rows: int, mode: str, seed: int) -> None:
    """All shapes, and one large enough for every sort of result."""
    a, b = generated(m, k, n, seed)
    got = golden.matmul(a, b, rows=rows, subnormals=mode)
    same_bits(
        to_bits(got), by_softfloat(to_bits(a), to_bits(b), rows, mode == "flush"), note=f"{rows=}, {mode}, {seed=}"
    )


def test_order_and_tiles_matter() -> None:
    """Where 1 + 2**-24 + 2**-24 is cut decides whether the small terms survive."""
    a = np.ones((1, 3), dtype=np.float32)
    b = np.array([[1.0], [2.0**-24], [2.0**-24]], dtype=np.float32)
    assert golden.matmul(a, b, rows=3) == 1.0
    assert golden.matmul(a, b[::-1], rows=3) == np.float32(1 + 2**-23)
    assert golden.matmul(a, b, rows=2) == 1.0  # (1 + tiny) + tiny
    assert golden.matmul(a, b[[1, 0, 2]], rows=1) == 1.0  # ((tiny + 1) + tiny)
    four = np.array([[1.0], [0.0], [2.0**-24], [2.0**-24]], dtype=np.float32)
    assert golden.matmul(np.ones((1, 4), dtype=np.float32), four, rows=2) == np.float32(1 + 2**-23)
    assert golden.matmul(np.ones((1, 4), dtype=np.float32), four, rows=4) == 1.0


def test_products_are_rounded_before_they_are_added() -> None:
    """Not fused: a product that overflows or is flushed does so before the sum could bring it back."""
    large = np.array([[-(2.0**127), 2.0**64]], dtype=np.float32)
    assert golden.matmul(large, np.array([[1.0], [2.0**64]], dtype=np.float32), rows=2) == np.inf
    small = np.array([[2.0**-126, 2.0**-63, 2.0**-63]], dtype=np.float32)
    by = np.array([[1.0], [2.0**-64], [2.0**-64]], dtype=np.float32)
    assert golden.matmul(small, by, rows=3) == np.float32(2.0**-126)
    assert golden.matmul(small, by, rows=3, subnormals="ieee") == np.float32(2.0**-125)


def test_the_first_tile_is_taken_and_a_flushed_minus_zero_stays() -> None:
    """A psum of -0 can only come from flushing; adding it to +0 would lose the sign."""
    a = np.array([[1.5 * 2.0**-126, -1.75 * 2.0**-126]], dtype=np.float32)
    b = np.ones((2, 1), dtype=np.float32)
    assert to_bits(golden.matmul(a, b, rows=2)).tolist() == [[0x80000000]]
    assert to_bits(golden.matmul(a, b, rows=2, subnormals="ieee")).tolist() == [[0x80200000]]
    # Two such tiles: (-0) + (-0).
    both = golden.matmul(np.hstack([a, a]), np.ones((4, 1), dtype=np.float32), rows=2)
    assert to_bits(both).tolist() == [[0x80000000]]
    # And -0 from a flushed sum, then a product of +0 in the same column.
    then_zero = golden.matmul(
        np.hstack([a, np.zeros((1, 1), dtype=np.float32)]), np.ones((3, 1), dtype=np.float32), rows=3
    )
    assert to_bits(then_zero).tolist() == [[0]]


@MODES
def test_a_column_starts_from_plus_zero(mode: str) -> None:
    """Products of -0 alone sum to +0."""
    minus_zero = np.full((1, 2), -0.0, dtype=np.float32)
    ones = np.ones((2, 1), dtype=np.float32)
    assert to_bits(golden.matmul(minus_zero, ones, rows=2, subnormals=mode)).tolist() == [[0]]
    assert to_bits(golden.matmul(minus_zero, ones, rows=1, subnormals=mode)).tolist() == [[0]]


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
def test_results_do_not_depend_on_other_rows_and_columns(mode: str) -> None:
    """Each result is a matter of its own row and column."""
    a, b = generated(11, 20, 13, 65)
    whole = to_bits(golden.matmul(a, b, rows=8, subnormals=mode))
    part = to_bits(golden.matmul(a[2::3], b[:, 1::4], rows=8, subnormals=mode))
    same_bits(part, whole[2::3, 1::4])


@MODES
def test_bfloat16_counts_as_its_widened_self(mode: str) -> None:
    """All patterns, subnormal numbers and NaNs among them; mixed dtypes too."""
    a = matrix((6, 10), "bf16", 66).astype(np.uint16).view(ml_dtypes.bfloat16)
    b = matrix((10, 5), "bf16", 67).astype(np.uint16).view(ml_dtypes.bfloat16)
    a.view(np.uint16)[0, :3] = [0x7F81, 0x0001, 0x8040]
    wide_a, wide_b = (from_bits(each.view(np.uint16).astype(np.uint32) << 16) for each in (a, b))
    expected = to_bits(golden.matmul(wide_a, wide_b, rows=4, subnormals=mode))
    for left, right in ((a, b), (a, wide_b), (wide_a, b)):
        same_bits(to_bits(golden.matmul(left, right, rows=4, subnormals=mode)), expected)


def test_bfloat16_subnormal_numbers_flush() -> None:
    """2**-130 is a bf16 number; flush mode takes it for zero, also times infinity."""
    tiny = np.array([[0x0008]], dtype=np.uint16).view(ml_dtypes.bfloat16)
    huge = np.array([[2.0**100]], dtype=np.float32)
    assert to_bits(golden.matmul(tiny, huge, rows=1)).tolist() == [[0]]
    assert golden.matmul(tiny, huge, rows=1, subnormals="ieee") == np.float32(2.0**-30)
    infinite = np.array([[np.inf]], dtype=np.float32)
    assert to_bits(golden.matmul(tiny, infinite, rows=1)).tolist() == [[0x7FC00000]]


def test_operands_flush_before_they_round() -> None:
    """007F8000 would round up to the smallest normal bf16 number; on either side it is zero."""
    below = from_bits([[0x007F8000]])
    huge = np.array([[2.0**100]], dtype=np.float32)
    for left, right in ((below, huge), (huge, below)):
        assert to_bits(golden.matmul(left, right, rows=1)).tolist() == [[0]]
        assert golden.matmul(left, right, rows=1, subnormals="ieee") == np.float32(2.0**-26)


def test_nans_are_canonical() -> None:
    """Whatever sign and payload came in, through one tile or several."""
    a = from_bits([[0xFF800001, 0x3F800000]])
    b = np.ones((2, 2), dtype=np.float32)
    for rows in (1, 2):
        assert to_bits(golden.matmul(a, b, rows=rows)).tolist() == [[0x7FC00000, 0x7FC00000]]


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


@pytest.mark.parametrize("rows", [0, -1])
def test_rows_below_one(rows: int) -> None:
    """An array has at least one row."""
    with pytest.raises(ValueError, match=rf"^rows must be an integer >= 1, not {rows}$"):
        golden.matmul(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), rows=rows)


def test_rows_is_no_integer() -> None:
    """Neither is 2.0."""
    with pytest.raises(TypeError, match=r"^rows must be an integer >= 1, not 2\.0$"):
        golden.matmul(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), rows=2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((2, 3), (4, 5)), ((3,), (3, 2)), ((2, 3), (3,)), ((1, 2, 3), (3, 2)), ((), ())]
)
def test_shapes_do_not_match(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    """The message has both shapes."""
    with pytest.raises(ValueError, match=r"^a and b must have shapes \(M, K\) and \(K, N\), not ") as info:
        golden.matmul(np.ones(a_shape, np.float32), np.ones(b_shape, np.float32), rows=1)
    assert str(info.value).endswith(f"not {a_shape} and {b_shape}")


@pytest.mark.parametrize("dtype", ["f8", "i4", "c8", ">f4", "U4", ml_dtypes.float8_e5m2fnuz])
def test_other_dtypes(dtype: Any) -> None:
    """Nothing is cast silently."""
    good, bad = np.ones((1, 1), np.float32), np.ones((1, 1), dtype)
    with pytest.raises(
        TypeError,
        match=rf"^a must be an array of float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, not {bad.dtype}$",
    ):
        golden.matmul(bad, good, rows=1)
    with pytest.raises(
        TypeError,
        match=rf"^b must be an array of float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, not {bad.dtype}$",
    ):
        golden.matmul(good, bad, rows=1)
    with pytest.raises(
        TypeError,
        match=rf"^array must be an array of float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, not {bad.dtype}$",
    ):
        to_bits(bad)


def test_other_messages() -> None:
    """Mode and format, and patterns that are wider than fp32."""
    one = np.ones((1, 1), np.float32)
    with pytest.raises(ValueError, match=r"^subnormals must be 'flush' or 'ieee', not 'x'$"):
        golden.matmul(one, one, rows=1, subnormals="x")
    with pytest.raises(ValueError, match=r"^operand must be one of .*, not 'fp64'$"):
        golden.matmul(one, one, rows=1, operand="fp64")
    for parameter in ("accumulate", "result"):
        with pytest.raises(ValueError, match=rf"^{parameter} must be one of .*, not 'fp64'$"):
            golden.matmul(one, one, rows=1, **{parameter: "fp64"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^precision must be 'default' for sums in bf16, not 'high'$"):
        golden.matmul(one, one, rows=1, precision="high", accumulate="bf16")
    with pytest.raises(ValueError, match=r"^bits must be patterns of 32 bits \(fp32\), not 0x100000000$"):
        from_bits(1 << 32)


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


@pytest.mark.parametrize(
    "masked", [np.ma.masked_equal(np.ones((2, 2), np.float32), 0), [np.ma.masked_equal(np.ones(2, np.float32), 1)] * 2]
)
def test_masks_are_not_lost(masked: Any) -> None:
    ones = np.ones((2, 2), np.float32)
    for parameter, operands in (("a", (masked, ones)), ("b", (ones, masked))):
        with pytest.raises(TypeError, match=f"^{parameter} must be an array without a mask, not a masked array: "):
            golden.matmul(*operands, rows=2)
    with pytest.raises(TypeError, match=r"^bits must be an array without a mask"):
        golden.convert(np.ma.masked_equal([1, 2], 1), "fp32", "bf16")


def test_more_tiles_than_are_added_up_together() -> None:
    a, b = np.ones((1, 70000), np.float32), np.ones((70000, 1), np.float32)
    assert golden.matmul(a, b, rows=1).tolist() == [[70000]]


def test_empty_matrices_may_have_any_length() -> None:
    a, b = np.zeros((1 << 60, 0), np.float32), np.zeros((0, 1 << 60), np.float32)
    assert golden.matmul(a, b[:, :0], rows=2).shape == (1 << 60, 0)
    assert golden.matmul(a[:0], b, rows=2).shape == (0, 1 << 60)
    assert golden.matmul(a.T[:, :0], a[:0].T[:0], rows=2).shape == (0, 0)
