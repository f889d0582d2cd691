"""Conversion against ml_dtypes and numpy."""

import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS, find_format
from openmxu_sim.golden.formats import decode, is_nan
from openmxu_sim.operands.vectors import corners, operands

from ...bits import same_bits
from .test_formats import OTHER_TYPES, TYPES


def sources(seed: int) -> npt.NDArray[np.uint32]:
    """fp32 patterns: every bf16 number and every fp16 number with a few bits more, corners, and a biased mix."""
    upper = np.arange(1 << 16, dtype=np.uint32)[:, np.newaxis] << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    near_halves = halves[:, np.newaxis] | np.array([0, 1, 0xFFF, 0x1000, 0x1001], dtype=np.uint32)
    grids = (upper | lower).ravel(), near_halves.ravel()
    return np.concatenate([*grids, corners("fp32"), operands("fp32", 300_000, seed)])


@pytest.mark.parametrize(
    ("source", "target"), [*(("fp32", name) for name in OTHER_TYPES), *((name, "fp32") for name in OTHER_TYPES)]
)
def test_ieee_mode_agrees_with_casts(source: str, target: str) -> None:
    """All that is no NaN, infinities and overflow included, as numpy and ml_dtypes cast it."""
    fmt, dtype = find_format(source), TYPES[source]
    bits = sources(30) if source == "fp32" else np.arange(1 << fmt.width, dtype=np.uint32)
    bits = bits[~is_nan(bits, fmt)]
    with np.errstate(over="ignore", under="ignore"):
        expected = bits.astype(f"u{dtype.itemsize}").view(dtype).astype(TYPES[target])
    got = golden.convert(bits, source, target, subnormals="ieee")
    same_bits(got, expected.view(f"u{expected.itemsize}"), bits, fmt=target, operand=source, note="seed 30")


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
