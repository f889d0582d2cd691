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
``TERMS``      Several products at once, as integers in the last place of the window that the largest of them sets.
=============  ====================================================================================================

The smallest and the largest exponents of a band's and of a panel's operands decide. With exponents from e on
and f fraction bits, operands are multiples of 2^(e - f), products of 2^(e + e' - 2f), and so is each sum of such
products: what does not fit is rounded to a coarser grid. Where this grid is no finer than 2^-126, there is nothing to
flush; where it is no finer than 2^-149, products are exact. A product whose exponents add up to less than 127 does not
overflow. ``TERMS`` needs finite operands of at most 12 significant bits whose products are at least 2^-100, so that
no sum of theirs is below 2^-126. In narrow formats a sum stays where the largest product no longer changes it, f + 1
binades above that.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu.runtime import machine
from openmxu.spec.passes import PASSES, Part
from openmxu_sim.engines.model.kernel import (
    Arithmetic,
    FormatLimits,
    Kernel,
    Packed,
    Stack,
    arithmetic,
    limits,
    load_kernel,
)
from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.formats import DTYPES, Bits, find_format
from openmxu_sim.golden.matrix import check_count, check_operands, check_precision, check_terms
from openmxu_sim.operands.aliases import Progress, share_of

__all__ = ["PlainSetup", "Setup", "is_small", "matmul", "plain_setup", "products"]

_DEPTH = 128
"""Steps of k in a packed block, or one tile if that is longer: their extents are known, and a panel fits the cache."""

_ROWS, _COLUMNS = 252, 512
"""Most rows and columns of the result in one call: milliseconds, so that Ctrl-C is heard. Bands have 6 or 12 rows."""

_TASK = 1 << 26
"""Multiply-adds of small products that one call on one thread computes: milliseconds, too."""

_ALIGNMENT = 64
"""Bytes of the longest vector."""


def matmul(a: npt.ArrayLike, b: npt.ArrayLike, **options: Any) -> npt.NDArray[Any]:
    """Multiply two matrices with the bits of :func:`openmxu_sim.golden.matmul`, as an array does."""
    left, right = check_operands(a, b)
    [result] = products(left[np.newaxis], right[np.newaxis], **options)
    return result


@ieee_arithmetic()
def products(
    a: Bits, b: Bits, *, result: str = "fp32", progress: Progress | None = None, **options: Any
) -> npt.NDArray[Any]:
    """Compute several products of the same sizes; small ones take little longer than their sums.

    ``options`` are those of :meth:`Setup.of`.
    """
    (count, m, inner), n = a.shape, b.shape[2]
    setup = Setup.of(inner, result=result, **options)
    if 0 in (count, m, inner, n):
        return np.zeros((count, m, n), DTYPES.get(result, np.float32))
    sums = np.empty((count, m, n), np.float32)
    if is_small(m * inner * n, options.get("precision", "default")):
        _multiply_small(setup, _in_words(a), _in_words(b), sums, progress)
    else:
        for number in range(count):
            job = _Job.of(setup, _in_words(a[number]), _in_words(b[number].T), sums[number])
            job.run(share_of(progress, number, count))
    return sums.astype(DTYPES.get(result, np.float32), copy=False)


def is_small(multiply_adds: int, precision: str) -> bool:
    """Whether a product takes milliseconds at most, so that one call of the kernel on one thread computes it."""
    return multiply_adds * len(PASSES[precision]) <= _TASK


class PlainSetup(NamedTuple):
    """Parameters of ``kernel_products`` beside operands, as plain numbers: formats of operands, of sums and of the
    result, as bytes; number of k in a tile, and in a packed block; parts of each pass.
    """

    how: bytes
    target: bytes
    rows: int
    block: int
    parts: tuple[tuple[int, int], ...]


def plain_setup(
    inner: int, *, rows: int, precision: str, subnormals: str, operand: str, accumulate: str, terms: int
) -> PlainSetup:
    """Return the setup of products with results in fp32; parameters as in :func:`products`, already checked."""
    how = arithmetic(find_format(operand), find_format(accumulate), flush=subnormals == "flush", terms=terms)
    rows = min(rows, inner)
    parts = tuple((int(one), int(other)) for one, other in PASSES[precision])
    return PlainSetup(bytes(how), bytes(limits(find_format("fp32"))), rows, _block(rows), parts)


def _block(rows: int) -> int:
    """Return the number of k in a packed block: whole tiles."""
    return rows * max(1, _DEPTH // rows)


class Setup(NamedTuple):
    """The kernel, the formats, the number of k in a tile, the most threads, and the parts of each pass."""

    kernel: Kernel
    how: Arithmetic
    target: FormatLimits
    rows: int
    threads: int
    passes: Sequence[tuple[Part, Part]]

    @classmethod
    def of(
        cls,
        inner: int,
        *,
        rows: int,
        precision: str = "default",
        subnormals: str = "flush",
        operand: str = "bf16",
        accumulate: str = "fp32",
        result: str = "fp32",
        terms: int = 1,
        threads: int | None = None,
        kernel: Kernel | None = None,
    ) -> "Setup":
        """Check the parameters of products over so many k, and load the kernel."""
        rows = check_count(rows, "rows")
        check_precision(precision, operand, accumulate)
        how = arithmetic(
            find_format(operand, "operand"),
            find_format(accumulate, "accumulate"),
            flush=check_subnormals(subnormals),
            terms=check_terms(terms, rows, subnormals),
        )
        target = limits(find_format(result, "result"))
        threads = machine.cores() if threads is None else check_count(threads, "threads")
        return cls(kernel or load_kernel(), how, target, min(rows, inner), threads, PASSES[precision])

    @property
    def block(self) -> int:
        """Number of k in a packed block: whole tiles."""
        return _block(self.rows)

    def map(self, function: Callable[..., None], tasks: list[tuple[Any, ...]]) -> Iterator[None]:
        """Run all tasks on as many threads as allowed, each with floating-point settings of its own."""
        threads = min(len(tasks), self.threads)
        if threads == 1:
            yield from itertools.starmap(function, tasks)
        else:
            with ThreadPoolExecutor(threads) as pool:
                yield from pool.map(ieee_arithmetic()(function), *zip(*tasks, strict=True))


def _in_words(bits: Bits) -> Bits:
    """Return the same patterns, copied unless they are aligned and whole words apart."""
    fits = bits.flags.aligned and not any(stride % bits.itemsize for stride in bits.strides)
    return bits if fits else bits.copy()


def _multiply_small(setup: Setup, a: Bits, b: Bits, sums: npt.NDArray[np.float32], progress: Progress | None) -> None:
    """Compute products of (P, M, K) and (P, K, N), some milliseconds of them in each call."""
    (count, m, inner), n = a.shape, b.shape[2]
    steps = [[stride // bits.itemsize for stride in bits.strides] for bits in (a, b.swapaxes(1, 2))]
    parts = (ctypes.c_int32 * 2 * len(setup.passes))(*((ctypes.c_int32 * 2)(*pair) for pair in setup.passes))

    def multiply(first: int, last: int) -> None:
        left, right = (
            Stack(bits.ctypes.data + first * bits.strides[0], *step) for bits, step in zip((a, b), steps, strict=True)
        )
        failed = setup.kernel.products(
            ctypes.byref(setup.how),
            ctypes.byref(setup.target),
            ctypes.byref(left),
            ctypes.byref(right),
            last - first,
            m,
            inner,
            n,
            setup.rows,
            setup.block,
            parts,
            len(parts),
            sums.ctypes.data + first * sums.strides[0],
        )
        if failed:
            raise MemoryError("not enough memory for the operands of a product")

    batch = max(1, _TASK // (m * inner * n * len(parts)))
    tasks: list[tuple[Any, ...]] = [(first, min(first + batch, count)) for first in range(0, count, batch)]
    for (_, last), _ in zip(tasks, setup.map(multiply, tasks), strict=True):
        if progress is not None:
            progress(last * m, count * m)


@dataclass(frozen=True)
class _Job:
    """A large product, with its operands packed."""

    setup: Setup
    """The kernel, the formats and the passes."""
    passes: list[tuple["_Operands", "_Operands"]]
    """Packed activations and weights of each pass."""
    inner: int
    """The inner dimension."""
    sums: npt.NDArray[np.float32]
    """(M, N): the result."""

    @classmethod
    def of(cls, setup: Setup, a: Bits, b: Bits, sums: npt.NDArray[np.float32]) -> "_Job":
        """Convert and pack each part of the (M, K) and (N, K) matrices once."""
        sides = (a, setup.kernel.band), (b, setup.kernel.panel)
        wanted = list({(side, parts[side]): None for parts in setup.passes for side in (0, 1)})
        packs: dict[tuple[int, Part], _Operands] = {}

        def pack(side: int, part: Part) -> None:
            bits, size = sides[side]
            packs[side, part] = _pack(setup, bits, part, size)

        for _ in setup.map(pack, wanted):
            pass
        return cls(setup, [(packs[0, a_part], packs[1, b_part]) for a_part, b_part in setup.passes], a.shape[1], sums)

    def run(self, progress: Progress | None) -> None:
        """Multiply, one part of the result after the other."""
        spans = []
        for length, size, most in zip(
            self.sums.shape, (self.setup.kernel.band, self.setup.kernel.panel), (_ROWS, _COLUMNS), strict=True
        ):
            count, step = -(-length // size), most // size
            spans.append([(first, min(first + step, count)) for first in range(0, count, step)])
        tasks: list[tuple[Any, ...]] = list(itertools.product(*spans))
        m, last_span = len(self.sums), spans[1][-1]
        for ((_, band), panels), _ in zip(tasks, self.setup.map(self._multiply, tasks), strict=True):
            if progress is not None and panels == last_span:
                progress(min(band * self.setup.kernel.band, m), m)

    def _multiply(self, bands: tuple[int, int], panels: tuple[int, int]) -> None:
        """Compute all passes of a part of the result, from the first band and panel to one past the last."""
        m, n = self.sums.shape
        for number, (a, b) in enumerate(self.passes):
            later, last = number > 0, number == len(self.passes) - 1
            self.setup.kernel.multiply(
                ctypes.byref(self.setup.how),
                ctypes.byref(a.address),
                ctypes.byref(b.address),
                m,
                self.inner,
                n,
                self.setup.rows,
                self.setup.block,
                *bands,
                *panels,
                later,
                later and last,
                self.sums.ctypes.data,
                ctypes.byref(self.setup.target) if last else None,
            )


class _Operands(NamedTuple):
    """Packed operands, and the arrays that hold them."""

    address: Packed
    kept: tuple[npt.NDArray[Any], ...]


def _pack(setup: Setup, bits: Bits, part: Part, size: int) -> _Operands:
    """Convert a part of (rows or columns, inner) patterns of fp32 to operands, ``size`` rows or columns together."""
    count, inner = bits.shape
    groups, blocks = -(-count // size), -(-inner // setup.block)
    values = np.empty(groups * size * inner + _ALIGNMENT // 4, np.float32)
    extents = np.empty(groups * blocks, np.int64)
    packed = Packed(values.ctypes.data + -values.ctypes.data % _ALIGNMENT, extents.ctypes.data)
    setup.kernel.pack(
        bits.ctypes.data,
        *(stride // bits.itemsize for stride in bits.strides),
        count,
        inner,
        size,
        setup.block,
        part,
        ctypes.byref(setup.how.operand),
        setup.how.flush,
        ctypes.byref(packed),
    )
    return _Operands(packed, (values, extents))
