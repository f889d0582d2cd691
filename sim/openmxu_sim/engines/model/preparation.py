"""Scaled operands, blocks and integers, as the kernel multiplies them."""

import ctypes
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu_sim.engines.model.kernel import Factors, Kernel, Preparation, limits
from openmxu_sim.golden.formats import Bits, Format
from openmxu_sim.golden.specifications import Block, Operand

_Floats = npt.NDArray[np.float32]


class Prepared(NamedTuple):
    """Operands that the kernel converts without loss, and the factors of results."""

    bits: Bits
    """(P, rows, K) patterns of fp32."""
    factors: _Floats | None
    """(P or 1, rows or 1, blocks or 1)."""
    length: int
    """Numbers of a block that has a factor of its own; 0: there is one block."""

    def at(self, k: int) -> _Floats:
        """Return the factors of the block at `k`, (P or 1, rows or 1)."""
        assert self.factors is not None
        return self.factors[..., k // self.length if self.length else 0]

    @property
    def address(self) -> Factors:
        """The factors as the kernel takes them."""
        return Factors() if self.factors is None else Factors.of(self.factors, self.length)


def prepare(
    kernel: Kernel, bits: Bits, side: Operand, *, flush: bool, seed: int, stream: int, largest: float | None
) -> Prepared:
    """Scale and round (P, rows, K) patterns of fp32, as :func:`openmxu_sim.golden.specifications.prepare` does."""
    if side.is_plain or (side.saturate and not side.group and not side.stochastic) or 0 in bits.shape:
        return Prepared(bits, None, 0)  # packing saturates
    bits = np.ascontiguousarray(bits)
    inner = bits.shape[2]
    length = side.block.length if side.block else side.length or inner
    peaks = np.empty((*bits.shape[:2], -(-inner // length)), np.float32)
    if side.block or side.group:
        kernel.peaks(bits.ctypes.data, len(bits) * bits.shape[1], inner, length, flush, peaks.ctypes.data)
    peak = np.float32(peaks.max()) if largest is None else np.float32(largest)
    element = limits(side.format, side.format.max_finite if side.saturate else None)
    how = Preparation(element, flush, True, side.stochastic, side.stochastic, seed=seed % 2**32, stream=stream)
    scales = decoders = None
    if side.block:
        how.element, how.converts, how.limited = limits(side.block.element, side.block.largest), True, True
        factors, decoders, scales = _of_blocks(side.block, peaks, peak)
        how.divides = not side.block.two_levels
    elif side.group:
        peaks = peak.reshape(1, 1, 1) if side.group == "tensor" else peaks
        factors = scales = _scales(peaks, 127.0 if side.integer else side.format.max_finite, side.any_scale)
    else:
        factors = np.ones((1, 1, 1), np.float32)
    if side.integer:
        how.element, how.converts, how.limited, how.integers = _INTEGERS, True, True, True
    result = np.empty_like(bits)
    kernel.prepare(
        ctypes.byref(how),
        bits.ctypes.data,
        *bits.shape,
        ctypes.byref(Factors.of(factors, length)),
        None if decoders is None else decoders.ctypes.data,
        peaks.ctypes.data if side.group else None,
        result.ctypes.data,
    )
    return Prepared(result, scales, side.length)


_INTEGERS = limits(Format("integers", 5, 10), largest=127.0)
_INTEGERS.min_exponent, _INTEGERS.min_normal, _INTEGERS.grid = 10, 0x7F000000, 2.0**23
"""Numbers of which all are subnormal, with a last place of 1."""


def _scales(peaks: _Floats, most: float, any_scale: bool) -> _Floats:
    """Return what numbers are divided by, so that the largest is at most `most`."""
    if any_scale:
        scales = peaks / np.float32(most)
    else:
        significand, exponent = np.frexp(peaks.astype(np.float64) / most)
        scales = np.ldexp(1.0, np.clip(exponent - (significand == 0.5), -126, 127)).astype(np.float32)
    return np.where(peaks > 0, np.clip(scales, np.float32(2.0**-126), np.float32(2.0**127)), np.float32(1))


def _of_blocks(block: Block, peaks: _Floats, peak: np.float32) -> tuple[_Floats, _Floats, _Floats | None]:
    """Return by what numbers are divided or multiplied, what elements are multiplied by, and factors of results."""
    if not block.two_levels:
        fields = (peaks.view(np.int32) >> 23) - (int(np.frexp(block.largest)[1]) - 1)
        shared = np.ldexp(1.0, np.maximum(fields, 0) - 127).astype(np.float32)
        return shared, shared, None
    tensor = np.maximum(peak / np.float32(448 * block.largest), np.float32(2.0**-120)).reshape(1, 1, 1)
    wanted = np.clip(peaks / np.float32(block.largest) / tensor, np.float32(2.0**-6), np.float32(448))
    # To 4 significant bits, ties to even: no carry goes beyond 448, and nothing is subnormal.
    bits = wanted.view(np.uint32)
    bits = (bits + 0x7FFFF + (bits >> 20 & 1)) & np.uint32(0xFFF00000)
    shared = bits.view(np.float32)
    return (np.float32(1) / tensor) / shared, shared, tensor


@np.errstate(over="ignore", invalid="ignore")
def multiply_integers(left: Prepared, right: Prepared, length: int, *, flush: bool) -> _Floats:
    """Multiply (P, M, K) integers by (P, N, K): (P, M, N), one sum of 32 bits for each block, then in fp32.

    Products in binary64 are exact, in whatever order they are added.
    """
    total = None
    for first in range(0, left.bits.shape[2], length):
        a, b = (side.bits[..., first : first + length].view(np.float32).astype(np.float64) for side in (left, right))
        rows, columns = (side.at(first) for side in (left, right))
        both = np.minimum(rows[..., np.newaxis] * columns[:, np.newaxis], np.finfo(np.float32).max)
        tile = _fp32((a @ b.swapaxes(1, 2)).astype(np.float32).astype(np.float64) * both, flush=flush)
        total = tile if total is None else _fp32(np.add(total, tile, dtype=np.float64), flush=flush)
    assert total is not None
    total[np.isnan(total)] = np.nan  # with one pattern
    return total


def _fp32(values: npt.NDArray[np.float64], *, flush: bool) -> _Floats:
    """Round results of one operation on fp32 numbers, which binary64 holds or rounds harmlessly."""
    tiny = flush & (np.abs(values) < 2.0**-126)
    return np.where(tiny, np.copysign(0.0, values), values).astype(np.float32)
