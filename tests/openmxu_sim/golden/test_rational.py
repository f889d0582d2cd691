"""Every operation against exact rational arithmetic, which knows neither binary64 nor rint.

The reference here has its own table of formats and rounds by search: patterns of positive numbers ascend
with their values, so the two neighbours of a value are found by bisection and the nearer one is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.operands.vectors import corners, operands, pairs

from ...bits import same_bits

FIELDS = {
    "bf16": (8, 7),
    "fp16": (5, 10),
    "tf32": (8, 10),
    "fp8_e5m2": (5, 2),
    "fp8_e4m3": (4, 3),
    "fp32": (8, 23),
    "e2f1": (2, 1),
    "e3f2": (3, 2),
    "e4f3": (4, 3),
    "e2f23": (2, 23),
    "e8f1": (8, 1),
    "e6f9": (6, 9),
    "e7f14": (7, 14),
    "e5f22": (5, 22),
}


@dataclass(frozen=True)
class Reference:
    """A format whose numbers are fractions."""

    name: str

    @property
    def exponent_width(self) -> int:
        return FIELDS[self.name][0]

    @property
    def fraction_width(self) -> int:
        return FIELDS[self.name][1]

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_width + self.fraction_width)

    @property
    def too_large(self) -> int:
        """The pattern after that of the largest number."""
        all_ones = self.sign_bit - 1
        return all_ones if self.name == "fp8_e4m3" else all_ones - (1 << self.fraction_width) + 1

    @property
    def nan(self) -> int:
        if self.name == "fp8_e4m3":
            return 0x7F
        return self.too_large + (1 << (self.fraction_width - 1))

    @property
    def min_normal(self) -> Fraction:
        return self.magnitude(1 << self.fraction_width)

    def is_nan(self, pattern: int) -> bool:
        return pattern % self.sign_bit == 0x7F if self.name == "fp8_e4m3" else pattern % self.sign_bit > self.too_large

    def is_infinite(self, pattern: int) -> bool:
        return self.name != "fp8_e4m3" and pattern % self.sign_bit == self.too_large

    def is_negative(self, pattern: int) -> bool:
        return pattern >= self.sign_bit

    def magnitude(self, pattern: int) -> Fraction:
        """The value without its sign; for the pattern after the largest number as if it were one."""
        return _magnitude(self.exponent_width, self.fraction_width, pattern % self.sign_bit)

    def operand(self, pattern: int, flush: bool) -> Fraction:
        """The value that arithmetic sees."""
        magnitude = self.magnitude(pattern)
        if flush and magnitude < self.min_normal:
            return Fraction(0)
        return -magnitude if self.is_negative(pattern) else magnitude

    def nearest(self, magnitude: Fraction, negative: bool, flush: bool) -> int:
        """Round a value; a tie goes to the even pattern."""
        sign = self.sign_bit if negative else 0
        if flush and magnitude < self.min_normal:
            return sign
        if magnitude >= self.magnitude(self.too_large):
            return sign + self.too_large
        below, above = 0, self.too_large
        while above - below > 1:
            middle = (below + above) // 2
            if self.magnitude(middle) <= magnitude:
                below = middle
            else:
                above = middle
        to_below = magnitude - self.magnitude(below)
        to_above = self.magnitude(above) - magnitude
        if to_below == to_above:
            return sign + (below if below % 2 == 0 else above)
        return sign + (below if to_below < to_above else above)


@cache
def _magnitude(exponent_width: int, fraction_width: int, pattern: int) -> Fraction:
    exponent, fraction = divmod(pattern, 2**fraction_width)
    bias = 2 ** (exponent_width - 1) - 1
    if exponent == 0:
        return Fraction(fraction, 2**fraction_width) * Fraction(2) ** (1 - bias)
    return (1 + Fraction(fraction, 2**fraction_width)) * Fraction(2) ** (exponent - bias)


def convert(pattern: int, source: Reference, target: Reference, flush: bool) -> int:
    """Convert one pattern."""
    negative = source.is_negative(pattern)
    if source.is_nan(pattern):
        if target.name == "fp8_e4m3":
            return target.nan + (target.sign_bit if negative else 0)
        digits = f"{pattern % 2**source.fraction_width:0{source.fraction_width}b}".ljust(23, "0")
        kept = "1" + digits[1 : target.fraction_width]
        return target.too_large + int(kept, 2) + (target.sign_bit if negative else 0)
    if source.is_infinite(pattern):
        return target.too_large + (target.sign_bit if negative else 0)
    return target.nearest(abs(source.operand(pattern, flush)), negative, flush)


def multiply(a: int, b: int, operand: Reference, result: Reference, flush: bool) -> int:
    """Multiply two patterns."""
    negative = operand.is_negative(a) != operand.is_negative(b)
    if operand.is_nan(a) or operand.is_nan(b):
        return result.nan
    if operand.is_infinite(a) or operand.is_infinite(b):
        finite = [operand.operand(each, flush) for each in (a, b) if not operand.is_infinite(each)]
        if 0 in finite:
            return result.nan
        return result.too_large + (result.sign_bit if negative else 0)
    return result.nearest(abs(operand.operand(a, flush) * operand.operand(b, flush)), negative, flush)


def add(a: int, b: int, fmt: Reference, flush: bool) -> int:
    """Add two patterns."""
    if fmt.is_nan(a) or fmt.is_nan(b):
        return fmt.nan
    infinite = [each for each in (a, b) if fmt.is_infinite(each)]
    if infinite:
        return infinite[0] if len(set(infinite)) == 1 else fmt.nan
    total = fmt.operand(a, flush) + fmt.operand(b, flush)
    both_negative = fmt.is_negative(a) and fmt.is_negative(b)
    return fmt.nearest(abs(total), total < 0 or (total == 0 and both_negative), flush)


def over(function: Callable[..., int], *columns: Any, **arguments: Any) -> list[int]:
    """Apply a scalar function to arrays."""
    return [function(*row, **arguments) for row in zip(*(each.tolist() for each in columns), strict=True)]


MODES = pytest.mark.parametrize("mode", ["flush", "ieee"])


@MODES
@pytest.mark.parametrize("fmt", ["e2f1", "e3f2", "e4f3", "fp8_e4m3", "fp8_e5m2"])
def test_all_pairs_of_small_formats(fmt: str, mode: str) -> None:
    """Sums, and products in the same format, of every pair of patterns up to order."""
    reference = Reference(fmt)
    first, second = np.triu_indices(2 * reference.sign_bit)
    flush = mode == "flush"
    expected = over(add, first, second, fmt=reference, flush=flush)
    got = golden.add(first, second, fmt, subnormals=mode)
    same_bits(got, expected, first, second, fmt=fmt, operand=fmt, note=f"add, {mode}")
    same_bits(got, golden.add(second, first, fmt, subnormals=mode), fmt=fmt, note=mode)

    expected = over(multiply, first, second, operand=reference, result=reference, flush=flush)
    got = golden.multiply(first, second, fmt, fmt, subnormals=mode)
    same_bits(got, expected, first, second, fmt=fmt, operand=fmt, note=f"multiply, {mode}")
    same_bits(got, golden.multiply(second, first, fmt, fmt, subnormals=mode), fmt=fmt, note=mode)


@MODES
@pytest.mark.parametrize("fmt", ["bf16", "fp16", "tf32", "fp32", "e2f23", "e8f1", "e6f9", "e7f14", "e5f22"])
def test_wide_and_odd_formats(fmt: str, mode: str) -> None:
    """Biased pairs: sums, products in the same format and in fp32."""
    reference = Reference(fmt)
    a, b = pairs(fmt, 1000, 50)
    flush = mode == "flush"
    note = f"{mode}, seed 50"
    expected = over(add, a, b, fmt=reference, flush=flush)
    same_bits(golden.add(a, b, fmt, subnormals=mode), expected, a, b, fmt=fmt, operand=fmt, note=note)
    for result in (fmt, "fp32"):
        expected = over(multiply, a, b, operand=reference, result=Reference(result), flush=flush)
        got = golden.multiply(a, b, fmt, result, subnormals=mode)
        same_bits(got, expected, a, b, fmt=result, operand=fmt, note=note)


@MODES
@pytest.mark.parametrize(
    ("operand", "result"),
    [("fp32", "bf16"), ("fp32", "fp8_e4m3"), ("e7f14", "e6f9"), ("bf16", "e2f1"), ("fp8_e5m2", "fp8_e4m3")],
)
def test_products_in_narrower_formats(operand: str, result: str, mode: str) -> None:
    """One rounding, and underflow decided before it, also where most of the product is dropped."""
    a, b = pairs(operand, 2000, 51)
    expected = over(multiply, a, b, operand=Reference(operand), result=Reference(result), flush=mode == "flush")
    got = golden.multiply(a, b, operand, result, subnormals=mode)
    same_bits(got, expected, a, b, fmt=result, operand=operand, note=f"{mode}, seed 51")


@MODES
def test_products_that_round_up_to_the_smallest_normal_number(mode: str) -> None:
    """Exact products within two ulps of 2**-126, where before and after rounding differ."""
    fmt = Reference("fp32")
    rng = np.random.default_rng(52)
    a = (rng.integers(1 << 23, size=2000) | (100 << 23)).astype(np.uint32)
    quotients = [fmt.min_normal / fmt.magnitude(int(each)) for each in a]
    b = np.array([fmt.nearest(each, False, False) for each in quotients], dtype=np.uint32)
    b += rng.integers(-1, 2, size=2000).astype(np.uint32)
    expected = over(multiply, a, b, operand=fmt, result=fmt, flush=mode == "flush")
    got = golden.multiply(a, b, "fp32", "fp32", subnormals=mode)
    same_bits(got, expected, a, b, note=f"{mode}, seed 52")
    smallest = np.count_nonzero(got == 0x00800000)
    assert smallest > 0
    if mode == "flush":
        with_gradual_underflow = golden.multiply(a, b, "fp32", "fp32", subnormals="ieee")
        assert smallest < np.count_nonzero(with_gradual_underflow == 0x00800000)


@MODES
@pytest.mark.parametrize("target", FIELDS)
@pytest.mark.parametrize("source", ["fp32", "fp8_e4m3", "fp8_e5m2", "tf32", "e2f23", "e6f9"])
def test_convert_between_formats(source: str, target: str, mode: str) -> None:
    """Corners and a biased mix, NaN payloads included."""
    bits = np.concatenate([corners(source), operands(source, 250, 53)])
    expected = over(convert, bits, source=Reference(source), target=Reference(target), flush=mode == "flush")
    got = golden.convert(bits, source, target, subnormals=mode)
    same_bits(got, expected, bits, fmt=target, operand=source, note=f"{mode}, seed 53")
