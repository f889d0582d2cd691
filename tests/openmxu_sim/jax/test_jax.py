"""JAX: on small integers XLA is the oracle, for bits it is golden, product by product and group by group."""

import itertools
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make setup-models")

import jax.numpy as jnp  # noqa: E402  # needs JAX
from jax._src.interpreters import mlir  # noqa: E402
from jax.ad_checkpoint import checkpoint_name  # noqa: E402
from jax.experimental import io_callback, multihost_utils, pallas, sparse  # noqa: E402
from jax.extend.core import Primitive, primitives  # noqa: E402

import openmxu_sim.jax as mxu  # noqa: E402
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.jax.foreign import find_handler  # noqa: E402
from openmxu_sim.jax.interpreter import _KNOWN, _REFUSED, _named  # noqa: E402
from openmxu_sim.jax.primitives import TYPES  # noqa: E402

from ...bits import same_bits  # noqa: E402
from ...conftest import slow  # noqa: E402
from ..networks.programs import patterns, run_python  # noqa: E402
from . import devices  # noqa: E402

Function = Callable[..., Any]
Shape = tuple[int, ...]
EYE = jnp.eye(2)


def integers(*shape: int, seed: int = 0, most: int = 6) -> Any:
    """Products and sums of these are exact in bf16, in any order."""
    return jax.random.randint(jax.random.key(seed + sum(shape)), shape, -most, most + 1).astype(jnp.float32)


def agree(found: Any, expected: Any) -> None:
    """Fail unless arrays, or trees of them, have the same types, shapes and numbers."""
    jax.tree.map(partial(np.testing.assert_array_equal, strict=True), found, expected)


def _weighted(function: Function) -> Function:
    """A number, with a small integer as the derivative of each result."""

    def weighted(*inputs: Any) -> Any:
        result = function(*inputs)
        return (result * (jnp.arange(result.size) % 9 - 4.0).reshape(result.shape)).sum()

    return weighted


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *(((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((3, 5), (5, 4)), ((2, 3, 5), (5, 4))),
        *(((7, 1, 3, 5), (2, 5, 4)), ((0, 5), (5, 4)), ((2, 0), (0, 4))),
    ],
)
def test_matmul(left: Shape, right: Shape) -> None:
    a, b = integers(*left), integers(*right, seed=1)
    for transform in (lambda f: f, jax.jit, lambda f: jax.jit(jax.grad(_weighted(f), (0, 1)))):
        agree(transform(mxu.matmul)(a, b), transform(jnp.matmul)(a, b))


def test_gradients_of_vmap() -> None:
    a, b = integers(2, 3, 5), integers(5, 4)
    agree(*(jax.jit(jax.vmap(jax.grad(_weighted(f), (0, 1)), (0, None)))(a, b) for f in (mxu.matmul, jnp.matmul)))


@pytest.mark.parametrize(
    ("dimensions", "stride", "padding", "spread", "dilation", "features", "batches"),
    [
        slow(1, 1, "VALID", 1, 1, 1, 1),
        slow(1, 3, ((3, 2),), 1, 2, 1, 1),
        slow(2, 2, "SAME", 1, 1, 2, 1),
        (2, 1, ((2, 1), (-1, 2)), 2, 1, 1, 1),
        slow(2, 1, ((0, 0), (1, 1)), 1, 2, 1, 2),
        slow(3, 2, "SAME", 1, 2, 4, 1),
    ],
)
def test_convolutions(
    dimensions: int, stride: int, padding: Any, spread: int, dilation: int, features: int, batches: int
) -> None:
    image = integers(4, 4, *(9, 8, 7)[:dimensions])
    kernel = integers(8, 4 // features, *(3, 2, 2)[:dimensions])
    strides, spreads, dilations = ((each,) * dimensions for each in (stride, spread, dilation))
    groups = {"feature_group_count": features, "batch_group_count": batches}

    steps = {"window_strides": strides, "padding": padding, "lhs_dilation": spreads, "rhs_dilation": dilations}
    convolve = partial(jax.lax.conv_general_dilated, **steps, **groups)
    agree(mxu.on_unit(convolve)(image, kernel), convolve(image, kernel))
    gradient = jax.grad(_weighted(convolve), (0, 1))
    agree(jax.jit(mxu.on_unit(gradient))(image, kernel), gradient(image, kernel))
    agree(jax.grad(_weighted(mxu.on_unit(convolve)), (0, 1))(image, kernel), gradient(image, kernel))


@pytest.mark.parametrize(
    "layout", [slow(("NHWC", "HWIO", "NHWC")), slow(("NCHW", "OIHW", "NHWC")), ("CWNH", "WOHI", "HNWC")]
)
def test_layouts(layout: tuple[str, str, str]) -> None:
    sizes = {"N": 2, "C": 3, "O": 4, "I": 3}, {"H": 6, "W": 7}, {"H": 3, "W": 2}
    inputs = [integers(*((sizes[0] | sizes[1 + at])[each] for each in layout[at])) for at in range(2)]
    convolve = partial(jax.lax.conv_general_dilated, window_strides=(1, 2), padding="SAME", dimension_numbers=layout)
    agree(mxu.on_unit(convolve)(*inputs), convolve(*inputs))


def _flow(w: Any, x: Any) -> Any:
    """Products in a loop, in a branch, in what is computed twice, in a function with derivatives of its own."""

    def step(state: Any, _: Any) -> Any:
        return jnp.clip(state @ w, -3, 3), (state @ w).sum()

    state, found = jax.lax.scan(step, x, jnp.arange(3.0))
    y = jax.nn.relu(state)
    y = jax.lax.cond(y.sum() > 0, lambda v: v @ w, lambda v: v, y)
    y = jax.checkpoint(lambda v: (v @ w) * 2)(y)
    y = jax.jit(lambda v: jnp.einsum("ij,kj->ik", v, w))(y)
    return y.sum() + found.sum()


@pytest.mark.slow
def test_control_flow() -> None:
    w, x = integers(4, 4), integers(2, 4)
    on_unit = partial(mxu.on_unit, operand="fp32")  # sums of sums are too long for bf16
    agree(on_unit(_flow)(w, x), _flow(w, x))
    expected = jax.grad(_flow, (0, 1))(w, x)
    agree(on_unit(jax.grad(_flow, (0, 1)))(w, x), expected)
    agree(jax.jit(on_unit(jax.grad(_flow, (0, 1))))(w, x), expected)
    agree(jax.grad(on_unit(_flow), (0, 1))(w, x), expected)


def test_loops_of_unknown_length() -> None:
    def repeat(w: Any, x: Any) -> Any:
        def goes_on(state: Any) -> Any:
            return (state[1] @ w).sum() + state[0] < 2e3

        return jax.lax.while_loop(goes_on, lambda state: (state[0] + 1e3, jnp.clip(state[1] @ w, -2, 2)), (0.0, x))[1]

    w, x = integers(4, 4), integers(2, 4)
    agree(mxu.on_unit(repeat)(w, x), repeat(w, x))


def test_nothing_goes_past_the_unit() -> None:
    """What XLA would compute of a replayed function has no product of its own; the products are calls of ours."""
    w, x = integers(4, 4), integers(2, 4)
    for function in (_flow, jax.grad(_flow, (0, 1))):
        text = jax.jit(mxu.on_unit(function)).lower(w, x).as_text()
        assert "dot_general" not in text
        assert f"@{find_handler() or 'xla_ffi_python_cpu_callback'}" in text
        assert "dot_general" in jax.jit(function).lower(w, x).as_text()


@pytest.mark.parametrize("operand", ["bf16", "fp16", "fp8_e5m2"])
def test_bits(operand: str, mode: str) -> None:
    """XLA itself loses subnormal numbers, so there are none here; the engine's tests have them."""
    a, b = patterns(5, 11, seed=3), patterns(11, 3, seed=4)
    a, b = (np.where(np.abs(each) < 2.0**-126, np.copysign(1, each), each).astype(np.float32) for each in (a, b))
    options = {"operand": operand, "subnormals": mode, "rows": 4}
    expected = golden.matmul(a, b, **options)
    for found in (mxu.matmul(a, b, **options), mxu.on_unit(lambda x, y: x @ y, **options)(a, b)):
        same_bits(found, expected)


def test_order_of_a_convolution() -> None:
    image, kernel = (np.asarray(jax.random.normal(jax.random.key(1), shape)) for shape in ((2, 3, 5, 6), (4, 3, 2, 3)))
    patches = np.lib.stride_tricks.sliding_window_view(image, (2, 3), (2, 3)).transpose(0, 2, 3, 1, 4, 5)
    expected = golden.matmul(kernel.reshape(4, -1), patches.reshape(2 * 4 * 4, -1).T, rows=4)
    found = mxu.on_unit(lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID"), rows=4)(image, kernel)
    assert (np.asarray(found).transpose(1, 0, 2, 3).reshape(4, -1) == expected).all()


WIDE = partial(jnp.matmul, preferred_element_type=jnp.float32)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_types(dtype: Any) -> None:
    a, b = (jax.random.normal(jax.random.key(at), (4, 4)).astype(dtype) for at in range(2))
    name = {"bfloat16": "bf16", "float16": "fp16"}[np.dtype(dtype).name]
    exact = golden.matmul(np.float32(a), np.float32(b), rows=128, operand=name)
    agree(mxu.on_unit(jnp.matmul, operand=name)(a, b), jnp.asarray(exact).astype(dtype))
    agree(mxu.on_unit(WIDE, operand=name)(a, b), exact)


FLOAT8 = [name for name in TYPES if name.startswith("float8")]


@pytest.mark.parametrize("name", FLOAT8)
def test_float8_enters_exactly(name: str) -> None:
    """All patterns, as ml_dtypes reads them, times one."""
    every = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))[:, None]
    multiply = mxu.on_unit(WIDE, operand="fp32", subnormals="ieee")
    agree(multiply(jnp.asarray(every), jnp.ones((1, 1), every.dtype)), every.astype(np.float32))


@pytest.mark.parametrize("name", [FLOAT8[0], *map(slow, FLOAT8[1:])])
def test_float8_as_xla_computes_it(name: str) -> None:
    a, b = ((integers(*shape) // 4).astype(name) for shape in ((3, 4), (4, 2)))

    def function(x: Any, w: Any) -> Any:
        return WIDE(x, w).sum()

    agree(mxu.on_unit(jnp.matmul)(a, b), a @ b)
    assert mxu.matmul(a, b).dtype == a.dtype
    expected = jax.grad(function, (0, 1))(a, b)
    agree(mxu.on_unit(jax.grad(function, (0, 1)))(a, b), expected)
    agree(jax.grad(mxu.on_unit(function), (0, 1))(a, b), expected)


def test_forward_derivatives() -> None:
    w, x = integers(3, 3), integers(2, 3)

    function, on_unit = lambda w: (x @ w @ w).sum(0), partial(mxu.on_unit, operand="fp32")
    for transform in (jax.hessian, lambda f: lambda v: jax.jvp(f, (v,), (v + 1,))):
        for found in (transform(on_unit(function)), jax.jit(on_unit(transform(function)))):
            agree(found(w), transform(function)(w))
    agree(*[jax.jvp(partial(f, w), (w,), (w + 1,)) for f in (partial(mxu.matmul, operand="fp32"), jnp.matmul)])


ESCAPES: dict[str, Callable[[Any], Any]] = {
    "lu": lambda x: jax.scipy.linalg.lu(x)[1],
    "fft": jnp.fft.fft,
    "svd": jnp.linalg.svd,
    "cholesky": lambda x: jax.lax.scan(lambda c, _: (jnp.linalg.cholesky(c), c @ c), x, None, length=1),
    "pure_callback": lambda x: jax.pure_callback(lambda v: v @ v, x, x),
    "io_callback": lambda x: io_callback(lambda v: v @ v, x, x),
    "call_exported": lambda x: jax.export.export(jax.jit(lambda v: v @ v))(x).call(x),
    "bcoo_dot_general": lambda x: sparse.BCOO.fromdense(x, nse=9) @ x,
    "openmxu_square": lambda x: SQUARE.bind(x) + 1,
}

UNKNOWN, SQUARE, PLAIN = (Primitive(f"openmxu_{name}") for name in ("unknown", "square", "plain"))
for primitive, function in ((UNKNOWN, None), (SQUARE, lambda x: x @ x), (PLAIN, lambda x: x * 2)):
    primitive.def_impl(function)
    primitive.def_abstract_eval(lambda x: x)
    if function is not None:  # XLA knows nothing of the first
        mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))


def test_operations_of_others() -> None:
    x = integers(3, 3)
    agree(mxu.on_unit(lambda v: PLAIN.bind(v) @ v)(x), 2 * x @ x)
    agree(mxu.on_unit(lambda v: jax.lax.scan(lambda c, _: (PLAIN.bind(c), None), v, length=2)[0])(x), 4 * x)
    with pytest.raises(mxu.EscapeError, match="openmxu_unknown does not multiply on the unit"):
        mxu.on_unit(UNKNOWN.bind)(x)
    with pytest.raises(mxu.EscapeError, match="openmxu_square does not multiply on the unit"):
        jax.jit(mxu.on_unit(lambda v: jax.lax.scan(lambda c, _: (SQUARE.bind(c), None), v, length=2)))(x)


def test_every_operation_is_known() -> None:
    """Of all that JAX has rules for: refused are those that multiply, run something else, or are other packages'."""
    known = {each.name for each in (*mlir._lowerings, *itertools.chain(*mlir._platform_specific_lowerings.values()))}
    known |= {each.name for each in vars(primitives).values() if isinstance(each, Primitive)}
    assert {"add", "dot_general", "scan", "pure_callback", "bcoo_dot_general"} <= known
    assert {pallas.pallas_call_p.name, multihost_utils.host_local_array_to_global_array_p.name} <= known
    refused = re.compile(
        "cholesky(_update)?|eigh?|geqp3|geqrf|hessenberg|householder_product|lu|ormqr|qr|schur|svd|symmetric_product"
        "|(custom_linear|triangular|tridiagonal)_solve|tridiagonal|spsolve|fft"
        "|(bcoo|bcsr)_(sp)?dot_general(_sampled)?|(coo|csr)_(matmat|matvec|spmm|spmv)"
        "|scaled_(dot|matmul(_wrapper)?)|dot_product_attention_.*|cudnn_fusion"
        "|pure_callback|io_callback|call_exported|ffi_call|pallas_call|custom_partitioning"
        # kernels, programs of several devices, states of both
        "|core_map|mpmd_map|run_scoped|run_state|stage|psend|precv|create_linear|todense"
    )
    of_jax = sorted(name for name in known if not name.startswith("openmxu_"))
    is_known = {name: name not in _REFUSED and bool(name in _named() or _KNOWN.fullmatch(name)) for name in of_jax}
    assert [name for name in of_jax if is_known[name] == bool(refused.fullmatch(name))] == []


@pytest.mark.parametrize("name", ESCAPES)
def test_products_elsewhere_are_an_error(name: str) -> None:
    text = rf"{name} does not multiply on the unit.* on_unit\(.*allow=\('{name}',\)"
    with pytest.raises(mxu.EscapeError, match=text):
        mxu.on_unit(ESCAPES[name])(jnp.eye(3))
    mxu.on_unit(ESCAPES[name], strict=False)(jnp.eye(3))
    mxu.on_unit(ESCAPES[name], allow=[name, "triangular_solve"])(jnp.eye(3))


def test_what_multiplies_nothing() -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x[0, 0])
        jax.debug.callback(lambda _: None, x)
        kept = checkpoint_name(x, "kept") + jax.random.normal(jax.random.key(1), x.shape)
        return jnp.stack(jnp.split(sparse.BCOO.fromdense(kept, nse=9).todense(), 3)).sum()

    x = jnp.eye(3)
    agree(mxu.on_unit(function)(x), function(x))
    agree(mxu.on_unit(jnp.linalg.solve, strict=False)(x, jnp.ones(3)), jnp.ones(3))


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.complex64])
def test_other_numbers(dtype: Any) -> None:
    ones = jnp.ones((2, 2), dtype)
    with pytest.raises(mxu.EscapeError, match=f"dot_general must have arrays of .* not of {np.dtype(dtype)}"):
        mxu.on_unit(jnp.matmul)(ones, ones)
    for allowed in ({"strict": False}, {"allow": ["dot_general"]}):
        agree(mxu.on_unit(jnp.matmul, **allowed)(ones, ones), ones @ ones)


def test_arguments_and_results() -> None:
    """Trees, and arguments that are no arrays; results are arrays."""
    w, x = integers(4, 4), integers(2, 4)
    agree(mxu.on_unit(lambda p: {"y": p["x"] @ p["w"][0]})({"x": x, "w": [w]}), {"y": x @ w})
    agree(mxu.on_unit(lambda a, n: a @ w if n else a, static_argnums=1)(x, True), x @ w)
    agree(mxu.on_unit(lambda a, *, b: a @ b)(x, b=w), x @ w)
    results = mxu.on_unit(lambda v: (v, 1.0, v * 2))(np.ones(3))
    assert all(isinstance(each, jax.Array) for each in results)
    assert results[0].dtype == jnp.float32
    assert mxu.on_unit(lambda x, y: jax.lax.dot_general(x, y, (((), ()), ((), ()))))(2.0, 3.0) == 6
    assert mxu.on_unit(lambda v, n: v @ v if n else v, static_argnums=-1)(jnp.eye(2), True).shape == (2, 2)


def test_derivatives_of_their_own() -> None:
    """What they are decides where they are asked for; elsewhere is an error."""
    w = integers(3, 3)

    @jax.custom_vjp
    def product(x: Any) -> Any:
        return x @ w

    product.defvjp(lambda x: (product(x), None), lambda _, gradient: (gradient * 7,))
    x = integers(2, 3)
    agree(mxu.on_unit(product)(x), x @ w)
    agree(mxu.on_unit(jax.grad(lambda v: product(v).sum()))(x), jnp.full((2, 3), 7.0))
    with pytest.raises(mxu.EscapeError, match="a function with derivatives of its own"):
        jax.grad(lambda v: mxu.on_unit(product)(v).sum())(x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mxu.matmul(*[jnp.ones((2, 3))] * 2), r"a and b must have the shapes .* not \(2, 3\) and \(2, 3\)"),
        (lambda: mxu.matmul(EYE, EYE.astype(jnp.bfloat16)), "a and b must be of one type .* bfloat16"),
        (lambda: mxu.matmul(EYE.astype(int), EYE.astype(int)), "a and b must be of one type .* not int32"),
        (lambda: mxu.matmul(EYE, EYE, operand="bf15"), "operand must be one of"),
        (lambda: mxu.matmul(EYE, EYE, precision="best"), "precision must be"),
        (lambda: mxu.on_unit(jnp.sin, operand="bf15"), "operand must be one of"),
        (lambda: mxu.on_unit(jnp.sin, allow="svd"), "allow must be names of operations such as 'cholesky', not 'svd'"),
    ],
)
def test_bad_input(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        call()


@pytest.mark.slow
def test_four_devices() -> None:
    """``shard_map``: each device's products are the unit's; on small integers XLA is the oracle."""
    assert run_python(Path(__file__).with_name("devices.py")).endswith("agreed\n")


def test_one_device() -> None:
    devices.main(check_vma=True, count=1)


# Products of groups


_small = partial(integers, most=4)


def _general(sums: Any, batches: Any, ragged: int, groups: tuple[int, ...]) -> Function:
    numbers = jax.lax.RaggedDotDimensionNumbers((sums, batches), [ragged], groups)
    return partial(jax.lax.ragged_dot_general, ragged_dot_dimension_numbers=numbers)


GROUPS: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...], Any]] = {
    "rows": (jax.lax.ragged_dot, (9, 4), (3, 4, 5), [2, 0, 5]),  # two rows are in no group
    "all in one": (jax.lax.ragged_dot, (9, 4), (3, 4, 5), [0, 9, 0]),
    "more than there are": (jax.lax.ragged_dot, (9, 4), (3, 4, 5), [4, 8, 2]),
    "no rows": (jax.lax.ragged_dot, (0, 4), (2, 4, 5), [1, 4]),
    "no sums": (jax.lax.ragged_dot, (6, 0), (2, 0, 5), [1, 4]),
    "no columns": (jax.lax.ragged_dot, (6, 4), (2, 4, 0), [1, 4]),
    "inner": (_general(([0], [0]), ([], []), 0, ()), (9, 4), (9, 5), [2, 0, 6]),
    "inner and more": (_general(([1, 0], [1, 2]), ([], []), 1, ()), (2, 9, 4), (5, 9, 2), [2, 0, 6]),
    "stack": (_general(([2], [1]), ([0], [0]), 0, ()), (3, 2, 4), (3, 4, 5), [1, 2]),
    "stack of rows": (_general(([3], [2]), ([1], [0]), 0, (1,)), (6, 2, 3, 4), (2, 3, 4, 5), [[1, 2, 3], [0, 4, 2]]),
    "rows and others": (_general(([2], [1]), ([], []), 1, (2,)), (2, 6, 4), (5, 4, 3), [[1, 2, 3], [3, 0, 2]]),
}


def _grouped(name: str) -> tuple[Function, Any, Any, Any]:
    function, left, right, sizes = GROUPS[name]
    return function, _small(*left), _small(*right), jnp.array(sizes)


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str) -> None:
    function, a, b, sizes = _grouped(name)
    expected = function(a, b, sizes)
    for transform in (lambda f: f, jax.jit):
        agree(transform(mxu.on_unit(function))(a, b, sizes), expected)


WHOLE = {"rows": "gm,mk,gkn->mn", "inner": "gk,km,kn->gmn", "rows and others": "xgm,xmk,nkg->xmn"}
"""The same of whole arrays and of which element is in which group: JAX has no second and no forward derivatives."""


@pytest.mark.parametrize("name", ["rows", slow("inner"), slow("rows and others")])
def test_derivatives_of_groups(name: str) -> None:
    function, a, b, sizes = _grouped(name)
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


@pytest.mark.parametrize("precision", ["default", "high"])
def test_bits_of_groups(precision: str) -> None:
    options = {"rows": 3, "precision": precision}
    a, b, scale = patterns(12, 7, seed=1), patterns(3, 7, 5, seed=2), patterns(12, 5, seed=3)
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
def test_vmap_of_groups(axes: tuple[int | None, ...]) -> None:
    operands = (_small(6, 4), _small(2, 4, 5), jnp.array([1, 4]))
    stacks = zip(operands, axes, strict=True)
    given = [each if axis is None else jnp.stack([each, each - 1, each + 1], axis) for each, axis in stacks]
    found = jax.jit(jax.vmap(mxu.on_unit(jax.lax.ragged_dot), axes))(*given)
    for at, one in enumerate(found):
        each = [x if axis is None else jnp.take(x, at, axis) for x, axis in zip(given, axes, strict=True)]
        agree(one, jax.lax.ragged_dot(*each))
    if set(axes) == {0}:  # JAX has no other
        agree(mxu.on_unit(jax.vmap(jax.lax.ragged_dot))(*given), found)


def test_types_of_groups() -> None:
    a, b = _small(6, 4).astype(jnp.bfloat16), _small(2, 4, 5).astype(jnp.bfloat16)
    for preferred in (None, jnp.float32):
        multiply = partial(jax.lax.ragged_dot, preferred_element_type=preferred)
        found = mxu.on_unit(multiply)(a, b, jnp.array([1, 4]))
        assert found.dtype == (preferred or jnp.bfloat16)
        agree(found, multiply(a, b, jnp.array([1, 4])))


def test_groups_that_are_refused() -> None:
    multiply = _general(([1, 0], [1, 2]), ([], []), 0, ())
    with pytest.raises(mxu.EscapeError, match="must have its ragged dimension first of those that it sums over"):
        mxu.on_unit(multiply)(_small(2, 9, 4), _small(5, 9, 2), jnp.ones((9, 2), int))
    integers = (jnp.ones((6, 4), int), jnp.ones((2, 4, 5), int), jnp.array([1, 4]))
    with pytest.raises(mxu.EscapeError, match=r"ragged_dot_general must have arrays of .* not of int32"):
        mxu.on_unit(jax.lax.ragged_dot)(*integers)
    assert (mxu.on_unit(jax.lax.ragged_dot, strict=False)(*integers)[:5] == 4).all()
