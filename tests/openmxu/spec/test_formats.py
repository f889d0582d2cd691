"""The table of formats against the facts of the standards, and what it refuses."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from openmxu.spec.formats import BF16, FORMATS, FP8_E4M3, FP32, FloatFormat, check_subnormals
from openmxu_sim.golden import DTYPES


@pytest.mark.parametrize("name", DTYPES)
def test_formats_are_the_dtypes(name: str) -> None:
    """Widths, the largest number, and what overflow and a NaN are."""
    fmt, dtype = FORMATS[name], DTYPES[name]
    info = ml_dtypes.finfo(dtype)
    assert (fmt.width, fmt.fraction_width, fmt.bias) == (info.bits, info.nmant, 1 - info.minexp)
    patterns = np.array([fmt.largest, fmt.overflow, fmt.quiet_nan], dtype=f"u{fmt.width // 8}")
    largest, overflow, nan = patterns.view(dtype).astype(np.float64)
    assert largest == float(info.max)
    assert math.isinf(overflow) if fmt.has_infinity else math.isnan(overflow)
    assert math.isnan(nan)


def test_canonical_nans_of_the_contract() -> None:
    assert (FP32.quiet_nan, BF16.quiet_nan, FP8_E4M3.quiet_nan) == (0x7FC00000, 0x7FC0, 0x7F)


_NO_FORMATS = ["bfloat16", "e9f9", "e5f0", "e5f24", "e1f5", "ef", "", "5f3"]
_NO_FORMAT = r"(format|exponent_width|fraction_width) must be .*not "


@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        *((FloatFormat.parse, (text,), ValueError, _NO_FORMAT) for text in _NO_FORMATS),
        (FloatFormat, ("x", 1, 7), ValueError, "exponent_width must be an integer from 2 to 8, not 1"),
        (FloatFormat, ("x", 8, 24), ValueError, "fraction_width must be an integer from 1 to 23, not 24"),
        (FloatFormat, ("x", 8.0, 7), TypeError, "exponent_width must be an integer from 2 to 8, not 8.0"),
        (check_subnormals, ("daz",), ValueError, "subnormals must be 'flush' or 'ieee', not 'daz'"),
    ],
)
def test_messages(
    make: Callable[..., object], arguments: tuple[object, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(*arguments)
