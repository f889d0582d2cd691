"""Matrix products, summed in the order the hardware sums."""

import operator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from openmxu_sim.golden.arithmetic import check_subnormals, convert, rounded_product, rounded_sum
from openmxu_sim.golden.formats import FORMATS, Bits, Values, check_patterns, decode, encode, find_format

__all__ = ["from_bits", "matmul", "to_bits"]

_FP32 = FORMATS["fp32"]


def to_bits(array: npt.ArrayLike) -> Bits:
    """The fp32 patterns of an array, payloads of NaNs untouched.

    Parameters
    ----------
    array : float32 or bfloat16 array, any shape
        bfloat16 is padded with 16 zero bits, which is exact for every pattern.

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


def from_bits(bits: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The float32 array of fp32 patterns, payloads of NaNs untouched.

    Parameters
    ----------
    bits : integer array, any shape
        Patterns of fp32.

    Returns
    -------
    float32 array of the same shape

    Raises
    ------
    TypeError
        `bits` are no integers.
    ValueError
        A pattern is wider than 32 bits.
    """
    return check_patterns(bits, _FP32, "bits").view(np.float32)


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rows: int,
    subnormals: str = "flush",
    operand: str = "bf16",
) -> npt.NDArray[np.float32]:
    """Multiply two matrices as an array with `rows` rows does.

    The operands are converted to `operand`, the products and sums are fp32, each rounded on its own. K is
    cut into tiles of `rows`, the last one may be shorter. In a tile a sum starts from +0 and adds the
    products for ascending k; the first tile's sum is taken as it is, each further one is added to what is
    there. The result depends on nothing else.

    Parameters
    ----------
    a : float32 or bfloat16 array, shape (M, K)
        Activations.
    b : float32 or bfloat16 array, shape (K, N)
        Weights. bfloat16 is widened to fp32 and converted like everything else.
    rows : int
        Rows of the systolic array, at least 1.
    subnormals : str
        ``"flush"`` or ``"ieee"``, as for :func:`convert`, :func:`multiply` and :func:`add`.
    operand : str
        Format the operands are converted to, see :func:`find_format`.

    Returns
    -------
    float32 array, shape (M, N)
        +0 everywhere if K is 0. Every NaN is the canonical one, 7FC00000.

    Raises
    ------
    TypeError
        `a` or `b` is of another dtype, `rows` is no integer, or `operand` is no string.
    ValueError
        The shapes do not match, `rows` is less than 1, or the format or mode is unknown.
    """
    a_bits = _fp32_patterns(a, "a")
    b_bits = _fp32_patterns(b, "b")
    if a_bits.ndim != 2 or b_bits.ndim != 2 or a_bits.shape[1] != b_bits.shape[0]:
        raise ValueError(
            f"a and b must have shapes (M, K) and (K, N), not {a_bits.shape} and {b_bits.shape}"
        )
    rows = _check_rows(rows)
    flush = check_subnormals(subnormals)
    fmt = find_format(operand, "operand")

    # Conversion leaves no subnormal numbers in flush mode, so there are none to flush here.
    a_values = decode(convert(a_bits, "fp32", operand, subnormals=subnormals), fmt)
    b_values = decode(convert(b_bits, "fp32", operand, subnormals=subnormals), fmt)
    inner = a_bits.shape[1]
    total = np.zeros((a_bits.shape[0], b_bits.shape[1]))
    for start in range(0, inner, rows):
        stop = min(start + rows, inner)
        tile = _tile_sum(a_values[:, start:stop], b_values[start:stop, :], flush=flush)
        # Adding the first tile to +0 instead would turn a sum of -0, which flushing can leave, into +0.
        total = tile if start == 0 else rounded_sum(total, tile, _FP32, flush=flush)
    return from_bits(encode(total, _FP32))


def _tile_sum(a: Values, b: Values, *, flush: bool) -> Values:
    """What comes out of the foot of the columns for one tile: operands (M, R) and (R, N), sums (M, N)."""
    psum = np.zeros((a.shape[0], b.shape[1]))
    for k in range(a.shape[1]):
        product = rounded_product(a[:, k, np.newaxis], b[np.newaxis, k, :], _FP32, flush=flush)
        psum = rounded_sum(psum, product, _FP32, flush=flush)
    return psum


def _fp32_patterns(array: npt.ArrayLike, parameter: str) -> Bits:
    """Accept an array of float32 or bfloat16 as patterns of fp32; a view, as a cast would quieten NaNs."""
    given: npt.NDArray[Any] = np.asarray(array)
    if given.dtype == np.float32:
        return given.view(np.uint32)
    if given.dtype == ml_dtypes.bfloat16:
        return given.view(np.uint16).astype(np.uint32) << np.uint32(16)
    raise TypeError(f"{parameter} must be a float32 or bfloat16 array, not {given.dtype}")


def _check_rows(rows: int) -> int:
    """Accept the number of rows."""
    try:
        count = operator.index(rows)
    except TypeError:
        raise TypeError(f"rows must be an integer >= 1, not {rows!r}") from None
    if count < 1:
        raise ValueError(f"rows must be an integer >= 1, not {rows!r}")
    return count
