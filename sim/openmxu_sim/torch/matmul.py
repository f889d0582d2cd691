"""One product as an operator of PyTorch, with derivatives. ``torch.compile`` and ``torch.export`` keep it."""

from dataclasses import fields
from typing import Any

import torch
from torch._C._functorch import TransformType, peek_interpreter_stack
from torch.autograd import forward_ad

from openmxu_sim.engines import gpu
from openmxu_sim.golden.parameters import NAMES, DerivativeOptions, Parameters, Unpack, with_options
from openmxu_sim.networks.numerics import EscapeError, Multiplier, Numerics
from openmxu_sim.product import to_stacks
from openmxu_sim.torch.arrays import TYPES, of_type, to_array, to_fp32, to_tensor, warn_of_flushed

_TYPES: dict[Any, str] = {str: "str", int: "SymInt", str | None: "str?"}

_SCHEMA = ", ".join(f"{_TYPES[each.type]} {each.name}={each.default!r}" for each in fields(Parameters))


@torch.library.custom_op("openmxu::products", mutates_args=(), schema=f"(Tensor a, Tensor b, {_SCHEMA}) -> Tensor")
def _products(a: torch.Tensor, b: torch.Tensor, *values: Any) -> torch.Tensor:
    """Return the products of (P, M, K) and (P, K, N), in the operands' type.

    Those of tensors on a GPU are computed there; on the CPU, where the GPU has no kernel for the numerics.
    """
    how = Numerics(*values)
    of_one_kind = how.weight in (None, how.operand) and how.between in (None, how.accumulate)
    if a.is_cuda and of_one_kind and gpu.is_possible(how.operand, how.accumulate, how.terms):
        options = {name: getattr(how, name) for name in ("operand", "precision", "subnormals", "rows")}
        return of_type(gpu.products(to_fp32(a), to_fp32(b), **options), a.dtype)
    multiplier = Multiplier(how, torch.get_num_threads(), lambda seen: warn_of_flushed(seen, "matmul"))
    return of_type(to_tensor(multiplier.stacks(to_array(a.cpu()), to_array(b.cpu()))), a.dtype).to(a.device)


@_products.register_fake
def _(a: torch.Tensor, b: torch.Tensor, *_numerics: Any) -> torch.Tensor:
    return a.new_empty(a.shape[0], a.shape[1], b.shape[2])


def _values(numerics: Numerics) -> tuple[Any, ...]:
    return tuple(getattr(numerics, name) for name in NAMES)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, *values = inputs
    ctx.numerics = Numerics(*values)
    ctx.save_for_backward(a, b)


def _differentiate(ctx: Any, gradient: torch.Tensor) -> "tuple[torch.Tensor | None, ...]":
    a, b = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    of_a = _multiply(gradient, b.mT, *_values(ctx.numerics.of_gradient(first=True))) if wanted[0] else None
    of_b = _multiply(a.mT, gradient, *_values(ctx.numerics.of_gradient(second=True))) if wanted[1] else None
    return of_a, of_b, *[None] * len(NAMES)


def _vectorize(
    info: Any, dimensions: tuple[int | None, ...], a: torch.Tensor, b: torch.Tensor, *numerics: Any
) -> tuple[torch.Tensor, int]:
    stacks = (
        tensor.expand(info.batch_size, *tensor.shape) if dimension is None else tensor.movedim(dimension, 0)
        for tensor, dimension in zip((a, b), dimensions, strict=False)
    )
    left, right = (stack.reshape(info.batch_size * stack.shape[1], *stack.shape[2:]) for stack in stacks)
    result = _multiply(left, right, *numerics)
    return result.reshape(info.batch_size, len(result) // info.batch_size, *result.shape[1:]), 0


_products.register_autograd(_differentiate, setup_context=_keep)
_products.register_vmap(_vectorize)


class _Products(torch.autograd.Function):
    """The same operator in forward mode and under ``torch.func``, where PyTorch differentiates none of a package's."""

    @staticmethod
    def forward(a: torch.Tensor, b: torch.Tensor, *numerics: Any) -> torch.Tensor:
        return _products(a, b, *numerics)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        _keep(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: "torch.Tensor | None") -> "tuple[torch.Tensor | None, ...]":
        return (None,) * (2 + len(NAMES)) if gradient is None else _differentiate(ctx, gradient)

    @staticmethod
    def jvp(
        ctx: Any, of_a: "torch.Tensor | None", of_b: "torch.Tensor | None", *_numerics: None
    ) -> "torch.Tensor | None":
        """Return the tangent: tangents are operands, not gradients."""
        a, b = ctx.saved_tensors
        first = None if of_a is None else _multiply(of_a, b, *_values(ctx.numerics))
        second = None if of_b is None else _multiply(a, of_b, *_values(ctx.numerics))
        return second if first is None else first if second is None else first + second

    vmap = staticmethod(_vectorize)


def _multiply(a: torch.Tensor, b: torch.Tensor, *numerics: Any) -> torch.Tensor:
    """Call the operator by the way on which PyTorch finds the derivatives that are asked for."""
    forward, transformed = forward_ad._current_level >= 0, torch._C._are_functorch_transforms_active()
    if not torch.compiler.is_compiling():
        by_function = forward or (transformed and peek_interpreter_stack().key() != TransformType.Functionalize)
    elif forward:
        raise EscapeError("a compiled function must not differentiate mxu.matmul in forward mode; do it uncompiled")
    else:
        by_function = transformed and (a.requires_grad or b.requires_grad)
    result: torch.Tensor = (_Products.apply if by_function else _products)(a, b, *numerics)
    return result


@with_options(DerivativeOptions)
def matmul(a: torch.Tensor, b: torch.Tensor, **numerics: Unpack[DerivativeOptions]) -> torch.Tensor:
    """Multiply as the unit does, by the rules of :func:`torch.matmul`; the unit computes the derivatives, too.

    Parameters
    ----------
    a, b
        Tensors of one type, on one device: the CPU, or a GPU of CUDA, which needs the extra ``gpu``. Results are
        rounded to their type.
    numerics
        The parameters of the table in :doc:`/explanation/numerics`. A scale of a whole tensor is that of the stack,
        which under ``torch.vmap`` is the batch, and each product of it has the next seed.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    ModuleNotFoundError
        CuPy is not installed, which a GPU needs.
    """
    wanted = Numerics(**numerics).checked()
    if a.dtype != b.dtype or a.dtype not in TYPES:
        raise TypeError(f"a and b must be of one type among {', '.join(map(str, TYPES))}, not {a.dtype} and {b.dtype}")
    if a.device != b.device:
        raise ValueError(f"a and b must be on one device, not on {a.device} and {b.device}")
    left, right, shape = to_stacks(a, b, broadcast_to=torch.broadcast_to, rules="torch.matmul")
    return _multiply(left, right, *_values(wanted)).reshape(shape)
