"""Functions whose products the unit computes: their operations are replayed, one by one."""

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, primitives

from openmxu_sim.golden.parameters import DerivativeOptions, Unpack, with_options
from openmxu_sim.jax.groups import multiply_groups
from openmxu_sim.jax.primitives import TYPES, checked_numerics, multiply
from openmxu_sim.networks.by_layer import LayerNumerics, Layers
from openmxu_sim.networks.numerics import EscapeError, Numerics

_REFUSED = frozenset(
    (
        *("fft", "cholesky", "eig", "eigh", "hessenberg", "householder_product", "lu", "qr", "schur", "svd"),
        *("triangular_solve", "tridiagonal", "tridiagonal_solve", "custom_linear_solve"),
    )
)
"""Operations that JAX names in public and that multiply or factorise matrices in a way of their own."""

_KNOWN = re.compile(
    r"(all_gather|all_to_all|pbroadcast|ppermute|psum|reduce_scatter|unreduced|random|threefry|philox|debug)\w*"
    r"|(bcoo|bcsr|coo|csr)_(extract|fromdense|todense|transpose|sort_indices|sum_duplicates)"
    r"|pvary|preduced|(reduced_vary|vary_unreduced)_cast_p|reshard|layout_constraint|with_memory_space_constraint"
    r"|inspect_sharding|pin|unpin|tie|stack|unstack|split|tile|broadcast_to|empty|iota_2x32_shape|scatter-sub|mulhi"
    r"|reciprocal|lu_pivots_to_permutation|(to|from)_edtype|dim_as_value|dimension_size|multiple_of|shape_assertion"
    r"|check|platform_index|unreachable|optimization_barrier|dce_sink|composite|custom_vmap_call|linear_call|remat_opt"
    r"|(global_array_to_host_local|host_local_array_to_global)_array|shard_alike|xla_metadata_\w+|remove_memory_space"
    r"|openmxu_products\w*"
)
"""Other operations of JAX that multiply nothing, or only in operations that they contain."""


class _Unit(NamedTuple):
    """The numerics of products, and which operations may multiply elsewhere."""

    layers: Layers
    strict: bool
    allow: frozenset[str]
    seed: Any
    """An array, which may be traced, to add to the seeds of products."""
    scopes: str = ""
    """Names of the scopes that an operation is in."""

    def within(self, equation: Any) -> "_Unit":
        """Return the unit in the scopes of an operation, as what that contains sees it."""
        own = re.sub(r"\w+\(|\)", "", str(equation.source_info.name_stack)).replace("/", ".")
        return self._replace(scopes=".".join(filter(None, (self.scopes, own)))) if own else self


@with_options(DerivativeOptions)
def on_unit(
    function: Callable[..., Any],
    *,
    layers: LayerNumerics | None = None,
    strict: bool = True,
    allow: Collection[str] = (),
    static_argnums: int | Sequence[int] = (),
    **numerics: Unpack[DerivativeOptions],
) -> Callable[..., Any]:
    """Return a function like another, whose products of matrices and convolutions the unit computes.

    Apply it outermost, ``on_unit(jax.grad(loss))``, and the unit computes products of derivatives, too. It also does in
    ``jax.grad(on_unit(loss))`` and ``jax.jvp(on_unit(loss), ...)``, where functions with products and derivatives of
    their own are an error. ``jax.jit`` of the result works as usual.

    Parameters
    ----------
    function
        A function that ``jax.jit`` takes: of arrays, or trees of them.
    layers
        Other formats, or parameters, by patterns of names: those of :func:`jax.named_scope`, which modules of Flax
        have; see :class:`openmxu_sim.networks.by_layer.Layers`.
    strict
        Whether another operation that may multiply matrices is an error: a factorisation, a call of the host or of an
        exported program, any that is not known here.
    allow
        Names of such operations to permit anyway.
    static_argnums
        As in ``jax.jit``.
    numerics
        The parameters of the table in :doc:`/explanation/numerics`; see :func:`matmul` for ``seed``. All operations of
        a call have its seed, to which a layer's own is added; products of a stack have those that follow it.
        ``gradient`` is the format of gradients in ``jax.grad(on_unit(loss))``. Within, a function's derivatives are
        products like others.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    openmxu_sim.networks.numerics.EscapeError
        When the function is called: a product would be computed elsewhere.
    """
    if isinstance(allow, str) or not all(isinstance(name, str) for name in allow):
        raise ValueError(f"allow must be names of operations such as 'cholesky', not {allow!r}")
    wanted, seed = checked_numerics(numerics)
    unit = _Unit(Layers(wanted, layers), strict, frozenset(allow), seed)
    named = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @wraps(function)
    def on_the_unit(*args: Any, **kwargs: Any) -> Any:
        traced = jax.make_jaxpr(function, static_argnums=named, return_shape=True)
        closed, result = traced(*args, **kwargs)
        static = {index % len(args) for index in named} if args else set()
        arguments = [value for index, value in enumerate(args) if index not in static]
        inputs = [jnp.asarray(value) for value in jax.tree.leaves((arguments, kwargs))]
        results = [jnp.asarray(value) for value in _play(unit, closed.jaxpr, closed.consts, inputs)]
        unit.layers.warn_of_unmatched()
        return jax.tree.unflatten(jax.tree.structure(result), results)

    return on_the_unit


def _play(unit: _Unit, jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Compute the operations of a function."""
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    values |= zip(jaxpr.invars, inputs, strict=True)

    def value_of(atom: Any) -> Any:
        return jnp.asarray(atom.val) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        operands = [value_of(atom) for atom in equation.invars]
        name, parameters, within = equation.primitive.name, equation.params, unit.within(equation)
        allowed = not unit.strict or name in unit.allow
        refused = _is_refused(equation)
        if refused and not allowed:
            raise EscapeError(
                f"{name} does not multiply on the unit; use operations that do (dot_general, conv_general_dilated), or "
                f"let it compute by itself: on_unit(..., allow=({name!r},))"
            )
        unsuitable = _unsuitable(name, operands)
        if unsuitable and not allowed:
            raise EscapeError(unsuitable)
        if unsuitable or refused or not _multiplies(equation):
            result = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(parameters))
            results = result if equation.primitive.multiple_results else [result]
        elif name in _REPLACED:
            result = _REPLACED[name](unit.layers.numerics(within.scopes), *operands, seed=unit.seed, **parameters)
            results = [result.astype(equation.outvars[0].aval.dtype)]
        elif name in _CONTAINERS:
            results = _CONTAINERS[name](within, parameters, operands)
        else:
            raise EscapeError(f"{name} contains products in a way that is not known here")
        values |= zip(equation.outvars, results, strict=True)
    return [value_of(atom) for atom in jaxpr.outvars]


def _is_refused(equation: Any) -> bool:
    """Whether an operation may multiply matrices in a way of its own."""
    name = equation.primitive.name
    return name in _REFUSED or not (name in _named() or _KNOWN.fullmatch(name) or _is_plain(equation))


def _is_plain(equation: Any) -> bool:
    """Whether XLA makes neither products nor calls of anything else of an operation that is not known here."""
    parameters = equation.primitive.get_bind_params(equation.params)
    alone = jax.jit(lambda *values: equation.primitive.bind(*values, **parameters))
    try:
        text = alone.lower(*(atom.aval for atom in equation.invars)).as_text()
    except Exception:  # it may need anything around it
        return False
    return not re.search(r"custom_call|dot|convolution|fft|cholesky|triangular_solve", text)


@lru_cache(maxsize=1)
def _named() -> frozenset[str]:
    """Return the operations that JAX names in public, and those that are replayed here."""
    public = (primitive.name for primitive in vars(primitives).values() if isinstance(primitive, Primitive))
    return frozenset((*public, *_REPLACED, *_CONTAINERS))


def _unsuitable(name: str, operands: Sequence[Any]) -> str | None:
    """Return the reason why the unit cannot take these arrays, if there is one."""
    types = {operand.dtype.name for operand in operands[:2]} if name in _REPLACED else set()
    if types <= set(TYPES):
        return None
    return f"{name} must have arrays of {', '.join(TYPES)} to multiply on the unit, not of {', '.join(sorted(types))}"


def _multiplies(equation: Any) -> bool:
    """Whether an operation is a product, or contains one or a refused operation."""
    return equation.primitive.name in _REPLACED or any(
        _multiplies(inner) or _is_refused(inner) for jaxpr in _contents(equation.params) for inner in jaxpr.eqns
    )


def _contents(parameters: Mapping[str, Any]) -> list[Jaxpr]:
    """Return the functions that an operation contains."""
    values = ([*value] if isinstance(value, (tuple, list)) else [value] for value in parameters.values())
    functions = [each for content in values for each in content if isinstance(each, (ClosedJaxpr, Jaxpr))]
    return [each.jaxpr if isinstance(each, ClosedJaxpr) else each for each in functions]


def _play_closed(unit: _Unit, closed: Any, inputs: Sequence[Any]) -> list[Any]:
    if isinstance(closed, Jaxpr):
        return _play(unit, closed, (), inputs)
    return _play(unit, closed.jaxpr, closed.consts, inputs)


def _call(key: str) -> Callable[..., list[Any]]:
    return lambda unit, parameters, inputs: _play_closed(unit, parameters[key], inputs)


def _with_own_rule(key: str) -> Callable[..., list[Any]]:
    """Return a function that replays an operation with derivatives of its own, and refuses to differentiate it."""

    # A trace holds such an operation only if nothing differentiated it: `grad` inside the trace has put its own rule in
    # its place already. So its body may be played as it is; the rule would be lost only to a `grad` outside, which the
    # wrapper refuses.
    def play(unit: _Unit, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        function = jax.custom_jvp(lambda *values: tuple(_play_closed(unit, parameters[key], values)))

        def refuse(_primals: Any, _tangents: Any) -> Any:
            raise EscapeError(
                "a function with derivatives of its own must be differentiated before it goes on the unit: "
                "on_unit(jax.grad(...))"
            )

        function.defjvp(refuse)
        return list(function(*inputs))

    return play


def _remat(unit: _Unit, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    options = {name: parameters[name] for name in ("prevent_cse", "policy")}
    return jax.checkpoint(lambda *values: _play_closed(unit, parameters["jaxpr"], values), **options)(*inputs)


def _scan(unit: _Unit, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    constants, carried = parameters["num_consts"], parameters["num_carry"]
    kept, start, items = inputs[:constants], inputs[constants : constants + carried], inputs[constants + carried :]

    def step(state: list[Any], item: list[Any]) -> tuple[list[Any], list[Any]]:
        outputs = _play_closed(unit, parameters["jaxpr"], [*kept, *state, *item])
        return outputs[:carried], outputs[carried:]

    options = {name: parameters[name] for name in ("length", "reverse", "unroll")}
    last, outputs = jax.lax.scan(step, list(start), list(items), **options)
    return [*last, *outputs]


def _while(unit: _Unit, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    first, second = parameters["cond_nconsts"], parameters["body_nconsts"]
    of_condition, of_body, start = inputs[:first], inputs[first : first + second], inputs[first + second :]

    def goes_on(state: list[Any]) -> Any:
        return _play_closed(unit, parameters["cond_jaxpr"], [*of_condition, *state])[0]

    def step(state: list[Any]) -> list[Any]:
        return _play_closed(unit, parameters["body_jaxpr"], [*of_body, *state])

    return list(jax.lax.while_loop(goes_on, step, list(start)))


def _cond(unit: _Unit, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    branches = [lambda *values, branch=branch: _play_closed(unit, branch, values) for branch in parameters["branches"]]
    return list(jax.lax.switch(inputs[0], branches, *inputs[1:]))


def _shard_map(unit: _Unit, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    manual = parameters.get("newly_manual_axes", parameters.get("manual_axes"))  # as it was called before 0.10.2
    options = {name: parameters[name] for name in ("mesh", "in_specs", "out_specs", "check_vma")}

    def play(*values: Any) -> tuple[Any, ...]:
        return tuple(_play_closed(unit, parameters["jaxpr"], values))

    return list(jax.shard_map(play, axis_names=manual, **options)(*inputs))


_CONTAINERS: Mapping[str, Callable[..., list[Any]]] = {
    **{name: _call("jaxpr") for name in ("jit", "pjit")},
    **{name: _call("call_jaxpr") for name in ("closed_call", "core_call")},
    **{name: _with_own_rule("call_jaxpr") for name in ("custom_jvp_call", "custom_vjp_call")},
    **dict.fromkeys(("remat", "remat2", "checkpoint"), _remat),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "shard_map": _shard_map,
}
"""Functions that replay operations which contain others."""


def _dot_general(numerics: Numerics, a: Any, b: Any, *, seed: Any, dimension_numbers: Any, **_options: Any) -> Any:
    """Compute any product of two arrays, with its dimensions in the order (batch, free, contracted, free)."""
    (contracted_a, contracted_b), (batch_a, batch_b) = dimension_numbers
    free_a, free_b = (
        [axis for axis in range(array.ndim) if axis not in (*contracted, *batch)]
        for array, contracted, batch in ((a, contracted_a, batch_a), (b, contracted_b, batch_b))
    )
    left, right = a.transpose(*batch_a, *free_a, *contracted_a), b.transpose(*batch_b, *contracted_b, *free_b)
    batch, m, n = ([array.shape[axis] for axis in places] for array, places in ((a, batch_a), (a, free_a), (b, free_b)))
    k = math.prod(a.shape[axis] for axis in contracted_a)
    result = multiply(
        numerics,
        left.reshape(math.prod(batch), math.prod(m), k),
        right.reshape(math.prod(batch), k, math.prod(n)),
        seed,
    )
    return result.reshape(*batch, *m, *n)


def _ragged_dot_general(
    numerics: Numerics,
    a: Any,
    b: Any,
    sizes: Any,
    *,
    seed: Any,
    ragged_dot_dimension_numbers: Any,
    group_offset: Any,
    **_options: Any,
) -> Any:
    """Compute products of groups of a dimension, whose sizes may differ along the dimensions before it."""
    numbers = ragged_dot_dimension_numbers
    (sums_a, sums_b), (batch_a, batch_b) = numbers.dot_dimension_numbers
    (ragged,), groups = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    if group_offset is not None:
        raise NotImplementedError("group_offset must be None, as for JAX itself")
    if ragged in batch_a:  # a group of whole products
        return _dot_general(numerics, a, b, seed=seed, dimension_numbers=numbers.dot_dimension_numbers)
    free_a = [index for index in range(a.ndim) if index not in (*sums_a, *batch_a)]
    free_b = [index for index in range(b.ndim) if index not in (*sums_b, *batch_b, *groups)]
    inner = ragged in sums_a
    along = list(sums_a if inner else free_a)
    index = along.index(ragged)
    if inner and index:
        raise EscapeError("ragged_dot_general must have its ragged dimension first of those that it sums over")
    batch, outer, m, n = (
        [array.shape[at] for at in places]
        for array, places in ((a, batch_a), (a, along[:index]), (a, free_a[index:]), (b, free_b))
    )
    k, within = (math.prod(a.shape[at] for at in places) for places in (sums_a, along[index + 1 :]))
    stack, count = math.prod((*batch, *outer)), sizes.shape[-1]
    left = a.transpose(*batch_a, *free_a, *sums_a).reshape(stack, math.prod(m), k)
    right = b.transpose(*batch_b, *groups, *sums_b, *free_b)
    right = right.reshape(math.prod(batch), 1, *[count] * len(groups), k, math.prod(n))
    right = jnp.broadcast_to(right, (math.prod(batch), math.prod(outer), *right.shape[2:]))
    sizes = jnp.broadcast_to(sizes, (*batch, *outer, count)).reshape(stack, count) * within
    result = multiply_groups(numerics, left, right.reshape(stack, *right.shape[2:]), sizes, seed, inner=inner)
    if inner:
        return jnp.moveaxis(result.reshape(*batch, count, *m, *n), len(batch), 0)
    return result.reshape(*batch, *outer, *m, *n)


def _convolution(
    numerics: Numerics,
    image: Any,
    kernel: Any,
    *,
    seed: Any,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_options: Any,
) -> Any:
    """Compute any convolution, as products of weights and patches: sums over channels and, within each, taps."""
    image, kernel = image.transpose(dimension_numbers.lhs_spec), kernel.transpose(dimension_numbers.rhs_spec)
    spread = [(0, 0, 0), (0, 0, 0), *((*pair, step - 1) for pair, step in zip(padding, lhs_dilation, strict=True))]
    padded = jax.lax.pad(image, jnp.zeros((), image.dtype), spread)
    groups = feature_group_count * batch_group_count
    patches, places = _patches(padded, kernel.shape[2:], window_strides, rhs_dilation)
    # Groups are of channels or of images; only one of them is more than one.
    count, channels = image.shape[0] // batch_group_count, image.shape[1] // feature_group_count
    inner, size = channels * math.prod(kernel.shape[2:]), math.prod(places)
    by_group = patches.reshape(batch_group_count, count, feature_group_count, inner, size)
    activations = by_group.transpose(0, 2, 3, 1, 4).reshape(groups, inner, count * size)
    weights = kernel.reshape(groups, kernel.shape[0] // groups, inner)
    product = multiply(numerics.swapped(), weights, activations, seed)
    result = product.reshape(kernel.shape[0], count, *places).swapaxes(0, 1)
    back = [dimension_numbers.out_spec.index(axis) for axis in range(result.ndim)]
    return result.transpose(back)


def _patches(
    image: Any, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[Any, tuple[int, ...]]:
    """Return (N, C, *kernel, *places) of (N, C, *image), and the number of places along each dimension."""
    places = []
    for axis, (taps, stride, step) in enumerate(zip(kernel, strides, dilation, strict=True)):
        size = image.shape[2 + 2 * axis]
        places.append(max(0, (size - step * (taps - 1) - 1) // stride + 1))
        at = jnp.arange(taps)[:, None] * step + jnp.arange(places[-1])[None] * stride
        image = jnp.take(image, at, axis=2 + 2 * axis, mode="clip")
    order = itertools.chain(range(2, image.ndim, 2), range(3, image.ndim, 2))
    return image.transpose(0, 1, *order), tuple(places)


_REPLACED: Mapping[str, Callable[..., Any]] = {
    "dot_general": _dot_general,
    "ragged_dot_general": _ragged_dot_general,
    "conv_general_dilated": _convolution,
}
"""Operations that the unit computes."""
