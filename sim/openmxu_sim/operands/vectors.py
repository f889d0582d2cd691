"""Operands for tests: bit patterns that reach the corners of floating-point arithmetic.

Uniformly random patterns hardly ever meet near exponents, ties or cancellation, and random values in [0, 1)
meet neither special values nor subnormal numbers. The generators here mix in what such patterns miss. All
of them give uint32 patterns of any format of the golden model (``fmt``, see :func:`openmxu_sim.golden.find_format`),
and the same ones for the same seed. A wrong type is a :exc:`TypeError`, a value outside its domain a :exc:`ValueError`.

==================  =====================================================================================
:func:`corners`     the patterns at the edges, some hundred in wide formats, to be crossed with each other
:func:`operands`    single operands, for conversions
:func:`pairs`       pairs of operands, for addition and multiplication
:func:`partners`    second operands of such pairs, where the first ones are given
:func:`matrix`      matrices, most of whose products are finite
:func:`meeting`     activations for given weights, whose terms cancel, just overlap, or reach the thresholds
:func:`matching`    the same, with weights of its own for each row
:func:`canonical`   patterns as partial sums have them, with one NaN
==================  =====================================================================================
"""

import operator
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from openmxu_sim.golden import check_count, convert, find_format, to_bits
from openmxu_sim.golden.formats import Bits, Format, is_nan
from openmxu_sim.operands.corners import Ints, corners, edges  # noqa: F401  # corners is one of the vectors


def canonical(bits: npt.ArrayLike, fmt: str = "fp32") -> Bits:
    """Return patterns of a format with each NaN replaced by the canonical quiet one, the only one that sums have."""
    bits, layout = np.asarray(bits, dtype=np.uint32), find_format(fmt)
    return np.where(is_nan(bits, layout), np.uint32(layout.canonical_nan), bits)


def operands(fmt: str, count: int, seed: int) -> Bits:
    """A biased mix of single operands.

    Of every eight, on average, two are uniform over all bit patterns, one has a fraction with one to three
    ones, one a fraction with one to three zeros, one a fraction that is a run of ones (a long carry), one is
    a tie or next to one, one is near the underflow threshold and one is one of :func:`corners`, of which every
    second one is no tie.
    """
    layout = find_format(fmt, "fmt")
    count = check_count(count, "count", 0)
    return _operands(layout, count, np.random.default_rng(seed)).astype(np.uint32)


def pairs(fmt: str, count: int, seed: int) -> tuple[Bits, Bits]:
    """A biased mix of pairs of operands, for addition and for multiplication.

    Of every eight, on average,

    - one is two independent operands, as from :func:`operands`;
    - two have near exponents, up to three more bits apart than the significand is wide;
    - one nearly or exactly cancels: the same pattern with the other sign, up to four ulps off;
    - one is a number and about half of its ulp: a tie for the adder;
    - one is a number and the weight of the lowest one in its fraction, of the same sign: a long carry;
    - one has a product near the smallest normal, the smallest subnormal or the largest number, and every second one
      of these is a power of two;
    - one has one of :func:`corners` as one of the two.

    The two are swapped at random.
    """
    layout = find_format(fmt, "fmt")
    count = check_count(count, "count", 0)
    rng = np.random.default_rng(seed)
    a = _operands(layout, count, rng)
    b = _partners(layout, a, rng)
    swap = rng.random(count) < 0.5
    return np.where(swap, b, a).astype(np.uint32), np.where(swap, a, b).astype(np.uint32)


def partners(fmt: str, a: npt.ArrayLike, seed: int) -> Bits:
    """Return second operands for given first ones, as in :func:`pairs`."""
    layout = find_format(fmt, "fmt")
    return _partners(layout, np.asarray(a, dtype=np.int64), np.random.default_rng(seed)).astype(np.uint32)


def _partners(fmt: Format, a: Ints, rng: np.random.Generator) -> Ints:
    """Second operands as :func:`partners` returns them, without checks."""
    kinds: list[Callable[[Format, Ints, np.random.Generator], Ints]] = [
        lambda fmt, a, rng: _operands(fmt, len(a), rng),
        _near,
        _near,
        _cancelling,
        _half_ulp,
        _carrying,
        _extreme_product,
        lambda fmt, a, rng: edges(fmt, len(a), rng),
    ]
    b = np.empty_like(a)
    kind = rng.integers(len(kinds), size=len(a))
    for index, partner in enumerate(kinds):
        chosen = kind == index
        b[chosen] = partner(fmt, a[chosen], rng)
    return b


def matrix(shape: tuple[int, int], fmt: str, seed: int, *, kind: str = "all") -> Bits:
    """A matrix of bit patterns.

    ``"all"``: made so that a product of two such matrices has results of every sort, while most stay
    finite. Signs are random and exponents near each other. Half of the rows has fractions of one bit, whose
    sums cancel exactly and tie; of formats wider than bf16, a quarter of all elements is at a tie between bf16
    numbers, or has a single one behind it. A quarter of the rows is scaled down, so that products with another such row
    reach the underflow threshold, and an eighth up, towards the overflow threshold. Zeros of both signs and
    subnormal numbers appear everywhere; infinities and NaNs so rarely that about one result in ten is
    reached by one. All this belongs to rows: for a right-hand matrix of shape (K, N) generate (N, K) and
    transpose it.

    ``"uniform"``: uniform over all bit patterns; with more than a few dozen terms most results are NaN.

    ``"normal"``: values of the standard normal distribution, rounded to `fmt`.
    """
    layout = find_format(fmt, "fmt")
    rows, columns = _check_shape(shape)
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.integers(1 << layout.width, size=(rows, columns)).astype(np.uint32)
    if kind == "normal":
        normal = rng.standard_normal((rows, columns), dtype=np.float32)
        return convert(to_bits(normal), "fp32", fmt, subnormals="ieee")
    if kind == "all":
        return _mixed_matrix(layout, rows, columns, rng).astype(np.uint32)
    raise ValueError(f"kind must be one of 'all', 'uniform' or 'normal', not {kind!r}")


def meeting(fmt: str, weights: npt.ArrayLike, count: int, seed: int) -> Bits:
    """Return (count, K) activations whose terms with given weights (K, N) meet: each row with those of one column.

    The terms of a row have exponents near each other, so that they overlap by any number of bits, or just not; their
    sums are in the middle of the range or at either end of it. Half of the rows has the same fraction everywhere, and
    signs that change from term to term: where weights have one fraction, too, sums cancel.
    """
    columns = np.asarray(weights, dtype=np.int64).T
    rng = np.random.default_rng(seed)
    return _meeting(find_format(fmt, "fmt"), columns[rng.integers(len(columns), size=count)], rng)


def matching(fmt: str, weights: npt.ArrayLike, seed: int) -> Bits:
    """Return (count, K) activations for as many weights; the terms of each row meet, as those of :func:`meeting`."""
    return _meeting(find_format(fmt, "fmt"), np.asarray(weights, dtype=np.int64), np.random.default_rng(seed))


def _meeting(fmt: Format, weights: Ints, rng: np.random.Generator) -> Bits:
    """Activations whose terms with each given row meet, without checks."""
    count = len(weights)
    ends = np.array([1, fmt.bias, (1 << fmt.exponent_width) - 2])
    end = rng.integers(len(ends), size=count)
    target = ends[end] + np.where(end == 2, rng.integers(-3, 1, size=count), rng.integers(-2, 3, size=count))
    # Terms are added to sums of 24 bits. Most are near.
    apart = np.rint(rng.integers(-27, 28, size=weights.shape) * rng.random(weights.shape) ** 3).astype(np.int64)
    field = target[:, np.newaxis] + apart + fmt.bias - _exponent_field(fmt, weights)
    rows = _with_exponent(fmt, field.ravel(), rng).reshape(weights.shape)
    alike = rng.random(count) < 0.5
    changing = np.arange(weights.shape[1]) % 2 * fmt.sign_bit * rng.integers(2, size=(count, 1))
    signs = (rows[:, :1] ^ changing ^ weights) & fmt.sign_bit
    same = signs | (rows & fmt.exponent_mask) | (rows[:, :1] & fmt.fraction_mask)
    return np.where(alike[:, np.newaxis], same, rows).astype(np.uint32)


def _signs(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Random signs, as patterns."""
    return rng.integers(2, size=count) * fmt.sign_bit


def _sparse(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Fractions with one to three ones."""
    return np.bitwise_or.reduce(1 << rng.integers(fmt.fraction_width, size=(3, count)), axis=0)


def _run_of_ones(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Fractions that are zeros, then ones, then zeros."""
    ends = np.sort(rng.integers(fmt.fraction_width + 1, size=(2, count)), axis=0)
    return (1 << ends[1]) - (1 << ends[0])


def _tie(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Fractions that end in a one and zeros, or are one ulp off."""
    half = 1 << rng.integers(fmt.fraction_width, size=count)
    upper = rng.integers(fmt.fraction_mask + 1, size=count) & -(half << 1)
    return np.clip((upper | half) + rng.integers(-1, 2, size=count), 0, fmt.fraction_mask)


def _fractions(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Fractions of all kinds above, and uniform ones."""
    kinds = np.stack(
        [
            rng.integers(fmt.fraction_mask + 1, size=count),
            _sparse(fmt, count, rng),
            fmt.fraction_mask & ~_sparse(fmt, count, rng),
            _run_of_ones(fmt, count, rng),
            _tie(fmt, count, rng),
        ]
    )
    return np.take_along_axis(kinds, rng.integers(len(kinds), size=(1, count)), axis=0)[0]


def _operands(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Operands as :func:`operands` returns them, without checks."""
    # Any exponent, zero and all ones included.
    anywhere = _signs(fmt, count, rng) | rng.integers(1 << fmt.exponent_width, size=count) << fmt.fraction_width
    tiny_exponents = rng.integers(min(4, 1 << fmt.exponent_width), size=count) << fmt.fraction_width
    kinds = np.stack(
        [
            rng.integers(1 << fmt.width, size=count),
            rng.integers(1 << fmt.width, size=count),
            anywhere | _sparse(fmt, count, rng),
            anywhere | (fmt.fraction_mask & ~_sparse(fmt, count, rng)),
            anywhere | _run_of_ones(fmt, count, rng),
            anywhere | _tie(fmt, count, rng),
            _signs(fmt, count, rng) | tiny_exponents | _fractions(fmt, count, rng),
            edges(fmt, count, rng),
        ]
    )
    return np.take_along_axis(kinds, rng.integers(len(kinds), size=(1, count)), axis=0)[0]


def _exponent_field(fmt: Format, patterns: Ints) -> Ints:
    """The exponent fields of patterns, as numbers."""
    return (patterns & fmt.exponent_mask) >> fmt.fraction_width


def _with_exponent(fmt: Format, field: Ints, rng: np.random.Generator) -> Ints:
    """Finite numbers with given exponent fields, clipped to the range of the format."""
    largest = (1 << fmt.exponent_width) - 2
    count = len(field)
    exponent = np.clip(field, 0, largest) << fmt.fraction_width
    return _signs(fmt, count, rng) | exponent | _fractions(fmt, count, rng)


def _near(fmt: Format, a: Ints, rng: np.random.Generator) -> Ints:
    """Numbers near enough to `a` to overlap, or just not."""
    reach = fmt.fraction_width + 4
    return _with_exponent(fmt, _exponent_field(fmt, a) - rng.integers(-reach, reach + 1, size=len(a)), rng)


def _cancelling(fmt: Format, a: Ints, rng: np.random.Generator) -> Ints:
    """The negative of `a`, every second one a few ulps off."""
    ulps = rng.integers(-4, 5, size=len(a)) * rng.integers(2, size=len(a))
    return np.clip((a & (fmt.sign_bit - 1)) + ulps, 0, fmt.sign_bit - 1) | (~a & fmt.sign_bit)


def _half_ulp(fmt: Format, a: Ints, rng: np.random.Generator) -> Ints:
    """Numbers of about half an ulp of `a`; every second one a power of two or next to one."""
    below = fmt.fraction_width + 1 + rng.integers(-1, 2, size=len(a))
    b = _with_exponent(fmt, _exponent_field(fmt, a) - below, rng)
    short = rng.random(len(a)) < 0.5
    b[short] = (b[short] & ~fmt.fraction_mask) | rng.integers(2, size=np.count_nonzero(short))
    return b


def _carrying(fmt: Format, a: Ints, rng: np.random.Generator) -> Ints:
    """Powers of two that, added to `a`, set a carry running from the lowest one of its fraction."""
    lowest = np.maximum(a & -a & fmt.fraction_mask, 1)
    field = _exponent_field(fmt, a) - fmt.fraction_width + np.log2(lowest).astype(np.int64)
    return (_with_exponent(fmt, field, rng) & fmt.exponent_mask) | (a & fmt.sign_bit)


def _extreme_product(fmt: Format, a: Ints, rng: np.random.Generator) -> Ints:
    """Numbers whose product with `a` is near the smallest normal, the smallest or the largest number."""
    products = np.array([1, 1 - fmt.fraction_width, (1 << fmt.exponent_width) - 2])
    field = products[rng.integers(len(products), size=len(a))] + rng.integers(-2, 3, size=len(a))
    # The exponent fields of two operands add up to the field of their product and one bias more.
    b = _with_exponent(fmt, field + fmt.bias - _exponent_field(fmt, a), rng)
    # Powers of two: the product has the fraction of `a`, which is a tie now and then.
    b[rng.random(len(a)) < 0.5] &= ~fmt.fraction_mask
    return b


def _mixed_matrix(fmt: Format, rows: int, columns: int, rng: np.random.Generator) -> Ints:
    """A matrix as :func:`matrix` returns it for "all", without checks."""
    count = rows * columns
    by_row = np.repeat(np.arange(rows), columns)

    scale = np.zeros(rows, dtype=np.int64)
    sort_of_row = rng.integers(8, size=rows)
    # Half of the exponent range down, and up: the product of two such rows is at either end of it.
    low = sort_of_row < 2
    scale[low] = fmt.min_exponent // 2 - rng.integers(3, size=np.count_nonzero(low))
    scale[sort_of_row == 2] = max(fmt.max_exponent // 2 - 4, 0)

    short = rng.random(rows)[by_row] < 0.5
    spread = np.where(short, 1, np.where(rng.random(count) < 0.25, fmt.fraction_width, 3))
    offset = np.rint((2 * rng.random(count) - 1) * np.minimum(spread, fmt.max_exponent)).astype(np.int64)
    elements = _with_exponent(fmt, fmt.bias + scale[by_row] + offset, rng)
    elements[short] &= ~(fmt.fraction_mask >> 1)

    # The bits that the unit's edge rounds away: a tie, or a single one behind it that decides.
    dropped = fmt.fraction_width - 7
    if dropped > 1:
        tied = rng.random(count) < 1 / 4
        behind = (1 << rng.integers(dropped, size=count)) & ((1 << (dropped - 1)) - 1)
        elements[tied] = (elements[tied] & -(1 << dropped)) | (1 << (dropped - 1)) | behind[tied]

    draw = rng.random(count)
    zero = draw < 1 / 16
    elements[zero] &= fmt.sign_bit
    subnormal = (draw >= 1 / 16) & (draw < 2 / 16)
    elements[subnormal] &= ~fmt.exponent_mask
    # The terms of a row and of a column reach a result: one in ten of a product of square matrices.
    special = draw > 1 - 1 / (20 * max(rows, columns, 1))
    elements[special] |= fmt.exponent_mask
    infinite = special & (rng.random(count) < 0.5)
    elements[infinite] &= ~fmt.fraction_mask
    return elements.reshape(rows, columns)


def _check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Check the shape of a matrix, and return it."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"shape must be two integers >= 0, not {shape!r}") from None
    if len(sizes) != 2 or min(sizes) < 0:
        raise ValueError(f"shape must be two integers >= 0, not {shape!r}")
    return sizes[0], sizes[1]
