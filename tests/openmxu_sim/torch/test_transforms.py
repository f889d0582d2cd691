"""Transforms of functions, dual numbers and tracers: on small integers PyTorch without a unit is the oracle."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

from torch.autograd import forward_ad  # noqa: E402  # needs PyTorch
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import openmxu_sim.torch as mxu  # noqa: E402

from .tensors import Function, equal  # noqa: E402
from .test_operators import PRODUCTS, integers  # noqa: E402

_OF_PYTORCH = ".torch.jit.script. is deprecated", "Attempted to insert a get_attr Node"  # by its jvp, its linearize
pytestmark = [pytest.mark.filterwarnings(f"ignore:{text}") for text in _OF_PYTORCH]
T, F, functional = torch.func, torch.nn.functional, torch.autograd.functional


def _dual(function: Function, *pairs: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(*(forward_ad.make_dual(*pair) for pair in pairs))).tangent


TANGENTS = PRODUCTS | {
    "convolution": (F.conv2d, ((2, 3, 6, 7), (4, 3, 3, 5), (4,))),
    "transposed convolution": (F.conv_transpose2d, ((2, 3, 6, 7), (3, 4, 3, 5), (4,))),
    "in place": (lambda s, a, b: (s * 1).addmm_(a, b, beta=2, alpha=3), ((5, 4), (5, 7), (7, 4))),
    "with a constant": (lambda a, b: torch.dot(a.round(), b) * 2 + torch.dot(a.detach(), b) + 1, ((7,), (7,))),
    # a tangent that is zero makes no NaN of an infinity
    "of a mask": (lambda a, b: (a @ b + torch.tensor([0.0, -torch.inf])) * torch.tensor(2.0), ((5, 7), (7, 2))),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_tangents(name: str) -> None:
    """Of one operand, the other ones' being zeros without memory, and of all; the unit computes what PyTorch does."""
    function, shapes = TANGENTS[name]
    inputs, tangents = ([each.detach() for each in integers(shapes, seed)] for seed in (1, 2))

    def compute(first: int, last: int) -> list[Any]:
        def of_some(*some: Any) -> Any:
            return function(*inputs[:first], *some, *inputs[last:])

        own = inputs[first:last], tangents[first:last]
        found = T.jvp(of_some, *map(tuple, own))[1], _dual(of_some, *zip(*own, strict=True))
        stacks = (torch.stack([tangent, -tangent]) for tangent in own[1])
        many = torch.vmap(lambda *each: T.jvp(of_some, tuple(own[0]), each)[1])(*stacks)
        of_gradient = T.jvp(T.grad(lambda *some: of_some(*some).sum()), *map(tuple, own))[1]
        return [*found, *many, of_gradient]

    count = len(shapes)
    for first, last in (*((at, at + 1) for at in range(count)), (0, count)):
        expected = compute(first, last)
        with mxu.unit() as unit:
            found = compute(first, last)
        equal(found, expected)
        assert unit.work


def _squares(h: Function) -> Function:
    return lambda x: (h(x) ** 2).sum()


def _pack(h: Function, a: Any) -> Any:
    network = type("Network", (torch.nn.Module,), {"forward": lambda _, x: h(x)})()
    return torch.export.export(network, (a,)).module()


TRANSFORMS: dict[str, Function] = {
    # h is a function, a its operand, t a tangent or another operand
    "grad": lambda h, a, t: T.grad(_squares(h))(a),
    "grad_and_value": lambda h, a, t: T.grad_and_value(_squares(h))(a),
    "vjp": lambda h, a, t: T.vjp(h, a)[1](torch.ones(2, 4)),
    "jvp": lambda h, a, t: T.jvp(h, (a,), (t,)),
    "jacfwd": lambda h, a, t: T.jacfwd(h)(a),
    "jacrev": lambda h, a, t: T.jacrev(h)(a),
    "hessian": lambda h, a, t: T.hessian(_squares(h))(a),
    "vmap": lambda h, a, t: T.vmap(h)(torch.stack([a, t])),
    "functionalize": lambda h, a, t: T.functionalize(h)(a),
    "linearize": lambda h, a, t: T.linearize(h, a)[1](t),
    "jacfwd of jacfwd": lambda h, a, t: T.jacfwd(T.jacfwd(_squares(h)))(a),
    "jacrev of jacfwd": lambda h, a, t: T.jacrev(T.jacfwd(_squares(h)))(a),
    "grad of vmap": lambda h, a, t: T.grad(_squares(T.vmap(h)))(torch.stack([a, t])),
    "jvp of vmap": lambda h, a, t: T.jvp(T.vmap(h), (torch.stack([a, t]),), (torch.stack([t, a]),)),
    "linearize of grad": lambda h, a, t: T.linearize(T.grad(_squares(h)), a)[1](t),
    "dual numbers": lambda h, a, t: _dual(h, (a, t)),
    "functional.jvp": functional.jvp,
    "functional.hvp": lambda h, a, t: functional.hvp(_squares(h), a, t),
    "functional.jacobian": lambda h, a, t: functional.jacobian(h, a, strategy="forward-mode", vectorize=True),
    "make_fx": lambda h, a, t: make_fx(h)(a)(t),
    "make_fx of grad": lambda h, a, t: make_fx(T.grad(_squares(h)))(a)(t),
    "make_fx of vmap": lambda h, a, t: make_fx(T.vmap(h))(a[None])(t[None]),
    "make_fx, pre_dispatch": lambda h, a, t: make_fx(h, pre_dispatch=True)(a)(t),
    "export": lambda h, a, t: _pack(h, a)(t),
}


def test_every_transform_has_a_row() -> None:
    others = {"functional_call", "stack_module_state", "replace_all_batch_norm_modules_", "rearrange", "debug_unwrap"}
    assert set(T.__all__) <= {*TRANSFORMS, *others}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("within", [True, False])
def test_transforms(name: str, within: bool) -> None:
    """Computed, or refused by name: of ``@`` in a unit, and of ``mxu.matmul`` in and out of one."""
    a, b, t = (each.detach() for each in integers(((2, 3), (3, 4), (2, 3))))
    expected = TRANSFORMS[name](lambda x: x @ b, a, t)
    unit = mxu.unit()
    with unit if within else nullcontext():
        equal(TRANSFORMS[name](lambda x: mxu.matmul(x, b), a, t), expected)
        if within and name.partition(" ")[0] in ("linearize", "make_fx"):
            with pytest.raises(mxu.EscapeError, match=r"^fx::make_fx \(and torch.func.linearize.*=\('fx::make_fx'"):
                TRANSFORMS[name](lambda x: x @ b, a, t)
        elif within:
            equal(TRANSFORMS[name](lambda x: x @ b, a, t), expected)
            assert unit.work


def test_formats_of_tangents() -> None:
    """Tangents are operands: ``gradient`` is the format of gradients alone."""
    a, b, t = (torch.randn(shape) for shape in ((3, 5), (5, 4), (3, 5)))
    options = dict[str, Any](operand="bf16", weight="fp8_e4m3", gradient="fp8_e5m2", subnormals="ieee")
    tangent = T.jvp(partial(mxu.matmul, b=b, **options), (a,), (t,))[1]
    equal(tangent, mxu.matmul(t, b, **options))
    with mxu.unit(**options):
        equal(T.jvp(lambda x: x @ b, (a,), (t,))[1], tangent)


@pytest.mark.slow
def test_compiled_tangents_are_not_silent() -> None:
    a, b, t = (torch.ones(shape) for shape in ((2, 3), (3, 4), (2, 3)))
    compiled = torch.compile(lambda x: T.jvp(lambda y: mxu.matmul(y, b), (x,), (t,)), backend="aot_eager")
    equal(compiled(a)[1], t @ b)


@pytest.mark.parametrize("name", ["AOTIModelPackageLoader", "AOTIModelContainerRunnerCpu"])
def test_packaged_programs_are_refused(name: str) -> None:
    """Before they look at what they are given, in a unit and beside another thread's; see the slow test, too."""
    runner = getattr(torch._C._aoti, name)
    own = [run for run in ("run", "boxed_run") if run in vars(runner)]
    before = [getattr(runner, run) for run in own]
    refused = r"aoti::run runs a packaged program|incompatible function arguments"
    for unit, kind in ((mxu.unit(), mxu.EscapeError), (mxu.unit(allow=["aoti::run"]), TypeError)):
        with unit, ThreadPoolExecutor(1) as beside:
            for run in own:
                with pytest.raises(kind, match=refused):
                    getattr(runner, run)(None, [])
                with pytest.raises(kind, match=refused):
                    beside.submit(getattr(runner, run), None, []).result()
    assert own
    assert [getattr(runner, run) for run in own] == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of PyTorch's own code
def test_a_package_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])  # setuptools adds to it
    network, x = torch.nn.Linear(40, 8), torch.randn(3, 40)
    program = torch.export.export(network, (x,))
    package = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
    with torch.no_grad():
        plain = package(x)
        with mxu.unit(), pytest.raises(mxu.EscapeError, match=r"^aoti::run runs a packaged .*=\('aoti::run',\)\)$"):
            package(x)
        with mxu.unit(allow=["aoti::run"]) as unit:
            equal(package(x), plain)
    assert unit.escaped == {"aoti::run": 1}
    equal(package(x), plain)
