"""Products of arrays, by the engine ``model``, with derivatives by the same unit.

They are operations of JAX, linear in each operand, so their derivatives are such operations, too. XLA gets them when
all sizes, those included that ``vmap`` has added, and the platform are known. Small products on CPUs are calls of a
handler, all others calls of the host.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from openmxu_sim.engines import model
from openmxu_sim.jax.foreign import call, find_handler
from openmxu_sim.networks.numerics import Numerics
from openmxu_sim.product import to_stacks

TYPES = (
    *("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
"""Types that the unit multiplies. All but float64 go into fp32 exactly; that is rounded to it."""

_products = Primitive("openmxu_products")
"""The float32 products of (P, M, K) and (P, K, N) arrays, of any of :data:`TYPES`, with ``numerics``."""


def _shape(a: Any, b: Any) -> tuple[int, ...]:
    return (*a.shape[:-1], b.shape[-1])


def result_of(shape: tuple[int, ...], operand: Any) -> Any:
    """Return the abstract value of a float32 result; within ``shard_map`` it varies along the operand's axes."""
    mesh = NamedSharding(operand.sharding.mesh, PartitionSpec(*[None] * len(shape)))
    return operand.update(shape=shape, dtype=np.dtype(np.float32), weak_type=False, sharding=mesh)


def alike(*operands: jax.Array) -> list[jax.Array]:
    """Return operands that vary alike within ``shard_map``, where weights may be the same for all devices."""
    varying = [jax.typeof(item).manual_axis_type.varying for item in operands]
    missing = [tuple(frozenset().union(*varying) - axes) for axes in varying]
    return [
        jax.lax.pcast(item, axes, to="varying") if axes else item for item, axes in zip(operands, missing, strict=True)
    ]


@_products.def_abstract_eval
def _abstract(a: Any, b: Any, *, numerics: Numerics) -> Any:
    return result_of(_shape(a, b), a)


def _bind(numerics: Numerics, a: jax.Array, b: jax.Array) -> jax.Array:
    result: jax.Array = _products.bind(a, b, numerics=numerics)
    return result


_compiled = jax.jit(_bind, static_argnums=0)


@_products.def_impl
def _now(a: jax.Array, b: jax.Array, *, numerics: Numerics) -> jax.Array:
    # A user may have disabled jit; then `_compiled` would come back here.
    with jax.disable_jit(False):
        return _compiled(numerics, a, b)


def _batch(pair: tuple[jax.Array, jax.Array], places: tuple[Any, Any], *, numerics: Numerics) -> tuple[jax.Array, int]:
    """Multiply a batch: as rows of activations where weights are the same for all of it, else as a larger stack."""
    (a, b), (place_a, place_b) = pair, places
    if place_b is None:
        a = jnp.moveaxis(a, place_a, 1)
        count, size, m, k = a.shape
        return _bind(numerics, a.reshape(count, size * m, k), b).reshape(count, size, m, b.shape[2]), 1
    b = jnp.moveaxis(b, place_b, 0)
    a = jnp.broadcast_to(a, (len(b), *a.shape)) if place_a is None else jnp.moveaxis(a, place_a, 0)
    left, right = (jax.lax.collapse(array, 0, 2) for array in (a, b))
    return _bind(numerics, left, right).reshape(_shape(a, b)), 0


# A call, as the documentation reads this without JAX, and its stand-in for JAX supports no assignment of items.
batching.primitive_batchers.__setitem__(_products, _batch)


def _of_a(gradient: jax.Array, a: Any, b: jax.Array, *, numerics: Numerics) -> jax.Array:
    return _bind(numerics.of_gradient(first=True), gradient, b.swapaxes(1, 2)).astype(a.aval.dtype)


def _of_b(gradient: jax.Array, a: jax.Array, b: Any, *, numerics: Numerics) -> jax.Array:
    return _bind(numerics.of_gradient(second=True), a.swapaxes(1, 2), gradient).astype(b.aval.dtype)


ad.defbilinear(_products, _of_a, _of_b)


def _on_host(a: jax.Array, b: jax.Array, *, numerics: Numerics) -> jax.Array:
    """Multiply through Python."""
    shape = jax.ShapeDtypeStruct(_shape(a, b), jnp.float32)
    result: jax.Array = jax.pure_callback(partial(_compute, numerics), shape, a, b)
    return result


def _compute(numerics: Numerics, a: Any, b: Any) -> npt.NDArray[np.float32]:
    left, right = (np.asarray(array, np.float32).view(np.uint32) for array in (a, b))
    return np.asarray(model.products(left, right, **numerics.options()), np.float32)


def _on_cpu(a: jax.Array, b: jax.Array, *, numerics: Numerics) -> jax.Array:
    """Multiply by the handler, unless it takes so long that Python can use threads, and hears Ctrl-C between calls."""
    small = model.is_small(math.prod(a.shape) * b.shape[2], numerics.precision)
    handler = find_handler() if small and numerics.is_plain else None
    if handler is None:
        return _on_host(a, b, numerics=numerics)
    return call(handler, numerics, a.astype(jnp.float32), b.astype(jnp.float32))


for _platform, _rule in ((None, _on_host), ("cpu", _on_cpu)):
    _lower = mlir.lower_fun(_rule, multiple_results=False)
    # Like `pure_callback`, which is not cacheable itself.
    mlir.register_lowering(_products, _lower, platform=_platform, cacheable=False)


def multiply(numerics: Numerics, a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the float32 products of (P, M, K) and (P, K, N), of any of :data:`TYPES`."""
    if 0 in (*a.shape, *b.shape):
        return jnp.zeros(_shape(a, b), jnp.float32)
    return _bind(numerics, *alike(a, b))


def matmul(
    a: Any,
    b: Any,
    *,
    operand: str = "bf16",
    accumulate: str = "fp32",
    precision: str = "default",
    subnormals: str = "flush",
    rows: int = 128,
    terms: int = 1,
    weight: str | None = None,
    gradient: str | None = None,
    between: str | None = None,
    seed: int = 0,
) -> jax.Array:
    """Multiply as the unit does, by the rules of :func:`jax.numpy.matmul`; the unit computes the derivatives, too.

    ``jit``, ``grad``, ``jvp``, ``vmap`` and ``shard_map`` transform it as they do any function.

    Parameters
    ----------
    a, b
        Arrays of one type among :data:`TYPES`. Results are rounded to it.
    operand, accumulate, precision, subnormals, rows, terms, weight, gradient, between, seed
        As in :class:`openmxu_sim.torch.Unit`. A seed is part of the program: each call draws the same numbers.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """
    wanted = Numerics(operand, accumulate, precision, subnormals, rows, terms, weight, gradient, between, seed)
    numerics = wanted.checked()
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.dtype != b.dtype or a.dtype.name not in TYPES:
        raise TypeError(f"a and b must be of one type among {', '.join(TYPES)}, not {a.dtype} and {b.dtype}")
    return _matmul(numerics, a, b)


@partial(jax.jit, static_argnums=0, inline=True)
def _matmul(numerics: Numerics, a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply, compiled even where nothing around is: tracing takes longer than a small product does."""
    left, right, shape = to_stacks(a, b, broadcast_to=jnp.broadcast_to, rules="jax.numpy.matmul")
    return multiply(numerics, left, right).astype(a.dtype).reshape(shape)
