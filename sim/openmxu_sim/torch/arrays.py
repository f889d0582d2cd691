"""Tensors as arrays that the unit takes, and back."""

import inspect
import warnings
from pathlib import Path
from typing import cast

import numpy as np
import torch

import openmxu_sim
from openmxu_sim.networks.costs import flushed_operand
from openmxu_sim.networks.numerics import Product
from openmxu_sim.operands.aliases import Floats

TYPES = (
    *(torch.float32, torch.bfloat16, torch.float16, torch.float64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
)
"""Types that the unit multiplies. All but float64 go into fp32 exactly."""

_TIE = 464
"""Between the largest number of E4M3, 448, which is even, and what would be the next."""

_INSIDE = tuple(str(Path(str(module.__file__)).parent) for module in (torch, openmxu_sim))
"""Folders whose frames are not the caller's."""


def to_array(tensor: torch.Tensor) -> Floats:
    """Return the numbers of a dense tensor on the CPU, of a type among :data:`TYPES`: its very memory, if float32.

    float64 is rounded to float32; a warning says so, once for each line of the caller's.
    """
    # Not by numpy(): PyTorch would never again let the tensor's memory be resized, which FSDP does.
    return cast("Floats", np.from_dlpack(to_fp32(tensor)))


def to_fp32(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in float32, on the same device; a warning as above."""
    if tensor.dtype == torch.float64:
        _warn("float64 is rounded to float32, which is what enters the unit")
    return tensor.detach().resolve_neg().float()


to_tensor = torch.from_numpy
"""Return a tensor that shares an array's memory."""


def of_type(numbers: torch.Tensor, dtype: torch.dtype, **layout: torch.memory_format) -> torch.Tensor:
    """Return results in a type; what is too large for E4M3 becomes NaN, where PyTorch's conversion saturates."""
    result = numbers.to(dtype, **layout)
    if dtype is torch.float8_e4m3fn:
        result.view(torch.uint8)[numbers.abs() > _TIE] |= 0x7F
    return result


def warn_of_flushed(product: Product, place: str) -> bool:
    """Warn if conversion makes almost all of an operand zero; return whether it does."""
    lost = flushed_operand(product)
    if lost is not None:
        _warn(f"{lost} for {place}; subnormals='ieee' keeps small ones, scales avoid them")
    return lost is not None


def _warn(text: str) -> None:
    """Warn of the line that led here, outside of PyTorch and of this package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
