"""Several passes: the parts of numbers against SoftFloat, and sums that say how accurate they are."""

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import from_bits
from openmxu_sim.golden.formats import FORMATS, Bits, decode
from openmxu_sim.golden.passes import PASSES, split
from openmxu_sim.operands.vectors import corners, operands

from ...bits import same_bits
from .berkeley import flushed, softfloat


def parts_of(bits: Bits, flush: bool) -> dict[str, Bits]:
    sign = bits & np.uint32(0x80000000)
    numbers = flushed(bits) if flush else bits

    def narrow(words: Bits) -> Bits:
        kept = softfloat("f32_to_bf16", flushed(words) if flush else words)
        return kept & np.uint32(0x7FFF) | sign >> np.uint32(16)

    high = numbers & np.uint32(0xFFFF0000)
    rest = softfloat("f32_sub", numbers, high)
    middle = rest & np.uint32(0xFFFF0000)
    parts = {"x": numbers, "h": high, "r": rest, "m": middle, "l": softfloat("f32_sub", rest, middle)}
    special = bits & 0x7FFFFFFF >= 0x7F800000
    quiet = bits >> 16 | np.where(bits & 0x007FFFFF, np.uint32(0x40), np.uint32(0))
    return {
        name: np.where(special, quiet if name in "xh" else np.uint32(0x7FC0), narrow(words))
        for name, words in parts.items()
    }


def test_parts(mode: str) -> None:
    ranges = np.arange(0x00000000, 0x00001000, 7), np.arange(0x007FF000, 0x04000000, 0x3E11D)
    bits = np.concatenate([corners("fp32"), operands("fp32", 4000, 1), *ranges]).astype(np.uint32)
    bits = np.concatenate([bits, bits ^ np.uint32(0x80000000)])
    for part, expected in parts_of(bits, mode == "flush").items():
        same_bits(split(bits, part, subnormals=mode), expected, bits, fmt="bf16", note=f"{part}, {mode}")


def test_three_parts_are_the_whole_number() -> None:
    """Down to where the lowest part is no normal number any more."""
    bits = operands("fp32", 20000, 2)
    values = decode(bits, FORMATS["fp32"])
    bits = bits[np.isfinite(values) & (np.abs(values) >= 2.0**-102)]
    parts = [from_bits(split(bits, part, subnormals="flush"), "bf16").astype(np.float64) for part in "hml"]
    np.testing.assert_array_equal(sum(parts), from_bits(bits).astype(np.float64))


def test_each_precision_is_better_than_the_one_before() -> None:
    """Largest error, against binary64, in units of the largest sum of magnitudes."""
    generator = np.random.default_rng(5)
    a, b = (generator.normal(size=shape).astype(np.float32) for shape in ((16, 128), (128, 16)))
    exact, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    errors = {each: np.max(np.abs(golden.matmul(a, b, rows=128, precision=each) - exact) / size) for each in PASSES}
    assert errors["default"] > 2.0**-11
    assert errors["high"] < 2.0**-16 < errors["default"]
    assert errors["highest"] < 2.0**-20 < errors["high"]
    assert errors["exact9"] < 2.0**-20


@pytest.mark.parametrize("precision", ["high", "highest", "exact9"])
def test_infinite_and_large_operands(precision: str) -> None:
    """The low passes turn NaN and are forgotten; a large number does not become infinite as in one pass."""
    large = from_bits([0x7F7F8000])[0]  # half-way between the largest bf16 number and 2^128
    a = np.float32([[np.inf, 1], [np.inf, -np.inf], [np.inf, 0], [np.nan, 1], [large, 0]])
    got = golden.matmul(a, np.float32([[2], [3]]), rows=2, precision=precision)[:, 0]
    same_bits(got, np.float32([np.inf, np.nan, np.inf, np.nan, np.inf]))
    ones = np.float32([[1], [1]])
    assert golden.matmul(a, ones, rows=2, precision=precision)[4, 0] == large
    assert golden.matmul(a, ones, rows=2)[4, 0] == np.inf
