"""Einstein sums of two operands as a stack of products of matrices.

::

    bhqd,bhkd->bhqk    labels of both operands and the result  b h    one product for each
                       of the first operand and the result     q      rows
                       of the second operand and the result    k      columns
                       of both operands alone                  d      what is summed, in the order of the first operand
"""

import math
from collections.abc import Callable

import numpy as np

from openmxu_sim.operands.aliases import Floats

_Labels = tuple[str | int, ...]
"""Letters, and for the dimensions of an ellipsis numbers, counted from its end."""


def labels_of(equation: str, ranks: tuple[int, int]) -> tuple[_Labels, _Labels, _Labels]:
    """Return the labels of two operands with these numbers of dimensions, and of the result.

    Raises
    ------
    ValueError
        The equation is not that of a product: a label occurs twice in a term, or is summed over one operand alone.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2:
        raise ValueError(f"equation must have two operands, not {equation!r}")
    given = [_labels(term, rank, equation) for term, rank in zip(terms, ranks, strict=True)]
    both = (*given[0], *given[1])
    more = max((tuple(each for each in one if isinstance(each, int)) for one in given), key=len)
    if arrow:
        head, dots, tail = right.partition("...")
        result: _Labels = (*head, *(more if dots else ()), *tail)
    else:
        result = (*more, *sorted(each for each in both if isinstance(each, str) and both.count(each) == 1))
    one, other, out = set(given[0]), set(given[1]), set(result)
    if len(out) < len(result) or not out <= one | other or not (one ^ other) <= out:
        raise ValueError(
            f"equation must be a product: each label once in a term, and in two of the three terms, not {equation!r}"
        )
    return given[0], given[1], result


def _labels(term: str, rank: int, equation: str) -> _Labels:
    head, dots, tail = term.partition("...")
    rest = rank - len(head) - len(tail)
    labels = (*head, *(range(rest, 0, -1) if dots else ()), *tail)
    letters = [each for each in labels if isinstance(each, str)]
    if len(labels) != rank or len(set(labels)) < rank or not all(each.isascii() and each.isalpha() for each in letters):
        raise ValueError(f"equation must name each of {rank} dimensions once, by letters, not {equation!r}")
    return labels


def einsum(stacks: Callable[[Floats, Floats], Floats], equation: str, a: Floats, b: Floats) -> Floats:
    """Return the sum of an equation's products, by ``stacks``: (P, M, K) by (P, K, N)."""
    one, other, out = labels_of(equation, (a.ndim, b.ndim))
    sizes: dict[str | int, int] = {}
    for labels, array in ((one, a), (other, b)):
        for label, size in zip(labels, array.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known != size and 1 not in (known, size):
                raise ValueError(f"operands of {equation!r} must have one size of {label}, not {known} and {size}")
            sizes[label] = size if known == 1 else known
    together = [each for each in out if each in one and each in other]
    rows, columns = (
        [each for each in out if each in mine and each not in theirs] for mine, theirs in ((one, other), (other, one))
    )
    inner = [each for each in one if each in other and each not in out]
    shape = [math.prod(sizes[each] for each in part) for part in (together, rows, inner, columns)]
    left = _arranged(a, one, [*together, *rows, *inner], sizes).reshape(shape[:3])
    right = _arranged(b, other, [*together, *inner, *columns], sizes).reshape(shape[0], *shape[2:])
    order = [*together, *rows, *columns]
    result = stacks(left, right).reshape([sizes[each] for each in order])
    return result.transpose([order.index(each) for each in out])


def _arranged(array: Floats, labels: _Labels, order: list[str | int], sizes: dict[str | int, int]) -> Floats:
    """Return an operand with its dimensions in this order, dimensions of size 1 broadcast."""
    moved = array.transpose([labels.index(each) for each in order])
    return np.broadcast_to(moved, [sizes[each] for each in order])
