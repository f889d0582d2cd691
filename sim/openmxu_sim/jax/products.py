"""Products of arrays, by the engine ``model``, with derivatives by the same unit."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from openmxu_sim.engines import model
from openmxu_sim.jax.foreign import call, find_handler
from openmxu_sim.numerics import Numerics
from openmxu_sim.product import to_stacks

__all__ = ["TYPES", "matmul", "multiply"]

TYPES = ("float32", "bfloat16", "float16", "float64")
"""What is multiplied. All but the last go into fp32 exactly; float64 is rounded to it."""


def _compute(numerics: Numerics, a: Any, b: Any) -> npt.NDArray[np.float32]:
    """On the host: arrays of (..., P, M, K) and (..., P, K, N) in fp32, where ``vmap`` has put its dimensions first."""
    left, right = (np.asarray(each, np.float32).reshape(-1, *each.shape[-2:]) for each in (a, b))
    result = model.products(left.view(np.uint32), right.view(np.uint32), **numerics._asdict())
    return np.asarray(result, np.float32).reshape(*a.shape[:-1], b.shape[-1])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def multiply(numerics: Numerics, a: jax.Array, b: jax.Array) -> jax.Array:
    """The float32 products of (P, M, K) and (P, K, N), of any of :data:`TYPES`."""
    shape = jax.ShapeDtypeStruct((*a.shape[:-1], b.shape[-1]), jnp.float32)
    if 0 in (*a.shape, *b.shape):
        return jnp.zeros(shape.shape, shape.dtype)
    left, right = (each.astype(jnp.float32) for each in (a, b))
    through_python = partial(jax.pure_callback, partial(_compute, numerics), shape, vmap_method="broadcast_all")
    handler = find_handler() if model.is_small(left.size * b.shape[-1], numerics.precision) else None
    if handler is None:
        return through_python(left, right)
    found: jax.Array = jax.lax.platform_dependent(
        left, right, cpu=partial(call, handler, numerics), default=through_python
    )
    return found


def _forward(numerics: Numerics, a: jax.Array, b: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return multiply(numerics, a, b), (a, b)


def _backward(
    numerics: Numerics, kept: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    a, b = kept
    of_a = multiply(numerics, gradient, b.swapaxes(1, 2)).astype(a.dtype)
    return of_a, multiply(numerics, a.swapaxes(1, 2), gradient).astype(b.dtype)


multiply.defvjp(_forward, _backward)


def matmul(
    a: Any,
    b: Any,
    *,
    operand: str = "bf16",
    accumulate: str = "fp32",
    precision: str = "default",
    subnormals: str = "flush",
    rows: int = 128,
) -> jax.Array:
    """The product that the unit computes, by the rules of :func:`jax.numpy.matmul`; so are its derivatives.

    ``jit``, ``grad`` and ``vmap`` transform it as they do any function; there is no forward-mode derivative.

    Parameters
    ----------
    a, b
        Arrays of one type among :data:`TYPES`. Results are rounded to it.
    operand, accumulate, precision, subnormals, rows
        As of :func:`openmxu_sim.simulate`.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """
    numerics = Numerics(operand, accumulate, precision, subnormals, rows).checked()
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.dtype != b.dtype or a.dtype.name not in TYPES:
        raise TypeError(f"a and b must be of one type among {', '.join(TYPES)}, not {a.dtype} and {b.dtype}")
    left, right, shape = to_stacks(a, b, broadcast_to=jnp.broadcast_to, rules="jax.numpy.matmul")
    return multiply(numerics, left, right).astype(a.dtype).reshape(shape)
