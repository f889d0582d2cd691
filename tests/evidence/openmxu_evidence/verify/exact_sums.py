"""Sums of several terms by integers of Python, apart from the golden model and the hardware."""

import math

import numpy as np

from openmxu_sim.golden.formats import Format, find_format
from openmxu_sim.operands.aliases import Words


def exact_sums(c: Words, a: Words, b: Words, operand: str, result: str) -> Words:
    """The patterns of sums ``c + Σ a·b`` by the contract's "Several terms", of patterns; terms along the last axis."""
    formats = find_format(result), find_format(operand)
    sums = zip(c.tolist(), a.tolist(), b.tolist(), strict=True)
    return np.array([_sum(*operands, *formats) for operands in sums], dtype=np.uint32)


def _sum(c: int, a: list[int], b: list[int], result: Format, operand: Format) -> int:
    # Sign, significand, exponent of its last bit, and of its first one where a number has that.
    terms = [(*_unpacked(c, result), result.fraction_width)]
    for x, y in zip(a, b, strict=True):
        (sign, significand, last), (other, factor, more) = _unpacked(x, operand), _unpacked(y, operand)
        terms.append((sign ^ other, significand * factor, last + more, 2 * operand.fraction_width))
    special = sum(-value if sign else value for sign, value, *_ in terms if not math.isfinite(value))
    if special:
        return result.canonical_nan if math.isnan(special) else result.overflow | (special < 0) * result.sign_bit
    exponents = [last + width for _, significand, last, width in terms if significand]
    if not exponents:
        return result.sign_bit * all(sign for sign, *_ in terms)
    unit = max(exponents) - result.fraction_width - 3
    total = 0
    for sign, significand, last, _ in terms:
        cut = int(significand) << (last - unit) if last >= unit else int(significand) >> (unit - last)
        total += -cut if sign else cut
    return _rounded(abs(total), unit, result) | (total < 0) * result.sign_bit


def _unpacked(pattern: int, fmt: Format) -> tuple[int, float, int]:
    """Sign, significand as an integer, and the exponent of its last bit; a subnormal number is a zero."""
    sign, magnitude = divmod(pattern, fmt.sign_bit)
    field, fraction = divmod(magnitude, 1 << fmt.fraction_width)
    significand: float = fraction + (1 << fmt.fraction_width) if field else 0
    if magnitude == fmt.canonical_nan or (fmt.has_infinity and magnitude >= fmt.overflow):
        significand = math.inf if fmt.has_infinity and magnitude == fmt.overflow else math.nan
    return sign, significand, field - fmt.bias - fmt.fraction_width


def _rounded(total: int, unit: int, fmt: Format) -> int:
    """The pattern of ``total · 2^unit``, rounded to nearest, ties to even, then flushed."""
    dropped = max(total.bit_length() - fmt.fraction_width - 1, 0)
    kept, rest = divmod(total, 1 << dropped)
    kept += 2 * rest + (kept & 1) > 1 << dropped
    field = unit + dropped + kept.bit_length() - 1 + fmt.bias
    if not kept or field < 1:
        return 0
    fraction = (kept << fmt.fraction_width >> kept.bit_length() - 1) & fmt.fraction_mask
    return min(field << fmt.fraction_width | fraction, fmt.overflow)
