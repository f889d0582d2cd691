"""The golden model's table of formats, and decoding and encoding against other people's decoders."""

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import decode, encode, is_nan

# Those small enough to decode every pattern, and who else knows them.
OTHER_TYPES: dict[str, npt.DTypeLike] = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "e4f3": ml_dtypes.float8_e4m3,
    "e3f4": ml_dtypes.float8_e3m4,
}


@pytest.mark.parametrize(
    ("name", "width", "numbers", "patterns"),
    [
        ("bf16", 16, (2.0**-126, 255 * 2.0**120), (0x7FC0, 0x7F80)),
        ("fp16", 16, (2.0**-14, 65504.0), (0x7E00, 0x7C00)),
        ("tf32", 19, (2.0**-126, 2047 * 2.0**117), (0x3FE00, 0x3FC00)),
        ("fp8_e5m2", 8, (2.0**-14, 57344.0), (0x7E, 0x7C)),
        ("fp8_e4m3", 8, (2.0**-6, 448.0), (0x7F, 0x7F)),
        ("fp32", 32, (2.0**-126, (2**24 - 1) * 2.0**104), (0x7FC00000, 0x7F800000)),
        ("e4f3", 8, (2.0**-6, 240.0), (0x7C, 0x78)),
        ("e2f1", 4, (1.0, 3.0), (0x7, 0x6)),
    ],
)
def test_landmarks(name: str, width: int, numbers: tuple[float, float], patterns: tuple[int, int]) -> None:
    """What the contract and the OCP specification say of each format, as numbers."""
    fmt = find_format(name)
    assert fmt.width == width
    assert (fmt.min_normal, fmt.max_finite) == numbers
    assert (fmt.canonical_nan, fmt.overflow) == patterns


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_decodes_every_pattern_as_others_do(name: str) -> None:
    """All patterns of the formats that numpy and ml_dtypes have."""
    fmt = find_format(name)
    patterns = np.arange(1 << fmt.width, dtype=np.uint32)
    stored = patterns.astype(np.uint16 if fmt.width == 16 else np.uint8)
    with np.errstate(invalid="ignore"):  # casting a signalling NaN
        theirs = stored.view(OTHER_TYPES[name]).astype(np.float64)
    ours = decode(patterns, fmt)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    assert np.array_equal(is_nan(patterns, fmt), np.isnan(theirs))
    numbers = ~np.isnan(theirs)
    # As patterns, so that -0 is not +0.
    assert np.array_equal(ours[numbers].view(np.uint64), theirs[numbers].view(np.uint64))


def test_decodes_fp32_as_numpy_does() -> None:
    """Uniform patterns, and all with an exponent of zero or all ones in a few thousand fractions."""
    rng = np.random.default_rng(20)
    patterns = rng.integers(1 << 32, size=100_000).astype(np.uint32)
    patterns[::3] &= 0x807FFFFF
    patterns[1::3] |= 0x7F800000
    theirs = patterns.view(np.float32)
    numbers = ~np.isnan(theirs)
    ours = decode(patterns, FORMATS["fp32"])
    assert np.array_equal(np.isnan(ours), ~numbers)
    assert np.array_equal(ours[numbers].view(np.uint64), theirs[numbers].astype(np.float64).view(np.uint64))


@pytest.mark.parametrize("name", [*FORMATS, "e2f1", "e2f23", "e3f2", "e5f7", "e6f9", "e8f1"])
def test_encode_undoes_decode(name: str) -> None:
    """Every number of a format comes back; every NaN comes back as the canonical one."""
    fmt = find_format(name)
    if fmt.width <= 19:
        patterns = np.arange(1 << fmt.width, dtype=np.uint32)
    else:
        patterns = np.random.default_rng(21).integers(1 << fmt.width, size=100_000).astype(np.uint32)
        patterns[::3] &= ~np.uint32(fmt.exponent_mask)
    expected = np.where(is_nan(patterns, fmt), np.uint32(fmt.canonical_nan), patterns)
    assert np.array_equal(encode(decode(patterns, fmt), fmt), expected)
