"""Number formats, and the exact way between bit patterns and values.

Every format here has at most 8 exponent bits and 23 fraction bits, so each of its numbers, infinities and
zeros of both signs included, is a binary64 number: :func:`decode` and :func:`encode` lose nothing but the
payload of a NaN.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint32]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: one sign bit, then exponent, then fraction.

    The bias is ``2**(exponent_width - 1) - 1`` and an exponent field of zero means zero or subnormal, as in
    IEEE 754.
    """

    name: str
    """Name in messages."""
    exponent_width: int
    """Bits of the biased exponent."""
    fraction_width: int
    """Stored bits of the significand."""
    has_infinity: bool = True
    """True: the exponent of all ones means infinity or NaN, as in IEEE 754. False: as in OCP FP8 E4M3, all ones in
    exponent and fraction is the only NaN, every other pattern is a number, and what is too large becomes that
    NaN."""

    @property
    def width(self) -> int:
        """Bits of a pattern."""
        return 1 + self.exponent_width + self.fraction_width

    @property
    def bias(self) -> int:
        """Exponent field of numbers in [1, 2)."""
        return (1 << (self.exponent_width - 1)) - 1

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number and of every subnormal one."""
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite number."""
        return self.bias if self.has_infinity else self.bias + 1

    @property
    def min_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.min_exponent

    @property
    def max_finite(self) -> float:
        """The largest finite number."""
        # Without an infinity the pattern of all ones is lost to the NaN, and the largest number is one below.
        ulps_below = 1 if self.has_infinity else 2
        return (2.0 - ulps_below * 2.0**-self.fraction_width) * 2.0**self.max_exponent

    @property
    def sign_bit(self) -> int:
        """Pattern of the sign alone, which is -0."""
        return 1 << (self.width - 1)

    @property
    def exponent_mask(self) -> int:
        """Pattern of all exponent bits."""
        return (1 << (self.width - 1)) - (1 << self.fraction_width)

    @property
    def fraction_mask(self) -> int:
        """Pattern of all fraction bits."""
        return (1 << self.fraction_width) - 1

    @property
    def quiet_bit(self) -> int:
        """Pattern of the top fraction bit, which tells a quiet NaN from a signalling one."""
        return 1 << (self.fraction_width - 1)

    @property
    def canonical_nan(self) -> int:
        """Pattern of the NaN that arithmetic gives."""
        return self.exponent_mask | (self.quiet_bit if self.has_infinity else self.fraction_mask)

    @property
    def overflow(self) -> int:
        """Pattern that replaces too large a positive number: infinity, or the NaN of a format that has none."""
        return self.exponent_mask if self.has_infinity else self.canonical_nan


FORMATS: dict[str, Format] = {
    fmt.name: fmt
    for fmt in (
        Format("bf16", 8, 7),
        Format("fp16", 5, 10),
        Format("tf32", 8, 10),
        Format("fp8_e5m2", 5, 2),
        Format("fp8_e4m3", 4, 3, has_infinity=False),
        Format("fp32", 8, 23),
    )
}
"""The named formats."""

DTYPES: Mapping[str, np.dtype[Any]] = {
    "fp32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp16": np.dtype(np.float16),
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Types of numpy, with ml_dtypes, by the name of their format."""


def find_format(name: str, parameter: str = "fmt") -> Format:
    """Look up a format by name.

    Parameters
    ----------
    name : str
        A key of :data:`FORMATS`, or ``eXfY`` for X exponent and Y fraction bits with infinities, where
        2 <= X <= 8 and 1 <= Y <= 23: ``e4f3`` is not ``fp8_e4m3``.
    parameter : str
        The caller's name of the parameter, for the message.

    Returns
    -------
    Format

    Raises
    ------
    TypeError
        `name` is no string.
    ValueError
        There is no such format.
    """
    if not isinstance(name, str):
        raise TypeError(f"{parameter} must be the name of a format, not {name!r}")
    if name in FORMATS:
        return FORMATS[name]
    match = re.fullmatch(r"e([2-8])f([1-9]|1[0-9]|2[0-3])", name)
    if match is None:
        raise ValueError(
            f"{parameter} must be one of {', '.join(FORMATS)}, or eXfY with 2 <= X <= 8 and 1 <= Y <= 23, not {name!r}"
        )
    return Format(name, int(match[1]), int(match[2]))


def check_unmasked(array: npt.ArrayLike, parameter: str) -> None:
    """Refuse a masked array, whose mask numpy would drop without a word."""
    if isinstance(array, np.ma.MaskedArray) or (
        isinstance(array, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in array)
    ):
        raise TypeError(
            f"{parameter} must be an array without a mask, not a masked array: fill it first, as its method filled does"
        )


def check_patterns(bits: npt.ArrayLike, fmt: Format, parameter: str) -> Bits:
    """Check an array of bit patterns, and return it as uint32."""
    check_unmasked(bits, parameter)
    array = np.asarray(bits)
    if array.dtype.kind not in "ui":
        raise TypeError(f"{parameter} must be bit patterns in an integer array, not {array.dtype}")
    wrong = (array < 0) | (array >= 1 << fmt.width)
    if np.any(wrong):
        first = int(array[wrong].flat[0])
        raise ValueError(f"{parameter} must be patterns of {fmt.width} bits ({fmt.name}), not {first:#x}")
    return array.astype(np.uint32)


def is_nan(bits: Bits, fmt: Format) -> npt.NDArray[np.bool_]:
    """Tell the NaN patterns of `fmt`, quiet and signalling, from all others."""
    if fmt.has_infinity:
        return ((bits & fmt.exponent_mask) == fmt.exponent_mask) & ((bits & fmt.fraction_mask) != 0)
    return (bits & (fmt.sign_bit - 1)) == fmt.canonical_nan


def decode(bits: Bits, fmt: Format) -> Values:
    """Return the exact values of bit patterns."""
    exponent = ((bits & fmt.exponent_mask) >> fmt.fraction_width).astype(np.int32)
    fraction = (bits & fmt.fraction_mask).astype(np.float64)
    # Subnormal numbers have no hidden bit and the exponent of the smallest normal one.
    significand = np.where(exponent == 0, fraction, fraction + 2.0**fmt.fraction_width)
    magnitude = np.ldexp(significand, np.maximum(exponent, 1) - fmt.bias - fmt.fraction_width)
    if fmt.has_infinity:
        magnitude = np.where((bits & (fmt.sign_bit - 1)) == fmt.exponent_mask, np.inf, magnitude)
    signed = np.where((bits & fmt.sign_bit) != 0, -magnitude, magnitude)
    return np.where(is_nan(bits, fmt), np.nan, signed)


def encode(values: Values, fmt: Format) -> Bits:
    """Return the bit patterns of values that `fmt` can hold; this does not round."""
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
    normal = magnitude >= fmt.min_normal
    # frexp gives a significand in [0.5, 1), formats have it in [1, 2): hence the one.
    exponent = np.where(normal, np.frexp(magnitude)[1] - 1, fmt.min_exponent)
    significand = np.ldexp(magnitude, fmt.fraction_width - exponent)
    fraction = np.where(normal, significand - 2.0**fmt.fraction_width, significand)
    field = np.where(normal, exponent + fmt.bias, 0)
    bits = (field.astype(np.uint32) << fmt.fraction_width) | fraction.astype(np.uint32)
    bits = np.where(np.isinf(values), np.uint32(fmt.overflow), bits)
    bits = np.where(np.signbit(values), bits | np.uint32(fmt.sign_bit), bits)
    return np.where(np.isnan(values), np.uint32(fmt.canonical_nan), bits)
