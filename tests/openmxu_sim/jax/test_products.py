"""Products as an operation of JAX: its transformations, and which way XLA's program computes them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make setup-models")

import jax.numpy as jnp  # noqa: E402  # needs JAX

import openmxu_sim.jax as mxu  # noqa: E402
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.engines import model  # noqa: E402
from openmxu_sim.jax import primitives  # noqa: E402
from openmxu_sim.networks.numerics import Numerics  # noqa: E402
from openmxu_sim.operands import vectors  # noqa: E402
from openmxu_sim.product import to_stacks  # noqa: E402

from ...bits import matrices, same_bits  # noqa: E402
from .test_foreign import needs_handler  # noqa: E402


def _stacks(count: int, m: int, k: int, n: int) -> list[np.ndarray]:
    return list(map(np.stack, zip(*(matrices(m, k, n, seed=2 * at) for at in range(count)), strict=True)))


def _golden(a: np.ndarray, b: np.ndarray, **options: Any) -> np.ndarray:
    return np.stack([golden.matmul(*each, **options) for each in zip(a, b, strict=True)])


def _calls(function: Callable[..., Any], *inputs: Any) -> tuple[bool, bool]:
    text = jax.jit(function).lower(*inputs).as_text()
    return "@openmxu_products_" in text, "xla_ffi_python_cpu_callback" in text


def test_many_sizes() -> None:
    for m, k, n, rows in ((1, 1, 1, 1), (3, 7, 2, 128), (2, 300, 3, 128), (4, 40, 5, 3), (1, 130, 33, 64)):
        a, b = matrices(m, k, n, seed=k)
        same_bits(mxu.matmul(a, b, rows=rows), golden.matmul(a, b, rows=rows))


@pytest.mark.parametrize("precision", ["high", "highest", "exact9"])
def test_parts_of_activations_and_weights(precision: str) -> None:
    """Passes are in another order where operands change sides: these are operands whose results show it."""
    a, b = matrices(32, 64, 32, kind="normal")
    multiply = partial(golden.matmul, rows=4, precision=precision)
    expected = multiply(a, b)
    assert (golden.to_bits(multiply(b.T, a.T).T) != golden.to_bits(expected)).any()
    same_bits(jax.jit(partial(mxu.matmul, rows=4, precision=precision))(a, b), expected)


def test_derivatives_and_what_is_not_compiled() -> None:
    a, b = matrices(5, 6, 7)
    scale = golden.from_bits(vectors.matrix((5, 7), "fp32", 3))
    gradient = jax.jit(jax.vjp(partial(mxu.matmul, rows=4), a, b)[1])
    for found, pair in zip(gradient(scale), ((scale, b.T), (a.T, scale)), strict=True):
        same_bits(found, golden.matmul(*pair, rows=4))
    with jax.disable_jit():
        same_bits(mxu.matmul(a, b, rows=4), golden.matmul(a, b, rows=4))


def _check_vmap(multiply: Any, by_golden: Any, axes: Any, count: int, stacks: list[np.ndarray]) -> None:
    """The first so many of stacks along some axes, or the first one alone for all the other's."""
    pairs = list(zip(stacks, axes, strict=True))
    given = [stack[0] if axis is None else np.moveaxis(stack[:count], 0, axis) for stack, axis in pairs]
    left, right = (stack[[0] * count] if axis is None else stack[:count] for stack, axis in pairs)
    found = jax.jit(jax.vmap(multiply, axes))(*given)
    assert found.shape == (*left.shape[:-1], right.shape[-1])
    for got, *pair in zip(np.asarray(found), left, right, strict=True):
        same_bits(got, by_golden(*pair, rows=4))


@pytest.mark.parametrize("axes", [(0, None), (2, None), (None, 0), (None, 1), (0, 0), (1, 2)])
@pytest.mark.parametrize("count", [0, 4])
def test_vmap(axes: tuple[int | None, int | None], count: int) -> None:
    _check_vmap(partial(mxu.matmul, rows=4), golden.matmul, axes, count, _stacks(max(count, 1), 3, 5, 4))


def test_vmap_of_stacks() -> None:
    a, b = _stacks(6, 3, 5, 4)
    expected = _golden(a, b, rows=4)
    shaped = a.reshape(3, 1, 2, 3, 5), b.reshape(3, 1, 2, 5, 4)
    twice = jax.vmap(jax.vmap(partial(mxu.matmul, rows=4)))
    same_bits(twice(*shaped).reshape(expected.shape), expected)
    shared = jax.vmap(partial(mxu.matmul, rows=4), (0, None))(a.reshape(3, 2, 3, 5), b[:2])
    same_bits(shared, np.stack([_golden(each, b[:2], rows=4) for each in a.reshape(3, 2, 3, 5)]))


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("shared", [None, "a", "b"])
def test_a_batch_along_any_dimension(place: int, shared: str | None) -> None:
    """`multiply` puts it first; the operation below takes it anywhere."""
    stacks = [each.reshape(3, 2, *each.shape[1:]) for each in _stacks(6, 3, 5, 4)]
    axes = tuple(None if shared == name else place for name in ("a", "b"))
    _check_vmap(partial(primitives._bind, Numerics(rows=4)), _golden, axes, 3, stacks)


def test_control_flow() -> None:
    multiply = partial(mxu.matmul, rows=4)
    w, x = matrices(6, 6, 6, kind="normal")[0] / 4, matrices(6, 6, 6, kind="normal", seed=5)[0]

    def flow(x: Any, w: Any) -> Any:
        x = jax.lax.scan(lambda c, _: (multiply(c, w), None), x, length=2)[0]
        x = jax.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, multiply(s[1], w)), (0, x))[1]
        return jax.lax.cond(x[0, 0] == x[0, 0], multiply, lambda v, _: v, x, w)

    found = jax.jit(flow)(x, w)
    for _ in range(5):
        x = golden.matmul(x, w, rows=4)
    same_bits(found, x)


def test_one_program_outside_of_jit(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    monkeypatch.setattr(primitives, "to_stacks", lambda *given, **how: traced.append(given) or to_stacks(*given, **how))
    for seed in (1, 3):
        a, b = matrices(6, 5, 8, seed=seed)
        same_bits(mxu.matmul(a, b, rows=5), golden.matmul(a, b, rows=5))
    assert len(traced) == 1


def test_donated_operands() -> None:
    a, b = _stacks(3, 40, 40, 40)
    for donated in (0, 1):
        multiply = jax.jit(partial(mxu.matmul, rows=4), donate_argnums=donated)
        same_bits(multiply(jnp.array(a), jnp.array(b)), _golden(a, b, rows=4))


@needs_handler
def test_large_products_go_through_python() -> None:
    """They are computed in parts, by threads; so are products that are many only because of vmap."""
    described = partial(jax.ShapeDtypeStruct, dtype=np.float32)
    small, large = ([described((1 << bits, 1 << 10)), described((1 << 10, 1 << 8))] for bits in (8, 9))
    assert model.TASK == 1 << 26
    assert _calls(mxu.matmul, *small) == (True, False)
    assert _calls(partial(mxu.matmul, precision="high"), *small) == (False, True)
    assert _calls(mxu.matmul, *large) == (False, True)
    many, one = described((1 << 9, 64, 64)), described((64, 64))
    assert _calls(jax.vmap(mxu.matmul, (0, 0)), many, many) == (False, True)
    assert _calls(jax.vmap(mxu.matmul, (0, None)), many, one) == (False, True)


@needs_handler
def test_other_platforms_go_through_python() -> None:
    """There is none here, so that JAX cannot make their call of the host: in its own words, on the way to one."""
    program = jax.jit(mxu.matmul).trace(*matrices(5, 6, 7))
    assert "@openmxu_products_" in program.lower(lowering_platforms=("cpu",)).as_text()
    for platform in ("cuda", "tpu"):
        with pytest.raises(ValueError, match=f"backend cpu is different from the lowering platform {platform}"):
            program.lower(lowering_platforms=(platform,))


ROLES = {"operand": "fp8_e4m3/row", "weight": "e5f9", "gradient": "fp8_e5m2"}


@pytest.mark.parametrize("way", ["matmul", "jit", "on_unit", "stacks"])
def test_roles(way: str) -> None:
    """Gradients have a format of their own, whichever operand they meet; scaled operands go through Python."""
    x, w = matrices(6, 9, 7, kind="normal")
    g = matrices(6, 7, 1, kind="normal", seed=5)[0]

    def multiply(a: Any, b: Any) -> Any:
        return mxu.matmul(a, b, **ROLES)

    if way == "jit":
        multiply = jax.jit(multiply)
    if way == "on_unit":
        multiply = mxu.on_unit(lambda a, b: a @ b, **ROLES)
    if way == "stacks":
        x, w, g = (np.stack([each, 2 * each]) for each in (x, w, g))
    y, back = jax.vjp(multiply, x, w)
    stacks = (np.asarray(each).reshape(-1, *each.shape[-2:]) for each in (x, w, g, y, *back(jnp.asarray(g))))
    for left, right, gradient, product, to_x, to_w in zip(*stacks, strict=True):
        same_bits(product, golden.matmul(left, right, rows=128, operand=ROLES["operand"], weight="e5f9"))
        same_bits(to_x, golden.matmul(gradient, right.T, rows=128, operand="fp8_e5m2", weight="e5f9"))
        same_bits(to_w, golden.matmul(left.T, gradient, rows=128, operand=ROLES["operand"], weight="fp8_e5m2"))


def test_layers_by_scopes() -> None:
    x, w = matrices(6, 9, 9, kind="normal")

    def network(a: Any, b: Any) -> Any:
        with jax.named_scope("body"):
            a = a @ b
        with jax.named_scope("head"):
            return a @ b

    with pytest.warns(UserWarning, match=r"no name has matched these patterns of layers: \['feet'\]"):
        mxu.on_unit(network, layers={"head": "fp16", "feet": "fp32"})(x, w)
    layers = {"head": "fp16"}
    inner = golden.matmul(x, w, rows=128, operand="fp8_e4m3")
    expected = golden.matmul(inner, w, rows=128, operand="fp16")
    on_unit = mxu.on_unit(network, operand="fp8_e4m3", layers=layers)
    same_bits(on_unit(x, w), expected)
    same_bits(jax.jit(on_unit)(x, w), expected)
    gradient = mxu.on_unit(jax.grad(lambda a, b: network(a, b).sum()), operand="fp8_e4m3", layers=layers)
    of_head = golden.matmul(np.ones((6, 9), np.float32), w.T.copy(), rows=128, operand="fp16")
    same_bits(gradient(x, w), golden.matmul(of_head, w.T.copy(), rows=128, operand="fp8_e4m3"))


def test_convolutions_have_roles() -> None:
    """Of 1x1: weights come first in the product, and keep their format."""
    x, w = matrices(6, 9, 7, kind="normal")
    image, kernel = x.T.reshape(1, 9, 2, 3).copy(), w.T.reshape(7, 9, 1, 1).copy()

    convolve = partial(jax.lax.conv, window_strides=(1, 1), padding="VALID")
    options = {"operand": "fp8_e4m3", "weight": "e5f9"}
    result = np.asarray(mxu.on_unit(convolve, **options)(image, kernel)).reshape(7, 6).T
    same_bits(result, golden.matmul(x, w, rows=128, **options))


def test_the_products_own_numerics() -> None:
    """Random rounding is part of the program; and within a function on the unit a product has its own format."""
    x, w = matrices(6, 9, 7, kind="normal")
    options = {"operand": "bf16/stochastic", "accumulate": "bf16/stochastic", "seed": 3}
    same_bits(mxu.matmul(x, w, **options), golden.matmul(x, w, rows=128, **options))
    a, b = matrices(5, 6, 7)
    found = mxu.on_unit(partial(mxu.matmul, operand="fp8_e5m2", rows=4), operand="bf16")(a, b)
    same_bits(found, golden.matmul(a, b, operand="fp8_e5m2", rows=4))


@pytest.mark.parametrize("within", ["jit", "scan", "cond", "checkpoint", "fori"])
def test_scopes_around_what_has_operations_of_its_own(within: str) -> None:
    x, w = matrices(6, 6, 6, kind="normal")
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "jit": jax.jit(lambda a, b: a @ b),
        "scan": lambda a, b: jax.lax.scan(lambda state, _: (state @ b, None), a, None, length=1)[0],
        "cond": lambda a, b: jax.lax.cond(a.shape[0] > 1, lambda c: c @ b, lambda c: c, a),
        "checkpoint": jax.checkpoint(lambda a, b: a @ b),
        "fori": lambda a, b: jax.lax.fori_loop(0, 1, lambda _, state: state @ b, a),
    }

    def network(a: Any, b: Any) -> Any:
        with jax.named_scope("cell"):
            return ways[within](a, b)

    result = mxu.on_unit(network, operand="fp16", layers={"cell": "fp8_e4m3"})(x, w)
    same_bits(result, golden.matmul(x, w, rows=128, operand="fp8_e4m3"))


_RANDOM = {"operand": "bf16/stochastic", "accumulate": "bf16/stochastic", "rows": 4}
_SEEDS = [0, 7, 2**31, 2**32 - 1]


def _on_unit(a: Any, b: Any, seed: Any) -> Any:
    return mxu.on_unit(lambda x, y: x @ y, **_RANDOM, seed=seed)(a, b)


@pytest.mark.parametrize("multiply", [lambda a, b, seed: mxu.matmul(a, b, **_RANDOM, seed=seed), _on_unit])
def test_a_traced_seed(multiply: Callable[..., Any]) -> None:
    """One program: each call, each step of a scan and each member of a batch draws the words of its own seed."""
    a, b = matrices(6, 9, 7, kind="normal")
    expected = [golden.matmul(a, b, **_RANDOM, seed=seed) for seed in _SEEDS]
    assert len({each.tobytes() for each in expected}) == len(_SEEDS)
    compiled, seeds = jax.jit(multiply), jnp.array(_SEEDS, jnp.uint32)
    for seed, right in zip(seeds, expected, strict=True):
        same_bits(compiled(a, b, seed), right)
        same_bits(multiply(a, b, seed), right)
    same_bits(compiled(a, b, jnp.int32(-1)), expected[-1], note="counters of steps are int32")
    scanned = jax.jit(lambda items: jax.lax.scan(lambda carry, seed: (carry, multiply(a, b, seed)), 0, items)[1])
    same_bits(scanned(seeds), np.stack(expected))
    same_bits(jax.vmap(multiply, (None, None, 0))(a, b, seeds), np.stack(expected))
    shifted = jnp.stack([a, 2 * a]), jnp.stack([b, 4 * b], axis=2), seeds[1:3]
    found = jax.jit(jax.vmap(multiply, (0, 2, 0)))(*shifted)
    same_bits(found, np.stack([expected[1], golden.matmul(2 * a, 4 * b, **_RANDOM, seed=_SEEDS[2])]))


def _sharded(x: Any, y: Any) -> Any:
    rows, whole = jax.sharding.PartitionSpec("i"), jax.sharding.PartitionSpec()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    return jax.shard_map(jnp.matmul, mesh=mesh, in_specs=(rows, whole), out_specs=rows)(x, y)


_with_a_rule = jax.custom_jvp(lambda x, y: x @ y)
_with_a_rule.defjvp(lambda values, tangents: (_with_a_rule(*values), tangents[0] @ values[1]))


@pytest.mark.parametrize(
    "inside",
    {
        "jit": jax.jit(jnp.matmul),
        "checkpoint": jax.checkpoint(jnp.matmul),
        "scan": lambda x, y: jax.lax.scan(lambda state, _: (state @ y, None), x, None, length=1)[0],
        "cond": lambda x, y: jax.lax.cond(x[0, 0] == x[0, 0], lambda z: z @ y, lambda z: z, x),
        "custom_jvp": _with_a_rule,
        "ragged": lambda x, y: jax.lax.ragged_dot(x, y[None], jnp.array([len(x)])),
        "convolution": lambda x, y: jax.lax.conv(y[None], x[..., None], (1,), "VALID")[0],
        "shard_map": _sharded,
    }.items(),
    ids=lambda item: item[0],
)
def test_a_traced_seed_reaches_every_product(inside: tuple[str, Callable[..., Any]]) -> None:
    """Also those of derivatives, in which gradients have their own format where the unit is differentiated."""
    (name, network), (a, b) = inside, matrices(6, 6, 6, kind="normal")
    how, g = {**_RANDOM, "subnormals": "ieee"}, matrices(6, 6, 1, kind="normal", seed=5)[0]
    compiled = jax.jit(lambda a, b, seed: mxu.on_unit(network, **how, seed=seed)(a, b))
    differentiated = jax.jit(
        lambda a, b, seed: jax.vjp(mxu.on_unit(network, **how, gradient="fp16/stochastic", seed=seed), a, b)[1](g)
    )
    seeds = 3, 2**32 - 2
    batch = jax.vmap(compiled, (None, None, 0))(a, b, jnp.array(seeds, jnp.uint32))
    for seed, one in zip(seeds, batch, strict=True):
        expected = golden.matmul(a, b, **how, seed=seed)
        same_bits(compiled(a, b, np.uint32(seed)), expected)
        same_bits(one, expected)
        if name not in ("custom_jvp", "convolution"):  # which is refused, and whose operands change places
            of_a, of_b = differentiated(a, b, np.uint32(seed))
            same_bits(
                of_a, golden.matmul(g, b.T, **how | {"operand": "fp16/stochastic", "weight": how["operand"]}, seed=seed)
            )
            same_bits(of_b, golden.matmul(a.T, g, **how, weight="fp16/stochastic", seed=seed))


@pytest.mark.parametrize("seed", [jnp.float32(1), jnp.zeros(2, jnp.uint32), -1, 2**32, 1.0, "1", None])
def test_what_is_no_seed(seed: Any) -> None:
    a, b = _stacks(1, 2, 2, 2)
    for multiply in (mxu.matmul, lambda a, b, seed: mxu.on_unit(jnp.matmul, seed=seed)(a, b)):
        with pytest.raises((TypeError, ValueError), match=r"^seed must be an integer"):
            multiply(a, b, seed=seed)
