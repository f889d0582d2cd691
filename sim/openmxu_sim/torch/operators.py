"""PyTorch's operators that multiply matrices: those that the unit computes, and those that it cannot."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch

from openmxu_sim.networks.convolution import Convolution
from openmxu_sim.networks.numerics import Multiplier
from openmxu_sim.operands.aliases import Floats
from openmxu_sim.torch.arrays import of_type, to_array, to_tensor
from openmxu_sim.torch.narrow import NARROW

_Product = Callable[[Multiplier, Floats, Floats], Floats]

_NAMESPACES = frozenset(
    (
        *("aten", "prims", "prim", "profiler", "openmxu"),
        *("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "fsdp"),  # data between processes
    )
)
"""Namespaces of known operators; operators of others may multiply anything."""

_SUSPECT = re.compile(
    r"(?<![a-z0-9])("
    r"(add|hsp|sspadd|s)?mm|matmul|matrix|dot|einsum|linear|trilinear|cdist|euclidean|generator"
    r"|conv([123]d)?|convolution|depthwise[23]d|dilated[23]d|transpose[23]d"
    r"|attention|encoder|rnn|lstm|gru"
    r"|to_mkldnn|linalg|cholesky|lu|ldl|qr|geqrf|orgqr|ormqr|svd|lstsq|inverse|solve|spsolve|fft"
    r")(?![a-z0-9])"
)
"""Words in the names of operators that multiply matrices, or factorise them."""

_HARMLESS = re.compile(
    r"_thnn_.*_cell.*|lu_unpack|linalg_(cross|vector_norm|_powsum)|_linalg_check_errors|fft_r?fftfreq|slice_inverse"
    r"|mkldnn_reorder_.*"
)
"""Other operators with such words: they work on each element, or move data."""

_KNOWN = re.compile(
    r"(?<![a-z0-9])("
    r"[a-z]*elu|glu|hard[a-z]+|soft[a-z]+|sigmoid|losse?s?(2d)?|entropy|norm|(un)?pool[123]d|pad[123]d|sampler"
    r"|cat|stack|diag|copy|set|fill|put|take|gather|scatter|select|slice|index|indices|resize|embedding|mask|masked"
    r"|padded|jagged|nested|segment|sparse_coo|sparse_compressed|sparse_sum|spdiags|dual"
    r"|allclose|isin|same|choice|assert|searchsorted|bucketize|bincount|histogram(dd)?|cummax|cummin|divide|[a-z]*shift"
    r"|foreach|adam|adamw|adagrad|sgd|moving|update_scale|quantize|quantized|fake|dequantize|addr|pdist|dist"
    r"|gamma|dirichlet|philox|bernoulli|normal|binomial|randint|linspace|logspace|complex|polar"
    r")(?![a-z0-9])"
)
"""Words in the names of operators of several tensors that multiply no two of them as matrices, though PyTorch does not
tag them as working on each element."""


def escapes(func: torch._ops.OpOverload) -> bool:
    """Whether an operator that neither the unit computes nor PyTorch makes of others may multiply matrices.

    PyTorch's own operators of several tensors may, unless they are known here.
    """
    namespace, _, name = func._schema.name.partition("::")
    name = name.removesuffix("_")
    if namespace not in _NAMESPACES or _HARMLESS.fullmatch(name):
        return namespace not in _NAMESPACES
    if is_product(name):
        return True
    return namespace == "aten" and _takes_several(func) and not (_is_pointwise(name) or _KNOWN.search(name))


def is_product(name: str) -> bool:
    """Whether an operator's name is that of a product of matrices."""
    return _SUSPECT.search(name) is not None


def _takes_several(func: torch._ops.OpOverload) -> bool:
    """Whether an operator has two tensors to multiply."""
    types = [str(slot.type) for slot in func._schema.arguments if not slot.is_out]
    return sum("Tensor" in slot for slot in types) > 1 or any("List" in slot and "Tensor" in slot for slot in types)


def _is_pointwise(name: str) -> bool:
    """Whether PyTorch tags an operator of ``aten`` as working on each element; operators in place lack the tag."""
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads()
    )


def _mm(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a[None], b[None])[0]


def _mv(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a[None], b[None, :, None])[0, :, 0]


def _dot(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    return multiplier.stacks(a[None, None], b[None, :, None])[0, 0, 0, ...]


def _addbmm(multiplier: Multiplier, a: Floats, b: Floats) -> Floats:
    """Multiply and sum a stack: the sum over it is one over the inner dimension."""
    (count, m, k), n = a.shape, b.shape[2]
    return _mm(multiplier, a.swapaxes(0, 1).reshape(m, count * k), b.reshape(count * k, n))


def _product(
    product: _Product, multiplier: Multiplier, a: torch.Tensor, b: torch.Tensor, out_dtype: "torch.dtype | None" = None
) -> torch.Tensor:
    return of_type(to_tensor(product(multiplier, to_array(a), to_array(b))), out_dtype or a.dtype)


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
    """Return ``beta * summand + alpha * product``; a summand times 0 is ignored, whatever it is."""
    result = to_tensor(product(multiplier, to_array(a), to_array(b)))
    if alpha == 0:
        result.zero_()
    elif alpha != 1:
        result *= alpha
    if beta != 0:
        result += _addable(summand) if beta == 1 else beta * summand.to(result.dtype)
    return of_type(result, out_dtype or a.dtype)


def _addable(summand: torch.Tensor) -> torch.Tensor:
    """Return float8 as float32, as PyTorch adds nothing else to it."""
    return summand.float() if summand.element_size() == 1 else summand


def _grouped(
    multiplier: Multiplier,
    a: torch.Tensor,
    b: torch.Tensor,
    offs: "torch.Tensor | None" = None,
    bias: "torch.Tensor | None" = None,
    out_dtype: "torch.dtype | None" = None,
) -> torch.Tensor:
    """Multiply each group: of rows, if only the weights are a stack, of columns or of the inner dimension."""
    if offs is None:
        torch._grouped_mm(a[..., :0, :], b, None, bias, out_dtype)  # PyTorch's own checks; there are no rows
        return _product(Multiplier.stacks, multiplier, a, b, out_dtype)
    result = torch._grouped_mm(a, b, torch.zeros_like(offs), bias, out_dtype).zero_()  # all groups are empty
    start = 0
    for group, end in enumerate(offs.tolist()):
        part, start = slice(start, end), end
        left = a[group] if a.dim() == 3 else a[part] if b.dim() == 3 else a[:, part]
        right = b[group] if b.dim() == 3 else b[:, part] if a.dim() == 3 else b[part]
        view = result[:, part] if a.dim() == 3 else result[part] if b.dim() == 3 else result[group]
        if left.numel() and right.numel():
            view.copy_(_product(_mm, multiplier, left, right, torch.float32))
    return result


class _Steps(NamedTuple):
    """Last parameters of PyTorch's convolutions."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int

    def over(self, multiplier: Multiplier, weight: Floats) -> Convolution:
        """Return the convolution with these weights."""
        kernel = weight.shape[2:]
        stride, padding, dilation = (_expand(size, len(kernel)) for size in (self.stride, self.padding, self.dilation))
        return Convolution(multiplier, kernel, stride, tuple((size, size) for size in padding), dilation, self.groups)


def _expand(values: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """Return one value for each dimension; a single one is for all."""
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
        result += _addable(bias).reshape(-1, *[1] * (w.ndim - 2))
    return of_type(result, image.dtype, memory_format=_memory_format(image, weight))


def _memory_format(*tensors: torch.Tensor) -> "torch.memory_format":
    """Return the memory format of PyTorch's convolutions: channels last if an operand has them last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = formats.get(tensors[0].dim(), torch.contiguous_format)
    is_last = any(tensor.is_contiguous(memory_format=last) and not tensor.is_contiguous() for tensor in tensors)
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
        over = replace(convolution, multiplier=multiplier.of_gradient(first=True))
        back = over.gather if steps.transposed else over.scatter
        results[0] = to_tensor(back(g, w, x.shape[2:]))
    if of_weight:
        both = multiplier.of_activations()
        over = replace(convolution, multiplier=both.of_gradient(first=not steps.transposed, second=steps.transposed))
        results[1] = to_tensor(over.correlate(*((x, g) if steps.transposed else (g, x))))
    if of_bias:
        results[2] = gradient.sum(
            (0, *range(2, gradient.dim())), dtype=torch.promote_types(gradient.dtype, torch.float32)
        )
    return tuple(result if result is None else of_type(result, image.dtype) for result in results)


def _narrow(arguments: Callable[..., Any], multiplier: Multiplier, *args: Any) -> Any:
    return arguments(*args).multiply(multiplier)


_PRODUCTS: Mapping[str, _Product] = {"mm": _mm, "bmm": Multiplier.stacks, "mv": _mv, "dot": _dot, "vdot": _dot}
_SUMS: Mapping[str, _Product] = {"addmm": _mm, "baddbmm": Multiplier.stacks, "addbmm": _addbmm, "addmv": _mv}

ON_UNIT: Mapping[str, Callable[..., Any]] = {
    **{name: partial(_product, product) for name, product in _PRODUCTS.items()},
    **{name: partial(_sum, product) for name, product in _SUMS.items()},
    "_grouped_mm": _grouped,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_backward": _convolution_backward,
    **{name: partial(_narrow, arguments) for name, arguments in NARROW.items()},
}
"""Operators of ``aten`` that the unit computes: name, and a function of the multiplier and the operator's arguments."""

OPERANDS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys((*_PRODUCTS, "_grouped_mm"), (0, 1)),
    **dict.fromkeys(_SUMS, (1, 2)),
}
"""Operators whose operands may be gradients, and which of their arguments are operands."""

CHECKED: Mapping[str, int] = {"_grouped_mm": 2, **dict.fromkeys(NARROW, 2)}
"""Operators among these that check their arguments themselves, and how many of the first arguments are operands."""


class Kind(Enum):
    """The way to treat an operator."""

    ON_UNIT = "computed by the unit"
    COMPOSED = "made of other operators"
    ESCAPE = "multiplies elsewhere"
    WEIGHTED = "multiplies elsewhere if it is given weights"
    PLAIN = "multiplies no matrices"


@lru_cache(maxsize=4096)
def kind_of(func: torch._ops.OpOverload) -> tuple[Kind, str]:
    """Return the way to treat an operator, and the name of the function that computes it."""
    namespace, _, name = func._schema.name.partition("::")
    plain = name if name in ON_UNIT else name.removesuffix("_")
    if namespace == "aten" and plain in ON_UNIT:
        return Kind.ON_UNIT, plain
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return Kind.COMPOSED, plain
    if namespace == "aten" and name.startswith("_embedding_bag"):
        return Kind.WEIGHTED, plain
    return Kind.ESCAPE if escapes(func) else Kind.PLAIN, plain


PLAIN: dict[int, torch._ops.OpOverload] = {}
"""Operators that multiply no matrices, by their identity, which takes less time than their hash."""
