"""Operands of every kind as arrays that a unit takes, and as stacks of matrices."""

import logging
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from openmxu_sim import golden
from openmxu_sim.operands.tensors import from_tensor

_log = logging.getLogger(__name__)


def as_operand(array: npt.ArrayLike, parameter: str) -> npt.NDArray[Any]:
    """Return ``array`` as an array of numbers in one of the types of :data:`openmxu_sim.golden.DTYPES`.

    Arrays of these types are kept as they are, bit for bit. A 2-byte void, which is how numpy stores bfloat16 in
    files, is read as bfloat16. Other real dtypes go through ``astype(float32)``, with a note in the log. A subclass of
    numpy's arrays, such as ``numpy.matrix``, counts as a plain array. Arrays of JAX and tensors of PyTorch are taken.

    Raises
    ------
    TypeError
        The array is complex, not numeric, or masked.
    """
    array = from_tensor(array, parameter)
    golden.check_unmasked(array, parameter)
    values = np.asarray(array)
    if values.dtype == np.dtype("V2"):
        values = values.view(ml_dtypes.bfloat16)
    if values.dtype not in golden.DTYPES.values():
        own = values.dtype.kind == "V" and values.dtype.type.__module__.startswith("ml_dtypes")  # as numpy calls them
        if values.dtype.kind not in "biuf" and not own:
            raise TypeError(f"{parameter} must be an array of real numbers, not of {values.dtype}")
        _log.warning("%s: %s converted to float32", parameter, values.dtype)
        with np.errstate(over="ignore"):  # too large for float32 is infinity, as documented
            values = values.astype(np.float32)
    return values


def to_stacks(
    a: Any, b: Any, *, broadcast_to: Callable[..., Any] = np.broadcast_to, rules: str = "numpy.matmul"
) -> tuple[Any, Any, tuple[int, ...]]:
    """Return as many matrices of either operand, (products, M, K) and (products, K, N), and the shape of the result.

    Parameters
    ----------
    a, b
        Arrays of numpy, or of a framework whose arrays have numpy's methods.
    broadcast_to
        The framework's ``broadcast_to``.
    rules
        Name of the function with these rules, for error messages.
    """
    left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    try:
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        stack = None
    if not a.ndim or not b.ndim or stack is None or left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"a and b must have the shapes (M, K) and (K, N), or others that {rules} takes, "
            f"not {tuple(a.shape)} and {tuple(b.shape)}"
        )
    shape = (*stack, *a.shape[-2:-1], *b.shape[1:][-1:])
    if right.ndim == 2:  # all rows of activations meet the same weights: that is one product
        left, stack = left.reshape(math.prod(left.shape[:-1]), left.shape[-1]), ()
    left, right = (
        broadcast_to(array, (*stack, *array.shape[-2:])).reshape(math.prod(stack), *array.shape[-2:])
        for array in (left, right)
    )
    return left, right, shape
