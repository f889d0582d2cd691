"""Conversion against ml_dtypes, numpy, Berkeley SoftFloat and the cases the contract spells out."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import softfloatpy as softfloat

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import decode, is_nan
from openmxu_sim.operands.vectors import corners, operands

from ...bits import same_bits

OTHER_TYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "e4f3": ml_dtypes.float8_e4m3,
    "e3f4": ml_dtypes.float8_e3m4,
}


def patterns_of(array: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """The patterns of an array of any 8 or 16 bit type."""
    return array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16).astype(np.uint32)


BF16_CASES = [
    # fp32, flush, ieee
    (0x00000000, 0x0000, 0x0000),
    (0x80000000, 0x8000, 0x8000),
    (0x3F800000, 0x3F80, 0x3F80),
    (0x3F807FFF, 0x3F80, 0x3F80),  # below the tie
    (0x3F808000, 0x3F80, 0x3F80),  # tie, down to even
    (0x3F808001, 0x3F81, 0x3F81),  # above the tie
    (0x3F818000, 0x3F82, 0x3F82),  # tie, up to even
    (0xBF818000, 0xBF82, 0xBF82),
    (0x3FFF8000, 0x4000, 0x4000),  # the carry runs into the exponent
    (0x7F7F7FFF, 0x7F7F, 0x7F7F),
    (0x7F7F8000, 0x7F80, 0x7F80),  # overflow
    (0x7F7FFFFF, 0x7F80, 0x7F80),
    (0xFF7FFFFF, 0xFF80, 0xFF80),
    (0x7F800000, 0x7F80, 0x7F80),
    (0xFF800000, 0xFF80, 0xFF80),
    (0x7F800001, 0x7FC0, 0x7FC0),  # a signalling NaN whose kept bits are all zero
    (0xFF800001, 0xFFC0, 0xFFC0),
    (0x7FFFFFFF, 0x7FFF, 0x7FFF),  # a NaN does not round
    (0xFFABCDEF, 0xFFEB, 0xFFEB),
    (0x7FA10000, 0x7FE1, 0x7FE1),
    (0x00800000, 0x0080, 0x0080),
    (0x007FFFFF, 0x0000, 0x0080),  # flushed before it rounds up to the smallest normal number
    (0x007F8000, 0x0000, 0x0080),
    (0x007F7FFF, 0x0000, 0x007F),
    (0x807F8000, 0x8000, 0x8080),
    (0x00008000, 0x0000, 0x0000),
    (0x00018000, 0x0000, 0x0002),
    (0x80000001, 0x8000, 0x8000),
]


@pytest.mark.parametrize(("source", "flush", "ieee"), BF16_CASES)
def test_fp32_to_bf16_by_hand(source: int, flush: int, ieee: int) -> None:
    """The cases of the contract; flush mode and the formats are the defaults."""
    assert golden.convert(source) == flush
    assert golden.convert(source, "fp32", "bf16", subnormals="ieee") == ieee


@pytest.mark.parametrize(
    ("source", "target", "pattern", "flush", "ieee"),
    [
        # Just below the smallest normal number of the target: the exact value decides, not the rounded one.
        ("fp32", "fp16", 0x387FFFFF, 0x0000, 0x0400),
        ("fp32", "fp16", 0xB87FFFFF, 0x8000, 0x8400),
        ("fp32", "fp16", 0x38800000, 0x0400, 0x0400),
        # Subnormal in the source, normal in the target: flush mode takes it for zero all the same.
        ("fp16", "fp32", 0x0001, 0x00000000, 0x33800000),
        ("fp16", "fp32", 0x8001, 0x80000000, 0xB3800000),
        ("fp8_e4m3", "bf16", 0x01, 0x0000, 0x3B00),
        ("bf16", "fp32", 0x0001, 0x00000000, 0x00010000),
        ("bf16", "fp32", 0x3F81, 0x3F810000, 0x3F810000),
        # NaNs: wider ones get zeros at the end, narrower ones lose theirs, all become quiet.
        ("bf16", "fp32", 0xFF81, 0xFFC10000, 0xFFC10000),
        ("fp32", "fp32", 0x7F800001, 0x7FC00001, 0x7FC00001),
        ("fp32", "fp16", 0xFFA02000, 0xFF01, 0xFF01),
        ("fp32", "e2f1", 0xFF800001, 0xF, 0xF),
        ("fp32", "fp8_e4m3", 0x7F800001, 0x7F, 0x7F),
        ("fp32", "fp8_e4m3", 0xFF800001, 0xFF, 0xFF),
        ("fp8_e4m3", "fp32", 0xFF, 0xFFF00000, 0xFFF00000),
        # E4M3 has no infinity; 464 is the tie between 448 and the 480 it has no pattern for.
        ("fp32", "fp8_e4m3", 0x43E80000, 0x7E, 0x7E),
        ("fp32", "fp8_e4m3", 0x43E80001, 0x7F, 0x7F),
        ("fp32", "fp8_e4m3", 0xC3E80001, 0xFF, 0xFF),
        ("fp32", "fp8_e4m3", 0x7F800000, 0x7F, 0x7F),
        ("fp32", "fp8_e4m3", 0xFF800000, 0xFF, 0xFF),
        ("bf16", "fp8_e4m3", 0x43E0, 0x7E, 0x7E),
        # The IEEE-like format of the same widths has infinity one binade lower.
        ("fp32", "e4f3", 0x43780000, 0x78, 0x78),
        ("fp32", "e4f3", 0x4377FFFF, 0x77, 0x77),
    ],
)
def test_other_formats_by_hand(source: str, target: str, pattern: int, flush: int, ieee: int) -> None:
    """Underflow, NaNs and overflow where the formats differ in more than width."""
    assert golden.convert(pattern, source, target) == flush
    assert golden.convert(pattern, source, target, subnormals="ieee") == ieee


def sources(seed: int) -> npt.NDArray[np.uint32]:
    """fp32 patterns: every upper half with the lower halves around a tie, corners, and a biased mix.

    And the patterns of every fp16 number with a few bits more, as narrow formats hardly ever meet others.
    """
    upper = np.arange(1 << 16, dtype=np.uint32)[:, np.newaxis] << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    near_halves = halves[:, np.newaxis] | np.array([0, 1, 0xFFF, 0x1000, 0x1001], dtype=np.uint32)
    return np.concatenate(
        [(upper | lower).ravel(), near_halves.ravel(), corners("fp32"), operands("fp32", 300_000, seed)]
    )


@pytest.mark.parametrize("target", OTHER_TYPES)
def test_ieee_mode_agrees_with_casts(target: str) -> None:
    """All that is no NaN, infinities and overflow included, as numpy and ml_dtypes cast it."""
    bits = sources(30)
    bits = bits[~is_nan(bits, FORMATS["fp32"])]
    with np.errstate(over="ignore", under="ignore"):
        expected = patterns_of(bits.view(np.float32).astype(OTHER_TYPES[target]))
    got = golden.convert(bits, "fp32", target, subnormals="ieee")
    same_bits(got, expected, bits, fmt=target, note="seed 30")


@pytest.mark.parametrize("target", OTHER_TYPES)
def test_flush_mode_differs_below_the_smallest_normal_number_only(target: str) -> None:
    """Flush mode by comparing values: too small ones are zeros, all others as in ieee mode."""
    bits = sources(31)
    fmt = find_format(target)
    magnitudes = np.abs(decode(bits, FORMATS["fp32"]))
    small = magnitudes < max(fmt.min_normal, FORMATS["fp32"].min_normal)
    signs = np.where(bits >> 31 == 1, np.uint32(fmt.sign_bit), np.uint32(0))
    expected = np.where(small, signs, golden.convert(bits, "fp32", target, subnormals="ieee"))
    got = golden.convert(bits, "fp32", target, subnormals="flush")
    same_bits(got, expected, bits, fmt=target, note="seed 31")


def test_agrees_with_softfloat() -> None:
    """fp32 to bf16 and fp16, and fp16 to fp32, by an implementation that never uses a host FPU."""
    bits = np.concatenate([corners("fp32"), operands("fp32", 20_000, 32)])
    bits = bits[~is_nan(bits, FORMATS["fp32"])]
    singles = [softfloat.Float32.from_bytes(int(each).to_bytes(4, "big")) for each in bits]
    for target, function in (("bf16", softfloat.f32_to_bf16), ("fp16", softfloat.f32_to_f16)):
        theirs = [int.from_bytes(function(each).to_bytes(), "big") for each in singles]
        got = golden.convert(bits, "fp32", target, subnormals="ieee")
        same_bits(got, theirs, bits, fmt=target, note="seed 32")

    halves = np.arange(1 << 16, dtype=np.uint32)
    halves = halves[~is_nan(halves, FORMATS["fp16"])]
    theirs = [
        int.from_bytes(
            softfloat.f16_to_f32(softfloat.Float16.from_bytes(int(each).to_bytes(2, "big"))).to_bytes(), "big"
        )
        for each in halves
    ]
    same_bits(golden.convert(halves, "fp16", "fp32", subnormals="ieee"), theirs, halves, operand="fp16")


def test_nan_stays_nan_in_every_format() -> None:
    """Every NaN corner of every named format, into every other: a NaN, quiet, of the same sign."""
    for source, source_fmt in FORMATS.items():
        bits = corners(source)
        bits = bits[is_nan(bits, source_fmt)]
        assert len(bits) > 0
        for target, target_fmt in FORMATS.items():
            got = golden.convert(bits, source, target)
            assert is_nan(got, target_fmt).all()
            assert ((got & target_fmt.quiet_bit) != 0).all()
            signs = (bits & source_fmt.sign_bit) != 0
            assert np.array_equal((got & target_fmt.sign_bit) != 0, signs)


def test_shapes_and_types_of_patterns() -> None:
    """Any integer type and shape goes in, uint32 of the same shape comes out, the input stays."""
    for dtype in (np.uint16, np.uint32, np.uint64, np.int32, np.int64):
        bits = np.array([[0x3F80, 0x4000, 0x0001]], dtype=dtype)
        got = golden.convert(bits, "bf16", "fp32")
        assert got.dtype == np.uint32
        assert got.tolist() == [[0x3F800000, 0x40000000, 0]]
        assert bits.tolist() == [[0x3F80, 0x4000, 0x0001]]
    assert golden.convert(0x3F800000).shape == ()
    assert golden.convert(np.zeros((0, 3), dtype=np.uint32)).shape == (0, 3)


def test_messages() -> None:
    """Each argument is checked under its own name."""
    with pytest.raises(ValueError, match=r"^subnormals must be 'flush' or 'ieee', not 'x'$"):
        golden.convert(0, subnormals="x")
    with pytest.raises(ValueError, match=r"^source must be one of .*, not 'fp64'$"):
        golden.convert(0, "fp64", "bf16")
    with pytest.raises(ValueError, match=r"^target must be one of .*, not 'fp64'$"):
        golden.convert(0, "fp32", "fp64")
    with pytest.raises(ValueError, match=r"^bits must be patterns of 16 bits \(bf16\), not 0x10000$"):
        golden.convert(0x10000, "bf16", "fp32")
    with pytest.raises(TypeError, match=r"^bits must be bit patterns in an integer array, not float64$"):
        golden.convert(1.0)
