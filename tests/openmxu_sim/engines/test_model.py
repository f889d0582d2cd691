"""The model against the definition, bit for bit."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.engines.model.placed import Side, placed_products
from openmxu_sim.engines.model.try_kernel import CASES
from openmxu_sim.operands import vectors

from ...bits import matrices, same_bits
from ...conftest import slow, thorough
from .runs import placed_by_golden


def _check(a: npt.ArrayLike, b: npt.ArrayLike, *, note: str = "", **options: Any) -> None:
    same_bits(model.matmul(a, b, **options), golden.matmul(a, b, **options), note=f"{options} {note}")


SHAPES = [(1, 1, 1), (5, 9, 7), (4, 128, 128), (3, 260, 129), (6, 131, 257), (259, 5, 3)]
RANDOM = np.random.default_rng(0).integers(1, [40, 200, 300, 70], (12, 4)).tolist()


@pytest.mark.parametrize("kind", ["all", "uniform", "normal"])
@pytest.mark.parametrize(
    ("shape", "rows"), [*product(SHAPES, [1, 3, 128, 1 << 80]), *((tuple(shape), rows) for *shape, rows in RANDOM)]
)
def test_biased_and_uniform_patterns(shape: tuple[int, int, int], rows: int, kind: str, mode: str) -> None:
    # From seeds with which a first tile leaves -0, too.
    _check(*matrices(*shape, sum(shape) + 4, kind), rows=rows, subnormals=mode)


def test_corners_times_and_plus_corners(mode: str) -> None:
    values = golden.from_bits(vectors.corners("bf16") << np.uint32(16))
    ones = np.ones_like(values)
    _check(values[:, np.newaxis], values[np.newaxis, :], rows=1, subnormals=mode)
    for rows in (1, 2):
        _check(np.stack([values, ones], axis=1), np.stack([ones, values]), rows=rows, subnormals=mode)


@pytest.mark.parametrize(
    ("precision", "rows"),
    [("high", 1000), ("highest", 1), ("exact9", 1000), slow("high", 1), slow("highest", 1000), slow("exact9", 1)],
)
def test_corners_in_parts(rows: int, precision: str, mode: str) -> None:
    """Alone, times the largest powers of two, so that the smallest parts are seen, and in sums."""
    values = golden.from_bits(np.concatenate([vectors.corners("fp32"), vectors.operands("fp32", 2000, seed=3)]))
    scales = np.ldexp(np.float32(1), [0, 24, 96, 127]).astype(np.float32)
    for a, b in (
        (values[:, np.newaxis], scales[np.newaxis, :]),
        (scales[:, np.newaxis], values[np.newaxis, :]),
        (values[: len(values) // 8 * 8].reshape(-1, 8), np.ones((8, 3), np.float32)),
    ):
        for result in ("fp32", "bf16"):
            _check(a, b, rows=rows, precision=precision, subnormals=mode, result=result)


@pytest.mark.parametrize("repeat", [1, slow(20000)])
def test_nans_of_one_pass_stay_until_the_last(repeat: int) -> None:
    """Two tiles whose sums overflow in the fourth pass; a third one that the fifth would add to."""
    large, odd = 2.0**62 * (1 + 127 / 128 + 255 / 2**15), -(2.0**62) * (1 + 127 / 128)
    weights = np.array([large, odd] * 1024 + [-large, -odd] * 1024 + [1], np.float32)
    activations = np.array([2.0**64] * 4096 + [1 + 2.0**-9], np.float32)
    a, b = np.tile(activations, (repeat, 1)), weights[:, np.newaxis]
    options = {"rows": 2048, "precision": "highest"}
    right = golden.matmul(a[:1], b, **options)
    assert right.tolist() == [[1.0]]
    same_bits(model.matmul(a, b, **options), np.tile(right, (repeat, 1)))


def test_a_large_result_is_rounded_once() -> None:
    a, b = matrices(600, 300, 200, 5, "normal")
    _check(a, b, rows=128, precision="high", result="bf16")


def test_conversion(mode: str) -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    lower = np.uint32([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    patterns = [(upper[:, np.newaxis] | lower).ravel(), vectors.corners("fp32"), vectors.operands("fp32", 50_000, 1)]
    column = golden.from_bits(np.concatenate(patterns))[:, np.newaxis]
    _check(column, np.float32([[1.0]]), rows=1, subnormals=mode)
    _check(np.float32([[1.0]]), column.T, rows=1, subnormals=mode)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("fields", [141, 142, 143])
def test_smallest_exponents_that_need_no_flushing(fields: int, negative: bool) -> None:
    """One binade below the limit a sum can be subnormal, at the limit it cannot: 142 is for a last place of 2^-126.

    (1 + 1/128)² - (1 + 1/64) is 2^-14, the last place of a product; the third product, 1, shows whether it is there.
    """
    sign = -1 if negative else 1
    expected = sign * (2.0 ** (fields - 254) + (2.0 ** (fields - 268) if fields >= 142 else 0.0))
    for left in range(1, fields):
        a = np.float32([[1 + 2.0**-7, -1 - 2.0**-6, 1]]) * np.float32(sign * 2.0 ** (left - 127))
        b = np.float32([[1 + 2.0**-7], [1], [1]]) * np.float32(2.0 ** (fields - left - 127))
        _check(a, b, rows=3, subnormals="flush", note=f"{left}, {fields}")
        assert model.matmul(a, b, rows=3).tolist() == [[expected]], (left, fields)
        _check(a, b, rows=3, subnormals="ieee")


@pytest.mark.parametrize("mode", ["flush", slow("ieee")])
@pytest.mark.parametrize("accumulate", ["fp8_e4m3", "fp8_e5m2", "fp16", slow("bf16"), slow("e8f10"), "e8f11"])
def test_narrow_sums_at_the_ends_of_their_range(accumulate: str, mode: str) -> None:
    """Sums that grow until they are too large, and differences that are just not subnormal, seen by a third product."""
    fmt = golden.find_format(accumulate)
    many = 1 << min(fmt.fraction_width + 2, 9)
    step = 2.0**-fmt.fraction_width
    least, most = fmt.min_exponent - 4, fmt.max_exponent + 2
    for exponent in sorted({*range(least, min(least + 16, most)), *range(max(most - 16, least), most)}):
        left = np.float32(2.0 ** (exponent // 2)), np.float32(2.0 ** (exponent - exponent // 2))
        growing = np.full((1, many), np.float32(1.9375) * left[0]), np.full((many, 1), left[1])
        cancelling = np.float32([[1 + step, -1, 1]]) * left[0], np.full((3, 1), left[1])
        for a, b in (growing, cancelling):
            options = {"subnormals": mode, "operand": "tf32", "accumulate": accumulate}
            _check(a, b, rows=a.shape[1], **options, note=f"2^{exponent}")


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        *(((np.inf, 1), (1, 1), {}), ((1, 1), (np.inf, 1), {}), ((1, 1), (1, -np.inf), {})),
        # 1 + 2^-11 and just less than half a last place: fp32 would make a half of it, and that a whole.
        ((1 + 2.0**-11, 2.0**-12 - 2.0**-24), (1, 1), {"operand": "e8f11", "accumulate": "e8f11"}),
        # A product that rounding lifts to the smallest normal number, where flushing comes first.
        ((1 - 2.0**-24,), (2.0**-126,), {"operand": "fp32", "accumulate": "fp32"}),
        # The difference of two products that were rounded is below 2^-126: a third one shows whether it is there.
        *(
            ((scale * (1 + 2.0**-23), -scale, scale), 3 * (2.0**-54,), {"operand": "fp32", "accumulate": "fp32"})
            for scale in (2.0**exponent for exponent in range(-74, -46))
        ),
    ],
)
def test_special_sums(a: Any, b: Any, options: dict[str, str], mode: str) -> None:
    given = {"accumulate": "bf16"} | options
    _check(np.float32([a]), np.float32(b)[:, np.newaxis], rows=len(a), subnormals=mode, **given)


def test_smallest_exponents_are_found_wherever_they_are() -> None:
    """One product that has to be flushed, at the edges of all that the kernel takes together, in a single tile."""
    m, k, n = 6, 140, 130
    tiny = np.float32(1.0078125 * 2.0**-63), np.float32(1.0078125 * 2.0**-64)
    for row, step, column in product(range(m), (0, 2, 3, 126, 127, 128, 139), (0, 127, 128, 129)):
        a, b = np.zeros((m, k), np.float32), np.zeros((k, n), np.float32)
        a[row, step], b[step, column] = tiny
        # Where it is not flushed, so that the result tells.
        a[row - 1, step - 1], b[step - 1, column - 1] = 1, 1
        result = model.matmul(a, b, rows=k)
        assert result[row - 1, column - 1] == 1
        assert np.argwhere(result).tolist() == [[(row - 1) % m, (column - 1) % n]], (row, step, column)
        assert model.matmul(a, b, rows=k, subnormals="ieee")[row, column] == tiny[0] * tiny[1]


def test_bfloat16_operands(mode: str) -> None:
    a = vectors.matrix((7, 40), "bf16", 1).astype(np.uint16).view(ml_dtypes.bfloat16)
    b = vectors.matrix((33, 40), "bf16", 2).T.astype(np.uint16).view(ml_dtypes.bfloat16)
    _check(a, b, rows=16, subnormals=mode)
    _check(a, b.astype(np.float32), rows=16, subnormals=mode)
    every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    _check(every[:, np.newaxis], np.ones((1, 1), ml_dtypes.bfloat16), rows=1, subnormals=mode)


_OTHERS = [f"e{2 + seed % 7}f{1 + seed * 7 % 23}" for seed in range(20)]
FORMATS = [*golden.FORMATS, "e6f9", *map(slow, _OTHERS[:7]), *map(thorough, _OTHERS[7:])]


@pytest.mark.parametrize("operand", FORMATS)
def test_operand_formats(operand: str, mode: str) -> None:
    """Sums in fp32; all patterns, and numbers in the middle of a format, where the kernel takes its fastest steps."""
    for kind, scale in (("all", 0), ("normal", 0), ("normal", -63), ("uniform", 0)):
        options = {"subnormals": mode, "operand": operand, "note": f"{kind}, {scale}"}
        _check(*matrices(40, 40, 70, scale + 100, kind, scale), rows=16, **options)


@pytest.mark.parametrize("accumulate", FORMATS)
def test_sum_formats(accumulate: str, mode: str) -> None:
    for operand, result in (("bf16", "fp32"), ("fp8_e4m3", "bf16"), ("fp32", accumulate), (accumulate, accumulate)):
        options = {"operand": operand, "accumulate": accumulate, "result": result, "subnormals": mode}
        for kind, scale in (("all", 0), ("normal", 0), ("normal", 4), ("normal", -20)):
            _check(*matrices(14, 23, 37, scale + 50, kind, scale), rows=9, **options, note=f"{kind}, {scale}")


@pytest.mark.parametrize(
    ("precision", "size"),
    [
        *(("default", size) for size in ((70, 32, 40, 33), (2, 130, 130, 260))),
        *product(("default", "high", "highest"), ((3, 5, 7, 9), (3, 1, 200, 1))),
    ],
)
def test_several_products(precision: str, size: tuple[int, int, int, int]) -> None:
    count, m, k, n = size
    a = np.stack([vectors.matrix((m, k), "fp32", seed) for seed in range(count)])
    b = np.stack([vectors.matrix((n, k), "fp32", 500 + seed) for seed in range(count)])
    options = {"rows": 16, "precision": precision}
    for left, right in (
        (a, b.swapaxes(1, 2)),
        (a, np.broadcast_to(b[0].T, (count, k, n))),
        (np.broadcast_to(a[0], (count, m, k)), b.swapaxes(1, 2)),
        (np.asfortranarray(a), np.ascontiguousarray(b.swapaxes(1, 2))[::-1]),
    ):
        bits = [golden.matmul(*map(golden.from_bits, pair), **options) for pair in zip(left, right, strict=True)]
        for threads in (1, 2):
            told: list[int] = []
            found = model.products(
                left, right, **options, threads=threads, progress=lambda done, _, told=told: told.append(done)
            )
            for values, expected in zip(found, bits, strict=True):
                same_bits(values, expected)
            assert told == sorted(told)
            assert told[-1] == count * m


def test_any_layout_in_memory() -> None:
    """For the definition, too; operands stay as they are."""
    a, b = matrices(7, 40, 33, 3)
    frozen = a.copy()
    frozen.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + a.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(a.shape)
    assert not unaligned.flags.aligned
    backwards = a[::-1, ::-1].copy()[::-1, ::-1]
    for layout in (np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], backwards, frozen, unaligned):
        for matmul in (golden.matmul, model.matmul):
            same_bits(matmul(layout, b, rows=16), matmul(a, b, rows=16))
            same_bits(matmul(b.T, layout.T, rows=16), matmul(b.T, a.T, rows=16))
        same_bits(layout, a)


def test_threads_and_progress() -> None:
    a, b = matrices(520, 600, 300, 5)
    expected = model.matmul(a, b, rows=8, threads=1)
    seen: list[tuple[int, int]] = []
    same_bits(model.matmul(a, b, rows=8, threads=3, progress=lambda *rows: seen.append(rows)), expected)
    assert seen == [(min(108 * part, 520), 520) for part in range(1, 6)]
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(model.matmul, a, b, rows=8) for _ in range(8)]
    for each in results:
        same_bits(each.result(), expected)


# Products of operands that lie anywhere


def _increasing(count: int, step: int, run: int) -> Any:
    """Offsets in runs of neighbours, of which every other one has a gap behind it."""
    numbers = np.arange(count, dtype=np.int64)
    return numbers * step + numbers // run * (run > 1) * 3


def _side(rows: Any, ks: Any, kind: str, seed: int, groups: int, *, along_k: bool) -> Side:
    step = int(rows[-1] + ks[-1]) + 3
    array = golden.from_bits(vectors.matrix((groups, step), "fp32", seed, kind=kind))
    return Side(array, rows, ks, step, along_k=along_k)


def _check_places(a: Side, b: Side, out: Side, groups: int, **options: Any) -> None:
    expected = replace(out, array=out.array.copy())
    placed_by_golden(a, b, expected, groups, **options)
    placed_products(a, b, out, groups, **options)
    same_bits(out.array, expected.array)


@pytest.mark.parametrize("run", [1, 4, 7, 16])
@pytest.mark.parametrize("along_k", [False, True])
@pytest.mark.parametrize("size", [(1, 9, 40), (3, 1, 5), (13, 30, 33), (25, 140, 300)])
def test_any_places(size: tuple[int, int, int], along_k: bool, run: int) -> None:
    """Rows, k and columns: fewer than a vector has, some more, several panels and blocks of k."""
    m, k, n = size
    k_step, column_step = (1, k + 5) if along_k else (n + n // run * 3 + 7, 1)
    for kind in ("all", "normal"):
        a = _side(_increasing(m, 2 * k + 9, 1), _increasing(k, 1, run), kind, 1, 2, along_k=True)
        b = _side(_increasing(n, column_step, run), _increasing(k, k_step, run), kind, 2, 2, along_k=along_k)
        array = np.zeros((2, 3 * m * (n + n // run * 3 + 1)), np.float32)
        at = _increasing(m, 2 * n + 3 * (n // run), 1)
        _check_places(a, b, Side(array, at, _increasing(n, 1, run), array.shape[1], along_k=False), 2, rows=8)


@pytest.mark.parametrize(("mode", "case"), CASES)
@pytest.mark.parametrize("kind", ["all", "normal"])
def test_any_numerics(kind: str, mode: str, case: dict[str, Any]) -> None:
    a = _side(_increasing(14, 31, 1), _increasing(21, 1, 5), kind, 1, 1, along_k=True)
    b = _side(_increasing(37, 1, 4), _increasing(21, 70, 1), kind, 2, 1, along_k=False)
    out = Side(np.zeros(14 * 37, np.float32), _increasing(14, 37, 1), _increasing(37, 1, 1), 0, along_k=False)
    _check_places(a, b, out, 1, rows=4, subnormals=mode, **case)


def test_results_are_added_in_the_order_of_rows() -> None:
    """Ones times numbers: taps of 3 at each place, which overlap, in calls of several threads."""
    places, channels = 700, 50
    generator = np.random.default_rng(1)
    a = Side(np.ones((channels, 3), np.float32), np.arange(channels * 3), np.zeros(1, np.int64), 0, along_k=False)
    values = generator.standard_normal(places).astype(np.float32)
    b = Side(values, np.arange(places), np.zeros(1, np.int64), 0, along_k=False)
    at = np.add.outer(np.arange(channels) * (places + 2), np.arange(3)).reshape(-1)
    expected = np.zeros(places + 2, np.float32)
    for tap in range(3):
        expected[tap : tap + places] += values

    def add(threads: int) -> np.ndarray:
        options: dict[str, Any] = {"units": (3, places), "add": True, "rows": 4, "operand": "fp32", "threads": threads}
        out = Side(np.zeros((channels, places + 2), np.float32), at, np.arange(places), 0, along_k=False)
        placed_products(a, b, out, 1, **options)
        return out.array

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(add, (1, 2, 5)):
            same_bits(found, np.tile(expected, (channels, 1)))
