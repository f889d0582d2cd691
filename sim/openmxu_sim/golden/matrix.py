"""Matrix products, summed in the order the hardware sums."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu_sim.golden.arithmetic import convert, rounded, rounded_product, rounded_sum, rounded_terms
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.formats import (
    DTYPES,
    FORMATS,
    Bits,
    Values,
    check_patterns,
    check_unmasked,
    decode,
    encode,
    find_format,
    is_nan,
)
from openmxu_sim.golden.noise import Noise
from openmxu_sim.golden.parameters import ProductOptions, Unpack, with_options
from openmxu_sim.golden.passes import split
from openmxu_sim.golden.setup import Definition, check_largest, check_setup
from openmxu_sim.golden.specifications import Operand, Prepared, prepare

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
@with_options(ProductOptions)
def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rows: int,
    result: str = "fp32",
    largest: tuple[float | None, float | None] = (None, None),
    **numerics: Unpack[ProductOptions],
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
    result : str
        Format to which sums are converted when they are complete.
    largest : (float, float)
        Magnitudes of `a` and `b` from which scales of a whole tensor are computed; ``None``: the largest there is.
    numerics
        The other parameters of the table in :doc:`/explanation/numerics`.

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
    how = check_setup(rows=rows, **numerics)
    target, noise, subnormals = find_format(result, "result"), Noise(how.seed), "flush" if how.flush else "ieee"
    left, right = (
        prepare(bits, side, subnormals=subnormals, noise=partial(noise.of_operands, stream, *bits.shape), largest=peak)
        for stream, (bits, side, peak) in enumerate(
            zip((a_bits, b_bits.T), (how.operand, how.weight), check_largest(largest), strict=True)
        )
    )

    shape = a_bits.shape[0], b_bits.shape[1]
    bits, fmt = np.zeros(shape, dtype=np.uint32), how.between.format
    for m, n in itertools.product(_cut(shape[0], _SIDE), _cut(shape[1], _SIDE)) if bits.size else ():
        draw = partial(noise.of_sums, np.arange(m.start, m.stop), np.arange(n.start, n.stop), shape[1])
        bits[m, n] = encode(_sums(how, left, right, (m, n), draw), fmt)
    numbers = bits if fmt == target else convert(bits, fmt.name, result, subnormals=subnormals)
    return to_array(np.where(is_nan(bits, fmt), np.uint32(target.canonical_nan), numbers), result)


def _sums(
    how: Definition, left: Prepared, right: Prepared, part: tuple[slice, slice], draw: Callable[..., Values]
) -> Values:
    """Return the sums of some rows and columns, of all passes."""
    (m, n), rows = part, how.tile(left.bits.shape[1])
    a, b = left.bits[m], right.bits[n].T
    total = np.zeros((a.shape[0], b.shape[1]))
    for number, parts in enumerate(how.passes):
        if number and number == len(how.passes) - 1:
            total[np.isnan(total)] = 0
        a_values, b_values = (
            partial(_values, how, *side) for side in zip((how.operand, how.weight), parts, strict=True)
        )
        add = partial(_add_terms, how, draw)
        for index, tile in enumerate(_tile_sums(a, b, rows, a_values, b_values, add, terms=how.terms)):
            k = index * rows
            scaled = _scaled(tile, how, (left.at(m, k), right.at(n, k)), partial(draw, k))
            # Adding the first tile to +0 instead would turn a sum of -0, which flushing can leave, into +0.
            if number == 0 and index == 0:
                total = scaled
            else:
                way = how.between.way(partial(draw, k, 2))
                total = rounded_sum(total, scaled, how.between.format, flush=how.flush, **way)
    return total


def _values(how: Definition, side: Operand, part: str, bits: Bits) -> Values:
    """Return the values of a part of operands."""
    mode = "flush" if how.flush else "ieee"
    # Conversion leaves no subnormal numbers in flush mode, so there are none to flush later.
    if len(how.passes) == 1:
        return decode(convert(bits, "fp32", side.format.name, subnormals=mode), side.format)
    return decode(split(bits, part, subnormals=mode), side.format)


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
    add: Callable[[Values, Values, Values, Values], Values],
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
        psums, firsts = np.zeros((count, m, n)), np.arange(start, span.stop, length)[:, np.newaxis, np.newaxis]
        for part in _cut(length, terms * max(1, _SIDE * _SIDE // (count * max(m, n) * terms))):
            left, right = a_values(a_tiles[:, :, part]), b_values(b_tiles[:, part])
            for block in _cut(right.shape[1], terms):
                # axes: tile, row of the result, column of the result, term
                activations = left[:, np.newaxis, :, block].transpose(2, 0, 1, 3)
                weights = right[:, block].transpose(0, 2, 1)[:, np.newaxis]
                psums = add(psums, activations, weights, firsts + part.start + block.start)
        yield from psums


def _add_terms(how: Definition, draw: Callable[..., Values], psums: Values, a: Values, b: Values, k: Values) -> Values:
    """Add a block of products, along the last axis: one of them with a rounding of its own, several at once."""
    fmt, of_sum = how.sums.format, how.sums.way(partial(draw, k, 1))
    if how.operand.integer:
        return psums + a[..., 0] * b[..., 0]
    if how.terms > 1:
        return rounded_terms(psums, a, b, fmt, guard=how.sums.guard, **of_sum)
    product = rounded_product(a[..., 0], b[..., 0], fmt, flush=how.flush, **how.sums.way(partial(draw, k, 0)))
    return rounded_sum(psums, product, fmt, flush=how.flush, **of_sum)


def _scaled(tile: Values, how: Definition, scales: Sequence[Values | None], draw: Callable[[int], Values]) -> Values:
    """Return a tile's sums as those of tiles are added: times the scales of both operands, if they have any."""
    flush, way = how.flush, how.between.way(partial(draw, 3))
    if how.operand.integer:
        tile = rounded(tile, _FP32, flush=flush)
    if not how.sums.format.has_infinity:
        tile = np.where(np.isinf(tile), np.nan, tile)
    factors = [np.ones((1, 1)) if scale is None else scale for scale in scales]
    if any(scale is not None for scale in scales):
        both = np.minimum(rounded(factors[0] * factors[1].T, _FP32, flush=False), _FP32.max_finite)
        return rounded_product(tile, both, how.between.format, flush=flush, **way)
    return tile if how.between.format == how.sums.format else rounded(tile, how.between.format, flush=flush, **way)


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
