"""Decoding and encoding of the golden model's formats against other people's decoders."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import Bits, Format, decode, encode, is_nan

# Those small enough to decode every pattern, and who else knows them.
OTHER_TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp8_e5m2": ml_dtypes.float8_e5m2}
OTHER_TYPES |= {"fp8_e4m3": ml_dtypes.float8_e4m3fn, "e4f3": ml_dtypes.float8_e4m3, "e3f4": ml_dtypes.float8_e3m4}
TYPES = {name: np.dtype(dtype) for name, dtype in (OTHER_TYPES | {"fp32": np.float32}).items()}


def drawn(fmt: Format, seed: int) -> Bits:
    """All patterns; of wide formats uniform ones, of which a third has an exponent of zeros and a third one of ones."""
    if fmt.width <= 19:
        return np.arange(1 << fmt.width, dtype=np.uint32)
    patterns = np.random.default_rng(seed).integers(1 << fmt.width, size=200_000).astype(np.uint32)
    patterns[::3] &= ~np.uint32(fmt.exponent_mask)
    patterns[1::3] |= np.uint32(fmt.exponent_mask)
    return patterns


@pytest.mark.parametrize("name", TYPES)
def test_decodes_every_pattern_as_others_do(name: str) -> None:
    fmt, dtype = find_format(name), TYPES[name]
    limits = ml_dtypes.finfo(dtype)
    assert (fmt.width, fmt.min_normal, fmt.max_finite) == (limits.bits, limits.smallest_normal, limits.max)
    patterns = drawn(fmt, 20)
    with np.errstate(invalid="ignore"):  # casting a signalling NaN
        theirs = patterns.astype(f"u{dtype.itemsize}").view(dtype).astype(np.float64)
    ours = decode(patterns, fmt)
    numbers = ~np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), ~numbers)
    assert np.array_equal(is_nan(patterns, fmt), ~numbers)
    # As patterns, so that -0 is not +0.
    assert np.array_equal(ours[numbers].view(np.uint64), theirs[numbers].view(np.uint64))


@pytest.mark.parametrize("name", [*FORMATS, "e2f1", "e2f23", "e3f2", "e5f7", "e6f9", "e8f1"])
def test_encode_undoes_decode(name: str) -> None:
    """Every number of a format comes back; every NaN comes back as the canonical one."""
    fmt = find_format(name)
    patterns = drawn(fmt, 21)
    expected = np.where(is_nan(patterns, fmt), np.uint32(fmt.canonical_nan), patterns)
    assert np.array_equal(encode(decode(patterns, fmt), fmt), expected)
