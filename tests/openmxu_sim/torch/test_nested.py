"""Units in the contexts of others: each computes the derivatives of its own products, wherever they are asked for."""

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

from torch.utils.checkpoint import checkpoint  # noqa: E402  # needs PyTorch

import openmxu_sim.torch as mxu  # noqa: E402
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.torch.contexts import thread  # noqa: E402

from ...bits import same_bits  # noqa: E402
from .tensors import Function, by_python, same  # noqa: E402

OUTER, INNER = dict[str, Any](operand="bf16", rows=4), dict[str, Any](operand="fp8_e5m2", rows=4)


def _first(x: Any, w: Any) -> Any:
    return (x @ w).relu()


def _both(inner: Any, x: Any, first: Any, last: Any, multiply: Any = torch.matmul, begin: Any = _first) -> Any:
    h = begin(x, first)
    with inner:
        return multiply(h, last)


_compile = cache(partial(torch.compile, torch.matmul, backend="aot_eager"))
"""Loads PyTorch's compiler, which takes seconds."""


def _compiled(h: Any, w: Any) -> Any:
    return _compile()(h, w)


_scripted = torch.jit.CompilationUnit("def product(h, w):\n    return h @ w\n").product


def _again(function: Function, reentrant: bool) -> Function:
    return partial(checkpoint, function, use_reentrant=reentrant)


FORMS: dict[str, Function] = {
    "plain": _both,
    "by itself": partial(_both, multiply=by_python(torch.matmul, lambda g, h, w: (g @ w.mT, h.mT @ g))),
    "scripted": partial(_both, multiply=_scripted),
    "compiled": partial(_both, multiply=_compiled),
    **{
        f"checkpoint, reentrant {reentrant}, {name}": form
        for reentrant in (False, True)
        for name, form in {
            "within": partial(_both, multiply=_again(torch.matmul, reentrant)),
            # what asks for the checkpoint first is no product
            "within, after others": partial(_both, multiply=_again(lambda h, w: (h * 1.0).relu() @ w, reentrant)),
            "around": _again(_both, reentrant),
            "beside": partial(_both, begin=_again(_first, reentrant)),
        }.items()
    },
}


def _inputs() -> tuple[Any, ...]:
    """Operands, the result's gradient; by hand, the result and the gradients of both matrices."""
    torch.manual_seed(5)
    inputs = [torch.randn(shape) for shape in ((6, 9), (9, 7), (7, 5), (6, 5))]
    x, first, last, gradient = (each.numpy() for each in inputs)
    h = np.maximum(golden.matmul(x, first, **OUTER), 0)
    of_h = np.where(h > 0, golden.matmul(gradient, last.T, **INNER), np.float32(0))
    of_both = golden.matmul(x.T, of_h, **OUTER), golden.matmul(h.T, gradient, **INNER)
    inputs[1].requires_grad_(), inputs[2].requires_grad_()
    return *inputs, [golden.matmul(h, last, **INNER), *of_both]


@pytest.mark.parametrize("elsewhere", [None, {"operand": "fp16", "rows": 4}], ids=["in the outer", "in another"])
@pytest.mark.parametrize("name", FORMS)
def test_derivatives_are_of_the_unit_of_the_product(name: str, elsewhere: dict[str, Any] | None) -> None:
    x, first, last, gradient, expected = _inputs()
    torch.autograd.grad(_compiled(x, first).sum(), first)  # it compiles in no context
    with mxu.unit(**OUTER) as outer:
        y = FORMS[name](mxu.unit(**INNER), x, first, last)
        if elsewhere is None:
            y.backward(gradient)
    if elsewhere is not None:
        with mxu.unit(**elsewhere):
            y.backward(gradient)
    same([y, first.grad, last.grad], expected)
    assert outer.work


def test_what_is_saved_by_others() -> None:
    """Functions of the caller's for what is saved are no checkpoint's."""
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved):
        test_derivatives_are_of_the_unit_of_the_product("plain", None)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own use of it
def test_transforms() -> None:
    x, first, last, gradient, (_, *expected) = _inputs()

    def weighted(first: Any, last: Any, x: Any, gradient: Any) -> Any:
        return (_both(mxu.unit(**INNER), x, first, last) * gradient).sum()

    differentiate = torch.func.grad(weighted, (0, 1))
    with mxu.unit(**OUTER):
        one = differentiate(first, last, x, gradient)
        stacks = (each.expand(2, -1, -1) for each in (x, gradient))
        many = torch.vmap(differentiate, (None, None, 0, 0))(first, last, *stacks)
    for found in (one, *zip(*many, strict=True)):
        same(found, expected)


def test_second_derivatives() -> None:
    """Of the inner unit's product, asked for in the outer's context, twice."""
    torch.manual_seed(6)
    a, b, v = (torch.randn(5, 5, requires_grad=True) for _ in range(3))
    with mxu.unit(**OUTER):
        with mxu.unit(**INNER) as inner:
            product = a @ b
        (of_a,) = torch.autograd.grad(product, a, v, create_graph=True)
        of_b, of_v = torch.autograd.grad(of_a.sum(), [b, v])
    ones, right, left = np.ones((5, 5), np.float32), b.detach().numpy(), v.detach().numpy()
    pairs = ((left, right.T), (ones, right), (left.T, ones))
    same([of_a, of_v, of_b.T], [golden.matmul(*pair, **INNER) for pair in pairs])
    assert sum(inner.work.values()) == 4


def test_what_was_made_in_no_context() -> None:
    """The innermost unit's, as the page says."""
    a, b = (torch.randn(5, 5, requires_grad=True) for _ in range(2))
    with mxu.unit(**INNER):
        torch.ones(1, requires_grad=True) * 2  # a node
    product = a @ b
    with mxu.unit(**OUTER):
        product.sum().backward()
    same_bits(a.grad.numpy(), golden.matmul(np.ones((5, 5), np.float32), b.detach().numpy().T, **OUTER))


def test_many_contexts() -> None:
    """No more of them are remembered than are of use."""
    a = torch.ones(2, 2, requires_grad=True)
    with mxu.unit(**INNER):
        early = a @ a
    for _ in range(thread._KEPT + 10):
        with mxu.unit(**OUTER):
            a * 2
    assert len(thread._since) == len(thread._made_in) == thread._KEPT
    recent = a * 2
    for _ in range(thread._KEPT):
        with mxu.unit(**OUTER):
            a.detach() * 2  # no node
    assert thread.made_in(recent.grad_fn) is None
    assert thread._since[-1] - thread._since[0] > thread._KEPT / 2
    with mxu.unit(**OUTER) as unit:
        early.sum().backward()
    assert not unit.work
