"""Products of arrays, by the engine ``model``, with derivatives by the same unit.

They are operations of JAX, linear in each operand, so their derivatives are such operations, too. XLA gets them when
all sizes, those included that ``vmap`` has added, and the platform are known. Small products on CPUs are calls of a
handler, all others calls of the host.
"""

import math
from dataclasses import replace
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
from openmxu_sim.golden.parameters import DerivativeOptions, Unpack, with_options
from openmxu_sim.jax.foreign import call, find_handler
from openmxu_sim.networks.numerics import Numerics
from openmxu_sim.product import to_stacks

TYPES = (
    *("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
"""Types that the unit multiplies. All but float64 go into fp32 exactly; that is rounded to it."""

NO_SEED = np.zeros((), np.uint32)
"""The operand of a product whose seed is a constant."""

_products = Primitive("openmxu_products")
"""The float32 products of (P, M, K) and (P, K, N) arrays, of any of :data:`TYPES`, with ``numerics``. The third operand
is added to their seed."""


def checked_numerics(options: DerivativeOptions) -> tuple[Numerics, Any]:
    """Return the numerics of products, and what is added to their seed when they run: an array as a seed."""
    seed = options.get("seed", 0)
    if not isinstance(seed, jax.Array):
        return Numerics(**options).checked(), NO_SEED
    if seed.ndim or not jnp.issubdtype(seed.dtype, jnp.integer):
        raise TypeError(f"seed must be an integer, or an array of one integer without dimensions, not {seed!r}")
    return Numerics(**options | {"seed": 0}).checked(), seed.astype(jnp.uint32)


def seeded(numerics: Numerics, seed: Any) -> Numerics:
    """Return the numerics with the seed that an operand had when the program ran."""
    return replace(numerics, seed=(numerics.seed + int(seed)) % 2**32)


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
def _abstract(a: Any, b: Any, _seed: Any, *, numerics: Numerics) -> Any:
    return result_of(_shape(a, b), a)


def _bind(numerics: Numerics, a: jax.Array, b: jax.Array, seed: Any = NO_SEED) -> jax.Array:
    result: jax.Array = _products.bind(a, b, seed, numerics=numerics)
    return result


_compiled = jax.jit(_bind, static_argnums=0)


@_products.def_impl
def _now(*operands: jax.Array, numerics: Numerics) -> jax.Array:
    # A user may have disabled jit; then `_compiled` would come back here.
    with jax.disable_jit(False):
        return _compiled(numerics, *operands)


def _batch(operands: tuple[Any, ...], places: tuple[Any, ...], *, numerics: Numerics) -> tuple[jax.Array, int]:
    """Multiply a batch: as rows of activations where weights are the same for all of it, else as a larger stack; one by
    one where each has a seed.
    """
    (a, b, seed), (place_a, place_b, place_seed) = operands, places
    if place_seed is not None:
        moved = (
            jnp.broadcast_to(each, (len(seed), *each.shape)) if place is None else jnp.moveaxis(each, place, 0)
            for each, place in zip(operands, places, strict=True)
        )
        return jax.lax.map(lambda one: _bind(numerics, *one), tuple(moved)), 0
    if place_b is None:
        a = jnp.moveaxis(a, place_a, 1)
        count, size, m, k = a.shape
        return _bind(numerics, a.reshape(count, size * m, k), b, seed).reshape(count, size, m, b.shape[2]), 1
    b = jnp.moveaxis(b, place_b, 0)
    a = jnp.broadcast_to(a, (len(b), *a.shape)) if place_a is None else jnp.moveaxis(a, place_a, 0)
    left, right = (jax.lax.collapse(array, 0, 2) for array in (a, b))
    return _bind(numerics, left, right, seed).reshape(_shape(a, b)), 0


batching.primitive_batchers[_products] = _batch


def _transpose(gradient: Any, a: Any, b: Any, seed: jax.Array, *, numerics: Numerics) -> tuple[Any, ...]:
    """Return one operand's gradient, by the same seed."""
    of_a = ad.is_undefined_primal(a)
    aval = a.aval if of_a else b.aval
    if type(gradient) is ad.Zero:
        result: Any = ad.Zero(aval)
    elif of_a:
        result = _bind(numerics.of_gradient(first=True), gradient, b.swapaxes(1, 2), seed).astype(aval.dtype)
    else:
        result = _bind(numerics.of_gradient(second=True), a.swapaxes(1, 2), gradient, seed).astype(aval.dtype)
    return (result, None, None) if of_a else (None, result, None)


ad.defjvp(
    _products,
    lambda tangent, _, b, seed, numerics: _bind(numerics, tangent, b, seed),
    lambda tangent, a, _, seed, numerics: _bind(numerics, a, tangent, seed),
    None,
)
ad.primitive_transposes[_products] = _transpose


def _on_host(a: jax.Array, b: jax.Array, seed: jax.Array, *, numerics: Numerics) -> jax.Array:
    """Multiply through Python."""
    shape = jax.ShapeDtypeStruct(_shape(a, b), jnp.float32)
    result: jax.Array = jax.pure_callback(partial(_compute, numerics), shape, a, b, seed)
    return result


def _compute(numerics: Numerics, a: Any, b: Any, seed: Any) -> npt.NDArray[np.float32]:
    left, right = (np.asarray(array, np.float32).view(np.uint32) for array in (a, b))
    return np.asarray(model.products(left, right, **seeded(numerics, seed).options()), np.float32)


def _on_cpu(a: jax.Array, b: jax.Array, seed: jax.Array, *, numerics: Numerics) -> jax.Array:
    """Multiply by the handler, unless it takes so long that Python can use threads, and hears Ctrl-C between calls."""
    small = model.is_small(math.prod(a.shape) * b.shape[2], numerics.precision)
    handler = find_handler() if small and numerics.is_plain else None
    if handler is None:
        return _on_host(a, b, seed, numerics=numerics)
    return call(handler, numerics, a.astype(jnp.float32), b.astype(jnp.float32))


for _platform, _rule in ((None, _on_host), ("cpu", _on_cpu)):
    _lower = mlir.lower_fun(_rule, multiple_results=False)
    # Like `pure_callback`, which is not cacheable itself.
    mlir.register_lowering(_products, _lower, platform=_platform, cacheable=False)


def multiply(numerics: Numerics, a: jax.Array, b: jax.Array, seed: Any) -> jax.Array:
    """Return the float32 products of (P, M, K) and (P, K, N), of any of :data:`TYPES`."""
    if 0 in (*a.shape, *b.shape):
        return jnp.zeros(_shape(a, b), jnp.float32)
    return _bind(numerics, *alike(a, b, seed if numerics.is_stochastic else NO_SEED))


@with_options(DerivativeOptions)
def matmul(a: Any, b: Any, **numerics: Unpack[DerivativeOptions]) -> jax.Array:
    """Multiply as the unit does, by the rules of :func:`jax.numpy.matmul`; the unit computes the derivatives, too.

    ``jit``, ``grad``, ``jvp``, ``vmap`` and ``shard_map`` transform it as they do any function.

    Parameters
    ----------
    a, b
        Arrays of one type among :data:`TYPES`. Results are rounded to it.
    numerics
        The parameters of the table in :doc:`/explanation/numerics`. An integer as a seed is part of the program: each
        call draws the same numbers. An array of one integer, such as ``65537 * step``, is an operand: it may be traced.
        Derivatives have the seed of their product.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """
    wanted, seed = checked_numerics(numerics)
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.dtype != b.dtype or a.dtype.name not in TYPES:
        raise TypeError(f"a and b must be of one type among {', '.join(TYPES)}, not {a.dtype} and {b.dtype}")
    return _matmul(wanted, a, b, seed)


@partial(jax.jit, static_argnums=0, inline=True)
def _matmul(numerics: Numerics, a: jax.Array, b: jax.Array, seed: jax.Array) -> jax.Array:
    """Multiply, compiled even where nothing around is: tracing takes longer than a small product does."""
    left, right, shape = to_stacks(a, b, broadcast_to=jnp.broadcast_to, rules="jax.numpy.matmul")
    return multiply(numerics, left, right, seed).astype(a.dtype).reshape(shape)
