"""Conversion against ml_dtypes, numpy and cases by hand."""

import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import decode, is_nan
from openmxu_sim.operands.vectors import corners, operands

from ...bits import same_bits
from .test_formats import OTHER_TYPES


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
        ("bf16", "fp32", 0x0001, 0x00000000, 0x00010000),
        # NaNs: wider ones get zeros at the end, narrower ones lose theirs, all become quiet, and none rounds.
        ("bf16", "fp32", 0xFF81, 0xFFC10000, 0xFFC10000),
        ("fp32", "bf16", 0xFFABCDEF, 0xFFEB, 0xFFEB),
        ("fp32", "bf16", 0x7FA10000, 0x7FE1, 0x7FE1),
        ("fp32", "fp16", 0xFFA02000, 0xFF01, 0xFF01),
        # E4M3 has no infinity; 464 is the tie between 448 and the 480 it has no pattern for.
        ("fp32", "fp8_e4m3", 0x43E80000, 0x7E, 0x7E),
        ("fp32", "fp8_e4m3", 0x43E80001, 0x7F, 0x7F),
        ("fp32", "fp8_e4m3", 0xC3E80001, 0xFF, 0xFF),
        ("bf16", "fp8_e4m3", 0x43E0, 0x7E, 0x7E),
        # The IEEE-like format of the same widths has infinity one binade lower.
        ("fp32", "e4f3", 0x43780000, 0x78, 0x78),
        ("fp32", "e4f3", 0x4377FFFF, 0x77, 0x77),
    ],
)
def test_by_hand(source: str, target: str, pattern: int, flush: int, ieee: int) -> None:
    """Underflow, NaNs and overflow where the formats differ in more than width."""
    assert golden.convert(pattern, source, target, subnormals="flush") == flush
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
        expected = bits.view(np.float32).astype(OTHER_TYPES[target])
    got = golden.convert(bits, "fp32", target, subnormals="ieee")
    same_bits(got, expected.view(f"u{expected.itemsize}"), bits, fmt=target, note="seed 30")


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


@pytest.mark.parametrize("source", OTHER_TYPES)
def test_widening_agrees_with_casts(source: str) -> None:
    """Every number of a narrow format."""
    fmt = find_format(source)
    bits = np.arange(1 << fmt.width, dtype=np.uint32)
    bits = bits[~is_nan(bits, fmt)]
    expected = bits.astype(f"u{fmt.width // 8}").view(OTHER_TYPES[source]).astype(np.float32).view(np.uint32)
    same_bits(golden.convert(bits, source, "fp32", subnormals="ieee"), expected, bits, operand=source)


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
    assert golden.convert([0x3F818000, 0x007F8000]).tolist() == [0x3F82, 0]  # to bf16 and flushed
    assert golden.convert(np.zeros((0, 3), dtype=np.uint32)).shape == (0, 3)
