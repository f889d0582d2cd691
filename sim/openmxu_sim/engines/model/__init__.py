"""Engine ``model``: the bits of the hardware without its clock, about as fast as a float32 product.

Operands are converted once, and packed as ``kernel.c`` reads them. For a band of rows and a panel of columns it then
adds products to sums in the order of the contract: as many sums as the processor has registers for, each by itself.
For each block of them it takes the fastest step that is certain to have the right bits.

=============  ====================================================================================================
``FUSED``      One fused multiply-add of the host. A product of operands of at most 12 significant bits is exact in
               fp32 unless it is too large or too small: it makes no difference that it is not rounded by itself.
``PLAIN``      The host's multiplication, then its addition: they are the contract's, infinities and zeros included.
               NaNs differ in their patterns, on which nothing depends, and are replaced at the end. In ``"ieee"`` mode
               the host's gradual underflow is the contract's, too.
``FLUSHING``   The same, and products and sums below 2^-126 become zeros of their signs. fp32 holds all of those
               exactly, so it makes no difference that the host has rounded them before.
``NARROW``     Sums in a narrower format of at most 11 significant bits: product and sum are rounded once more.
``GENERAL``    In binary64, which holds every product exactly, whatever operands and formats are.
=============  ====================================================================================================

What decides are the smallest and the largest exponents of a band's and of a panel's operands. With exponents from e on
and f fraction bits, operands are multiples of 2^(e - f), products of 2^(e + e' - 2f), and so is each sum of such
products: what does not fit is rounded to a coarser grid. Where this grid is no finer than 2^-126, there is nothing to
flush; where it is no finer than 2^-149, products are exact. A product whose exponents add up to less than 127 does not
overflow. In narrow formats a sum stays where the largest product no longer changes it, f + 1 binades above that.
"""

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu import host
from openmxu.passes import PASSES, Part
from openmxu_sim.aliases import Progress
from openmxu_sim.engines.model.kernel import Arithmetic, Kernel, Packed, arithmetic, limits, load_kernel
from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.formats import DTYPES, Bits, find_format
from openmxu_sim.golden.matrix import check_count, check_operands, check_precision
from openmxu_sim.parts import part_of

__all__ = ["matmul"]

_Span = tuple[int, int]
"""The first, and one past the last."""

_DEPTH = 128
"""Of so many k, or of one tile if that is longer, the extents are known; a panel of them fits next to the core."""

_ROWS, _COLUMNS = 252, 512
"""Of the result, at most, in one call: milliseconds, so that Ctrl-C is heard. Bands are of 6 or 12 rows."""

_SMALL = 1 << 22
"""Multiply-adds up to which another thread is not worth its start."""

_ALIGNMENT = 64
"""Bytes of the longest vector."""


@ieee_arithmetic()
def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rows: int,
    precision: str = "default",
    subnormals: str = "flush",
    operand: str = "bf16",
    accumulate: str = "fp32",
    result: str = "fp32",
    threads: int | None = None,
    progress: Progress | None = None,
    kernel: Kernel | None = None,
) -> npt.NDArray[Any]:
    """Multiply two matrices as an array with ``rows`` rows does: the bits of :func:`openmxu_sim.golden.matmul`.

    Parameters
    ----------
    a, b
        (M, K) activations and (K, N) weights, in one of the types of :data:`openmxu_sim.golden.DTYPES`.
    rows
        Rows of the systolic array, at least 1.
    precision
        ``"default"``, ``"high"``, ``"highest"`` or ``"exact9"``: passes, see :data:`openmxu.passes.PASSES`.
    subnormals
        ``"flush"`` or ``"ieee"``.
    operand, accumulate, result
        Formats that are multiplied, in which sums are formed, and to which these are converted when they are complete;
        see :func:`openmxu_sim.golden.find_format`. Several passes are made of bf16 with sums in fp32 only.
    threads
        How many to use, at least 1; ``None``: one per processor.
    progress
        Called with the number of result rows that are there and that will be.
    kernel
        What computes; ``None``: :func:`~openmxu_sim.engines.model.kernel.load_kernel`.

    Returns
    -------
    array, shape (M, N), float32 or the type that numpy has for the result's format
        +0 everywhere if K is 0. Every NaN is the canonical one.

    Raises
    ------
    TypeError
        ``a`` or ``b`` is of another dtype, ``rows`` or ``threads`` is no integer, or a format is no string.
    ValueError
        The shapes do not match, ``rows`` or ``threads`` is less than 1, or precision, mode or a format are unknown.
    RuntimeError
        See :func:`~openmxu_sim.golden.environment.ieee_arithmetic`.
    openmxu_sim.netlist.native.CompilerNotFoundError, openmxu_sim.netlist.native.CompilationError
        There is no C compiler, or it failed.
    """
    left, right = check_operands(a, b)
    rows = check_count(rows, "rows")
    check_precision(precision, operand, accumulate)
    how = arithmetic(
        find_format(operand, "operand"), find_format(accumulate, "accumulate"), flush=check_subnormals(subnormals)
    )
    target = limits(find_format(result, "result"))
    threads = host.cores() if threads is None else check_count(threads, "threads")
    (m, k), n = left.shape, right.shape[1]
    sums = np.zeros((m, n), np.float32)
    if 0 not in (m, k, n):
        kernel = kernel or load_kernel()
        job = _Job.of(kernel, how, (left, right.T), min(rows, k), PASSES[precision], sums)
        job.run(threads if m * k * n > _SMALL else 1, progress)
        kernel.convert(sums.ctypes.data, sums.size, ctypes.byref(target), how.flush)
    return sums.astype(DTYPES.get(result, np.float32), copy=False)


@dataclass(frozen=True)
class _Job:
    """A product that is not empty, with its operands packed.

    Parameters
    ----------
    kernel, how
        What computes, in which formats.
    passes
        Packed activations and weights of each pass.
    inner, rows, block
        The inner dimension; how many k make a tile, and a block of tiles.
    sums
        (M, N): the result.
    """

    kernel: Kernel
    how: Arithmetic
    passes: list[tuple["_Operands", "_Operands"]]
    inner: int
    rows: int
    block: int
    sums: npt.NDArray[np.float32]

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        how: Arithmetic,
        matrices: tuple[Bits, Bits],
        rows: int,
        passes: Sequence[tuple[Part, Part]],
        sums: npt.NDArray[np.float32],
    ) -> "_Job":
        """Convert and pack each part of the (M, K) and (N, K) matrices once."""
        block = rows * max(1, _DEPTH // rows)
        a, b = (
            {part: _pack(kernel, how, part_of(bits, part), size, block) for part in set(parts)}
            for bits, size, parts in zip(matrices, (kernel.band, kernel.panel), zip(*passes, strict=True), strict=True)
        )
        packed = [(a[a_part], b[b_part]) for a_part, b_part in passes]
        return cls(kernel, how, packed, matrices[0].shape[1], rows, block, sums)

    def run(self, threads: int, progress: Progress | None) -> None:
        """Multiply, a part of the result after the other."""
        m, n = self.sums.shape
        steps = _ROWS // self.kernel.band, _COLUMNS // self.kernel.panel
        counts = -(-m // self.kernel.band), -(-n // self.kernel.panel)
        spans = [
            [(first, min(first + step, count)) for first in range(0, count, step)]
            for step, count in zip(steps, counts, strict=True)
        ]
        tasks = list(itertools.product(*spans))
        with ExitStack() as stack:
            if threads == 1 or len(tasks) == 1:
                done: Iterator[None] = itertools.starmap(self._multiply, tasks)
            else:
                pool = stack.enter_context(ThreadPoolExecutor(threads))
                # Every thread has settings of its own.
                done = pool.map(ieee_arithmetic()(self._multiply), *zip(*tasks, strict=True))
            for ((_, band), (_, panel)), _ in zip(tasks, done, strict=True):
                if progress is not None and panel == counts[1]:
                    progress(min(band * self.kernel.band, m), m)

    def _multiply(self, bands: _Span, panels: _Span) -> None:
        """All passes over a part of the result."""
        m, n = self.sums.shape
        for number, (a, b) in enumerate(self.passes):
            later, last = number > 0, number == len(self.passes) - 1
            self.kernel.multiply(
                ctypes.byref(self.how),
                ctypes.byref(a.address),
                ctypes.byref(b.address),
                m,
                self.inner,
                n,
                self.rows,
                self.block,
                *bands,
                *panels,
                later,
                later and last,
                self.sums.ctypes.data,
            )


class _Operands(NamedTuple):
    """Operands that the kernel has packed, and what holds them."""

    address: Packed
    kept: tuple[npt.NDArray[Any], ...]


def _pack(kernel: Kernel, how: Arithmetic, bits: Bits, size: int, block: int) -> _Operands:
    """Convert (rows or columns, inner) patterns of fp32 to operands, ``size`` rows or columns side by side."""
    if not bits.flags.aligned or any(stride % bits.itemsize for stride in bits.strides):
        bits = bits.copy()
    count, inner = bits.shape
    groups, blocks = -(-count // size), -(-inner // block)
    values = np.empty(groups * size * inner + _ALIGNMENT // 4, np.float32)
    extents = np.empty(groups * blocks, np.int64)
    packed = Packed(values.ctypes.data + -values.ctypes.data % _ALIGNMENT, extents.ctypes.data)
    kernel.pack(
        bits.ctypes.data,
        *(stride // bits.itemsize for stride in bits.strides),
        count,
        inner,
        size,
        block,
        ctypes.byref(how.operand),
        how.flush,
        ctypes.byref(packed),
    )
    return _Operands(packed, (values, extents))
