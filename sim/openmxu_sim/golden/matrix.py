"""Matrix products, summed in the order the hardware sums."""

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu_sim.golden.arithmetic import check_subnormals, convert, rounded_product, rounded_sum, rounded_terms
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.formats import (
    DTYPES,
    FORMATS,
    Bits,
    Format,
    Values,
    check_patterns,
    check_unmasked,
    decode,
    encode,
    find_format,
    is_nan,
)
from openmxu_sim.golden.passes import PASSES, split

_FP32 = FORMATS["fp32"]

_SIDE = 256
"""Rows and columns of the result that are computed together. Their sums, half a megabyte, stay in the caches."""


def to_bits(array: npt.ArrayLike) -> Bits:
    """Return the fp32 patterns of an array, payloads of NaNs untouched.

    Parameters
    ----------
    array : array in one of the types of :data:`DTYPES`, any shape
        bfloat16 is padded with 16 zero bits, which is exact for every pattern. Narrower NaNs become quiet.

    Returns
    -------
    uint32 array of the same shape
        For float32 a view of `array`.

    Raises
    ------
    TypeError
        `array` has another dtype.
    """
    return _fp32_patterns(array, "array")


def from_bits(bits: npt.ArrayLike, fmt: str = "fp32") -> npt.NDArray[np.float32]:
    """Return the float32 array of bit patterns; payloads of NaNs are untouched, but NaNs of other formats become quiet.

    Parameters
    ----------
    bits : integer array, any shape
        Patterns of `fmt`.
    fmt : str
        Their format, see :func:`find_format`; fp32 holds every number of each.

    Returns
    -------
    float32 array of the same shape

    Raises
    ------
    TypeError
        `bits` are no integers.
    ValueError
        A pattern is wider than the format, or there is no such format.
    """
    if fmt == "fp32":
        return check_patterns(bits, _FP32, "bits").view(np.float32)
    return convert(bits, fmt, "fp32", subnormals="ieee").view(np.float32)


def to_array(bits: npt.ArrayLike, fmt: str) -> npt.NDArray[Any]:
    """Return the array of bit patterns in numpy's type for their format; in float32 where there is none.

    Parameters
    ----------
    bits : integer array, any shape
        Patterns of `fmt`.
    fmt : str
        Their format, see :func:`find_format`.

    Returns
    -------
    array of the same shape
        Its type is that of :data:`DTYPES`.

    Raises
    ------
    TypeError, ValueError
        As in :func:`from_bits`.
    """
    if fmt not in DTYPES or fmt == "fp32":
        return from_bits(bits, fmt)
    dtype = DTYPES[fmt]
    return check_patterns(bits, FORMATS[fmt], "bits").astype(f"u{dtype.itemsize}").view(dtype)


@ieee_arithmetic()
def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rows: int,
    precision: str = "default",
    subnormals: str = "flush",
    operand: str = "bf16",
    accumulate: str = "fp32",
    result: str = "fp32",
    terms: int = 1,
) -> npt.NDArray[Any]:
    """Multiply two matrices as an array with `rows` rows does.

    The operands are converted to `operand`, products and sums to `accumulate`, each rounded on its own. K is
    cut into tiles of `rows`, the last one may be shorter. In a tile a sum starts from +0 and adds the
    products for ascending k; the first tile's sum is taken as it is, each further one is added to what is
    there. The result depends on nothing else.

    With several terms a tile's sum adds the products of so many rows at once, exactly within a window and with one
    rounding; see :func:`~openmxu_sim.golden.arithmetic.rounded_terms`.

    With several passes each is such a sum over all tiles, of parts of the operands, and goes on where the one before
    ended. Before the last, in which the high parts are multiplied, NaNs are replaced by +0: infinite operands leave
    them in the low parts.

    Parameters
    ----------
    a : array in one of the types of :data:`DTYPES`, shape (M, K)
        Activations.
    b : array in one of the types of :data:`DTYPES`, shape (K, N)
        Weights. Narrower numbers are widened to fp32 and converted like everything else.
    rows : int
        Rows of the systolic array, at least 1.
    precision : str
        ``"default"``, one pass, or ``"high"``, ``"highest"``, ``"exact9"``, three, six and nine passes; see
        :data:`PASSES`.
    subnormals : str
        ``"flush"`` or ``"ieee"``, as for :func:`convert`, :func:`multiply` and :func:`add`.
    operand : str
        Format the operands are converted to, see :func:`find_format`.
    accumulate : str
        Format of products and sums. Several passes are made of bf16 with sums in fp32 only.
    result : str
        Format to which sums are converted when they are complete.
    terms : int
        Products that are added at once, 1, 2, 4 or 8; a divisor of `rows`, and 1 with gradual underflow.

    Returns
    -------
    array, shape (M, N), of the type that :func:`to_array` gives for `result`
        +0 everywhere if K is 0. Every NaN is the canonical one, 7FC00000 in fp32.

    Raises
    ------
    TypeError
        `a` or `b` is of another dtype, `rows` is no integer, or a format is no string.
    ValueError
        The shapes do not match, `rows` is less than 1, the precision, a format or the mode is unknown, or there are
        no such passes for the formats.
    """
    a_bits, b_bits = check_operands(a, b)
    rows = check_count(rows, "rows")
    passes = check_precision(precision, operand, accumulate)
    flush = check_subnormals(subnormals)
    terms = check_terms(terms, rows, subnormals)
    fmt, sum_fmt, target = (
        find_format(name, parameter)
        for name, parameter in ((operand, "operand"), (accumulate, "accumulate"), (result, "result"))
    )

    def values(bits: Bits, part: str) -> Values:
        # Conversion leaves no subnormal numbers in flush mode, so there are none to flush later.
        if precision == "default":
            return decode(convert(bits, "fp32", operand, subnormals=subnormals), fmt)
        return decode(split(bits, part, subnormals=subnormals), fmt)

    bits = np.zeros((a_bits.shape[0], b_bits.shape[1]), dtype=np.uint32)
    for m, n in itertools.product(_cut(bits.shape[0], _SIDE), _cut(bits.shape[1], _SIDE)) if bits.size else ():
        total = np.zeros(bits[m, n].shape)
        for number, (a_part, b_part) in enumerate(passes):
            if number and number == len(passes) - 1:
                total[np.isnan(total)] = 0
            left, right = partial(values, part=a_part), partial(values, part=b_part)
            add = partial(_add_terms, terms=terms, fmt=sum_fmt, flush=flush)
            sums = _tile_sums(a_bits[m], b_bits[:, n], rows, left, right, add, terms=terms)
            for index, tile in enumerate(sums):
                # Adding the first tile to +0 instead would turn a sum of -0, which flushing can leave, into +0.
                first = number == 0 and index == 0
                total = tile if first else rounded_sum(total, tile, sum_fmt, flush=flush)
        bits[m, n] = encode(total, sum_fmt)
    numbers = bits if accumulate == result else convert(bits, accumulate, result, subnormals=subnormals)
    return to_array(np.where(is_nan(bits, sum_fmt), np.uint32(target.canonical_nan), numbers), result)


# Sums of different tiles do not depend on each other: numpy adds up as many at a time as are worth its call.
#
#     K    |  tile 0  |  tile 1  |  tile 2  | ... | the rest |
#          k ->       k ->       k ->               k ->
#
# Operands are converted when they are needed, so that a long K takes time but no memory.
def _tile_sums(
    a: Bits,
    b: Bits,
    rows: int,
    a_values: Callable[[Bits], Values],
    b_values: Callable[[Bits], Values],
    add: Callable[[Values, Values, Values], Values],
    *,
    terms: int,
) -> Iterator[Values]:
    """Yield the sums at the foot of the columns for each tile: operands (M, K) and (K, N), sums (M, N)."""
    m, inner, n = *a.shape, b.shape[1]
    whole = inner // rows
    abreast = max(1, _SIDE * _SIDE // (m * n))
    groups = [(tiles.start * rows, len(range(*tiles.indices(whole))), rows) for tiles in _cut(whole, abreast)]
    if whole * rows < inner:
        groups.append((whole * rows, 1, inner - whole * rows))
    for start, count, length in groups:
        span = slice(start, start + count * length)
        a_tiles, b_tiles = a[:, span].reshape(m, count, length), b[span].reshape(count, length, n)
        psums = np.zeros((count, m, n))
        for part in _cut(length, terms * max(1, _SIDE * _SIDE // (count * max(m, n) * terms))):
            left, right = a_values(a_tiles[:, :, part]), b_values(b_tiles[:, part])
            for block in _cut(right.shape[1], terms):
                # axes: tile, row of the result, column of the result, term
                activations = left[:, np.newaxis, :, block].transpose(2, 0, 1, 3)
                psums = add(psums, activations, right[:, block].transpose(0, 2, 1)[:, np.newaxis])
        yield from psums


def _add_terms(psums: Values, a: Values, b: Values, *, terms: int, fmt: Format, flush: bool) -> Values:
    """Add a block of products, along the last axis: one of them with a rounding of its own, several at once."""
    if terms > 1:
        return rounded_terms(psums, a, b, fmt)
    return rounded_sum(psums, rounded_product(a[..., 0], b[..., 0], fmt, flush=flush), fmt, flush=flush)


def _cut(length: int, most: int) -> list[slice]:
    """Return ``range(length)`` in pieces of at most ``most``."""
    return [slice(start, min(start + most, length)) for start in range(0, length, most)]


def _fp32_patterns(array: npt.ArrayLike, parameter: str) -> Bits:
    """Return an array in one of the known types as patterns of fp32; by views, as a cast would quieten NaNs."""
    check_unmasked(array, parameter)
    values: npt.NDArray[Any] = np.asarray(array)
    name = next((name for name, dtype in DTYPES.items() if values.dtype == dtype), None)
    if name is None:
        types = ", ".join(str(dtype) for dtype in DTYPES.values())
        raise TypeError(f"{parameter} must be an array of {types}, not {values.dtype}")
    if name == "fp32":
        return values.view(np.uint32)
    patterns = values.view(f"u{values.dtype.itemsize}").astype(np.uint32)
    if name == "bf16":
        return patterns << np.uint32(16)
    return convert(patterns, name, "fp32", subnormals="ieee")


def check_operands(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Bits, Bits]:
    """Check two matrices that are to be multiplied, and return their fp32 patterns."""
    a_bits, b_bits = _fp32_patterns(a, "a"), _fp32_patterns(b, "b")
    if a_bits.ndim != 2 or b_bits.ndim != 2 or a_bits.shape[1] != b_bits.shape[0]:
        raise ValueError(f"a and b must have shapes (M, K) and (K, N), not {a_bits.shape} and {b_bits.shape}")
    return a_bits, b_bits


def check_precision(precision: str, operand: str = "bf16", accumulate: str = "fp32") -> Sequence[tuple[str, str]]:
    """Check a precision, and return its passes, see :data:`PASSES`."""
    if precision not in PASSES:
        raise ValueError(f"precision must be {', '.join(map(repr, PASSES))}, not {precision!r}")
    if precision != "default" and operand != "bf16":
        raise ValueError(f"precision must be 'default' for operands in {operand}, not {precision!r}")
    if precision != "default" and accumulate != "fp32":
        raise ValueError(f"precision must be 'default' for sums in {accumulate}, not {precision!r}")
    return PASSES[precision]


def check_terms(terms: int, rows: int, subnormals: str) -> int:
    """Check a number of terms that are added at once, and return it."""
    if terms not in (1, 2, 4, 8):
        raise ValueError(f"terms must be 1, 2, 4 or 8, not {terms!r}")
    if rows % terms:
        raise ValueError(f"rows must be a multiple of terms={terms}, not {rows}")
    if terms > 1 and subnormals != "flush":
        raise ValueError(f"terms must be 1 with gradual underflow, which would take 15 % more area, not {terms}")
    return int(terms)


def check_count(value: int, parameter: str, least: int = 1) -> int:
    """Check a number of things, `least` or more, and return it."""
    domain = f"{parameter} must be an integer >= {least}, not {value!r}"
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(domain) from None
    if count < least:
        raise ValueError(domain)
    return count
