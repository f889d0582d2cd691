"""Operands of every kind as arrays that a unit takes, and as stacks of matrices.

PyTorch and JAX are not imported here: whoever has a tensor has imported its framework.
"""

import logging
import math
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from openmxu_sim import golden

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
    array = _from_tensor(array, parameter)
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


def _from_tensor(value: Any, parameter: str) -> Any:
    """Return a tensor of PyTorch as an array that shares its memory; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if value.requires_grad:
        raise TypeError(
            f"{parameter} must be a tensor without derivatives, as of detach(); openmxu_sim.torch.matmul has them"
        )
    if value.layout is not torch.strided or value.device.type != "cpu":
        raise TypeError(f"{parameter} must be a dense tensor on the CPU, not {value.layout} on {value.device}")
    plain, name = value.resolve_conj().resolve_neg(), str(value.dtype).removeprefix("torch.")
    if hasattr(ml_dtypes, name):  # bfloat16 and float8, which NumPy has not by itself
        words = plain.view(getattr(torch, f"uint{8 * plain.element_size()}"))
        return np.from_dlpack(words).view(getattr(ml_dtypes, name))
    return np.from_dlpack(plain)  # by numpy(), PyTorch would never again let its memory be resized


def as_given(result: npt.NDArray[Any], *operands: Any) -> Any:
    """Return a result as a tensor of PyTorch, or as an array of JAX, if an operand is one; else as it is."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and any(isinstance(operand, torch.Tensor) for operand in operands):
        if result.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(np.atleast_1d(result).view(np.uint16)).view(torch.bfloat16).reshape(result.shape)
        return torch.from_numpy(np.asarray(result))
    if jax is not None and any(isinstance(operand, jax.Array) for operand in operands):
        return jax.numpy.asarray(result)
    return result
