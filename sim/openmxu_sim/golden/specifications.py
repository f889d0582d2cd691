"""Operands and sums beyond plain formats: scaled, in blocks, integers, saturated, truncated or rounded at random.

A specification is a format with modifiers, ``fp8_e4m3/row/saturate``. :func:`find_operand` and :func:`find_sum` read
it; :func:`prepare` makes fp32 numbers that the unit's own conversion then leaves alone, and the scales of results.

==================  ==============================================================================================
of operands
``tensor``          one scale for the matrix, ``row``: one for each row of activations and column of weights,
                    ``blockN``: one for each N of these along the inner dimension
``fp32``            scales are any fp32 numbers, by which their own numbers do not overflow; without it they are powers
                    of two
``saturate``        too large numbers become the largest finite one
``stochastic``      rounded up with the probability of what is cut off
of sums
``truncate``        rounded towards zero, ``stochastic``: as above
``guardN``          bits, 0 to 3, that a sum of several terms keeps below its last place; without it 3
==================  ==============================================================================================
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu_sim.golden.arithmetic import flush_subnormals, on_grid, rounded, to_integers
from openmxu_sim.golden.formats import FORMATS, Bits, Format, Values, decode, encode, find_format

_FP32 = FORMATS["fp32"]
_E4M3 = FORMATS["fp8_e4m3"]


@dataclass(frozen=True)
class Block:
    """A format of numbers that share a scale in blocks, as published: numbers and scales are stored."""

    length: int
    """Numbers in a block, along the inner dimension."""
    element: Format
    """Widths of its numbers; their exponents go on where an IEEE format has infinities."""
    largest: float
    """The largest number."""
    two_levels: bool = False
    """Scales are fp8_e4m3 numbers, and the matrix has one in fp32; else they are powers of two."""


BLOCKS: Mapping[str, Block] = {
    "mxfp8_e4m3": Block(32, Format("e4m3", 4, 3, has_infinity=False), 448),
    "mxfp8_e5m2": Block(32, Format("e5m2", 5, 2), 57344),
    "mxfp6_e2m3": Block(32, Format("e2m3", 2, 3), 7.5),
    "mxfp6_e3m2": Block(32, Format("e3m2", 3, 2), 28),
    "mxfp4": Block(32, Format("e2m1", 2, 1), 6),
    "nvfp4": Block(16, Format("e2m1", 2, 1), 6, two_levels=True),
}
"""OCP Microscaling Formats 1.0, and NVIDIA's FP4 with two levels of scales."""


@dataclass(frozen=True)
class Operand:
    """How fp32 numbers become operands."""

    format: Format
    """The format that the unit multiplies; for blocks and integers, one that holds their numbers."""
    block: Block | None = None
    integer: bool = False
    """8 bits, from -127 to 127, in sums of 32 bits."""
    group: str = ""
    """``tensor``, ``row`` or ``block``: what has one scale; empty if nothing is scaled."""
    length: int = 0
    """Numbers of a ``block``."""
    any_scale: bool = False
    saturate: bool = False
    stochastic: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether conversion at the unit's edge does all that there is to do."""
        return not (self.block or self.integer or self.group or self.saturate or self.stochastic)


@dataclass(frozen=True)
class Sum:
    """A format of sums, and how they are rounded."""

    format: Format
    rounding: str = "nearest"
    guard: int = 3

    @property
    def is_plain(self) -> bool:
        """Whether this is a format and nothing else."""
        return (self.rounding, self.guard) == ("nearest", 3)

    def way(self, draw: Callable[[], Values]) -> dict[str, Any]:
        """Return what :func:`~openmxu_sim.golden.arithmetic.rounded` needs, with random numbers drawn for it."""
        noise = {"noise": draw()} if self.rounding == "stochastic" else {}
        return {"rounding": self.rounding, **noise}


def find_operand(text: str, parameter: str = "operand") -> Operand:
    """Read the specification of operands; an error names the unknown format or modifier."""
    name, modifiers = _taken_apart(text, parameter)
    group, length = "", 0
    flags = dict.fromkeys(("fp32", "saturate", "stochastic"), False)
    for modifier in modifiers:
        found = re.fullmatch(r"tensor|row|block([1-9]\d{0,5})", modifier)
        if found and not group:
            group, length = ("block", int(found[1])) if found[1] else (modifier, 0)
        elif flags.get(modifier) is False:
            flags[modifier] = True
        else:
            raise ValueError(
                f"modifiers of {parameter} must be tensor, row or blockN, fp32, saturate, stochastic, each once, "
                f"not {modifier!r} in {text!r}"
            )
    if flags["fp32"] and not group:
        raise ValueError(f"{parameter} must be scaled by tensor, row or blockN for scales in fp32, not {text!r}")
    if name in BLOCKS:
        if group or flags["saturate"]:
            raise ValueError(f"{parameter} must have no modifier for scales or saturation in {name}, not {text!r}")
        return Operand(FORMATS["bf16"], BLOCKS[name], stochastic=flags["stochastic"])
    if name == "int8":
        if not group or flags["saturate"]:
            raise ValueError(f"{parameter} must be scaled by tensor, row or blockN in int8, which saturates: {text!r}")
        fmt = FORMATS["bf16"]
    else:
        try:
            fmt = find_format(name, parameter)
        except ValueError:
            raise ValueError(
                f"{parameter} must be one of {', '.join((*FORMATS, *BLOCKS, 'int8'))}, or eXfY with 2 <= X <= 8 and "
                f"1 <= Y <= 23, or one with modifiers such as /row, not {text!r}"
            ) from None
    return Operand(fmt, None, name == "int8", group, length, flags["fp32"], flags["saturate"], flags["stochastic"])


def find_sum(text: str, parameter: str = "accumulate") -> Sum:
    """Read the specification of sums, likewise."""
    name, modifiers = _taken_apart(text, parameter)
    fmt, rounding, guard = find_format(name, parameter), None, None
    for modifier in modifiers:
        found = re.fullmatch(r"guard([0-3])", modifier)
        if found and guard is None:
            guard = int(found[1])
        elif modifier in ("truncate", "stochastic") and rounding is None:
            rounding = modifier
        else:
            raise ValueError(
                f"modifiers of {parameter} must be truncate or stochastic, and guard0 to guard3, each once, "
                f"not {modifier!r} in {text!r}"
            )
    return Sum(fmt, rounding or "nearest", 3 if guard is None else guard)


def _taken_apart(text: str, parameter: str) -> tuple[str, Iterable[str]]:
    if not isinstance(text, str):
        raise TypeError(f"{parameter} must be the name of a format, not {text!r}")
    name, *modifiers = text.split("/")
    return name, modifiers


@dataclass(frozen=True)
class Prepared:
    """Operands that the unit converts without loss, and their scales."""

    bits: Bits
    """(rows, K) patterns of fp32."""
    scales: Values | None = None
    """Factors of results, (rows or 1, blocks or 1)."""
    length: int = 0
    """Numbers of a block that has a factor of its own."""

    def at(self, rows: slice, k: int) -> Values | None:
        """Return the factors of some rows for a tile that begins at `k`, (rows or 1, 1)."""
        if self.scales is None:
            return None
        block = k // self.length if self.length else 0
        return self.scales[rows if len(self.scales) > 1 else slice(None), block : block + 1]


def prepare(
    bits: Bits, operand: Operand, *, subnormals: str, noise: Callable[[], Values], largest: float | None = None
) -> Prepared:
    """Scale and round (rows, K) patterns of fp32, activations or transposed weights, as their operand is specified.

    Numbers of blocks have gradual underflow in both modes; what is flushed is a block's decoded number. ``noise`` draws
    a random number for each; a scale of the whole matrix is computed from ``largest``, if it is given.
    """
    if operand.is_plain:
        return Prepared(bits)
    flush, values = subnormals == "flush", decode(bits, _FP32)
    if flush:
        values = flush_subnormals(values, _FP32)
    draw = noise() if operand.stochastic else None
    if operand.block:
        return _in_blocks(values, operand.block, draw, largest)
    scales = None
    if operand.group:
        length = operand.length or max(1, values.shape[1])
        peaks = _peaks(values, length)
        if operand.group == "tensor":
            peaks = np.full((1, 1), np.max(peaks, initial=0.0) if largest is None else largest)
        most = 127.0 if operand.integer else operand.format.max_finite
        scales = _scales(peaks, most, operand.any_scale)
        # A scale in fp32 is rounded: what it was made of may be a place above the largest number.
        own = np.abs(values) <= _spread(peaks, length, values.shape)
        values = _fp32(values / _spread(scales, length, values.shape))
        values = np.where(own, np.clip(values, -most, most), values)
    rounding = "nearest" if draw is None else "stochastic"
    if operand.integer:
        limited = np.clip(np.where(np.isnan(values), 0.0, values), -127, 127)
        return Prepared(encode(to_integers(limited, rounding, draw), _FP32), scales, operand.length)
    numbers = rounded(values, operand.format, flush=flush, rounding=rounding, noise=draw)
    if operand.saturate:
        most = operand.format.max_finite
        numbers = np.where(np.isinf(numbers), np.copysign(most, numbers), numbers)
    elif not operand.format.has_infinity:
        numbers = np.where(np.isinf(numbers), np.nan, numbers)
    return Prepared(np.where(np.isnan(values), bits, encode(numbers, _FP32)), scales, operand.length)


def _in_blocks(values: Values, block: Block, draw: Values | None, largest: float | None) -> Prepared:
    """Convert to numbers that share scales in blocks, and back; of two levels of scales, the upper one stays apart."""
    peaks, scales = _peaks(values, block.length), None
    if block.two_levels:
        # As PyTorch's torchao 0.18 does: each operation is one of fp32.
        peak = np.max(peaks, initial=0.0) if largest is None else largest
        tensor = np.maximum(_fp32(np.full((1, 1), peak) / (_E4M3.max_finite * block.largest)), 2.0**-120)
        lower = np.clip(_fp32(_fp32(peaks / block.largest) / tensor), _E4M3.min_normal, _E4M3.max_finite)
        shared = rounded(lower, _E4M3, flush=False)
        inverse = _fp32(_fp32(1 / tensor) / shared)
        scaled, scales = _fp32(values * _spread(inverse, block.length, values.shape)), tensor
    else:
        # A power of two, so that the largest number has the exponent of the largest element.
        exponents = np.frexp(peaks)[1] - 1 - (np.frexp(block.largest)[1] - 1)
        shared = np.ldexp(1.0, np.where(peaks == 0, -127, np.clip(exponents, -127, 127)))
        scaled = values / _spread(shared, block.length, values.shape)
    rounding = "nearest" if draw is None else "stochastic"
    numbers = np.clip(on_grid(scaled, block.element, rounding, draw), -block.largest, block.largest)
    decoded = numbers * _spread(shared, block.length, values.shape)
    odd = np.logical_or.reduceat(~np.isfinite(values), range(0, values.shape[1], block.length), axis=1)
    return Prepared(encode(np.where(_spread(odd, block.length, values.shape), np.nan, decoded), _FP32), scales)


def largest_magnitude(bits: Bits, subnormals: str) -> float:
    """Return the largest finite magnitude of patterns of fp32, as one scale for all of them is computed from."""
    magnitudes = np.abs(bits.view(np.float32))
    largest = float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))
    return 0.0 if subnormals == "flush" and largest < _FP32.min_normal else largest


def _peaks(values: Values, length: int) -> Values:
    """Return the largest finite magnitude in each `length` numbers of a row."""
    magnitudes = np.where(np.isfinite(values), np.abs(values), 0.0)
    return np.maximum.reduceat(magnitudes, range(0, values.shape[1], length), axis=1)


def _scales(peaks: Values, most: float, any_scale: bool) -> Values:
    """Return scales by which numbers are divided so that the largest is at most `most`, or rounds to that."""
    if any_scale:
        scales = _fp32(peaks / most)
    else:
        significand, exponent = np.frexp(peaks / most)
        scales = np.ldexp(1.0, exponent - (significand == 0.5))
    return np.where(peaks == 0, 1.0, np.clip(scales, _FP32.min_normal, 2.0**127))


def _spread(scales: npt.NDArray[Any], length: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return one scale for each number."""
    along = np.repeat(scales, length, axis=1)[:, : shape[1]] if scales.shape[1] > 1 or shape[1] <= length else scales
    return np.broadcast_to(along, shape)


def _fp32(values: Values) -> Values:
    """Round to nearest numbers of fp32, as one operation on fp32 numbers does."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)
