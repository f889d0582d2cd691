"""The operator for one product: shapes, derivatives, and what PyTorch's own checks of operators say."""

from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

import openmxu_sim.torch as mxu  # noqa: E402  # needs PyTorch

SHAPES = [
    ((5,), (5,)),
    ((3, 5), (5,)),
    ((5,), (5, 4)),
    ((3, 5), (5, 4)),
    ((5,), (2, 5, 4)),
    ((2, 3, 5), (5,)),
    ((2, 3, 5), (5, 4)),
    ((7, 1, 3, 5), (2, 5, 4)),
    ((0, 5), (5, 4)),
    ((2, 0), (0, 4)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """As in the context, results and gradients."""
    torch.manual_seed(1)
    a, b = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
    results = []
    for multiply in (mxu.matmul, torch.matmul):
        a.grad = b.grad = None
        with mxu.unit():
            found = multiply(a, b)
            found.backward(torch.linspace(-2, 1, found.numel()).reshape(found.shape))
        results.append((found, a.grad, b.grad))
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_pytorch_accepts_the_operator(dtype: Any) -> None:
    a, b = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in ((2, 3, 5), (2, 5, 4)))
    numerics = ("fp16", "fp32", "default", "flush", 4, 1)
    found = torch.library.opcheck(torch.ops.openmxu.products.default, (a, b, *numerics))
    assert set(found.values()) == {"SUCCESS"}


def test_compiled_and_exported() -> None:
    """One graph, with the operator in it."""
    a, b = torch.randn(3, 5, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    expected = mxu.matmul(a, b, operand="fp8_e4m3")
    compiled = torch.compile(lambda x, y: mxu.matmul(x, y, operand="fp8_e4m3"), fullgraph=True, backend="aot_eager")
    found = compiled(a, b)
    assert torch.equal(found, expected)
    found.sum().backward()
    one = a.grad.clone()
    a.grad = None
    expected.sum().backward()
    assert torch.equal(one, a.grad)

    class Layer(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return mxu.matmul(x, y)

    program = torch.export.export(Layer(), (a, b))
    assert "openmxu.products" in str(program.graph)
    assert torch.equal(program.module()(a, b), mxu.matmul(a, b))


@pytest.mark.parametrize("dimensions", [(0, 0), (1, None), (None, 1)])
def test_vmap(dimensions: tuple[int | None, int | None]) -> None:
    a, b = (torch.randn((3, 3, 3, 3) if dimension is not None else (3, 3, 3)) for dimension in dimensions)
    found = torch.vmap(mxu.matmul, in_dims=dimensions)(a, b)
    for at in range(3):
        one, other = (
            each if dimension is None else each.select(dimension, at)
            for each, dimension in zip((a, b), dimensions, strict=True)
        )
        assert torch.equal(found[at], mxu.matmul(one, other))


def test_vmap_of_nothing() -> None:
    assert torch.vmap(lambda a: mxu.matmul(a, torch.ones(4, 5)))(torch.ones(3, 0, 4)).shape == (3, 0, 5)


def test_second_derivatives() -> None:
    a, b = (torch.randint(-3, 4, (3, 3)).float().requires_grad_() for _ in range(2))
    found = []
    for multiply in (partial(mxu.matmul, operand="fp32"), torch.matmul):
        (gradient,) = torch.autograd.grad(multiply(a, b).square().sum(), a, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [a, b]))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_without_a_context_and_within() -> None:
    """Its arguments decide, not the context's."""
    a = torch.tensor([[1 + 2**-9]])
    with mxu.unit(operand="bf16"):
        assert mxu.matmul(a, a.T, operand="fp32").item() > 1
    assert mxu.matmul(a, a.T).item() == 1


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((torch.ones(2, 3), torch.ones(2, 3)), {}, r"a and b must have the shapes .* not \(2, 3\) and \(2, 3\)"),
        ((torch.tensor(1.0), torch.ones(1)), {}, r"a and b must have the shapes .* not \(\) and \(1,\)"),
        ((torch.ones(2, 2), torch.ones(2, 2).double()), {}, "a and b must be of one type .* torch.float64"),
        ((torch.ones(2, 2, dtype=torch.int32),) * 2, {}, "a and b must be of one type .* not torch.int32"),
        ((torch.ones(2, 2),) * 2, {"operand": "bf15"}, "operand must be one of"),
        ((torch.ones(2, 2),) * 2, {"rows": 0}, "rows must be"),
    ],
)
def test_bad_input(arguments: tuple[Any, Any], options: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        mxu.matmul(*arguments, **options)
