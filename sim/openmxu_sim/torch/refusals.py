"""Checks of the operands of a product: types, shapes, and tensors that are none of PyTorch's own."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from openmxu_sim.networks.numerics import Numerics
from openmxu_sim.torch.arrays import TYPES
from openmxu_sim.torch.narrow import NARROW
from openmxu_sim.torch.operators import Kind

PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""Types of tensors without a dispatcher of their own."""


def parts(result: Any) -> list[torch.Tensor]:
    """Return the tensors among an operator's results."""
    return [
        part for part in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(part, torch.Tensor)
    ]


def with_memory(func: torch._ops.OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give memory to zeros that have none, such as tangents of constants.

    PyTorch does for most operators, before they come to a mode; a few, such as ``mul.Scalar``, read what nobody owns.
    """
    if func.is_view or func._schema.is_mutable:
        return args
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) and arg._is_zerotensor() else arg for arg in args)


def multiplies_nothing(kind: Kind, name: str, tensors: list[torch.Tensor]) -> bool:
    """Return whether an operator has no numbers to multiply, or only zeros without memory."""
    # The unit needs all of its operands; other operators may have results and buffers among theirs.
    empty = not (all if kind is Kind.ON_UNIT else any)([tensor.numel() for tensor in tensors])
    # PyTorch gives memory to zeros that have none before they come here, but for these two.
    zero = name in ("dot", "vdot") and any(tensor._is_zerotensor() for tensor in tensors)
    return empty or zero or any(tensor.is_meta for tensor in tensors)


def unsuitable(tensors: list[torch.Tensor]) -> str | None:
    """Return the reason why the unit cannot take these tensors, if there is one."""
    if any(tensor.is_nested for tensor in tensors):
        return (
            "must not have nested tensors to multiply on the unit; pad them (torch.nested.to_padded_tensor), or use "
            "layers that take jagged ones, such as Linear"
        )
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype not in TYPES:
            return (
                f"must have dense tensors of {', '.join(map(str, TYPES))} on the CPU to multiply on the unit, not "
                f"{tensor.dtype}, {tensor.layout} on {tensor.device}; convert them"
            )
    return None


_TRACED = (
    "(and torch.func.linearize, by which it traces) records operators below the unit, where products would be "
    "constants; trace outside of the unit and call the graph in it, or use torch.func.jvp or vjp"
)


def elsewhere(
    kind: Kind, name: str, tensors: list[torch.Tensor], args: tuple[Any, ...], numerics: Numerics
) -> tuple[str, str] | None:
    """Return the operator that would multiply elsewhere, and why, unless the unit can compute it."""
    if kind is not Kind.ON_UNIT:
        return name, "does not multiply on the unit; use operators that do (mm, bmm, convolution)"
    narrow = NARROW.get(name.removeprefix("aten::"))
    why = narrow(*args).refusal(numerics) if narrow else unsuitable(tensors)
    if why:
        return name, why
    is_traced = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None
    return ("fx::make_fx", _TRACED) if is_traced else None


def check_types(func: torch._ops.OpOverload, tensors: list[torch.Tensor]) -> None:
    types = {tensor.dtype for tensor in tensors}
    if len(types) > 1:
        raise RuntimeError(
            f"{func._schema.name} must have tensors of one dtype, not of {' and '.join(sorted(map(str, types)))}"
        )


def described(value: Any) -> Any:
    """Return a value that can be hashed: for a tensor, its shape and type."""
    if isinstance(value, torch.Tensor):
        return _Described(tuple(value.shape), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple(map(described, value))
    return value


class _Described(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype


@lru_cache(maxsize=4096)
def check_shapes(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: tuple[Any, ...]) -> None:
    """Have PyTorch itself raise an error for shapes and types that it does not multiply."""

    def empty(value: Any) -> Any:
        if isinstance(value, _Described):
            return torch.empty(value.shape, dtype=value.dtype, device="meta")
        return [empty(item) for item in value] if isinstance(value, tuple) else value

    func(*(empty(item) for item in args), **{name: empty(value) for name, value in kwargs})
