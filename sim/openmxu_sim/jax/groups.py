"""Products of groups whose sizes are known only when a program runs: the host computes them, one by one.

::

    of rows                  of the inner dimension
      ┌────┐   ┌────┐          ┌────┬──────┐   ┌────┐   ┌────┐
      │ a0 │ x │ b0 │          │ a0 │  a1  │ x │ b0 │ = │ c0 │
      ├────┤   ├────┤          └────┴──────┘   ├────┤   ├────┤
      │ a1 │   │ b1 │                          │ b1 │   │ c1 │
      └────┘   └────┘                          └────┘   └────┘

A mixture of experts has the first kind, and the second for its weights' gradients. Rows of no group are zero.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from openmxu_sim.engines import model
from openmxu_sim.jax.primitives import NO_SEED, alike, result_of, seeded
from openmxu_sim.networks.numerics import Numerics
from openmxu_sim.operands.aliases import Floats

_groups = Primitive("openmxu_products_of_groups")
"""Products of groups: of rows, (P, M, K) and (P, G, K, N) make (P, M, N); of the inner dimension, (P, M, K) and
(P, K, N) make (P, G, M, N), all in float32. The third operand has the sizes of groups, (P, G), the fourth is added to
the seed."""


def multiply_groups(
    numerics: Numerics, a: jax.Array, b: jax.Array, sizes: jax.Array, seed: Any, *, inner: bool = False
) -> jax.Array:
    """Return the products of groups of rows, or of the inner dimension."""
    seed = seed if numerics.is_stochastic else NO_SEED
    return _bind(*alike(a, b, sizes, seed), numerics=numerics, inner=inner)


def _bind(*operands: jax.Array, numerics: Numerics, inner: bool) -> jax.Array:
    result: jax.Array = _groups.bind(*operands, numerics=numerics, inner=inner)
    return result


_compiled = jax.jit(_bind, static_argnames=("numerics", "inner"))


def _shape(a: Any, b: Any, sizes: Any, inner: bool) -> tuple[int, ...]:
    return (*(sizes.shape if inner else a.shape[:1]), a.shape[1], b.shape[-1])


@_groups.def_abstract_eval
def _abstract(a: Any, b: Any, sizes: Any, _seed: Any, *, numerics: Numerics, inner: bool) -> Any:
    return result_of(_shape(a, b, sizes, inner), a)


@_groups.def_impl
def _now(*arrays: jax.Array, **parameters: Any) -> jax.Array:
    with jax.disable_jit(False):
        return _compiled(*arrays, **parameters)


def _batch(arrays: tuple[jax.Array, ...], places: tuple[Any, ...], **parameters: Any) -> tuple[jax.Array, int]:
    """Apply the primitive to a batch, as one larger stack; one by one where each has a seed."""
    count = next(array.shape[axis] for array, axis in zip(arrays, places, strict=True) if axis is not None)
    moved = [
        jnp.broadcast_to(array, (count, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, places, strict=True)
    ]
    if places[3] is not None:
        return jax.lax.map(lambda one: _bind(*one, **parameters), tuple(moved)), 0
    result = _bind(*(jax.lax.collapse(array, 0, 2) for array in moved[:3]), arrays[3], **parameters)
    return result.reshape(count, moved[0].shape[1], *result.shape[1:]), 0


def _transpose(gradient: Any, a: Any, b: Any, *known: jax.Array, numerics: Numerics, inner: bool) -> tuple[Any, ...]:
    """Return one operand's gradient, by groups of rows; that of stacked weights by groups of the inner dimension."""
    of_a = ad.is_undefined_primal(a)
    aval = a.aval if of_a else b.aval
    if type(gradient) is ad.Zero:
        result: Any = ad.Zero(aval)
    elif not of_a:
        roles = numerics.of_gradient(second=True)
        result = _bind(a.mT, gradient, *known, numerics=roles, inner=not inner).astype(aval.dtype)
    elif inner:
        roles = numerics.swapped().of_gradient(second=True)
        result = _bind(b, gradient.mT, *known, numerics=roles, inner=False).mT.astype(aval.dtype)
    else:
        roles = numerics.of_gradient(first=True)
        result = _bind(gradient, b.mT, *known, numerics=roles, inner=False).astype(aval.dtype)
    return (result, None, None, None) if of_a else (None, result, None, None)


ad.defjvp(
    _groups,
    lambda tangent, _, b, *known, **parameters: _bind(tangent, b, *known, **parameters),
    lambda tangent, a, _, *known, **parameters: _bind(a, tangent, *known, **parameters),
    None,
    None,
)
ad.primitive_transposes[_groups] = _transpose
batching.primitive_batchers[_groups] = _batch


def _on_host(*arrays: jax.Array, numerics: Numerics, inner: bool) -> jax.Array:
    a, b, sizes, _ = arrays
    shape = jax.ShapeDtypeStruct(_shape(a, b, sizes, inner), jnp.float32)
    result: jax.Array = jax.pure_callback(partial(_compute, numerics, inner), shape, *arrays)
    return result


mlir.register_lowering(_groups, mlir.lower_fun(_on_host, multiple_results=False), cacheable=False)


def _compute(numerics: Numerics, inner: bool, *arrays: Any) -> Floats:
    a, b = (np.asarray(array, np.float32).view(np.uint32) for array in arrays[:2])
    sizes, options = np.asarray(arrays[2]), seeded(numerics, arrays[3]).options()
    result = np.zeros(_shape(a, b, sizes, inner), np.float32)
    for stack, ends in enumerate(np.cumsum(sizes, axis=1).tolist()):
        for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            part = slice(start, end)
            left, right = (a[stack, :, part], b[stack, part]) if inner else (a[stack, part], b[stack, group])
            product = model.products(left[None], right[None], **options)[0]
            result[(stack, group) if inner else (stack, part)] = product
    return result
