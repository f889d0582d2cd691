"""PyTorch's operators that multiply matrices: those that the unit computes, and those that it cannot."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from openmxu_sim.aliases import Floats
from openmxu_sim.convolution import Convolution
from openmxu_sim.numerics import Multiplier
from openmxu_sim.torch.products import to_array, to_tensor

__all__ = ["ON_UNIT", "escapes"]

_Product = Callable[[Multiplier, Floats, Floats], Floats]

_NAMESPACES = frozenset(("aten", "prims", "prim", "profiler", "c10d", "_c10d_functional", "openmxu"))
"""Operators of others may multiply anything."""

_SUSPECT = re.compile(
    r"(?<![a-z0-9])("
    r"(add|hsp|sspadd)?mm|matmul|matrix|dot|einsum|linear|trilinear|cdist|euclidean|generator"
    r"|conv([123]d)?|convolution|depthwise[23]d|dilated[23]d|transpose[23]d"
    r"|attention|encoder|rnn|lstm|gru"
    r"|to_mkldnn|linalg|cholesky|lu|ldl|qr|geqrf|orgqr|ormqr|svd|lstsq|inverse|solve|spsolve|fft"
    r")(?![a-z0-9])"
)
"""Words in the names of operators that multiply matrices, or factorise them."""

_HARMLESS = re.compile(
    r"_thnn_.*_cell.*|lu_unpack|linalg_(cross|vector_norm|_powsum)|_linalg_check_errors|fft_r?fftfreq|slice_inverse|mkldnn_reorder_.*"
)
"""Others with such words: they work on each element, or move data."""


def escapes(namespace: str, name: str) -> bool:
    """Whether an operator that the unit does not compute, and that is none of several others, may multiply matrices."""
    name = name.removesuffix("_")
    return namespace not in _NAMESPACES or (
        namespace == "aten" and bool(_SUSPECT.search(name)) and not _HARMLESS.fullmatch(name)
    )


def _bmm(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a, b)


def _mm(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a[None], b[None])[0]


def _mv(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a[None], b[None, :, None])[0, :, 0]


def _dot(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a[None, None], b[None, :, None])[0, 0, 0, ...]


def _addbmm(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    """The sum over a stack is one over the inner dimension."""
    (count, m, k), n = a.shape, b.shape[2]
    return _mm(multiplier, a.swapaxes(0, 1).reshape(m, count * k), b.reshape(count * k, n))


def _product(
    product: _Product, multiplier: Multiplier, a: torch.Tensor, b: torch.Tensor, out_dtype: "torch.dtype | None" = None
) -> torch.Tensor:
    return to_tensor(product(multiplier, to_array(a), to_array(b))).to(out_dtype or a.dtype)


def _sum(
    product: _Product,
    multiplier: Multiplier,
    summand: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: "torch.dtype | None" = None,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    """``beta * summand + alpha * product``; a summand times 0 is not looked at, whatever it is."""
    result = to_tensor(product(multiplier, to_array(a), to_array(b)))
    if alpha == 0:
        result.zero_()
    elif alpha != 1:
        result *= alpha
    if beta != 0:
        result += summand if beta == 1 else beta * summand.to(result.dtype)
    return result.to(out_dtype or a.dtype)


class _Steps(NamedTuple):
    """The last parameters of PyTorch's convolutions."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int

    def over(self, multiplier: Multiplier, weight: Floats) -> Convolution:
        """The convolution with these weights."""
        kernel = weight.shape[2:]
        stride, padding, dilation = (_expand(each, len(kernel)) for each in (self.stride, self.padding, self.dilation))
        return Convolution(multiplier, kernel, stride, tuple((each, each) for each in padding), dilation, self.groups)


def _expand(values: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """One value for each dimension; a single one is for all."""
    return tuple(values) * (dimensions if len(values) == 1 else 1)


def _convolution(
    multiplier: Multiplier, image: torch.Tensor, weight: torch.Tensor, bias: "torch.Tensor | None", *others: Any
) -> torch.Tensor:
    steps, x, w = _Steps(*others[: len(_Steps._fields)]), to_array(image), to_array(weight)
    convolution = steps.over(multiplier, w)
    if steps.transposed:
        beyond = _expand(steps.output_padding, w.ndim - 2)
        result = to_tensor(convolution.scatter(x, w, convolution.image(x.shape[2:], beyond)))
    else:
        result = to_tensor(convolution.gather(x, w, convolution.places(x.shape[2:])))
    if bias is not None:
        result += bias.reshape(-1, *[1] * (w.ndim - 2))
    return result.to(image.dtype, memory_format=_memory_format(image, weight))


def _memory_format(*tensors: torch.Tensor) -> "torch.memory_format":
    """What PyTorch's convolutions give: channels last if an operand has them last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = formats.get(tensors[0].dim(), torch.contiguous_format)
    is_last = any(each.is_contiguous(memory_format=last) and not each.is_contiguous() for each in tensors)
    return last if is_last else torch.contiguous_format


def _convolution_backward(
    multiplier: Multiplier,
    gradient: torch.Tensor,
    image: torch.Tensor,
    weight: torch.Tensor,
    _bias_sizes: Sequence[int] | None,
    *others: Any,
) -> "tuple[torch.Tensor | None, ...]":
    steps, (of_image, of_weight, of_bias) = _Steps(*others[:-1]), others[-1]
    g, x, w = to_array(gradient), to_array(image), to_array(weight)
    convolution = steps.over(multiplier, w)
    results: list[torch.Tensor | None] = [None, None, None]
    if of_image:
        back = convolution.gather if steps.transposed else convolution.scatter
        results[0] = to_tensor(back(g, w, x.shape[2:]))
    if of_weight:
        results[1] = to_tensor(convolution.correlate(*((x, g) if steps.transposed else (g, x))))
    if of_bias:
        results[2] = gradient.sum(
            (0, *range(2, gradient.dim())), dtype=torch.promote_types(gradient.dtype, torch.float32)
        )
    return tuple(result if result is None else result.to(image.dtype) for result in results)


_PRODUCTS: Mapping[str, _Product] = {"mm": _mm, "bmm": _bmm, "mv": _mv, "dot": _dot, "vdot": _dot}
_SUMS: Mapping[str, _Product] = {"addmm": _mm, "baddbmm": _bmm, "addbmm": _addbmm, "addmv": _mv}

ON_UNIT: Mapping[str, Callable[..., Any]] = {
    **{name: partial(_product, product) for name, product in _PRODUCTS.items()},
    **{name: partial(_sum, product) for name, product in _SUMS.items()},
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_backward": _convolution_backward,
}
"""What the unit computes of ``aten``: name, and a function of what multiplies and of the operator's arguments."""
