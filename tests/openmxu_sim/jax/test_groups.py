"""Products of groups: on small integers XLA is the oracle, for bits it is golden, group by group."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make setup-models")

import jax.numpy as jnp  # noqa: E402  # needs JAX

import openmxu_sim.jax as mxu  # noqa: E402
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.operands import vectors  # noqa: E402

from ...bits import same_bits  # noqa: E402
from ...conftest import slow  # noqa: E402
from .arrays import agree, integers  # noqa: E402

Function = Callable[..., Any]
_integers = partial(integers, most=4)


def _general(sums: Any, batches: Any, ragged: int, groups: tuple[int, ...]) -> Function:
    numbers = jax.lax.RaggedDotDimensionNumbers((sums, batches), [ragged], groups)
    return partial(jax.lax.ragged_dot_general, ragged_dot_dimension_numbers=numbers)


CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...], Any]] = {
    "rows": (jax.lax.ragged_dot, (9, 4), (3, 4, 5), [2, 0, 5]),  # two rows are in no group
    "all in one": (jax.lax.ragged_dot, (9, 4), (3, 4, 5), [0, 9, 0]),
    "more than there are": (jax.lax.ragged_dot, (9, 4), (3, 4, 5), [4, 8, 2]),
    "inner": (_general(([0], [0]), ([], []), 0, ()), (9, 4), (9, 5), [2, 0, 6]),
    "inner and more": (_general(([1, 0], [1, 2]), ([], []), 1, ()), (2, 9, 4), (5, 9, 2), [2, 0, 6]),
    "stack": (_general(([2], [1]), ([0], [0]), 0, ()), (3, 2, 4), (3, 4, 5), [1, 2]),
    "stack of rows": (_general(([3], [2]), ([1], [0]), 0, (1,)), (6, 2, 3, 4), (2, 3, 4, 5), [[1, 2, 3], [0, 4, 2]]),
    "rows and others": (_general(([2], [1]), ([], []), 1, (2,)), (2, 6, 4), (5, 4, 3), [[1, 2, 3], [3, 0, 2]]),
}


def _operands(name: str) -> tuple[Function, Any, Any, Any]:
    function, left, right, sizes = CASES[name]
    return function, _integers(*left), _integers(*right), jnp.array(sizes)


@pytest.mark.parametrize("name", CASES)
def test_groups(name: str) -> None:
    function, a, b, sizes = _operands(name)
    expected = function(a, b, sizes)
    for transform in (lambda f: f, jax.jit):
        agree(transform(mxu.on_unit(function))(a, b, sizes), expected)


WHOLE = {"rows": "gm,mk,gkn->mn", "inner": "gk,km,kn->gmn", "rows and others": "xgm,xmk,nkg->xmn"}
"""The same of whole arrays and of which element is in which group: JAX has no second and no forward derivatives."""


@pytest.mark.parametrize("name", ["rows", slow("inner"), slow("rows and others")])
def test_derivatives(name: str) -> None:
    function, a, b, sizes = _operands(name)
    ends, places = jnp.cumsum(sizes, -1)[..., None], jnp.arange(a.shape[name == "rows and others"])
    belongs = ((places < ends) & (places >= ends - sizes[..., None])).astype(jnp.float32)

    def whole(a: Any, b: Any, _sizes: Any) -> Any:
        return jnp.einsum(WHOLE[name], belongs, a, b)

    result = function(a, b, sizes)
    agree(whole(a, b, sizes), result)
    scale = jnp.arange(result.size).reshape(result.shape) % 5 - 2.0
    on_unit = partial(mxu.on_unit, operand="fp32")

    def weighted(multiply: Function) -> Function:
        return lambda a, b: (multiply(a, b, sizes) * scale).sum()

    def twice(multiply: Function) -> Function:
        inner = jax.grad(weighted(multiply))
        return jax.grad(lambda a, b: (inner(a, b) * a).sum(), (0, 1))

    def forward(multiply: Function) -> Function:
        return lambda a, b: jax.jvp(weighted(multiply), (a, b), (b.sum() + a, b))

    for derive in (lambda multiply: jax.grad(weighted(multiply), (0, 1)), twice, forward):
        agree(jax.jit(derive(on_unit(function)))(a, b), derive(whole)(a, b))
    if name == "rows":
        derive = jax.grad(weighted(function), (0, 1))
        agree(on_unit(derive)(a, b), derive(a, b))


def _random(*shape: int, seed: int) -> np.ndarray:
    return golden.from_bits(vectors.matrix((int(np.prod(shape[:-1])), shape[-1]), "fp32", seed)).reshape(shape)


@pytest.mark.parametrize("precision", ["default", "high"])
def test_bits(precision: str) -> None:
    """Each group is a product by itself, whose tiles begin with it, forward and for the gradients."""
    options = {"rows": 3, "precision": precision}
    a, b, scale = _random(12, 7, seed=1), _random(3, 7, 5, seed=2), _random(12, 5, seed=3)
    multiply = mxu.on_unit(lambda a, b: jax.lax.ragged_dot(a, b, jnp.array([4, 0, 7])), **options)
    result, derive = jax.vjp(multiply, jnp.asarray(a), jnp.asarray(b))
    result, of_a, of_b = map(np.asarray, (result, *derive(jnp.asarray(scale))))
    for group, rows in ((0, slice(0, 4)), (2, slice(4, 11))):
        same_bits(result[rows], golden.matmul(a[rows], b[group], **options))
        same_bits(of_a[rows], golden.matmul(scale[rows], b[group].T, **options))
        same_bits(of_b[group], golden.matmul(a[rows].T, scale[rows], **options))
    for rest in (result[11:], of_a[11:], of_b[1]):
        assert not rest.any()


@pytest.mark.parametrize("axes", [(0, None, None), (None, 1, 0), (1, 2, None), (0, 0, 0)])
def test_vmap(axes: tuple[int | None, ...]) -> None:
    operands = (_integers(6, 4), _integers(2, 4, 5), jnp.array([1, 4]))
    given = [
        each if axis is None else jnp.stack([each, each - 1, each + 1], axis)
        for each, axis in zip(operands, axes, strict=True)
    ]
    found = jax.jit(jax.vmap(mxu.on_unit(jax.lax.ragged_dot), axes))(*given)
    for at, one in enumerate(found):
        each = [x if axis is None else jnp.take(x, at, axis) for x, axis in zip(given, axes, strict=True)]
        agree(one, jax.lax.ragged_dot(*each))
    if set(axes) == {0}:  # JAX has no other
        agree(mxu.on_unit(jax.vmap(jax.lax.ragged_dot))(*given), found)


def test_types() -> None:
    """Operands enter exactly, results are rounded to the type that JAX gives them."""
    a, b = _integers(6, 4).astype(jnp.bfloat16), _integers(2, 4, 5).astype(jnp.bfloat16)
    for preferred in (None, jnp.float32):
        multiply = partial(jax.lax.ragged_dot, preferred_element_type=preferred)
        found = mxu.on_unit(multiply)(a, b, jnp.array([1, 4]))
        assert found.dtype == (preferred or jnp.bfloat16)
        agree(found, multiply(a, b, jnp.array([1, 4])))


@pytest.mark.parametrize("shapes", [((0, 4), (2, 4, 5)), ((6, 0), (2, 0, 5)), ((6, 4), (2, 4, 0))])
def test_nothing_to_multiply(shapes: Any) -> None:
    a, b = (jnp.ones(shape) for shape in shapes)
    assert (mxu.on_unit(jax.lax.ragged_dot)(a, b, jnp.array([1, 4])) == jnp.zeros((len(a), b.shape[2]))).all()


def test_what_is_refused() -> None:
    multiply = _general(([1, 0], [1, 2]), ([], []), 0, ())
    with pytest.raises(mxu.EscapeError, match="must have its ragged dimension first of those that it sums over"):
        mxu.on_unit(multiply)(_integers(2, 9, 4), _integers(5, 9, 2), jnp.ones((9, 2), int))
    integers = (jnp.ones((6, 4), int), jnp.ones((2, 4, 5), int), jnp.array([1, 4]))
    with pytest.raises(mxu.EscapeError, match=r"ragged_dot_general must have arrays of .* not of int32"):
        mxu.on_unit(jax.lax.ragged_dot)(*integers)
    assert (mxu.on_unit(jax.lax.ragged_dot, strict=False)(*integers)[:5] == 4).all()
