"""Engine ``model``: the bits of the hardware without its clock, about as fast as a float32 product.

Operands are rounded to bf16, then the host's own float32 multiplication and addition, one after the other in
the order of the contract, give its bits, infinities and zeros included. NaNs differ in their patterns, on
which nothing depends, and are replaced at the end. What is left is subnormal numbers:

- In ``"ieee"`` mode the host's gradual underflow is the contract's; each thread makes sure that it is on.
- A bf16 number with exponent field f is a multiple of 2^(f - 134), a product of two of 2^(f + g - 268), and so
  is each sum of such products: what does not fit is rounded to a coarser grid. Where this grid is no finer
  than the smallest normal number, 2^-126, there is nothing to flush. The smallest exponents among four rows of
  activations, and among 128 columns of weights, within a K tile decide.
- Elsewhere ``"flush"`` mode turns each product and each sum below 2^-126 into a zero of its sign. fp32 holds
  all of those exactly, so it makes no difference that the host has rounded them before.

numba without ``fastmath`` neither reorders sums nor fuses a multiplication with an addition. Fusing would be
wrong where a product overflows or underflows.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from numba import config, njit, types

from openmxu import host
from openmxu.passes import PASSES, Part, check_precision
from openmxu_sim import SOURCES, golden
from openmxu_sim.aliases import Progress
from openmxu_sim.engines.machine_code import kept_code
from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.matrix import check_count, check_operands, check_result
from openmxu_sim.parts import part_of

__all__ = ["matmul"]

_Bits = npt.NDArray[np.uint32]
_Floats = npt.NDArray[np.float32]
_Span = tuple[int, int]
"""The first, and one past the last."""

_BAND = 4
"""Rows of activations that share each load of weights; the kernel spells them out."""

_PANEL = 128
"""Columns side by side. 128 rows of weights are then 64 KB, which the caches next to the core hold."""

_DEPTH = 128
"""Rows of weights that are loaded together, where that many tiles fit in; a tile is never divided."""

_TASK_ROWS = 256
"""Rows of results that a thread computes at a time, for one panel: milliseconds, so that Ctrl-C is heard."""

_NORMAL_FIELDS = 268 - 126
"""From this sum of two exponent fields on, products are multiples of the smallest normal number."""

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_QUIET = np.uint32(0x00400000)
_CANONICAL_NAN = np.uint32(0x7FC00000)
_MIN_NORMAL_BITS = np.uint32(0x00800000)
_FRACTION_WIDTH = np.uint32(23)
_KEPT = np.uint32(0xFFFF0000)  # the part of an fp32 pattern that bf16 has
_DROPPED_WIDTH = np.uint32(16)
_BELOW_HALF = np.uint32(0x00007FFF)
_ONE = np.uint32(1)
_MIN_NORMAL = np.float32(2.0**-126)
_ZERO = np.float32(0)


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rows: int,
    precision: str = "default",
    subnormals: str = "flush",
    result: str = "fp32",
    threads: int | None = None,
    progress: Progress | None = None,
) -> npt.NDArray[Any]:
    """Multiply two matrices as an array with ``rows`` rows does: the bits of :func:`openmxu_sim.golden.matmul`.

    Parameters
    ----------
    a, b
        (M, K) activations and (K, N) weights, float32 or bfloat16.
    rows
        Rows of the systolic array, at least 1.
    precision
        ``"default"``, ``"high"``, ``"highest"`` or ``"exact9"``: passes, see :data:`openmxu.passes.PASSES`.
    subnormals
        ``"flush"`` or ``"ieee"``.
    result
        ``"fp32"``, or ``"bf16"``, to which sums are converted when they are complete.
    threads
        How many to use, at least 1; ``None``: ``NUMBA_NUM_THREADS``, by default one per processor.
    progress
        Called with the number of result rows that are there and that will be.

    Returns
    -------
    float32 or bfloat16 array, shape (M, N)
        +0 everywhere if K is 0. Every NaN is the canonical one, 7FC00000 or 7FC0.

    Raises
    ------
    TypeError
        ``a`` or ``b`` is of another dtype, or ``rows`` or ``threads`` is no integer.
    ValueError
        The shapes do not match, ``rows`` or ``threads`` is less than 1, or precision, mode or result are unknown.
    RuntimeError
        See :func:`~openmxu_sim.golden.environment.ieee_arithmetic`.
    """
    a_bits, b_bits = check_operands(a, b)
    rows = check_count(rows, "rows")
    passes = PASSES[check_precision(precision)]
    flush = check_subnormals(subnormals)
    narrow = check_result(result) == "bf16"
    threads = config.NUMBA_NUM_THREADS if threads is None else check_count(threads, "threads")

    (m, k), n = a_bits.shape, b_bits.shape[1]
    sums = np.zeros((m, n), np.float32)
    if 0 in (m, k, n):
        return sums.astype(ml_dtypes.bfloat16) if narrow else sums
    a_parts, b_parts = (
        {part: _part(bits, part) for part in set(parts)}
        for bits, parts in zip((a_bits, b_bits), zip(*passes, strict=True), strict=True)
    )

    @ieee_arithmetic()  # here, because every thread has settings of its own
    def multiply(task: tuple[_Span, _Span]) -> None:
        for number, (a_part, b_part) in enumerate(passes):
            later, last = number > 0, number == len(passes) - 1
            _multiply(a_parts[a_part], b_parts[b_part], min(rows, k), flush, *task, later=later, last=last, result=sums)

    tasks = [(row_span, column_span) for row_span in _spans(m, _TASK_ROWS) for column_span in _spans(n, _PANEL)]
    with ThreadPoolExecutor(threads) as pool:
        for ((_, row), (_, column)), _ in zip(tasks, pool.map(multiply, tasks), strict=True):
            if progress is not None and column == n:
                progress(row, m)
    if not narrow:
        return sums
    results = np.empty((m, n), np.uint16)
    _narrow(sums.view(np.uint32), flush, results)
    return results.view(ml_dtypes.bfloat16)


def _part(bits: _Bits, part: Part) -> _Bits:
    """A part of a matrix as the kernel wants it in memory."""
    return np.require(part_of(bits, part), requirements=["C_CONTIGUOUS", "ALIGNED"])


def _spans(count: int, size: int) -> list[_Span]:
    """``range(count)`` in pieces of ``size``."""
    return [(first, min(first + size, count)) for first in range(0, count, size)]


# What numba compiles.


@njit
def _bf16(bits: np.uint32, flush: bool) -> np.uint32:
    """The pattern of the bf16 number nearest to an fp32 one; a NaN stays the same, but quiet."""
    magnitude = bits & _MAGNITUDE
    # A carry runs into the exponent, and as far as infinity, by itself.
    rounded = bits + _BELOW_HALF + (bits >> _DROPPED_WIDTH & _ONE) & _KEPT
    number = bits & _SIGN if flush and magnitude < _MIN_NORMAL_BITS else rounded
    return np.uint32(bits & _KEPT | _QUIET if magnitude > _INFINITY else number)


# Wherever columns lie side by side, a slice comes before the loop: numba allows for negative indices, and LLVM makes
# no vectors where it cannot see that there are none. What runs once per tile is inlined, as tiles may be short.


@njit
def _load(bits: _Bits, top: int, left: int, flush: bool, block: _Floats) -> np.uint32:
    """Fill a block from there on with bf16 numbers, as far as the matrix goes; give the smallest magnitude but zero."""
    least = _INFINITY
    for m in range(min(block.shape[0], bits.shape[0] - top)):
        source, target = bits[top + m, left : left + block.shape[1]], block[m]
        for n in range(source.shape[0]):
            rounded = _bf16(source[n], flush)
            magnitude = np.uint32(rounded & _MAGNITUDE)
            least = np.uint32(min(least, magnitude if magnitude else _INFINITY))
            target[n] = np.uint32(rounded).view(np.float32)
    return least


@njit
def _flushed(value: np.float32) -> np.float32:
    """A zero of its sign for a subnormal number, anything else as it is."""
    return value * _ZERO if abs(value) < _MIN_NORMAL else value


@njit
def _step(psum: np.float32, a: np.float32, b: np.float32) -> np.float32:
    """What a processing element does."""
    return psum + a * b


@njit
def _flushing_step(psum: np.float32, a: np.float32, b: np.float32) -> np.float32:
    """What a processing element does in flush mode."""
    return _flushed(psum + _flushed(a * b))


def _tile_sum_of(step: Callable[..., Any]) -> Callable[..., Any]:
    """Make the loop over one tile: a band (4, K) times weights (K, 128) into partial sums (4, 128).

    Four steps at a time, in ascending order of k: for four additions a sum is loaded and stored once. Each
    load of weights serves four rows. LLVM makes vectors of the columns.
    """

    @njit
    def steps(
        psum: np.float32,
        a0: np.float32,
        a1: np.float32,
        a2: np.float32,
        a3: np.float32,
        b0: np.float32,
        b1: np.float32,
        b2: np.float32,
        b3: np.float32,
    ) -> Any:
        return step(step(step(step(psum, a0, b0), a1, b1), a2, b2), a3, b3)

    @njit(forceinline=True)
    def tile_sum(a: _Floats, b: _Floats, psum: _Floats) -> None:
        psum[:] = _ZERO
        in_fours = b.shape[0] // 4 * 4
        for k in range(0, in_fours, 4):
            a00, a01, a02, a03 = a[0, k], a[0, k + 1], a[0, k + 2], a[0, k + 3]
            a10, a11, a12, a13 = a[1, k], a[1, k + 1], a[1, k + 2], a[1, k + 3]
            a20, a21, a22, a23 = a[2, k], a[2, k + 1], a[2, k + 2], a[2, k + 3]
            a30, a31, a32, a33 = a[3, k], a[3, k + 1], a[3, k + 2], a[3, k + 3]
            for n in range(_PANEL):
                b0, b1, b2, b3 = b[k, n], b[k + 1, n], b[k + 2, n], b[k + 3, n]
                psum[0, n] = steps(psum[0, n], a00, a01, a02, a03, b0, b1, b2, b3)
                psum[1, n] = steps(psum[1, n], a10, a11, a12, a13, b0, b1, b2, b3)
                psum[2, n] = steps(psum[2, n], a20, a21, a22, a23, b0, b1, b2, b3)
                psum[3, n] = steps(psum[3, n], a30, a31, a32, a33, b0, b1, b2, b3)
        for k in range(in_fours, b.shape[0]):
            for m in range(_BAND):
                for n in range(_PANEL):
                    psum[m, n] = step(psum[m, n], a[m, k], b[k, n])

    return tile_sum


_tile_sum = _tile_sum_of(_step)
_flushing_tile_sum = _tile_sum_of(_flushing_step)


@njit(forceinline=True)
def _accumulate(acc: _Floats, psum: _Floats, first: bool, flush: bool) -> None:
    """Take one row of the first tile as it is, add one of each further tile."""
    for n in range(acc.shape[0]):
        if first:
            acc[n] = psum[n]
        elif flush:
            acc[n] = _flushed(acc[n] + psum[n])
        else:
            acc[n] += psum[n]


@njit
def _canonicalise(bits: _Bits) -> None:
    """Make all NaNs of a row the same."""
    for n in range(bits.shape[0]):
        if bits[n] & _MAGNITUDE > _INFINITY:
            bits[n] = _CANONICAL_NAN


@njit(forceinline=True)
def _clear_nan(acc: _Floats) -> None:
    """Replace every NaN of a row by +0."""
    for n in range(acc.shape[0]):
        acc[n] = acc[n] if acc[n] == acc[n] else _ZERO


def _narrow_rows(bits: _Bits, flush: bool, result: npt.NDArray[np.uint16]) -> None:
    """Convert fp32 patterns to bf16."""
    for m in range(bits.shape[0]):
        for n in range(bits.shape[1]):
            result[m, n] = np.uint16(_bf16(bits[m, n], flush) >> _DROPPED_WIDTH)


def _multiply_panel(
    a: _Bits, b: _Bits, rows: int, flush: bool, span: _Span, columns: _Span, *, later: bool, last: bool, result: _Floats
) -> None:
    """One pass over some rows and the columns of one panel.

    ``later``: it is not the first pass. ``last``: it is the last one.
    """
    depth = rows * max(1, _DEPTH // rows)
    activations = np.zeros((_BAND, depth), np.float32)
    weights = np.zeros((depth, _PANEL), np.float32)
    psum = np.empty((_BAND, _PANEL), np.float32)
    for first in range(0, a.shape[1], depth):
        b_least = _load(b, first, columns[0], flush, weights)
        for top in range(span[0], span[1], _BAND):
            a_least = _load(a, top, first, flush, activations)
            tiny = np.intp(a_least >> _FRACTION_WIDTH) + np.intp(b_least >> _FRACTION_WIDTH) < _NORMAL_FIELDS
            for k in range(0, min(depth, a.shape[1] - first), rows):
                tile = activations[:, k:], weights[k : min(k + rows, a.shape[1] - first)]
                if tiny and flush:
                    _flushing_tile_sum(*tile, psum)
                else:
                    _tile_sum(*tile, psum)
                for m in range(min(_BAND, span[1] - top)):
                    acc = result[top + m, columns[0] : columns[1]]
                    if later and last and first + k == 0:
                        _clear_nan(acc)
                    _accumulate(acc, psum[m], not later and first + k == 0, flush)
    if last:
        bits = result.view(np.uint32)
        for m in range(span[0], span[1]):
            _canonicalise(bits[m, columns[0] : columns[1]])


def _try() -> None:
    """Compare a small product of operands of every kind with the definition.

    Raises
    ------
    RuntimeError
        They differ.
    """
    patterns = np.array(
        [
            0,
            1,
            0x007FFFFF,
            0x00800000,
            0x1F818001,
            0x3F800000,
            0x3F808000,
            0x40490FDB,
            0x7F7FFFFF,
            0x7F800000,
            0x7FC00001,
        ],
        dtype=np.uint32,
    )
    column = golden.from_bits(np.concatenate([patterns, patterns | _SIGN]))[:, np.newaxis]
    a, b = np.tile(column, 5), np.tile(column[::-1], 5).T
    for mode in ("flush", "ieee"):
        for result in ("fp32", "bf16"):
            found, right = (
                product(a, b, rows=3, precision="high", subnormals=mode, result=result).tobytes()
                for product in (matmul, golden.matmul)
            )
            if found != right:
                raise RuntimeError(f"numba makes wrong code for this processor ({host.processor().splitlines()[0]})")


_GIVEN = types.Array(types.uint32, 2, "C", readonly=True)
_SPAN = types.UniTuple(types.intp, 2)

# Each for one signature and now, so that it can be tried and kept as a whole.
with kept_code(__file__, SOURCES) as _compile:
    _narrow = _compile(types.void(_GIVEN, types.boolean, types.uint16[:, ::1]), _narrow_rows)
    _multiply = _compile(
        types.void(
            _GIVEN, _GIVEN, types.intp, types.boolean, _SPAN, _SPAN, types.boolean, types.boolean, types.float32[:, ::1]
        ),
        _multiply_panel,
    )
    if _compile.loaded < _compile.functions:
        _try()
