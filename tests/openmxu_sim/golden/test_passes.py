"""Several passes: the parts of numbers against SoftFloat, and sums that say how accurate they are."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import softfloatpy as softfloat

from openmxu_sim import golden
from openmxu_sim.golden import from_bits
from openmxu_sim.golden.formats import FORMATS, decode
from openmxu_sim.golden.passes import PASSES, split
from openmxu_sim.operands.vectors import corners, operands

from ...bits import same_bits

Bits = npt.NDArray[np.uint32]

MODES = pytest.mark.parametrize("mode", ["flush", "ieee"])


def parts_of(pattern: int, flush: bool) -> dict[str, int]:
    """The parts of one fp32 number, by SoftFloat."""
    sign = pattern & 0x80000000
    if flush and pattern & 0x7F800000 == 0:
        pattern = sign

    def single(bits: int) -> Any:
        return softfloat.Float32.from_bytes(bits.to_bytes(4, "big"))

    def minus(a: int, b: int) -> int:
        return int.from_bytes(softfloat.f32_sub(single(a), single(b)).to_bytes(), "big")

    def narrow(bits: int) -> int:
        if flush and bits & 0x7F800000 == 0:
            return sign >> 16
        return int.from_bytes(softfloat.f32_to_bf16(single(bits)).to_bytes(), "big") & 0x7FFF | sign >> 16

    if pattern & 0x7FFFFFFF >= 0x7F800000:
        quiet = pattern >> 16 | (0x0040 if pattern & 0x007FFFFF else 0)
        return {"x": quiet, "h": quiet} | dict.fromkeys("rml", 0x7FC0)
    high = pattern & 0xFFFF0000
    rest = minus(pattern, high)
    middle = rest & 0xFFFF0000
    low = minus(rest, middle)
    return {"x": narrow(pattern), "h": narrow(high), "r": narrow(rest), "m": narrow(middle), "l": narrow(low)}


@MODES
def test_parts(mode: str) -> None:
    bits = np.concatenate(
        [
            corners("fp32"),
            operands("fp32", 4000, 1),
            np.arange(0x00000000, 0x00001000, 7, np.uint32),
            np.arange(0x007FF000, 0x04000000, 0x3E11D, np.uint32),
        ]
    )
    bits = np.concatenate([bits, bits ^ np.uint32(0x80000000)])
    expected = [parts_of(int(pattern), mode == "flush") for pattern in bits]
    for part in "xhrml":
        got = split(bits, part, subnormals=mode)
        wanted = np.array([parts[part] for parts in expected], np.uint32)
        different = np.flatnonzero(got != wanted)
        assert len(different) == 0, (
            f"{part} of {bits[different[0]]:08X}: {got[different[0]]:04X}, expected {wanted[different[0]]:04X}"
        )


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
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = {}
    for precision in PASSES:
        got = golden.matmul(a, b, rows=128, precision=precision)
        errors[precision] = float(np.max(np.abs(got - exact) / (np.abs(a).astype(np.float64) @ np.abs(b))))
    assert errors["default"] > 2.0**-11
    assert errors["high"] < 2.0**-16 < errors["default"]
    assert errors["highest"] < 2.0**-20 < errors["high"]
    assert errors["exact9"] < 2.0**-20


@pytest.mark.parametrize("precision", ["high", "highest", "exact9"])
def test_infinite_and_large_operands(precision: str) -> None:
    """The low passes turn NaN and are forgotten; a large number does not become infinite as in one pass."""
    large = from_bits([0x7F7F8000])[0]  # half-way between the largest bf16 number and 2^128
    a = np.float32([[np.inf, 1], [np.inf, -np.inf], [np.inf, 0], [np.nan, 1], [large, 0]])
    b = np.float32([[2], [3]])
    b_one = np.float32([[1], [1]])
    got = golden.matmul(a, b, rows=2, precision=precision)[:, 0]
    same_bits(got, np.float32([np.inf, np.nan, np.inf, np.nan, np.inf]))
    assert golden.matmul(a, b_one, rows=2, precision=precision)[4, 0] == large
    assert golden.matmul(a, b_one, rows=2)[4, 0] == np.inf
