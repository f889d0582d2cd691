"""Operands for sums of several terms."""

import numpy as np
import numpy.typing as npt

from openmxu_sim import golden
from openmxu_sim.operands import vectors

Bits = npt.NDArray[np.uint32]


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
