"""fp32 numbers cut into parts for several passes, by the host, as the hardware splitter would."""

from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.spec.passes import Part
from openmxu_sim.operands.aliases import Words

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_NAN = np.uint32(0x7FC00000)
_UPPER = np.uint32(0xFFFF0000)
_FRACTION_WIDTH = 23


def part_of(words: Words, part: Part) -> Words:
    """Return the fp32 words for a unit without splitter: its converters turn them into ``part`` of the given numbers.

    Integers only: nothing depends on how the host rounds or flushes.
    """
    if part == Part.WHOLE:
        return words
    if part == Part.HIGH:
        is_nan = (words & _MAGNITUDE) > _INFINITY  # its payload may be all that makes it one
        return np.where(is_nan, words, words & _UPPER)
    rest = _rest(words)
    return {Part.REST: lambda: rest, Part.MIDDLE: lambda: rest & _UPPER, Part.LOW: lambda: _rest(rest)}[part]()


def _rest(words: Words) -> Words:
    """Return the value of the lower 16 bits of fp32 numbers, with the same signs; exact."""
    lower = words & ~_UPPER
    field = (words & _MAGNITUDE) >> np.uint32(_FRACTION_WIDTH)
    # The lower bits as an integer: its fp32 pattern has significand and exponent, and only the scale is missing.
    scale = np.maximum(field, 1).astype(np.int64) - 1
    normal: npt.NDArray[Any] = lower.astype(np.float32).view(np.uint32).astype(np.int64)
    exponent = (normal >> _FRACTION_WIDTH) + scale - 149
    scaled = normal + ((scale - 149) << _FRACTION_WIDTH)
    subnormal = lower.astype(np.int64) << np.minimum(scale, _FRACTION_WIDTH)
    magnitude = np.where(lower == 0, 0, np.where(exponent > 0, scaled, subnormal)).astype(np.uint32)
    return np.where(field == 255, _NAN, magnitude | (words & _SIGN))
