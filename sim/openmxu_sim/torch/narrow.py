"""Products of float8 tensors with scales of their own, and of 8-bit integers.

Operands enter the unit as other tensors do; what it returns is scaled::

    _scaled_mm    ((a · b) * scale_a) * scale_b + bias, each operation rounded to fp32, then once to the result's type
    _int_mm       a · b in int32: sums of up to 2^10 products of at most 2^14 are exact in fp32
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from openmxu_sim.golden.specifications import find_operand, find_sum
from openmxu_sim.networks.numerics import Multiplier, Numerics
from openmxu_sim.torch.arrays import TYPES, of_type, to_array, to_tensor

_SCALED_BY = (
    "must have dense float8 tensors on the CPU, fp32 scales of one number, (M, 1) or (1, N), a bias of shape (N,), a "
    "result in fp32, bf16, fp16 or float8, and no scale_result to multiply on the unit; multiply others after "
    "conversion"
)
_INTEGERS = (
    "must have dense int8 tensors on the CPU, K <= 1024, and a unit with sums in fp32 of operands that hold int8 "
    "(bf16, fp16, fp32) to be exact on the unit; multiply others as floating-point numbers"
)


def _multiply(multiplier: Multiplier, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    torch.mm(*(torch.empty(operand.shape, device="meta") for operand in (a, b)))  # PyTorch's own checks of shapes
    return to_tensor(multiplier.stacks(to_array(a)[None], to_array(b)[None])[0])


class _Scaled(NamedTuple):
    """Arguments of ``_scaled_mm``."""

    a: torch.Tensor
    b: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    bias: "torch.Tensor | None" = None
    scale_result: "torch.Tensor | None" = None
    out_dtype: "torch.dtype | None" = None
    use_fast_accum: bool = False

    def refusal(self, _numerics: Numerics) -> str | None:
        """Return the reason why the unit cannot take them."""
        wide, float8, columns = TYPES[:3], TYPES[4:], self.b.shape[-1:]
        dense = _are_dense(self[:2], float8) and _are_dense(self[2:4], [torch.float32])
        shapes = (self.scale_a, (*self.a.shape[:1], 1)), (self.scale_b, (1, *columns))
        fits = all((one.numel() == 1 and one.dim() < 3) or one.shape == shape for one, shape in shapes)
        added = self.bias is None or (_are_dense([self.bias], wide) and self.bias.shape == columns)
        known = self.scale_result is None and self.out_dtype in (None, *wide, *float8)
        return None if dense and fits and added and known else _SCALED_BY

    def multiply(self, multiplier: Multiplier) -> torch.Tensor:
        """Multiply, then scale."""
        result = _multiply(multiplier, self.a, self.b).mul_(self.scale_a).mul_(self.scale_b)
        if self.bias is not None:
            result += self.bias
        return of_type(result, self.out_dtype or self.a.dtype)


def _scaled_by(a: torch.Tensor, b: torch.Tensor, *others: Any) -> _Scaled:
    """Return arguments of ``_scaled_mm_v2`` as the first version's; what that lacks becomes a ``scale_result``."""
    scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype, *more = others
    known = len(scale_a) == len(scale_b) == 1 and {*recipe_a, *recipe_b} <= {0, 1}
    plain = known and not (any(swizzle_a) or any(swizzle_b) or any(more[:1]))
    first, second = ((*scales, a)[0] for scales in (scale_a, scale_b))
    return _Scaled(a, b, first, second, bias, None if plain else a, out_dtype)


class _Integers(NamedTuple):
    """Arguments of ``_int_mm``."""

    a: torch.Tensor
    b: torch.Tensor

    def refusal(self, numerics: Numerics) -> str | None:
        """Return the reason why the unit cannot take them, or would not be exact."""
        sides = [find_operand(spec) for spec in (numerics.operand, numerics.weight_format)]
        sums = [find_sum(spec) for spec in (numerics.accumulate, numerics.between or numerics.accumulate)]
        formats = [side.format for side in sides if side.is_plain]
        holds = sum(fmt.fraction_width >= 7 and fmt.max_finite >= 128 for fmt in formats) == 2
        exact = holds and all(one.is_plain and one.format.name == "fp32" for one in sums)
        return None if exact and _are_dense(self, [torch.int8]) and self.a.shape[-1:] <= (1024,) else _INTEGERS

    def multiply(self, multiplier: Multiplier) -> torch.Tensor:
        """Multiply integers."""
        return _multiply(multiplier, self.a, self.b).to(torch.int32)


def _are_dense(tensors: Sequence[torch.Tensor], types: Sequence[torch.dtype]) -> bool:
    return all(one.layout is torch.strided and one.device.type == "cpu" and one.dtype in types for one in tensors)


NARROW: Mapping[str, "Callable[..., _Scaled | _Integers]"] = {
    "_scaled_mm": _Scaled,
    "_scaled_mm_v2": _scaled_by,
    "_int_mm": _Integers,
}
"""Arguments of such operators, by their names: why the unit cannot take them, if there is a reason, and the product."""
