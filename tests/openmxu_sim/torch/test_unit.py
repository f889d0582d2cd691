"""The context: what it computes, what it refuses, what it leaves as it was."""

import asyncio
import gc
import re
import runpy
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

from torch._higher_order_ops import while_loop  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import flop_registry  # noqa: E402

import openmxu_sim.torch as mxu  # noqa: E402  # needs PyTorch
from openmxu_sim.torch.operators import ON_UNIT, escapes  # noqa: E402

from ..networks.programs import run_python  # noqa: E402
from .tensors import Function, by_python, equal  # noqa: E402

F, ONES = torch.nn.functional, torch.ones(2, 2)


def _settings() -> list[Any]:
    mkldnn, cuda = torch.backends.mkldnn, torch.backends.cuda
    found = [torch.backends.mha.get_fastpath_enabled(), mkldnn.enabled, mkldnn.deterministic, mkldnn.allow_tf32]
    return [*found, cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()]


def test_settings_are_restored() -> None:
    before = _settings()
    outer, inner = mxu.unit(), mxu.unit()
    with outer, inner, outer:
        within = _settings()
    with pytest.raises(ZeroDivisionError), outer, inner:
        raise ZeroDivisionError
    assert _settings() == before != within


def test_functions_on_a_unit() -> None:
    unit = mxu.unit(operand="bf16")
    product = unit(torch.matmul)
    assert [product(torch.tensor([[1 + 2**-9]]), other=torch.ones(1, 1)).item() for _ in range(2)] == [1, 1]
    assert product.__doc__ == torch.matmul.__doc__
    assert sum(unit.work.values()) == 2


def test_leaving_what_was_not_entered() -> None:
    unit = mxu.unit()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a unit must be entered before it is left, by the same thread: with"):
            unit.__exit__(None, None, None)
        with unit:
            pass


def test_leaving_in_another_order() -> None:
    """The innermost computes for generators and tasks that take turns: an error, after which all is as it was."""

    async def compute() -> None:
        with mxu.unit():
            await asyncio.sleep(0)

    async def compute_two() -> None:
        await asyncio.gather(compute(), compute())

    before, first, second = _settings(), mxu.unit(), mxu.unit()
    with pytest.raises(RuntimeError, match="units must be left in the reverse of the order"), first:
        second.__enter__()
    with pytest.raises(RuntimeError, match="units must be left in the reverse of the order"):
        second.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match=r"units must be left .* tasks must not interleave contexts$"):
        asyncio.run(compute_two())
    assert _settings() == before
    a = torch.tensor([[1 + 2**-9]])
    assert (a @ a).item() > 1


def test_the_innermost_unit_computes() -> None:
    a, b = torch.tensor([[1 + 2**-9]]), torch.ones(1, 1)
    with mxu.unit(operand="bf16") as outer, mxu.unit(operand="fp16") as inner:
        assert (a @ b).item() == 1 + 2**-9
    assert (sum(outer.work.values()), sum(inner.work.values())) == (0, 1)
    with inner, outer:
        assert (a @ b).item() == 1
    assert (a @ b).item() == 1 + 2**-9


def test_what_was_computed_and_what_it_costs() -> None:
    """Layers forward and backward, and what is lost; without ``trace`` neither is looked for."""
    with mxu.unit() as unit:
        for _ in range(2):
            F.conv2d(torch.ones(3, 4, 5, 5), torch.ones(6, 2, 3, 3), groups=2)
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert unit.work == {mxu.Work("convolution", 2, 27, 18, 3): 2, mxu.Work("mm", 1, 2, 3, 4): 1}
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    x = torch.tensor([[1e-9, 1.0, 0.0, 1e9]])
    with mxu.unit(operand="fp16", trace=True) as unit, mxu.unit(trace=True):
        pass
    with unit:
        model(x).sum().backward()
    rows = unit.report().rows
    expected = ["Sequential.0 addmm", "Sequential.1 addmm", "Sequential.1 mm", "Sequential.1 mm", "Sequential.0 mm"]
    assert [f"{row.work.layer} {row.work.operator}" for row in rows] == expected
    assert (rows[0].losses.flushed, rows[0].losses.overflowed) == (1, 1)
    with mxu.unit(operand="fp16") as plain:
        model(x)
    assert [(row.work.layer, row.losses) for row in plain.report().rows] == [("", None), ("", None)]


def test_threads_make_no_difference() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(300, 200), torch.randn(200, 250)
    first, *others = (mxu.unit(threads=threads)(torch.mm)(a, b) for threads in (3, 2, 1))
    equal(others, [first] * 2)


def _in_thread(function: Function) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_the_context_is_the_threads() -> None:
    a = torch.tensor([[1 + 2**-9]])
    with mxu.unit():
        assert _in_thread(lambda: a @ a.T).item() > 1
    unit, both = mxu.unit(), threading.Barrier(2)

    def compute(_: int) -> Any:
        with unit:
            both.wait()
            return (a @ a.T).item()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(compute, range(2))) == [1, 1]
    assert sum(unit.work.values()) == 2


_twice = by_python(lambda a: (a @ a @ a).exp() * 2, lambda gradient, a: gradient @ a)
_same = by_python(lambda a: a.round() * 1, lambda gradient, _: gradient)
"""No product."""


def _written_to_a_view(a: Any, b: Any) -> Any:
    base = torch.zeros(2, 3, 3)
    base[0].addmm_(a, b)
    return base


DERIVATIVES: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((2, 3), (3, 2))),
    "mv": (torch.mv, ((2, 3), (3,))),
    "dot": (torch.dot, ((3,), (3,))),
    "linear": (F.linear, ((2, 2, 3), (4, 3), (4,))),
    "convolution": (F.conv1d, ((1, 2, 5), (2, 2, 3))),
    "with what follows": (lambda a, b: (a @ b).exp() * 2, ((2, 3), (3, 2))),
    "in place": (lambda s, a, b: (s * 1).addmm_(a, b), ((2, 2), (2, 3), (3, 2))),
    "view": (_written_to_a_view, ((3, 4), (4, 3))),
    "second": (lambda a: torch.autograd.grad((a @ a).square().sum(), a, create_graph=True)[0], ((2, 2),)),
    "second, of a convolution": (
        lambda x, w, v: torch.autograd.grad(F.conv2d(x, w), x, v, create_graph=True)[0],
        ((1, 2, 5, 5), (3, 2, 3, 3), (1, 3, 3, 3)),
    ),
    # these run Python again
    "function": (_twice, ((3, 3),)),
    "checkpoint": (lambda a: checkpoint(lambda b: (b @ b).relu(), a, use_reentrant=True), ((3, 3),)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_elsewhere_are_an_error(name: str) -> None:
    function, shapes = DERIVATIVES[name]
    inputs = [torch.ones(shape, requires_grad=True) for shape in shapes]
    with mxu.unit():
        result = function(*inputs).sum()
    with pytest.raises(mxu.EscapeError, match=r"made on a unit.* also call backward\(\) in the context of a unit"):
        result.backward()
    with mxu.unit():
        function(*inputs).sum().backward()
    if name == "view":  # not of a vector
        with mxu.unit(), pytest.raises(mxu.EscapeError, match="aten::addmv_ must not write to a view"):
            torch.zeros(2, 3)[0].addmv_(inputs[0], torch.ones(4))


def test_derivatives_without_products_are_computed_anywhere() -> None:
    a = torch.randn(3, 3, requires_grad=True)
    with mxu.unit():
        _twice(a)
        other = _same(a).sum()
        with torch.no_grad():
            a @ a
        another = _same(a).sum()
    for each in (other, another):
        each.backward()


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, s: F.linear(F.linear(x, w, s), w, s), ((2, 4), (4, 4), (4,))),
        (lambda a, b: torch.mv(a, b).relu(), ((4, 5), (5,))),
    ],
    ids=["layers", "vectors"],
)
def test_checkpoints(function: Function, shapes: tuple[tuple[int, ...], ...], reentrant: bool) -> None:
    """Nothing that was saved is unpacked before it is needed."""
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    with mxu.unit():
        expected = torch.autograd.grad(function(*inputs).sum(), inputs)
        checkpoint(function, *inputs, use_reentrant=reentrant).sum().backward()
    equal([each.grad for each in inputs], expected)


def test_graphs_are_freed() -> None:
    """Nothing that looks for a unit keeps what it watches."""
    a, b = torch.ones(2, 2, requires_grad=True), torch.ones(2)
    gc.disable()
    try:
        with mxu.unit():
            middle = a * 2
            result = (middle @ b).sum() + torch.mm(middle, middle).sum()
        seen = weakref.ref(middle)
        del middle, result
        assert seen() is None
    finally:
        gc.enable()


_by_flash = sdpa_kernel(SDPBackend.FLASH_ATTENTION)(F.scaled_dot_product_attention)
_FLOAT8, _SCALES, _WHOLE = (
    [torch.ones(16, 16).to(torch.float8_e4m3fn)] * 2,
    [torch.ones(1)] * 2,
    F.ScalingType.TensorWise,
)


def _jagged() -> Any:
    rows = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], layout=torch.jagged)
    return rows.unflatten(-1, (2, 4)).transpose(1, 2)


ESCAPES: dict[str, Function] = {
    "aten::linalg_inv_ex": lambda: torch.linalg.inv(torch.eye(3)),
    "aten::_linalg_svd": lambda: torch.linalg.svd(torch.eye(3)),
    "aten::_euclidean_dist": lambda: torch.cdist(torch.ones(30, 3), torch.ones(30, 3)),
    "aten::_cdist_forward": lambda: torch.cdist(torch.ones(3, 3), torch.ones(3, 3)),
    "aten::_trilinear": lambda: F.bilinear(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3, 3)),
    "aten::linalg_matrix_exp": lambda: torch.matrix_exp(torch.eye(3)),
    "aten::_fft_r2c": lambda: torch.fft.fft(torch.ones(4)),
    "aten::affine_grid_generator": lambda: F.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 2], align_corners=True),
    "aten::conv_tbc": lambda: torch.conv_tbc(torch.ones(4, 1, 2), torch.ones(2, 2, 2), torch.ones(2)),
    "aten::_sparse_addmm": lambda: torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2)),
    "aten::sspaddmm": lambda: torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 2)),  # writes to a tensor of no size
    "prims::svd": lambda: torch.ops.prims.svd(torch.eye(3), full_matrices=False),
    "aten::to_mkldnn": lambda: torch.ones(2, 2).to_mkldnn(),
    "aten::mm": lambda: torch.ones(2, 2, dtype=torch.int64) @ torch.ones(2, 2, dtype=torch.int64),
    "aten::bmm": lambda: torch.ones(1, 2, 2, dtype=torch.complex64) @ torch.ones(1, 2, 2, dtype=torch.complex64),
    "aten::_scaled_mm": lambda: torch._scaled_mm(*_FLOAT8, *_SCALES, scale_result=_SCALES[0]),
    "aten::_scaled_mm_v2": lambda: F.scaled_mm(
        *_FLOAT8, _SCALES[0], _WHOLE, _SCALES[1], _WHOLE, F.SwizzleType.SWIZZLE_32_4_4
    ),
    "aten::_int_mm": lambda: torch._int_mm(*[torch.ones(1025, 1025, dtype=torch.int8)] * 2),
    "aten::linear": lambda: F.linear(
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]), ONES.new_ones(2, 3)
    ),
    "aten::matmul": lambda: F.scaled_dot_product_attention(*[_jagged()] * 3),
    "aten::_embedding_bag_forward_only": lambda: F.embedding_bag(
        torch.tensor([0, 1]), torch.ones(2, 3), torch.tensor([0]), mode="sum", per_sample_weights=torch.ones(2)
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda: _by_flash(*[torch.ones(1, 1, 2, 2)] * 3),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", ESCAPES)
def test_products_elsewhere_are_an_error(name: str) -> None:
    with mxu.unit() as strict, pytest.raises(mxu.EscapeError, match=rf"{name} .* unit\(allow=\('{name}',\)\)"):
        ESCAPES[name]()
    assert not strict.escaped
    with mxu.unit(allow=[name]) as allowed, mxu.unit(strict=False) as open_to_all:
        ESCAPES[name]()
    assert name in open_to_all.escaped
    with allowed:
        ESCAPES[name]()
    assert name in allowed.escaped


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("flex_attention", lambda x: flex_attention(x[None, None], x[None, None], x[None, None])),
        ("cond", lambda x: torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x @ x + 1, (x,))),
        ("while_loop", lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ x), (torch.tensor(0), x))),
    ],
)
def test_functions_of_higher_order(name: str, call: Function) -> None:
    """Products in what they are given would not be the unit's: an error, or counted where that is allowed."""
    x, full = torch.eye(4), f"higher_order::{name}"
    with mxu.unit(), pytest.raises(mxu.EscapeError, match=rf"^{full} runs functions .* unit\(allow=\('{full}',\)\)$"):
        call(x)
    if name != "flex_attention":  # PyTorch compiles it, which it does in no mode of dispatch
        with mxu.unit(allow=(full,)) as unit:
            call(x)
        assert full in unit.escaped


@pytest.mark.parametrize(
    ("namespace", "name", "count", "refused"),
    [("openmxu_test", "twice", 1, True), ("aten", "openmxu_blend", 2, True), ("aten", "openmxu_blur", 1, False)],
)
def test_operators_that_are_not_known(namespace: str, name: str, count: int, refused: bool) -> None:
    """Others' are an error, and PyTorch's own that take two tensors, as a later version may bring."""
    full, operands = f"{namespace}::{name}", [torch.ones(2)] * count
    with torch.library._scoped_library(namespace, "FRAGMENT") as library:
        library.define(f"{name}({', '.join(('Tensor a', 'Tensor b')[:count])}) -> Tensor")
        library.impl(name, lambda *given: given[0] + given[-1], "CPU")
        operator = getattr(getattr(torch.ops, namespace), name)
        if refused:
            with mxu.unit(), pytest.raises(mxu.EscapeError, match=f"{full} does not multiply on the unit"):
                operator(*operands)
        with mxu.unit(allow=[full] if refused else ()):
            equal(operator(*operands), torch.full((2,), 2.0))


def test_every_operator_is_known() -> None:
    """Of all that PyTorch has, those that others are made of: named as products, refused, or none by their names."""
    found: dict[str, set[str]] = {"unit": set(), "refused": set(), "plain": set()}
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        name, _, overload = name.partition(".")
        composed = torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
        if namespace == "aten" and not composed:
            on_unit = name.removesuffix("_") in ON_UNIT
            refused = escapes(getattr(getattr(torch.ops.aten, name), overload or "default"))
            found["unit" if on_unit else "refused" if refused else "plain"].add(name)
    assert {"mm", "addmm_", "baddbmm", "convolution_backward"} <= found["unit"]
    counted = {str(each).removeprefix("aten.") for each in flop_registry}  # what PyTorch's own counter counts
    assert {"mm", "convolution"} <= counted
    assert not counted & found["plain"]
    suspicious = re.compile("conv|matmul|attention|linalg|lstm|gru|rnn|solve|cdist|addmm|baddbmm")
    moved = """_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
        _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu
        mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight"""
    on_each = """_thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell
        _thnn_fused_lstm_cell_backward_impl _linalg_check_errors linalg__powsum linalg_cross linalg_vector_norm"""
    assert set(filter(suspicious.search, found["plain"])) <= {*moved.split(), *on_each.split()}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize(
    ("last", "products"), [(lambda: torch.nn.Linear(3, 2), 7), (torch.nn.Tanh, 3)], ids=["product", "other"]
)
@pytest.mark.parametrize("before", [0, 4], ids=["new", "that PyTorch has optimised"])
def test_scripts(before: int, last: Function, products: int) -> None:
    """Their derivatives elsewhere are an error, however often they have run: PyTorch makes one node of many then."""
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), last()))
    x = torch.randn(5, 4)
    for _ in range(before):
        model(x).sum().backward()
    for _ in range(4):
        with mxu.unit() as unit:
            loss = model(x).sum()
        with pytest.raises(mxu.EscapeError):
            loss.backward()
        with unit:
            model(x).sum().backward()
        assert sum(unit.work.values()) == products
    assert "DifferentiableGraph" in model(x).grad_fn.name()


def test_scripts_of_vectors() -> None:
    """What replaces the derivatives of a single product leaves those of a script's node as they are."""
    script = torch.jit.CompilationUnit("def product(a, v):\n    return torch.matmul(a.relu(), v)\n").product
    a, v = torch.randn(4, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    gradients = []
    for function in (lambda a, v: torch.matmul(a.relu(), v), script, script, script):
        with mxu.unit(operand="fp8_e5m2"):
            gradients.append(torch.autograd.grad(function(a, v).sum(), [a, v]))
    equal(gradients, [gradients[0]] * 4)


def test_networks_in_other_threads() -> None:
    """A thread that has entered no unit, while another has: an error, or counted."""
    layer, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    text = r"thread::forward .*; enter it there, too, or .* unit\(allow=\('thread::forward',\)\)$"
    with mxu.unit() as unit:
        with pytest.raises(mxu.EscapeError, match=text):
            _in_thread(lambda: layer(x))
        _in_thread(lambda: unit(layer)(x))
        assert sum(unit.work.values()) == 1
        _in_thread(lambda: torch.nn.ReLU()(x))  # no network
    assert not unit.escaped
    plain = _in_thread(lambda: layer(x))
    with mxu.unit(allow=["thread::forward"]) as allowed, mxu.unit(strict=False) as open_to_all:
        assert torch.equal(_in_thread(lambda: layer(x)), plain)
    assert allowed.escaped == open_to_all.escaped == {"thread::forward": 1}


needs_mkl = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this PyTorch has no Intel libraries")

_PRODUCT = re.compile(r"MKL_VERBOSE(?!.*oneMKL).*\(|onednn_verbose(?!.*,reorder,).*,exec,")


def _log(body: str) -> list[str]:
    """What is printed in a process of its own; Intel's libraries say what they multiply, be it nothing."""
    text = f"import torch, warnings\nimport openmxu_sim.torch as mxu\nwarnings.simplefilter('ignore')\n{body}"
    return run_python("-c", text, timeout=900, MKL_VERBOSE="1", ONEDNN_VERBOSE="1", PYTHONUNBUFFERED="1").splitlines()


@needs_mkl
def test_layers_multiply_nowhere_else() -> None:
    """Forward, backward, and in inference mode, with the fast paths that evaluation takes."""
    program = """
x, image = torch.randn(2, 6, 16), torch.randn(2, 4, 9, 9)
nn, F = torch.nn, torch.nn.functional
def layers():
    yield nn.Linear(16, 3), (x,)
    yield nn.Conv2d(4, 4, 3, groups=2), (image,)
    yield nn.ConvTranspose2d(4, 2, 3), (image,)
    yield nn.MultiheadAttention(16, 4, batch_first=True), (x, x, x)
    yield nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1), (x,)
    yield nn.Transformer(16, 4, 1, 1, 32, batch_first=True), (x, x)
    yield nn.LSTM(16, 8, 2, bidirectional=True), (x,)
    yield nn.GRU(16, 8), (x,)
    yield nn.RNN(16, 8), (x,)
    yield (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)), (x.clone().requires_grad_(),)
    ends, weights = torch.tensor([5, 12], dtype=torch.int32), torch.randn(2, 16, 8)
    yield (lambda rows: torch._grouped_mm(rows, weights, offs=ends) * 2), (torch.randn(12, 16).requires_grad_(),)
    yield torch.jit.script(nn.Linear(16, 3)), (x,)
    yield torch.compile(nn.Linear(16, 3), backend="eager"), (x,)
for layer, inputs in layers():
    with mxu.unit() as unit:
        result = layer(*inputs)
        (result[0] if isinstance(result, tuple) else result).sum().backward()
        count = sum(unit.work.values())
        assert count >= 2, layer
        if isinstance(layer, nn.Module):
            layer.eval()
            with torch.inference_mode():
                layer(*inputs)
            assert sum(unit.work.values()) > count, layer
"""
    assert [line for line in _log(program) if _PRODUCT.match(line)] == []


@needs_mkl
def test_the_log_shows_products() -> None:
    log = _log("torch.randn(40, 40) @ torch.randn(40, 40)\ntorch.nn.LSTM(16, 8)(torch.randn(2, 6, 16))")
    products = [line for line in log if _PRODUCT.match(line)]
    assert any("SGEMM" in line for line in products)
    assert any(",rnn," in line for line in products)


@needs_mkl
@pytest.mark.slow
@pytest.mark.thorough
def test_operators_multiply_nowhere_else() -> None:
    pytest.importorskip("expecttest", reason="PyTorch's samples need it: make setup-models")
    program = """
import itertools
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves
def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor) and each.requires_grad]
for op in op_db:
    if torch.float32 not in op.dtypes:
        continue
    inputs = list(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), 40))
    print("##", op.name)
    for each in inputs:
        try:
            with mxu.unit():
                found = tensors(op(each.input, *each.args, **each.kwargs))
                given = tensors((each.input, each.args, each.kwargs))
                if found:
                    torch.autograd.grad(found, given, [torch.ones_like(one) for one in found], allow_unused=True)
        except mxu.EscapeError as error:
            print("!!", str(error).split()[0])
        except (RuntimeError, NotImplementedError, AssertionError) as error:
            print("!!", type(error).__name__, error)
    print("## samples")
"""
    _, *parts = "\n".join(_log(program)).split("\n## ")
    lines = {
        (name, line) for part in parts for name, *said in [part.splitlines()] if name != "samples" for line in said
    }
    empty = re.compile(r"[^(]*\(([^)]*,)?0[,)]|.*\(nil\)")  # matrices of no size
    assert not {(name, line) for name, line in lines if _PRODUCT.match(line) and not empty.match(line)}
    assert len([line for _, line in lines if re.match(r"!! \S+::", line)]) > 40
    failed = {name for name, line in lines if re.match(r"!! (?!\S+::)", line)}
    assert {name for name in failed if "jiterator" not in name} <= {"to_sparse"}


def test_a_seldom_warning() -> None:
    """float64: once for each line, not for each product."""
    a = torch.ones(2, 2, dtype=torch.float64)
    with warnings.catch_warnings(record=True) as caught, mxu.unit():
        warnings.simplefilter("default")
        assert [(a @ a).dtype for _ in range(3)] == [torch.float64] * 3
    assert [(each.filename, str(each.message)[:27]) for each in caught] == [(__file__, "float64 is rounded to float")]


@pytest.mark.parametrize(
    ("operand", "mode", "peak", "large", "noted"),
    [
        ("fp8_e4m3", "flush", 2**-7, 1, True),
        ("fp8_e4m3", "flush", 2**-7, 10, False),  # nine tenths are not more than that
        ("fp8_e4m3", "flush", 2**-6, 0, False),
        ("fp8_e4m3", "flush", 0, 0, False),
        ("fp8_e4m3", "ieee", 2**-7, 1, False),
        ("fp8_e4m3/saturate", "flush", 2**-7, 1, True),
        ("fp8_e4m3/tensor", "flush", 2**-7, 1, False),
        ("fp8_e4m3/tensor", "flush", 2**-20, 1, True),
        ("fp16", "flush", 2**-15, 1, True),
        ("bf16", "flush", 2**-126, 1, False),
        ("mxfp4", "flush", 2**-7, 1, False),
    ],
)
def test_a_note_of_lost_operands(operand: str, mode: str, peak: float, large: int, noted: bool) -> None:
    """More than 90 % of a tensor become zero: said once for a unit or a layer, and at each line of ``mxu.matmul``."""
    a, b, options = torch.full((10, 10), float(peak)), torch.ones(10, 10), {"operand": operand, "subnormals": mode}
    a.view(-1)[:large] = 1
    text = f"{100 - large:,} of 100 numbers that are not zero become zero in {operand} for "
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with mxu.unit(**options):
            F.linear(b, a), a @ b, b @ a
        mxu.matmul(a, b, **options)
    assert [(each.filename, str(each.message).partition(";")[0]) for each in caught] == [
        (__file__, text + place) for place in ("mm", "matmul") if noted
    ]


def test_autocast() -> None:
    """Inside and around: what it rounds, enters the unit rounded, and results are of its type."""
    layer, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    with mxu.unit(), torch.autocast("cpu", torch.bfloat16):
        inside = layer(x)
        inside.float().sum().backward()
    with torch.autocast("cpu", torch.bfloat16), mxu.unit():
        around = layer(x)
    assert inside.dtype == torch.bfloat16
    assert torch.equal(inside, around)
    assert layer.weight.grad.dtype == torch.float32


def test_no_product_at_all() -> None:
    with mxu.unit() as unit:
        assert torch.nn.ReLU()(torch.ones(3)).sum() == 3
        assert (torch.ones(2, 3, device="meta") @ torch.ones(3, 4, device="meta")).shape == (2, 4)
        with torch._subclasses.FakeTensorMode():
            assert (torch.ones(2, 3) @ torch.ones(3, 4)).shape == (2, 4)
    assert not unit.work


def test_parameters_stay_what_they_are(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, other = (torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)) for _ in range(2))
    x = torch.randn(6, 4)
    before = [value.clone() for value in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters())
    with mxu.unit():
        model(x).square().sum().backward()
        optimizer.step()
        trained = model(x)
    torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "kept.pt")
    kept, _ = torch.load(tmp_path / "kept.pt", weights_only=True)
    other.load_state_dict(kept)
    for value, old in zip(kept.values(), before, strict=True):
        assert value.dtype == torch.float32
        assert not torch.equal(value, old)
    assert not torch.equal(other(x), trained)
    with mxu.unit():
        equal(other(x), trained)


@pytest.mark.slow
def test_the_example_of_the_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    docs = Path(__file__).parents[3] / "docs"
    accuracies = runpy.run_path(str(docs / "examples" / "network.py"))["main"](epochs=15)
    assert min(accuracies) > 0.85
    assert abs(accuracies[0] - accuracies[1]) < 0.02
    page = (docs / "tutorials" / "network.md").read_text().partition("```text\n")[2].partition("```")[0]
    assert page in capsys.readouterr().out


_LAYERS, _BY_NAMES = "layers must be formats, or mappings of operand, .*,", "by patterns of names, not"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (partial(mxu.unit, operand="bf15"), "operand must be one of bf16, .* not 'bf15'"),
        (partial(mxu.unit, accumulate=3), "accumulate must be the name of a format, not 3"),
        (partial(mxu.unit, precision="best"), "precision must be 'default', .* not 'best'"),
        (partial(mxu.unit, precision="high", operand="fp16"), "precision must be 'default'"),
        (partial(mxu.unit, subnormals="keep"), "subnormals must be 'flush' or 'ieee', not 'keep'"),
        (partial(mxu.unit, rows=0), "rows must be .* not 0"),
        (partial(mxu.unit, columns=-1), "columns must be .* not -1"),
        (partial(mxu.unit, stages=99), "stages must be .* not 99"),
        (partial(mxu.unit, threads=0), "threads must be .* not 0"),
        (partial(mxu.unit, allow="aten::mm"), ".*names of operators such as 'aten::linalg_inv_ex', not 'aten::mm'"),
        (partial(mxu.unit, allow=["mm"]), r"allow must be names of operators .* not \['mm'\]"),
        (partial(mxu.unit, allow=3), "allow must be names of operators .*, not 3$"),
        (partial(mxu.unit, gradient="bf17"), "gradient must be one of .*, not 'bf17'$"),
        (partial(mxu.unit, weight=""), "weight must be one of .*, not ''$"),
        (partial(mxu.unit, between=""), "between must be one of .*, not ''$"),
        (partial(mxu.unit, seed=-1), "seed must be an integer from 0 to 4294967295, not -1$"),
        (partial(mxu.unit, seed=1.5), "seed must be an integer from 0 to 4294967295, not 1.5$"),
        (partial(mxu.unit, history=0), "history must be an integer >= 1, not 0$"),
        (partial(mxu.unit, layers=["head"]), rf"layers must be a mapping of formats {_BY_NAMES} \['head'\]$"),
        (partial(mxu.unit, layers={"": "bf16"}), f"{_LAYERS} {_BY_NAMES} "),
        (partial(mxu.unit, layers={"head": {"columns": 3}}), f"{_LAYERS} {_BY_NAMES} "),
        (partial(mxu.unit, layers={3: "bf16"}), f"{_LAYERS} {_BY_NAMES} "),
        (partial(mxu.unit, layers={"head": "bf17"}), "layers, 'head': operand must be one of .*, not 'bf17'$"),
        (partial(mxu.unit, layers={"head": {"rows": 0}}), "layers, 'head': rows must be an integer >= 1, not 0$"),
        (partial(mxu.matmul, *[torch.ones(2, 3)] * 2), r"a and b must have the shapes .* not \(2, 3\) and \(2, 3\)"),
        (partial(mxu.matmul, torch.tensor(1.0), torch.ones(1)), r"a and b must have the shapes .* not \(\) and \(1,\)"),
        (partial(mxu.matmul, ONES, ONES.double()), "a and b must be of one type .* torch.float64"),
        (partial(mxu.matmul, ONES.int(), ONES.int()), "a and b must be of one type .* not torch.int32"),
        (partial(mxu.matmul, ONES, ONES, operand="bf15"), "operand must be one of"),
        (partial(mxu.matmul, ONES, ONES, rows=0), "rows must be"),
    ],
)
def test_bad_parameters(call: Function, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{text}"):
        call()


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    """DistributedDataParallel and FSDP: each process's products are the unit's, PyTorch averages the gradients."""
    assert run_python(Path(__file__).with_name("distributed.py"), tmp_path / "meeting").count("agreed") == 2
