"""The table of formats against the facts of the standards, and what it refuses."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from openmxu.spec.formats import BF16, FORMATS, FP8_E4M3, FP16, FP32, FloatFormat, check_subnormals

_DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp32": np.float32,
}


@pytest.mark.parametrize("name", _DTYPES)
def test_widths_and_largest_number_are_the_dtypes(name: str) -> None:
    fmt, info = FORMATS[name], ml_dtypes.finfo(_DTYPES[name])
    assert fmt.width == info.bits
    assert fmt.fraction_width == info.nmant
    assert fmt.bias == 1 - info.minexp
    pattern = np.array([fmt.largest], dtype=f"u{fmt.width // 8}").view(_DTYPES[name])
    assert pattern[0] == info.max


@pytest.mark.parametrize("name", _DTYPES)
def test_overflow_and_quiet_nan_patterns(name: str) -> None:
    fmt = FORMATS[name]
    overflow, nan = (
        np.array([bits], dtype=f"u{fmt.width // 8}").view(_DTYPES[name])[0].astype(np.float64)
        for bits in (fmt.overflow, fmt.quiet_nan)
    )
    assert math.isinf(overflow) if fmt.has_infinity else math.isnan(overflow)
    assert math.isnan(nan)


def test_canonical_nans_of_the_contract() -> None:
    assert (FP32.quiet_nan, BF16.quiet_nan, FP8_E4M3.quiet_nan) == (0x7FC00000, 0x7FC0, 0x7F)
    assert struct.unpack("<f", struct.pack("<I", FP32.quiet_nan))[0] != 0


def test_parse() -> None:
    assert FloatFormat.parse("fp16") is FP16
    assert FloatFormat.parse("e6f9") == FloatFormat("e6f9", 6, 9)


@pytest.mark.parametrize("text", ["bfloat16", "e9f9", "e5f0", "e5f24", "e1f5", "ef", "", "5f3"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"(format|exponent_width|fraction_width) must be .*not "):
        FloatFormat.parse(text)


@pytest.mark.parametrize(
    ("widths", "error", "message"),
    [
        ((1, 7), ValueError, "exponent_width must be an integer from 2 to 8, not 1"),
        ((8, 24), ValueError, "fraction_width must be an integer from 1 to 23, not 24"),
        ((8.0, 7), TypeError, "exponent_width must be an integer from 2 to 8, not 8.0"),
    ],
)
def test_messages(widths: tuple[int, int], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FloatFormat("x", *widths)


def test_subnormals_message() -> None:
    with pytest.raises(ValueError, match="subnormals must be 'flush' or 'ieee', not 'daz'"):
        check_subnormals("daz")
