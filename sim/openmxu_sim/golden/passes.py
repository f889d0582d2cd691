"""fp32 products in several passes of bf16: which parts of the operands are multiplied, and in which order."""

from collections.abc import Mapping, Sequence

import numpy as np

from openmxu_sim.golden.arithmetic import convert, flush_subnormals
from openmxu_sim.golden.formats import FORMATS, Bits, Values, decode, encode

_FP32 = FORMATS["fp32"]

PASSES: Mapping[str, Sequence[tuple[str, str]]] = {
    "default": (("x", "x"),),
    "high": (("r", "h"), ("h", "r"), ("h", "h")),
    "highest": (("m", "m"), ("h", "l"), ("l", "h"), ("h", "m"), ("m", "h"), ("h", "h")),
    "exact9": (
        ("l", "l"),
        ("m", "l"),
        ("l", "m"),
        ("m", "m"),
        ("l", "h"),
        ("h", "l"),
        ("m", "h"),
        ("h", "m"),
        ("h", "h"),
    ),
}
"""The passes of each precision in their order: parts of the activations and of the weights, see :func:`split`."""


def split(bits: Bits, part: str, *, subnormals: str) -> Bits:
    """Return one part of fp32 numbers, in bf16.

    Each part has the sign of the number, zeros included. In ``"flush"`` mode subnormal numbers are zeros to begin with.

    ======  ===============================================================================
    ``x``   the whole number, rounded
    ``h``   high: its upper 16 bits, a truncation
    ``r``   rest: what that leaves, rounded
    ``m``   middle: the upper 16 bits of what ``h`` leaves, as an fp32 number
    ``l``   low: what both leave, rounded
    ======  ===============================================================================

    An infinity is infinite in ``x`` and ``h``, and the canonical NaN in what it leaves. A NaN is NaN in all parts, in
    ``x`` and ``h`` with its sign and payload.
    """
    if part == "x":
        return convert(bits, "fp32", "bf16", subnormals=subnormals)
    values = decode(bits, _FP32)
    if subnormals == "flush":
        values = flush_subnormals(values, _FP32)
    high = _truncated(values)
    with np.errstate(invalid="ignore"):  # infinity leaves NaN
        rest = values - high
    middle = _truncated(rest)
    wanted = {"h": high, "r": rest, "m": middle, "l": rest - middle}[part]
    exact = encode(np.copysign(wanted, values), _FP32)
    if part == "h":
        exact = np.where(np.isnan(values), bits, exact)  # conversion makes it quiet and keeps what there is above
    return convert(exact, "fp32", "bf16", subnormals=subnormals)


def _truncated(values: Values) -> Values:
    """Return fp32 numbers without the lower 16 bits of their patterns, which leaves bf16 numbers."""
    return decode(encode(values, _FP32) & np.uint32(0xFFFF0000), _FP32)
