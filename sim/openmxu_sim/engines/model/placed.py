"""Products whose operands lie anywhere in memory, as those of convolutions do: ``products.c``.

Patches of images are packed from the images themselves, a cache's worth at a time; sums and their order are those of
:func:`openmxu_sim.engines.model.products`.
"""

import ctypes
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu_sim.engines.model import TASK, Setup, parts_of, products, spans_of
from openmxu_sim.engines.model.kernel import FormatLimits, Kernel, Places, load_kernel
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.operands.aliases import Floats

Offsets = npt.NDArray[np.int64]

_Numbers = ctypes.c_int64 * 3


@dataclass(frozen=True)
class Side:
    """Operands of one side, or results: an array, and the offsets in it of rows or columns, and of each k.

    The sum of two offsets is a place. Both increase.
    """

    array: Floats
    """A contiguous array of fp32."""
    at: Offsets
    k_at: Offsets
    step: int
    """Offsets in the array's first group, and how far apart groups are."""
    along_k: bool
    """Whether operands next to each other in memory belong to one row or column."""


@ieee_arithmetic()
def placed_products(
    a: Side, b: Side, out: Side, groups: int, *, units: tuple[int, int] = (1, 1), add: bool = False, **options: Any
) -> None:
    """Multiply rows by columns, for each group; ``out`` has the rows' offsets in ``at`` and the columns' in ``k_at``.

    With ``add``, results are added to what is there, in the order of rows: calls of the kernel have whole units of rows
    and columns, and other units have other places. ``options`` are those of :meth:`openmxu_sim.engines.model.Setup.of`.
    """
    for side in (a, b, out):
        _check(side, groups)
    inner = len(a.k_at)
    setup = Setup.of(inner, **options)
    if 0 in (out.array.size, inner):
        if not add:
            out.array[...] = 0  # sums of nothing
        return
    converted = [
        (_converted(setup, a.array, one, setup.how.operand), _converted(setup, b.array, other, setup.how.weight))
        for one, other in setup.passes
    ]
    sides = [Places(side.at.ctypes.data, side.k_at.ctypes.data, side.along_k) for side in (a, b)]
    addresses = [(one.ctypes.data, other.ctypes.data) for one, other in converted]
    values = (ctypes.c_void_p * 2 * len(addresses))(*((ctypes.c_void_p * 2)(*pair) for pair in addresses))
    steps = _Numbers(a.step, b.step, out.step)

    def multiply(groups: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> None:
        failed = setup.kernel.places(
            *(ctypes.byref(struct) for struct in (setup.how, setup.target, *sides)),
            values,
            len(addresses),
            *(_Numbers(*span) for span in (groups, rows, columns)),
            steps,
            *(inner, setup.rows, setup.block, out.at.ctypes.data, out.k_at.ctypes.data, add, out.array.ctypes.data),
        )
        if failed:
            raise MemoryError("not enough memory for the operands of a product")

    work = len(a.at) * len(b.at) * inner * len(addresses)
    if work * groups <= TASK:  # threads would take longer to start
        setup = setup._replace(threads=1)
    whole = math.lcm(units[0], setup.units[0]), units[1] if add else setup.units[1]
    spans = parts_of((len(a.at), len(b.at)), whole, -(-setup.threads // groups))
    together = spans_of(groups, 1, min(TASK // work, -(-groups // setup.threads)))
    for _ in setup.map(multiply, list(itertools.product(together, *spans))):
        pass


def whole_products(
    a: Side, b: Side, out: Side, groups: int, *, units: tuple[int, int] = (1, 1), add: bool = False, **options: Any
) -> tuple[Floats, Floats, Floats]:
    """Compute the same by matrices that are copied first: returns both stacks of operands, and the products."""
    for side in (a, b, out):
        _check(side, groups)
    kernel = load_kernel()
    left = _matrices(kernel, a.array, a.at, a.k_at, a.step * np.arange(groups))
    right = _matrices(kernel, b.array, b.k_at, b.at, b.step * np.arange(groups))
    result = products(left.view(np.uint32), right.view(np.uint32), **options)
    with ieee_arithmetic():
        for group, matrix in enumerate(result):
            to = out.array.ctypes.data + group * out.step * out.array.itemsize
            at = out.at.ctypes.data, len(out.at), out.k_at.ctypes.data, len(out.k_at)
            kernel.scatter(matrix.ctypes.data, *at, add, to)
    return left, right, result


def _check(side: Side, groups: int) -> None:
    """Refuse offsets outside of an array: the kernel believes them."""
    if not (len(side.at) and len(side.k_at) and groups):
        return
    ends = side.at[0] + side.k_at[0], side.at[-1] + side.k_at[-1] + (groups - 1) * side.step
    if (
        side.array.dtype != np.float32
        or not side.array.flags.c_contiguous
        or min(ends) < 0
        or max(ends) >= side.array.size
    ):
        raise ValueError(
            f"offsets must lie in the {side.array.size} numbers of a contiguous array of fp32, not at {ends}"
        )


def _matrices(kernel: Kernel, array: Floats, rows: Offsets, columns: Offsets, starts: Offsets) -> Floats:
    """Return the numbers at all sums of a row's and a column's offset, for each start."""
    result = np.empty((len(starts), len(rows), len(columns)), np.float32)
    for matrix, start in zip(result, starts.tolist(), strict=True):
        source = array.ctypes.data + start * array.itemsize
        at = rows.ctypes.data, len(rows), columns.ctypes.data, len(columns)
        kernel.gather(source, *at, matrix.ctypes.data)
    return result


def _converted(setup: Setup, array: Floats, part: int, fmt: FormatLimits) -> Floats:
    """Return a part of operands in the unit's format."""
    result = np.empty(array.size, np.float32)
    setup.kernel.convert(array.ctypes.data, array.size, part, ctypes.byref(fmt), setup.how.flush, result.ctypes.data)
    return result
