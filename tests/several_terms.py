"""Sums of several terms by integers of Python, apart from the golden model and the hardware; and operands for them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from openmxu_sim import golden
from openmxu_sim.golden import Format
from openmxu_sim.operands import vectors

Bits = npt.NDArray[np.uint32]

_Parts = tuple[str, int, int, int, int]
"""Kind, "inf" or "nan"; sign, significand as an integer, exponent of its first bit and of its last."""


def exact_sum(c: int, a: Sequence[int], b: Sequence[int], operand: Format, result: Format) -> int:
    """The pattern of ``c + Σ a·b`` by the contract's "Several terms", of patterns."""
    finite = [_product(_unpacked(x, operand), _unpacked(y, operand)) for x, y in zip(a, b, strict=True)]
    finite.append(_unpacked(c, result))
    infinite = {sign for kind, sign, _, _, _ in finite if kind == "inf"}
    if len(infinite) > 1 or any(kind == "nan" for kind, *_ in finite):
        return result.canonical_nan
    if infinite:
        return infinite.pop() * result.sign_bit | result.overflow
    exponents = [exponent for _, _, significand, exponent, _ in finite if significand]
    if not exponents:
        return result.sign_bit * all(sign for _, sign, _, _, _ in finite)
    unit = max(exponents) - result.fraction_width - 3
    total = 0
    for _, sign, significand, _, last in finite:
        cut = significand << (last - unit) if last >= unit else significand >> (unit - last)
        total += -cut if sign else cut
    return _rounded(total, unit, result) | (total < 0) * result.sign_bit


def _unpacked(pattern: int, fmt: Format) -> "_Parts":
    sign, magnitude = divmod(pattern, fmt.sign_bit)
    field, fraction = divmod(magnitude, 1 << fmt.fraction_width)
    if magnitude == fmt.canonical_nan or (fmt.has_infinity and magnitude > fmt.overflow):
        return "nan", sign, 0, 0, 0
    if fmt.has_infinity and magnitude == fmt.overflow:
        return "inf", sign, 0, 0, 0
    exponent = field - fmt.bias
    significand = fraction + (1 << fmt.fraction_width) if field else 0
    return "", sign, significand, exponent, exponent - fmt.fraction_width


def _product(x: "_Parts", y: "_Parts") -> "_Parts":
    sign, kinds = x[1] ^ y[1], {x[0], y[0]}
    zero = any(not kind and not significand for kind, _, significand, _, _ in (x, y))
    if "nan" in kinds or ("inf" in kinds and zero):
        return "nan", sign, 0, 0, 0
    return "inf" if "inf" in kinds else "", sign, x[2] * y[2], x[3] + y[3], x[4] + y[4]


def _rounded(total: int, unit: int, fmt: Format) -> int:
    """The magnitude of ``total · 2^unit``, rounded to nearest, ties to even, then flushed."""
    total = abs(total)
    dropped = max(total.bit_length() - fmt.fraction_width - 1, 0)
    kept, rest = divmod(total, 1 << dropped)
    kept += 2 * rest + (kept & 1) > 1 << dropped
    if not kept:
        return 0
    field = unit + dropped + kept.bit_length() - 1 + fmt.bias
    if field < 1:
        return 0
    shift = fmt.fraction_width + 1 - kept.bit_length()
    fraction = (kept << shift if shift >= 0 else kept >> -shift) & fmt.fraction_mask
    return min(field << fmt.fraction_width | fraction, fmt.overflow)


def drawn(operand: str, result: str, terms: int, count: int, seed: int) -> tuple[Bits, Bits, Bits]:
    """Sums, and (count, terms) operands: any patterns, products that meet, that cancel, and zeros among them.

    A tenth of them cancels but for one unit of the window.
    """
    rng = np.random.default_rng(seed)
    b = vectors.operands(operand, count * terms, seed).reshape(count, terms)
    any_words = vectors.operands(operand, count * terms, seed + 1).reshape(count, terms)
    a = np.where(rng.random((count, 1)) < 0.7, vectors.matching(operand, b, seed + 2), any_words)
    sign = np.uint32(1 << (vectors.find_format(operand).width - 1))
    opposite = rng.random(count) < 0.2
    a[:, -1], b[:, -1] = np.where(opposite, a[:, 0] ^ sign, a[:, -1]), np.where(opposite, b[:, 0], b[:, -1])
    b[:, 0] = np.where(rng.random(count) < 0.1, b[:, 0] & sign, b[:, 0])
    c = vectors.operands(result, count, seed + 3)
    products = golden.multiply(a[:, 0], b[:, 0], operand, result)
    c = np.where(rng.random(count) < 0.6, vectors.partners(result, products, seed + 4), c)
    least = rng.random(count) < 0.1
    a[least, 1:], b[least, 1:] = 0, 0
    c[least] = products[least] ^ np.uint32(golden.find_format(result).sign_bit)
    one, unit = _unit_below(products[least], operand, result)
    a[least, 1], b[least, 1] = one | np.where(rng.random(len(one)) < 0.5, sign, 0), unit
    return vectors.canonical(c, result), a.astype(np.uint32), b.astype(np.uint32)


def _unit_below(sums: Bits, operand: str, result: str) -> tuple[Bits, Bits]:
    """Operands whose product is one unit of the window of sums, or as near as two exponents come."""
    fmt, wide = golden.find_format(operand), golden.find_format(result)
    exponents = (sums & wide.exponent_mask).astype(np.int64) >> wide.fraction_width
    exponents += 2 * fmt.bias - wide.bias - wide.fraction_width - 3
    most = (1 << fmt.exponent_width) - 2
    first = np.clip(exponents // 2, 1, most)
    fields = first, np.clip(exponents - first, 1, most)
    one, other = ((field << fmt.fraction_width).astype(np.uint32) for field in fields)
    return one, other
