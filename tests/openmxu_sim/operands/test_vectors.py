"""The operand generators reach what they claim to reach, and repeat themselves."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import decode, is_nan
from openmxu_sim.operands.vectors import corners, matrix, meeting, operands, pairs

ALL_FORMATS = [*FORMATS, "e2f1", "e2f23", "e6f9", "e8f1", "e8f23"]

Bits = npt.NDArray[np.uint32]


def share(condition: Any) -> float:
    """How many of all are true."""
    return float(np.mean(condition))


@pytest.mark.parametrize("name", ALL_FORMATS)
def test_corners(name: str) -> None:
    """Every landmark with both signs, ascending, none twice, all within the format."""
    fmt = find_format(name)
    got = corners(name)
    assert got.dtype == np.uint32
    assert np.array_equal(got, np.unique(got))
    assert int(got[-1]) < 1 << fmt.width
    smallest_normal, one = 1 << fmt.fraction_width, fmt.bias << fmt.fraction_width
    largest = fmt.exponent_mask - 1 if fmt.has_infinity else fmt.canonical_nan - 1
    landmarks = {0, 1, smallest_normal - 1, smallest_normal, smallest_normal + 1, one - 1, one, one + 1}
    landmarks |= {largest, fmt.exponent_mask, fmt.canonical_nan, fmt.sign_bit - 1}
    if fmt.fraction_width > 1:
        landmarks.add(fmt.exponent_mask + 1)  # in IEEE-like formats a signalling NaN
    assert landmarks | {each | fmt.sign_bit for each in landmarks} <= set(got.tolist())


def test_corners_tie_in_bf16() -> None:
    """Of fp32: ties and their neighbours in the conversion, above even and odd bf16 numbers."""
    assert {0x3F807FFF, 0x3F808000, 0x3F808001, 0x3FFF8000, 0x007F8000} <= set(corners("fp32").tolist())


@pytest.mark.parametrize("name", ALL_FORMATS)
def test_operands_have_every_sort(name: str) -> None:
    """Subnormal, infinite and NaN ones, zeros, and sparse and full fractions."""
    fmt = find_format(name)
    got = operands(name, 4000, 70)
    assert got.dtype == np.uint32
    assert got.shape == (4000,)
    assert int(got.max()) < 1 << fmt.width
    values = decode(got, fmt)
    assert share(np.isnan(values)) > 0.005
    # Of wide formats only the landmarks are zeros and infinities, one in 300 each.
    assert share(values == 0) > 0.002
    assert share((values != 0) & (np.abs(values) < fmt.min_normal)) > 0.02
    assert share(np.isinf(values)) > 0.002 or not fmt.has_infinity
    assert share((got & fmt.sign_bit) != 0) == pytest.approx(0.5, abs=0.05)
    ones = np.bitwise_count(got & fmt.fraction_mask)
    assert share(ones <= 1) > 0.03
    assert share(ones >= fmt.fraction_width - 1) > 0.03


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_pairs_meet_where_it_matters(name: str) -> None:
    """Near exponents, cancellation, ties, and products at both thresholds, each in a share of the pairs."""
    fmt = find_format(name)
    a, b = pairs(name, 20_000, 71)
    assert a.dtype == b.dtype == np.uint32
    assert max(int(a.max()), int(b.max())) < 1 << fmt.width
    x, y = decode(a, fmt), decode(b, fmt)
    finite = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    assert share(finite) > 0.7
    a, b, x, y = (each[finite] for each in (a, b, x, y))
    first, second = ((each & fmt.exponent_mask).astype(np.int64) >> fmt.fraction_width for each in (a, b))
    assert share(np.abs(first - second) <= fmt.fraction_width + 3) > 0.3
    assert share(x == -y) > 0.03
    assert share((x != -y) & (np.abs(x + y) < np.abs(x) / 8)) > 0.02

    total = np.abs(x + y)
    ulp = 2.0 ** (np.maximum(np.frexp(total)[1] - 1, fmt.min_exponent) - fmt.fraction_width)
    remainder = np.mod(total, ulp)
    assert share(remainder == ulp / 2) > 0.005
    assert share((remainder != 0) & (remainder != ulp / 2)) > 0.1

    product = np.abs(x * y)
    assert share((product > fmt.min_normal / 8) & (product < fmt.min_normal * 8)) > 0.01
    assert share((product > fmt.max_finite / 8) & (product < fmt.max_finite * 8)) > 0.01


@pytest.mark.parametrize(
    "generate",
    [
        operands,
        lambda fmt, size, seed: np.stack(pairs(fmt, size, seed)),
        lambda fmt, size, seed: matrix((size, 11), fmt, seed),
        lambda fmt, size, seed: matrix((size, 11), fmt, seed, kind="uniform"),
        lambda fmt, size, seed: matrix((size, 11), fmt, seed, kind="normal"),
    ],
    ids=["operands", "pairs", "all", "uniform", "normal"],
)
def test_generators(generate: Callable[[str, int, int], Bits]) -> None:
    """The same for the same seed only; patterns of every format, as narrow as it gets."""
    first, again, other = (generate("fp32", 100, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    for name in ALL_FORMATS:
        got = generate(name, 500, 72)
        assert got.dtype == np.uint32
        assert int(got.max()) < 1 << find_format(name).width, name


def test_shapes() -> None:
    assert [each.shape for each in (operands("bf16", 0, 0), *pairs("bf16", 0, 0))] == [(0,)] * 3
    for kind, shape in product(("all", "uniform", "normal"), ((9, 11), (0, 3), (3, 0))):
        assert matrix(shape, "bf16", 0, kind=kind).shape == shape


@pytest.mark.parametrize("size", [32, 96])
def test_products_of_mixed_matrices_have_every_sort_of_result(size: int) -> None:
    """Most are finite, and among several there are all special values and signs of zero."""
    fmt = FORMATS["fp32"]
    collected = []
    for seed in range(10):
        a = golden.from_bits(matrix((size, size), "fp32", 2 * seed))
        b = golden.from_bits(matrix((size, size), "fp32", 2 * seed + 1).T)
        collected.append(golden.matmul(a, b, rows=32))
    results = golden.to_bits(np.array(collected))
    values = decode(results, fmt)
    assert share(np.isfinite(values)) > 0.8
    assert share(is_nan(results, fmt)) > 0.01
    assert min(share(values == np.inf), share(values == -np.inf)) > 0.005
    assert {0x00000000, 0x80000000} <= set(results.flat)


def test_the_order_of_summation_shows_in_mixed_matrices() -> None:
    """A quarter of the results differs when a tile is cut elsewhere: a wrong order cannot hide."""
    a = golden.from_bits(matrix((48, 96), "fp32", 73))
    b = golden.from_bits(matrix((48, 96), "fp32", 74).T)
    whole, cut = (golden.to_bits(golden.matmul(a, b, rows=rows)) for rows in (96, 32))
    assert share(whole != cut) > 0.25


def test_normal_matrices_are_normal() -> None:
    for name in ("fp32", "bf16", "fp16"):
        values = decode(matrix((200, 200), name, 75, kind="normal"), find_format(name))
        assert (np.mean(values), np.var(values)) == pytest.approx((0, 1), abs=0.02)


def test_uniform_matrices_are_uniform() -> None:
    """Each bit is set in half of the patterns."""
    bits = matrix((200, 200), "bf16", 76, kind="uniform")
    for position in range(16):
        assert share((bits >> position) & 1) == pytest.approx(0.5, abs=0.02)


FORMAT = "fmt must be one of .*, not 'fp64'"
COUNT = "count must be an integer >= 0, not"
KIND = "kind must be one of 'all', 'uniform' or 'normal', not 'x'"
WRONG: Any = 1.5
SHAPE = "shape must be two integers >= 0, not"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        *((partial(generate, "fp32", -1, 0), ValueError, f"{COUNT} -1") for generate in (operands, pairs)),
        *((partial(generate, "fp32", WRONG, 0), TypeError, rf"{COUNT} 1\.5") for generate in (operands, pairs)),
        *((partial(generate, "fp64", 1, 0), ValueError, FORMAT) for generate in (operands, pairs)),
        (partial(corners, "fp64"), ValueError, FORMAT),
        (partial(matrix, (1, 1), "fp64", 0), ValueError, FORMAT),
        (partial(matrix, (1, 1), "fp32", 0, kind="x"), ValueError, KIND),
        (partial(matrix, (1, -1), "fp32", 0), ValueError, rf"{SHAPE} \(1, -1\)"),
        (partial(matrix, (1, 2, 3), "fp32", 0), ValueError, rf"{SHAPE} \(1, 2, 3\)"),  # type: ignore[arg-type]
        (partial(matrix, (WRONG, 2), "fp32", 0), TypeError, rf"{SHAPE} \(1\.5, 2\)"),
    ],
)
def test_messages(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        call()


def test_terms_meet() -> None:
    """In each row those with one column of the weights, at any distance, and at both ends of the range."""
    weights = matrix((4, 3), "bf16", 3, kind="normal")
    rows = meeting("bf16", weights, 1000, 5)
    assert rows.shape == (1000, 4)
    exponents = (rows >> 7 & 0xFF).astype(int)[:, :, np.newaxis] + (weights >> 7 & 0xFF).astype(int) - 127
    normal = (exponents > 0) & (exponents < 255)
    assert normal.any(axis=(1, 2)).mean() > 0.9
    spreads = (exponents.max(axis=1) - exponents.min(axis=1)).min(axis=1)
    assert np.median(spreads) < 12
    assert len(set(spreads.tolist())) > 24
    assert exponents.min() < 3
    assert exponents.max() > 252
    alike = ((rows & 0x7F) == (rows[:, :1] & 0x7F)).all(axis=1)
    assert 0.4 < alike.mean() < 0.6
