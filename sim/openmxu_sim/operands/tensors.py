"""Tensors of PyTorch and arrays of JAX as operands and as results.

Neither is imported here: whoever has a tensor has imported its framework.
"""

import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt


def from_tensor(value: Any, parameter: str) -> Any:
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
