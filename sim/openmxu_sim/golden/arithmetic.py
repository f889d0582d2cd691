"""Convert, multiply and add, one rounding each.

Method: decode to binary64 (:mod:`openmxu_sim.golden.formats`), form the result there, where it is exact or
as good as that (see :func:`rounded_sum`), and round it once. Infinities, zeros and their signs need no cases
of their own, because binary64 arithmetic follows the same IEEE 754 rules for them as the narrower formats
do. Nothing comes near the subnormal numbers of binary64, so the result does not depend on whether this
process flushes those.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.formats import Bits, Format, Values, check_patterns, decode, encode, find_format, is_nan


def check_subnormals(subnormals: str) -> bool:
    """Tell whether the mode flushes subnormal numbers."""
    if subnormals not in ("flush", "ieee"):
        raise ValueError(f"subnormals must be 'flush' or 'ieee', not {subnormals!r}")
    return subnormals == "flush"


def flush_subnormals(values: Values, fmt: Format) -> Values:
    """Replace numbers below the smallest normal number of `fmt` by zeros of their signs."""
    return np.where(np.abs(values) < fmt.min_normal, np.copysign(0.0, values), values)


def rounded(
    values: Values, fmt: Format, *, flush: bool, rounding: str = "nearest", noise: Values | None = None
) -> Values:
    """Round to a number of `fmt`: the nearest, ties to even, or as :func:`on_grid` says."""
    if flush:
        values = flush_subnormals(values, fmt)
    return _limited(on_grid(values, fmt, rounding, noise), fmt, rounding)


def _limited(numbers: Values, fmt: Format, rounding: str) -> Values:
    """Replace finite numbers that are too large: by infinities, or by the largest number where they are truncated."""
    limit = np.where(np.isfinite(numbers), fmt.max_finite, np.inf) if rounding == "truncate" else np.inf
    return np.where(np.abs(numbers) > fmt.max_finite, np.copysign(limit, numbers), numbers)


def on_grid(values: Values, fmt: Format, rounding: str = "nearest", noise: Values | None = None) -> Values:
    """Round to a number with the fraction bits and the least exponent of `fmt`; this is the only place that rounds.

    ``"nearest"``: ties to even; ``"truncate"``: towards zero; ``"stochastic"``: away from zero if the part that is cut
    off, in last places, 24 bits of it, and `noise`, in [0, 1), are 1 or more in sum.
    """
    # The exponent of frexp is one above that of a significand in [1, 2). For an infinity or a NaN it is
    # unspecified, but scaling leaves those alone.
    exponent = np.maximum(np.frexp(values)[1] - 1, fmt.min_exponent)
    ulp_exponent = exponent - fmt.fraction_width
    return np.ldexp(to_integers(np.ldexp(values, -ulp_exponent), rounding, noise), ulp_exponent)


def to_integers(values: Values, rounding: str, noise: Values | None = None) -> Values:
    """Round to integers as :func:`on_grid` does."""
    if rounding == "nearest":
        return np.rint(values)
    if rounding == "truncate" or noise is None:
        return np.trunc(values)
    cut = np.ldexp(np.trunc(np.ldexp(values, 24)), -24)
    return np.copysign(np.floor(np.abs(cut) + noise), values)


def operand_values(patterns: Bits, fmt: Format, *, flush: bool) -> Values:
    """Return the values that arithmetic sees."""
    values = decode(patterns, fmt)
    return flush_subnormals(values, fmt) if flush else values


def rounded_product(a: Values, b: Values, fmt: Format, *, flush: bool, **way: Any) -> Values:
    """Multiply, rounding once; `way`: see :func:`rounded`."""
    with np.errstate(invalid="ignore"):  # 0 × infinity is meant to be NaN
        product = a * b
    return rounded(product, fmt, flush=flush, **way)


def rounded_sum(a: Values, b: Values, fmt: Format, *, flush: bool, **way: Any) -> Values:
    """Add numbers of `fmt`, rounding once; `way`: see :func:`rounded`.

    Notes
    -----
    Where binary64 has to round the sum itself, this changes nothing. It has 53 bits, `fmt` at most 24, so
    the exponents are then more than 28 apart and the smaller number is below 1/16 ulp of the larger one.
    The nearest ties of `fmt` are 1/4 ulp away or more: the exact sum and the binary64 one are both on the
    larger number's side of them, and both round to that number. Where `fmt` does not round to nearest, binary64 has to
    round towards zero: of the 29 bits that it keeps below the last place of `fmt`, no one looks at more than 24.
    """
    with np.errstate(invalid="ignore"):  # infinity - infinity is meant to be NaN
        total = a + b
        if way.get("rounding", "nearest") != "nearest":
            part = total - a
            error = (a - (total - part)) + (b - part)  # Knuth's: exact
            away = (np.abs(total) > 0) & (error * np.sign(total) < 0)
            total = np.where(away, np.nextafter(total, 0), total)
    return rounded(total, fmt, flush=flush, **way)


def rounded_terms(
    c: Values,
    a: Values,
    b: Values,
    fmt: Format,
    *,
    guard: int = 3,
    rounding: str = "nearest",
    noise: Values | None = None,
) -> Values:
    """Add the products of `a` and `b` along the last axis to `c`, rounding once: the contract's "Several terms".

    All terms are cut towards zero to a multiple of ``2**place``, `guard` bits below the last place of a number of
    `fmt` with the largest exponent among them. Operands are normal numbers of formats whose products binary64 holds.

    Notes
    -----
    A cut term is an integer below 2**28 in units of ``2**place``, so binary64 adds up to 2**25 of them exactly.
    """
    with np.errstate(invalid="ignore"):  # 0 × infinity and infinity - infinity are meant to be NaN
        products = np.broadcast_to(a * b, (*c.shape, max(a.shape[-1], b.shape[-1])))
        special = c + products.sum(axis=-1)
    terms = np.concatenate([c[..., np.newaxis], products], axis=-1)
    of_products = np.broadcast_to(_exponent(a) + _exponent(b), products.shape)
    exponents = np.concatenate([_exponent(c)[..., np.newaxis], of_products], axis=-1)
    counts = np.isfinite(terms) & (terms != 0)
    scale = np.max(exponents, axis=-1, where=counts, initial=-1000) - fmt.fraction_width - guard
    units = np.ldexp(np.where(counts, terms, 0.0), -scale[..., np.newaxis])
    total = np.trunc(units).sum(axis=-1)

    dropped = np.maximum(_exponent(total) - fmt.fraction_width, 0)
    numbers = np.ldexp(to_integers(np.ldexp(total, -dropped), rounding, noise), dropped + scale)
    numbers = _limited(numbers, fmt, rounding)
    zero = np.where(np.signbit(terms).all(axis=-1), -0.0, 0.0)
    values = np.where(total == 0, zero, flush_subnormals(numbers, fmt))
    return np.where(np.isfinite(special), values, special)


def _exponent(values: Values) -> npt.NDArray[np.int32]:
    """Return the exponents of significands in [1, 2); anything for zeros, infinities and NaNs."""
    return np.frexp(values)[1] - 1


@ieee_arithmetic()
def convert(bits: npt.ArrayLike, source: str = "fp32", target: str = "bf16", *, subnormals: str = "flush") -> Bits:
    """Convert bit patterns of one format into another.

    Round to nearest, ties to even. What is too large becomes infinity, a NaN in ``fp8_e4m3``, with the sign
    of the source. A NaN keeps its sign and the upper bits of its fraction and becomes quiet, also where
    `source` and `target` are the same.

    Parameters
    ----------
    bits : integer array, any shape
        Patterns of `source`.
    source, target : str
        Formats, see :func:`find_format`.
    subnormals : str
        ``"flush"``: a subnormal number of `source`, and what is below the smallest normal number of `target`
        before rounding, becomes a zero of its sign. ``"ieee"``: gradual underflow.

    Returns
    -------
    uint32 array of the same shape
        Patterns of `target`.

    Raises
    ------
    TypeError
        `bits` are no integers, or a format is no string.
    ValueError
        A pattern is wider than `source`, or a format or mode is unknown.
    """
    from_fmt = find_format(source, "source")
    to_fmt = find_format(target, "target")
    flush = check_subnormals(subnormals)
    patterns = check_patterns(bits, from_fmt, "bits")

    values = operand_values(patterns, from_fmt, flush=flush)
    numbers = encode(rounded(values, to_fmt, flush=flush), to_fmt)
    return np.where(is_nan(patterns, from_fmt), _convert_nan(patterns, from_fmt, to_fmt), numbers)


def _convert_nan(patterns: Bits, source: Format, target: Format) -> Bits:
    """Convert patterns as if each were a NaN."""
    sign = np.where((patterns & source.sign_bit) != 0, np.uint32(target.sign_bit), np.uint32(0))
    fraction = patterns & source.fraction_mask
    if target.fraction_width >= source.fraction_width:
        payload = fraction << (target.fraction_width - source.fraction_width)
    else:
        payload = fraction >> (source.fraction_width - target.fraction_width)
    # The canonical NaN brings the quiet bit; in E4M3 all fraction bits, as it is the only NaN there.
    return sign | payload | np.uint32(target.canonical_nan)


@ieee_arithmetic()
def multiply(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    operand: str = "bf16",
    result: str = "fp32",
    *,
    weight: str | None = None,
    subnormals: str = "flush",
) -> Bits:
    """Multiply bit patterns of one format, or of two, with the product in another.

    Round to nearest, ties to even, once. The sign is the exclusive or of the signs, also for zeros.
    0 × infinity and any NaN give the canonical quiet NaN of `result`. What is too large becomes infinity, a
    NaN in ``fp8_e4m3``, with the sign of the product.

    Parameters
    ----------
    a, b : integer arrays, any shapes that broadcast
        Patterns of `operand`.
    operand, result : str
        Formats, see :func:`find_format`.
    weight : str
        Format of `b`; by default that of `a`.
    subnormals : str
        ``"flush"``: a subnormal operand counts as a zero of its sign, and a product below the smallest
        normal number of `result` before rounding becomes one. ``"ieee"``: gradual underflow.

    Returns
    -------
    uint32 array
        Patterns of `result`.

    Raises
    ------
    TypeError
        `a` or `b` are no integers, or a format is no string.
    ValueError
        A pattern is wider than `operand`, the shapes do not broadcast, or a format or mode is unknown.
    """
    operand_fmt = find_format(operand, "operand")
    result_fmt = find_format(result, "result")
    flush = check_subnormals(subnormals)
    x, y = _decode_pair(a, b, operand_fmt, find_format(operand if weight is None else weight, "weight"), flush=flush)
    return encode(rounded_product(x, y, result_fmt, flush=flush), result_fmt)


@ieee_arithmetic()
def add(a: npt.ArrayLike, b: npt.ArrayLike, fmt: str = "fp32", *, subnormals: str = "flush") -> Bits:
    """Add bit patterns of one format.

    Round to nearest, ties to even. Exact cancellation gives +0, (-0) + (-0) gives -0. Infinity - infinity
    and any NaN give the canonical quiet NaN. What is too large becomes infinity, a NaN in ``fp8_e4m3``, with
    the sign of the sum.

    Parameters
    ----------
    a, b : integer arrays, any shapes that broadcast
        Patterns of `fmt`.
    fmt : str
        Format of operands and sum, see :func:`find_format`.
    subnormals : str
        ``"flush"``: a subnormal operand counts as a zero of its sign, and a subnormal sum becomes one.
        ``"ieee"``: gradual underflow.

    Returns
    -------
    uint32 array
        Patterns of `fmt`.

    Raises
    ------
    TypeError
        `a` or `b` are no integers, or `fmt` is no string.
    ValueError
        A pattern is wider than `fmt`, the shapes do not broadcast, or the format or mode is unknown.
    """
    layout = find_format(fmt, "fmt")
    flush = check_subnormals(subnormals)
    x, y = _decode_pair(a, b, layout, layout, flush=flush)
    return encode(rounded_sum(x, y, layout, flush=flush), layout)


@ieee_arithmetic()
def dot_product_add(
    c: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    operand: str = "bf16",
    result: str = "fp32",
    *,
    weight: str | None = None,
) -> Bits:
    """Add the products of `a` and `b` along the last axis to `c`, with one rounding, as an element of several terms.

    Products are exact. All terms are cut towards zero at three bits below the last place of a sum with the largest
    exponent among them, added exactly, and rounded to nearest, ties to even. Subnormal operands count as zeros of their
    signs, and a sum below the smallest normal number after rounding becomes one. The sum of nothing but zeros is -0 if
    all of them are negative, else +0, as is an exact cancellation. Only infinite operands make an infinite term.

    Parameters
    ----------
    c : integer array
        Patterns of `result`.
    a, b : integer arrays
        Patterns of `operand`, one axis more than `c`. All three broadcast.
    operand, result : str
        Formats, see :func:`find_format`.
    weight : str
        Format of `b`; by default that of `a`.

    Returns
    -------
    uint32 array
        Patterns of `result`.

    Raises
    ------
    TypeError
        `a`, `b` or `c` are no integers, or a format is no string.
    ValueError
        A pattern is wider than its format, the shapes do not broadcast, or a format is unknown.
    """
    result_fmt = find_format(result, "result")
    formats = find_format(operand, "operand"), find_format(operand if weight is None else weight, "weight")
    x, y = _decode_pair(a, b, *formats, flush=True)
    psum = operand_values(check_patterns(c, result_fmt, "c"), result_fmt, flush=True)
    shape = np.broadcast_shapes(psum.shape, np.broadcast_shapes(x.shape, y.shape)[:-1])
    return encode(rounded_terms(np.broadcast_to(psum, shape), x, y, result_fmt), result_fmt)


def _decode_pair(
    a: npt.ArrayLike, b: npt.ArrayLike, a_fmt: Format, b_fmt: Format, *, flush: bool
) -> tuple[Values, Values]:
    """Check two operands, and return the values that arithmetic sees."""
    a_bits = check_patterns(a, a_fmt, "a")
    b_bits = check_patterns(b, b_fmt, "b")
    try:
        np.broadcast_shapes(a_bits.shape, b_bits.shape)
    except ValueError:
        raise ValueError(f"a and b must have shapes that broadcast, not {a_bits.shape} and {b_bits.shape}") from None
    return operand_values(a_bits, a_fmt, flush=flush), operand_values(b_bits, b_fmt, flush=flush)
