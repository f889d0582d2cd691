"""Engine ``model``: the bits of the hardware without its clock, about as fast as a float32 product.

Operands are converted and packed as ``kernel.c`` reads them, some k at a time, as much as a cache holds. For a band of
rows and a panel of columns it then adds products to sums in the order of the contract: as many sums as the processor
has registers for, each by itself. For each block of them it takes the fastest step that is certain to have the right
bits.

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
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu.runtime import machine
from openmxu.spec.passes import PASSES, Part
from openmxu_sim.engines.model.kernel import (
    Arithmetic,
    Factors,
    FormatLimits,
    Kernel,
    Origin,
    Stack,
    arithmetic,
    limits,
    load_kernel,
)
from openmxu_sim.engines.model.preparation import multiply_integers, prepare
from openmxu_sim.golden.arithmetic import convert
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.formats import DTYPES, Bits, find_format
from openmxu_sim.golden.matrix import check_operands, to_array
from openmxu_sim.golden.setup import Definition, check_count, check_largest, check_seed, check_setup
from openmxu_sim.operands.aliases import Progress

__all__ = ["Setup", "is_small", "matmul", "plain_setup", "products"]

_DEPTH = 128
"""Steps of k in a packed block, or one tile if that is longer: their extents are known, and a panel fits the cache."""

_ROWS, _COLUMNS = 516, 512
"""Most rows and columns of the result in one call: milliseconds, so that Ctrl-C is heard. Bands have 6 or 12 rows."""

_FEWEST, _SUMS = 48, 1 << 18
"""Fewest rows of a call that many columns share, and the number of sums that it has otherwise: a cache holds them."""

TASK = 1 << 26
"""Multiply-adds of small products that one call on one thread computes: milliseconds, too."""


_EXACT = (1 << 24) // 127**2
"""Products of int8 numbers whose sums fp32 holds exactly, whatever their order."""


def matmul(a: npt.ArrayLike, b: npt.ArrayLike, **options: Any) -> npt.NDArray[Any]:
    """Multiply two matrices with the bits of :func:`openmxu_sim.golden.matmul`, as an array does."""
    left, right = check_operands(a, b)
    [result] = products(left[np.newaxis], right[np.newaxis], **options)
    return result


@ieee_arithmetic()
def products(
    a: Bits,
    b: Bits,
    *,
    result: str = "fp32",
    progress: Progress | None = None,
    largest: tuple[float | None, float | None] = (None, None),
    **options: Any,
) -> npt.NDArray[Any]:
    """Compute several products of the same sizes; small ones take little longer than their sums.

    ``options`` are those of :meth:`Setup.of`. A scale of a whole tensor is that of the stack, computed from its largest
    magnitude or from ``largest``, and the seed of the n-th product is ``seed`` + n.
    """
    (count, m, inner), n = a.shape, b.shape[2]
    setup = Setup.of(inner, result=result, **options)
    dtype = DTYPES.get(result, np.dtype(np.float32))
    if 0 in (count, m, inner, n):
        return np.zeros((count, m, n), dtype)
    sums = np.empty((count, m, n), np.float32)
    if not setup.definition.is_scaled:
        _multiply(setup, _in_words(a), _in_words(b), sums, None, progress)
        return sums.astype(dtype, copy=False)
    definition, stacks = setup.definition, (a, b.swapaxes(1, 2))
    left, right = (
        prepare(setup.kernel, bits, side, flush=definition.flush, seed=setup.how.seed, stream=stream, largest=peak)
        for stream, (bits, side, peak) in enumerate(
            zip(stacks, (definition.operand, definition.weight), check_largest(largest), strict=True)
        )
    )
    if definition.operand.integer:
        setup = setup._replace(rows=min(definition.tile(inner), inner))
    if definition.operand.integer and setup.rows > _EXACT:
        mode = "flush" if definition.flush else "ieee"
        sums = multiply_integers(left, right, setup.rows, flush=definition.flush)
        return (
            sums
            if result == "fp32"
            else to_array(convert(sums.view(np.uint32), "fp32", result, subnormals=mode), result)
        )
    scaled = left.factors is not None or right.factors is not None
    factors = (Factors * 2)(left.address, right.address) if scaled else None
    _multiply(setup, left.bits, right.bits.swapaxes(1, 2), sums, factors, progress)
    return sums.astype(dtype, copy=False)


def is_small(multiply_adds: int, precision: str) -> bool:
    """Whether a product takes milliseconds at most, so that one call of the kernel on one thread computes it."""
    return multiply_adds * len(PASSES[precision]) <= TASK


def plain_setup(
    inner: int, *, seed: int = 0, **numerics: Any
) -> tuple[bytes, bytes, int, int, tuple[tuple[int, int], ...]]:
    """Return parameters of ``kernel_products`` beside operands, for results in fp32: formats of operands and sums, and
    of the result; number of k in a tile, and in a packed block; parts of each pass. Parameters: see :meth:`Setup.of`.
    """
    definition, how = _known(**numerics)
    rows = min(definition.rows, inner)
    parts = tuple((int(one), int(other)) for one, other in PASSES[definition.precision])
    return bytes(_seeded(how, seed)), bytes(limits(find_format("fp32"))), rows, _block(rows), parts


def _block(rows: int) -> int:
    """Return the number of k in a packed block: whole tiles."""
    return rows * max(1, _DEPTH // rows)


class Setup(NamedTuple):
    """The definition, the kernel, the formats, the number of k in a tile, and the most threads."""

    definition: Definition
    kernel: Kernel
    how: Arithmetic
    target: FormatLimits
    rows: int
    threads: int

    @classmethod
    def of(
        cls,
        inner: int,
        *,
        threads: int | None = None,
        kernel: Kernel | None = None,
        result: str = "fp32",
        seed: int = 0,
        **numerics: Any,
    ) -> "Setup":
        """Check the parameters of products over so many k, and load the kernel.

        ``numerics`` are the parameters of :func:`openmxu_sim.golden.setup.check_setup`.
        """
        threads = machine.cores() if threads is None else check_count(threads, "threads")
        try:
            definition, how = _known(**numerics)
        except TypeError:  # what has no hash is no parameter, and the check says so
            check_setup(**numerics)
            raise
        how, target = _seeded(how, check_seed(seed)), limits(find_format(result, "result"))
        return cls(definition, kernel or load_kernel(), how, target, min(definition.rows, inner), threads)

    @property
    def passes(self) -> Sequence[tuple[Part, Part]]:
        """Parts of each pass."""
        return PASSES[self.definition.precision]

    @property
    def block(self) -> int:
        """Number of k in a packed block: whole tiles."""
        return _block(self.rows)

    @property
    def units(self) -> tuple[int, int]:
        """Numbers of rows and of columns that are multiplied side by side."""
        return self.kernel.band, self.kernel.panel

    def map(self, function: Callable[..., None], tasks: list[tuple[Any, ...]]) -> Iterator[None]:
        """Run all tasks on as many threads as allowed, each with floating-point settings of its own."""
        threads = min(len(tasks), self.threads)
        if threads == 1:
            yield from itertools.starmap(function, tasks)
        else:
            with ThreadPoolExecutor(threads) as pool:
                yield from pool.map(ieee_arithmetic()(function), *zip(*tasks, strict=True))


@lru_cache(maxsize=256)
def _known(**numerics: Any) -> tuple[Definition, Arithmetic]:
    """Check parameters once for all products that have them."""
    definition = check_setup(**numerics)
    return definition, arithmetic(definition)


def _seeded(how: Arithmetic, seed: int) -> Arithmetic:
    """Return the same ways of rounding with a seed."""
    if seed:
        how = Arithmetic.from_buffer_copy(how)
        how.seed = seed
    return how


def _in_words(bits: Bits) -> Bits:
    """Return the same patterns, copied unless they are aligned and whole words apart."""
    fits = bits.flags.aligned and not any(stride % bits.itemsize for stride in bits.strides)
    return bits if fits else bits.copy()


def _multiply(
    setup: Setup, a: Bits, b: Bits, sums: npt.NDArray[np.float32], factors: Any, progress: Progress | None
) -> None:
    """Compute products of (P, M, K) and (P, K, N), some milliseconds of them in each call."""
    (count, m, inner), n = a.shape, b.shape[2]
    parts = (ctypes.c_int32 * 2 * len(setup.passes))(*((ctypes.c_int32 * 2)(*pair) for pair in setup.passes))
    a_step, m_step, *of_a = (stride // a.itemsize for stride in a.strides)
    b_step, *of_b, n_step = (stride // b.itemsize for stride in b.strides)

    def multiply(products: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> None:
        (first, last), (top, bottom), (start, end) = products, rows, columns
        failed = setup.kernel.part(
            ctypes.byref(setup.how),
            ctypes.byref(setup.target),
            ctypes.byref(Stack(a.ctypes.data + (first * a_step + top * m_step) * a.itemsize, a_step, m_step, *of_a)),
            ctypes.byref(Stack(b.ctypes.data + (first * b_step + start * n_step) * b.itemsize, b_step, n_step, *of_b)),
            *(last - first, bottom - top, inner, end - start, setup.rows, setup.block),
            parts,
            len(parts),
            sums.ctypes.data + ((first * m + top) * n + start) * sums.itemsize,
            n,
            ctypes.byref(Origin(first, top, start, n)),
            factors,
        )
        if failed:
            raise MemoryError("not enough memory for the operands of a product")

    work = m * inner * n * len(parts)
    if count * work <= TASK and progress is None:  # without what costs as much as a small product
        multiply((0, count), (0, m), (0, n))
        return
    spans = [[(0, m)], [(0, n)]] if work <= TASK else parts_of((m, n), setup.units, setup.threads)
    tasks: list[tuple[Any, ...]] = list(itertools.product(spans_of(count, 1, max(1, TASK // work)), *spans))
    for ((_, last), (_, bottom), (_, end)), _ in zip(tasks, setup.map(multiply, tasks), strict=True):
        if progress is not None and end == n:
            progress((last - 1) * m + bottom, count * m)


def parts_of(sizes: tuple[int, int], units: tuple[int, int], threads: int) -> list[list[tuple[int, int]]]:
    """Return rows and columns of each call, from the first to one past the last: whole units, some for each thread."""
    (m, n), (row_unit, column_unit) = sizes, units
    columns = min(n, max(column_unit, _COLUMNS, min(_SUMS // m, 4 * _COLUMNS)))
    rows = min(m, _ROWS, max(_FEWEST, _SUMS // columns))
    while threads > 1 and -(-m // rows) * -(-n // columns) < 4 * threads and max(rows, columns) > 2 * _FEWEST:
        rows, columns = (rows // 2, columns) if rows > columns else (rows, columns // 2)
    return [spans_of(m, row_unit, rows), spans_of(n, column_unit, columns)]


def spans_of(size: int, unit: int, most: int) -> list[tuple[int, int]]:
    """Return the first, and one past the last, of equal parts of whole units."""
    count = -(-size // max(unit, most))
    step = -(-size // (count * unit)) * unit
    return [(first, min(first + step, size)) for first in range(0, size, step)]
