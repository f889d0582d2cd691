"""Engine ``model`` on a GPU: products of PyTorch's tensors in the GPU's memory, with the same bits.

Sums are in fp32 and operands have at most 12 significant bits, so that products are exact: bf16, fp16, tf32, fp8 and
the like, in any number of passes. The GPU's fused multiply-adds are taken where they are certain to have the right
bits; see ``kernel.cu`` and :mod:`openmxu_sim.engines.model`.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from openmxu.runtime.extras import install
from openmxu.runtime.native import resource
from openmxu.spec.passes import PASSES, Part
from openmxu_sim.engines.model.kernel import limits
from openmxu_sim.golden.formats import Format, find_format
from openmxu_sim.golden.specifications import find_operand

__all__ = ["is_possible", "products"]

_SIDE, _BLOCK = 128, 32
"""Rows and columns of a block of sums, and of what is packed by a block of threads; as in ``kernel.cu``."""

_THREADS = 256
_MOST_FRACTION_BITS = 11
_MOST_PRODUCTS = 65535
"""Most products in a launch, which are its third dimension."""


def is_possible(operand: str, accumulate: str, terms: int) -> bool:
    """Whether products of these formats, already checked, have a kernel."""
    side = find_operand(operand)
    known = side.is_plain and side.format.fraction_width <= _MOST_FRACTION_BITS
    return known and accumulate == "fp32" and terms == 1


def products(
    a: torch.Tensor, b: torch.Tensor, *, operand: str, precision: str, subnormals: str, rows: int
) -> torch.Tensor:
    """Multiply (P, M, K) by (P, K, N) on a GPU, all in float32: (P, M, N). Parameters have been checked."""
    if len(a) > _MOST_PRODUCTS:
        parts = zip(a.split(_MOST_PRODUCTS), b.split(_MOST_PRODUCTS), strict=True)
        how = {"operand": operand, "precision": precision, "subnormals": subnormals}
        return torch.cat([products(*part, **how, rows=rows) for part in parts])
    (count, m, inner), n = a.shape, b.shape[2]
    result = torch.zeros((count, m, n), dtype=torch.float32, device=a.device)
    if not result.numel() or not inner:
        return result
    run = _Launcher(a.device, flush=subnormals == "flush")
    fmt = find_format(operand)
    passes = PASSES[precision]
    packed: dict[tuple[int, Part], tuple[torch.Tensor, torch.Tensor]] = {}
    for side, tensor in enumerate((a, b.mT)):
        for part in dict.fromkeys(pair[side] for pair in passes):
            packed[side, part] = run.pack(tensor, part, fmt)
    for number, pair in enumerate(passes):
        later, last = number > 0, number == len(passes) - 1
        (x, x_extents), (y, y_extents) = packed[0, pair[0]], packed[1, pair[1]]
        grid = y.shape[2] // _SIDE * (x.shape[2] // _SIDE), 1, count
        sizes = (fmt.fraction_width, run.flush, m, inner, n, x.shape[2], y.shape[2], min(rows, inner))
        for name in ("products_fused", "products_plain"):
            run(name, grid, x, y, x_extents, y_extents, *sizes, later, later and last, last, result)
    return result


class _Launcher:
    """The kernels on one device."""

    def __init__(self, device: torch.device, *, flush: bool) -> None:
        try:
            import cupy  # noqa: PLC0415  # an extra brings it
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"cupy is not installed: {install('gpu')}", name=error.name) from None
        self.flush, self._device = int(flush), device
        self._stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream, device.index)
        self._kernels = _compiled(device.index, flush=flush)

    def __call__(self, name: str, grid: tuple[int, int, int], *arguments: Any) -> None:
        """Launch a kernel on PyTorch's stream, after what was launched there before."""
        with torch.cuda.device(self._device), self._stream:
            self._kernels[name](grid, (_THREADS,), [_passed(each) for each in arguments])

    def pack(self, tensor: torch.Tensor, part: Part, fmt: Format) -> tuple[torch.Tensor, torch.Tensor]:
        """A part of (P, count, K) operands, converted: (P, K, padded) numbers, and the extents of their exponents."""
        number, count, inner = tensor.shape
        padded = -(-count // _SIDE) * _SIDE
        values = torch.empty((number, inner, padded), dtype=torch.float32, device=tensor.device)
        extents = torch.zeros((number, padded // _SIDE, 2), dtype=torch.int32, device=tensor.device)
        grid = padded // _BLOCK * -(-inner // _BLOCK), 1, number
        steps = map(np.int64, tensor.stride())
        its = limits(fmt)
        patterns = map(np.uint32, (its.min_normal, its.largest, its.overflow))
        how = its.fraction_width, *patterns, np.float32(its.grid), self.flush
        self("pack", grid, tensor, *steps, count, padded, inner, part, *how, values, extents)
        return values, extents


def _passed(argument: Any) -> Any:
    """An argument as CuPy passes it: a pointer, or a number of its type, by default an int."""
    if isinstance(argument, torch.Tensor):
        return np.uint64(argument.data_ptr())
    return argument if isinstance(argument, np.generic) else np.int32(argument)


@lru_cache(maxsize=16)
def _compiled(device: int, *, flush: bool) -> dict[str, Any]:
    """The kernels, compiled for one device; CuPy keeps them in its cache, too."""
    import cupy  # noqa: PLC0415

    options = ("-DFLUSH",) if flush else ()
    module = cupy.RawModule(code=resource(__package__, "kernel.cu"), options=options)
    return {name: module.get_function(name) for name in ("pack", "products_fused", "products_plain")}
