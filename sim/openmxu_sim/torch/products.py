"""Products of tensors, by the engine ``model``."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import openmxu_sim
from openmxu_sim.engines import model
from openmxu_sim.golden.formats import Bits
from openmxu_sim.numerics import Numerics

__all__ = ["TYPES", "Multiplier", "multiply"]

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""What is multiplied. All but the last go into fp32 exactly."""

_INSIDE = tuple(str(Path(str(module.__file__)).parent) for module in (torch, openmxu_sim))
"""Where frames are not the caller's."""


def multiply(numerics: Numerics, a: torch.Tensor, b: torch.Tensor, threads: int | None = None) -> torch.Tensor:
    """The products of (P, M, K) and (P, K, N), as they leave the unit.

    Parameters
    ----------
    numerics
        What decides their bits.
    a, b
        Activations and weights, dense and on the CPU, each of one of :data:`TYPES`. float64 is rounded to float32
        first; a warning says so, once for each line of the caller's.
    threads
        How many to use; ``None``: as many as torch does.

    Returns
    -------
    tensor, shape (P, M, N), float32
    """
    if torch.float64 in (a.dtype, b.dtype):
        _warn("float64 is rounded to float32, which is what enters the unit")
    words = model.products(
        _patterns(a),
        _patterns(b),
        **numerics._asdict(),
        threads=torch.get_num_threads() if threads is None else threads,
    )
    return torch.from_numpy(words)


@dataclass(frozen=True)
class Multiplier:
    """Products for one operator.

    Parameters
    ----------
    numerics, threads
        As of :func:`multiply`.
    seen
        Called with how many products there are, and with their M, K and N.
    """

    numerics: Numerics
    threads: int | None
    seen: Callable[[int, int, int, int], object]

    def stacks(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The products of (P, M, K) activations and (P, K, N) weights."""
        (count, m, k), n = a.shape, b.shape[2]
        self.seen(count, m, k, n)
        return multiply(self.numerics, a, b, self.threads)

    def images(self, weights: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """Those of (groups, N, K) weights and (images, groups, K, places) activations: (images, groups, N, places).

        On the unit, all images are the rows of one product for each group.
        """
        (count, groups, k, places), n = images.shape, weights.shape[1]
        self.seen(groups, count * places, k, n)
        spread = weights[None].expand(count, groups, n, k).reshape(-1, n, k)
        result = multiply(self.numerics, spread, images.reshape(-1, k, places), self.threads)
        return result.reshape(count, groups, n, places)


def _patterns(tensor: torch.Tensor) -> Bits:
    """The fp32 patterns of a tensor: of the very memory, if it is of float32."""
    return tensor.detach().resolve_neg().to(torch.float32).numpy().view(np.uint32)


def _warn(text: str) -> None:
    """Warn of the line that led here, outside of PyTorch and of this package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
