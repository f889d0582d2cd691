"""Every operation against exact rational arithmetic, which rounds by search: patterns ascend with their values."""

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.golden.formats import Bits
from openmxu_sim.operands.vectors import corners, operands, pairs

from ...bits import same_bits
from ...conftest import slow

NAMED = {"bf16": "e8f7", "fp16": "e5f10", "tf32": "e8f10", "fp8_e5m2": "e5f2", "fp8_e4m3": "e4f3", "fp32": "e8f23"}
FORMATS = [*NAMED, "e2f1", "e3f2", "e4f3", "e2f23", "e8f1", "e6f9", "e7f14", "e5f22"]


class Reference:
    """A format whose numbers are fractions; infinities and NaN are Python's."""

    def __init__(self, name: str) -> None:
        self.exponent_width, self.fraction_width = map(int, NAMED.get(name, name)[1:].split("f"))
        self.sign_bit = 1 << (self.exponent_width + self.fraction_width)
        self.min_normal = self.magnitude(1 << self.fraction_width)
        self.has_infinity = name != "fp8_e4m3"
        # The pattern after that of the largest number.
        self.too_large = self.sign_bit - (1 << self.fraction_width if self.has_infinity else 1)
        self.nan = self.too_large + (1 << (self.fraction_width - 1) if self.has_infinity else 0)

    def is_nan(self, pattern: int) -> bool:
        return pattern % self.sign_bit >= self.too_large + self.has_infinity

    def is_negative(self, pattern: int) -> bool:
        return pattern >= self.sign_bit

    def magnitude(self, pattern: int) -> Fraction:
        """The value without its sign; for the pattern after the largest number as if it were one."""
        return _magnitude(self.exponent_width, self.fraction_width, pattern % self.sign_bit)

    def operand(self, pattern: int, flush: bool) -> Fraction | float:
        if self.is_nan(pattern):
            return math.nan
        infinite = pattern % self.sign_bit == self.too_large  # as a NaN has gone
        magnitude: Fraction | float = math.inf if infinite else self.magnitude(pattern)
        if flush and magnitude < self.min_normal:
            return Fraction(0)
        return -magnitude if self.is_negative(pattern) else magnitude

    def nearest(self, value: Fraction | float, negative: bool, flush: bool) -> int:
        """Round a value; a tie goes to the even pattern."""
        if math.isnan(value):
            return self.nan
        magnitude: Any = abs(value)
        sign = self.sign_bit if negative else 0
        if flush and magnitude < self.min_normal:
            return sign
        if magnitude >= self.magnitude(self.too_large):
            return sign + self.too_large
        above = bisect_right(range(self.too_large), magnitude, key=self.magnitude)
        return sign + min(above - 1, above, key=lambda near: (abs(self.magnitude(near) - magnitude), near % 2))


@cache
def _magnitude(exponent_width: int, fraction_width: int, pattern: int) -> Fraction:
    exponent, fraction = divmod(pattern, 2**fraction_width)
    bias = 2 ** (exponent_width - 1) - 1
    if exponent == 0:
        return Fraction(fraction, 2**fraction_width) * Fraction(2) ** (1 - bias)
    return (1 + Fraction(fraction, 2**fraction_width)) * Fraction(2) ** (exponent - bias)


def convert(pattern: int, source: Reference, target: Reference, flush: bool) -> int:
    negative = source.is_negative(pattern)
    if not source.is_nan(pattern):
        return target.nearest(source.operand(pattern, flush), negative, flush)
    sign = target.sign_bit if negative else 0
    if not target.has_infinity:
        return target.nan + sign
    digits = f"{pattern % 2**source.fraction_width:0{source.fraction_width}b}".ljust(23, "0")
    return target.too_large + int("1" + digits[1 : target.fraction_width], 2) + sign


def multiply(a: int, b: int, operand: Reference, result: Reference, flush: bool) -> int:
    negative = operand.is_negative(a) != operand.is_negative(b)
    return result.nearest(operand.operand(a, flush) * operand.operand(b, flush), negative, flush)


def add(a: int, b: int, fmt: Reference, flush: bool) -> int:
    total = fmt.operand(a, flush) + fmt.operand(b, flush)
    both_negative = fmt.is_negative(a) and fmt.is_negative(b)
    return fmt.nearest(total, total < 0 or (total == 0 and both_negative), flush)


# Beside biased ones. Products: at both ends of the range, and at ties. Sums: at ties, and of more bits than binary64.
PAIRS = {
    "bf16": [
        *[(0x5F80, 0x5F80), (0x5F80, 0xDF00), (0x2000, 0x2000), (0x2000, 0x1F80), (0x2000, 0x9FFF)],
        *[(0x1A80, 0x1A80), (0x1A80, 0x1880), (0x1A80, 0x1980), (0x1A80, 0x1981), (0x3F7F, 0x0080)],
    ],
    "fp16": [(0x3BFF, 0x0400)],
    "fp8_e4m3": [(0x7E, 0x7E), (0x7F, 0x38)],
    "fp32": [
        *[(0x3F7FFFFF, 0x00800000), (0xBF7FFFFF, 0x00800000), (0x3F800000, 0x33800000), (0x3F800000, 0x33800001)],
        *[(0x3F800001, 0x33800000), (0xBF800000, 0x33000000), (0xBF800000, 0x33000001), (0x7F7FFFFF, 0x73000000)],
        *[(0x7F7FFFFF, 0x72FFFFFF), (0x00400000, 0x00400000), (0x3F800000, 0x30FFFFFF), (0x3F800000, 0xB0FFFFFF)],
    ],
}

# Numbers: just below the smallest normal one of fp16, 464 and 248 and their neighbours, NaNs with payloads; subnormal.
NUMBERS = {
    "fp32": [
        *[0x387FFFFF, 0xB87FFFFF, 0x38800000, 0x43E80000, 0x43E80001, 0xC3E80001, 0x43780000, 0x4377FFFF],
        *[0xFFABCDEF, 0x7FA10000, 0xFFA02000],
    ],
    "bf16": [0x0001, 0xFF81, 0x43E0],
    "fp16": [0x0001, 0x8001],
}


def chosen(fmt: str, count: int, seed: int) -> tuple[Bits, Bits]:
    a, b = np.concatenate([np.transpose(pairs(fmt, count, seed)), PAIRS.get(fmt, [(0, 0)])]).T.astype(np.uint32)
    return a, b


def over(function: Callable[..., int], *columns: Any, **arguments: Any) -> list[int]:
    return [function(*row, **arguments) for row in zip(*(each.tolist() for each in columns), strict=True)]


def check_sums(a: Bits, b: Bits, fmt: str, mode: str) -> None:
    expected = over(add, a, b, fmt=Reference(fmt), flush=mode == "flush")
    for x, y in ((a, b), (b, a)):
        same_bits(golden.add(x, y, fmt, subnormals=mode), expected, x, y, fmt=fmt, operand=fmt, note=f"add, {mode}")


def check_products(a: Bits, b: Bits, operand: str, result: str, mode: str) -> Bits:
    expected = over(multiply, a, b, operand=Reference(operand), result=Reference(result), flush=mode == "flush")
    for x, y in ((a, b), (b, a)):
        got = golden.multiply(x, y, operand, result, subnormals=mode)
        same_bits(got, expected, x, y, fmt=result, operand=operand, note=f"multiply, {mode}")
    return got


@pytest.mark.parametrize("fmt", ["e2f1", "e3f2", "fp8_e4m3", slow("e4f3"), slow("fp8_e5m2")])
def test_all_pairs_of_small_formats(fmt: str, mode: str) -> None:
    first, second = (places.astype(np.uint32) for places in np.triu_indices(2 * Reference(fmt).sign_bit))
    check_sums(first, second, fmt, mode)
    check_products(first, second, fmt, fmt, mode)


@np.errstate(all="raise")  # nothing underflows or overflows in binary64, whatever the caller's settings
@pytest.mark.parametrize(
    "fmt", ["bf16", "fp16", "fp32", "e2f23", "e8f1", "e7f14", *map(slow, ("tf32", "e6f9", "e5f22"))]
)
def test_wide_and_odd_formats(fmt: str, mode: str) -> None:
    a, b = chosen(fmt, 1000, 50)
    check_sums(a, b, fmt, mode)
    for result in (fmt, "fp32"):
        check_products(a, b, fmt, result, mode)


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        *[("fp32", "bf16"), ("fp32", "fp8_e4m3"), ("e7f14", "e6f9"), ("bf16", "e2f1"), ("fp8_e5m2", "fp8_e4m3")],
        *[("fp8_e4m3", "fp32"), ("fp8_e4m3", "bf16")],
    ],
)
def test_products_in_other_formats(operand: str, result: str, mode: str) -> None:
    """One rounding, and underflow decided before it, also where most of the product is dropped."""
    check_products(*chosen(operand, 2000, 51), operand, result, mode)


def test_products_that_round_up_to_the_smallest_normal_number(mode: str) -> None:
    """Exact products within two ulps of 2**-126, where before and after rounding differ."""
    fmt = Reference("fp32")
    rng = np.random.default_rng(52)
    a = (rng.integers(1 << 23, size=2000) | (100 << 23)).astype(np.uint32)
    quotients = [fmt.min_normal / fmt.magnitude(int(each)) for each in a]
    b = np.array([fmt.nearest(each, False, False) for each in quotients], dtype=np.uint32)
    b += rng.integers(-1, 2, size=2000).astype(np.uint32)
    smallest = np.count_nonzero(check_products(a, b, "fp32", "fp32", mode) == 0x00800000)
    assert smallest > 0
    if mode == "flush":
        with_gradual_underflow = golden.multiply(a, b, "fp32", "fp32", subnormals="ieee")
        assert smallest < np.count_nonzero(with_gradual_underflow == 0x00800000)


@np.errstate(all="raise")
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize(
    "source", ["bf16", "fp16", "fp8_e4m3", "fp32", "e6f9", *map(slow, ("tf32", "fp8_e5m2", "e2f23"))]
)
def test_convert_between_formats(source: str, target: str, mode: str) -> None:
    bits = np.concatenate([corners(source), operands(source, 250, 53), np.uint32(NUMBERS.get(source, []))])
    expected = over(convert, bits, source=Reference(source), target=Reference(target), flush=mode == "flush")
    got = golden.convert(bits, source, target, subnormals=mode)
    same_bits(got, expected, bits, fmt=target, operand=source, note=f"{mode}, seed 53")
