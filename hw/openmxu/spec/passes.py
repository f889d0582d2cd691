"""fp32 products in several passes: which parts of the operands meet, and in which order."""

from collections.abc import Mapping
from enum import IntEnum


class Part(IntEnum):
    """A part of an fp32 number that bf16 can hold, and the number that selects it on a stream."""

    WHOLE = 0
    """The number itself, rounded."""
    HIGH = 1
    """Its upper 16 bits: the number, truncated."""
    REST = 2
    """The rest after :attr:`HIGH`, rounded."""
    MIDDLE = 3
    """The rest after :attr:`HIGH`, truncated."""
    LOW = 4
    """The rest after :attr:`HIGH` and :attr:`MIDDLE`, rounded."""


_H, _R, _M, _L = Part.HIGH, Part.REST, Part.MIDDLE, Part.LOW

PASSES: Mapping[str, tuple[tuple[Part, Part], ...]] = {
    "default": ((Part.WHOLE, Part.WHOLE),),
    "high": ((_R, _H), (_H, _R), (_H, _H)),
    "highest": ((_M, _M), (_H, _L), (_L, _H), (_H, _M), (_M, _H), (_H, _H)),
    "exact9": ((_L, _L), (_M, _L), (_L, _M), (_M, _M), (_L, _H), (_H, _L), (_M, _H), (_H, _M), (_H, _H)),
}
"""The passes of each precision: the parts of activations and of weights. The smallest products come first."""


ALIASES: Mapping[str, str] = {
    # JAX's Precision and jax_default_matmul_precision
    "fastest": "default",
    "bfloat16": "default",
    "bfloat16_3x": "high",
    "tensorfloat32": "high",
    "float32": "highest",
    # JAX's DotAlgorithmPreset, and XLA's names
    "bf16_bf16_f32": "default",
    "bf16_bf16_f32_x3": "high",
    "bf16_bf16_f32_x6": "highest",
    "bf16_bf16_f32_x9": "exact9",
    # PyTorch's set_float32_matmul_precision, and its names of algorithms
    "medium": "default",
    "bf16": "default",
    "bf16x3": "high",
    "bf16x6": "highest",
    "bf16x9": "exact9",
    "bfx9": "exact9",
}
"""Names that other projects use for the same numbers of bf16 passes."""


def find_precision(precision: object) -> str:
    """The key of :data:`PASSES` for such a key or one of :data:`ALIASES`, also in capitals, or a member of JAX's enums.

    Raises
    ------
    ValueError
        No precision has this name.
    """
    name = getattr(precision, "name", precision)
    if isinstance(name, str):
        key = ALIASES.get(name.lower(), name.lower())
        if key in PASSES:
            return key
    raise ValueError(
        f"precision must be {', '.join(map(repr, PASSES))}, or what JAX or PyTorch call it, not {precision!r}"
    )


def check_precision(precision: str) -> str:
    """Return ``precision`` if it is a key of :data:`PASSES`.

    Raises
    ------
    ValueError
        It is not.
    """
    if precision not in PASSES:
        raise ValueError(f"precision must be {', '.join(map(repr, PASSES))}, not {precision!r}")
    return precision
