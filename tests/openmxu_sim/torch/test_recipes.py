"""Formats by layer and role, delayed scales, random rounding, and errors: what a unit's products are made of."""

import pickle
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

from torch.utils.checkpoint import checkpoint  # noqa: E402  # needs PyTorch

import openmxu_sim.torch as mxu  # noqa: E402
from openmxu_sim import golden  # noqa: E402

from ...bits import same_bits  # noqa: E402
from .tensors import equal, same  # noqa: E402

F = torch.nn.functional
FORMATS = {"operand": "fp8_e4m3", "weight": "e5f9", "gradient": "fp8_e5m2"}


def _random(*shape: int, seed: int = 0, grad: bool = True) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def _golden(a: Any, b: Any, operand: str, weight: str, **options: Any) -> npt.NDArray[np.float32]:
    arrays = (np.ascontiguousarray(tensor.detach().numpy()) for tensor in (a, b))
    return golden.matmul(*arrays, rows=128, operand=operand, weight=weight, **options)


FORMS: dict[str, Any] = {
    "linear": lambda x, w: F.linear(x, w.T),
    "mm": torch.mm,
    "matmul": lambda x, w: (x.reshape(2, 3, 9) @ w).reshape(6, 7),
    "bmm": lambda x, w: x[None].bmm(w[None])[0],
    "einsum": partial(torch.einsum, "mk,kn->mn"),
    "transposed": lambda x, w: x.T.contiguous().T.mm(w),
    "in no context": partial(mxu.matmul, **FORMATS),
}


@pytest.mark.parametrize("form", FORMS)
def test_roles(form: str) -> None:
    """Activations, weights and gradients have formats of their own, in whichever way PyTorch multiplies them."""
    x, w, g = _random(6, 9, seed=1), _random(9, 7, seed=2), _random(6, 7, seed=3, grad=False)
    with nullcontext() if form == "in no context" else mxu.unit(**FORMATS):
        y = FORMS[form](x, w)
        y.backward(g)
    right = [_golden(x, w, "fp8_e4m3", "e5f9"), _golden(g, w.T, "fp8_e5m2", "e5f9")]
    same([y, x.grad, w.grad], [*right, _golden(x.T, g, "fp8_e4m3", "fp8_e5m2")])


@pytest.mark.parametrize("transposed", [False, True])
def test_roles_in_convolutions(transposed: bool) -> None:
    """Of 1x1, which are products of channels."""
    x, w, g = _random(2, 9, 3, 4, seed=1), _random(7, 9, 1, 1, seed=2), _random(2, 7, 3, 4, seed=3, grad=False)
    with mxu.unit(**FORMATS):
        y = F.conv_transpose2d(x, w.transpose(0, 1)) if transposed else F.conv2d(x, w)
        y.backward(g)
    rows, gradients, *found = (tensor.movedim(1, -1).reshape(24, -1) for tensor in (x, g, y, x.grad))
    weights = w[:, :, 0, 0]
    right = [_golden(rows, weights.T, "fp8_e4m3", "e5f9"), _golden(gradients, weights, "fp8_e5m2", "e5f9")]
    same([*found, w.grad[:, :, 0, 0]], [*right, _golden(gradients.T, rows, "fp8_e5m2", "fp8_e4m3")])


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.up(x).relu())


class Net(torch.nn.Module):
    def __init__(self, again: bool = False) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(8, 4)
        self.again = again

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(x)


@pytest.mark.parametrize("again", [False, True])
def test_layers(again: bool) -> None:
    net = Net(again)
    layers = {"head": "bf16", "blocks.1": {"operand": "fp16", "gradient": "tf32"}, "blocks.*.up": "fp8_e5m2"}
    with mxu.unit(operand="fp8_e4m3", gradient="e5f3", layers=layers, errors=True) as unit:
        net(_random(5, 8)).square().mean().backward()
    seen = {(row["layer"], row["direction"], row["operand"], row["weight"]) for row in unit.errors()}
    assert seen == {
        ("Net.head", "forward", "bf16", "bf16"),
        ("Net.head", "backward", "bf16", "bf16"),
        *(("Net.blocks.1." + name, "forward", "fp16", "fp16") for name in ("up", "down")),
        *(("Net.blocks.1." + name, "backward", "tf32", "fp16") for name in ("up", "down")),
        ("Net.blocks.0.up", "forward", "fp8_e5m2", "fp8_e5m2"),
        ("Net.blocks.0.up", "backward", "fp8_e5m2", "fp8_e5m2"),
        ("Net.blocks.0.down", "forward", "fp8_e4m3", "fp8_e4m3"),
        ("Net.blocks.0.down", "backward", "e5f3", "fp8_e4m3"),
    }


def test_nested_units_keep_their_layers() -> None:
    net, outer = Net(), mxu.unit(layers={"head": "fp16"}, errors=True)
    with outer, mxu.unit(operand="tf32", layers={"up": "fp8_e4m3"}, errors=True) as inner:
        loss = net(_random(5, 8)).sum()
    with outer:
        loss.backward()
    assert not outer.errors()
    assert {row["operand"] for row in inner.errors() if row["layer"].endswith(".up")} == {"fp8_e4m3"}
    assert {row["operand"] for row in inner.errors() if row["layer"] == "Net.head"} == {"tf32"}


def test_a_pattern_without_a_module() -> None:
    text = r"no name has matched these patterns of layers: \['lm_heda'\]"
    with pytest.warns(UserWarning, match=text), mxu.unit(layers={"lm_heda": "fp32", "head": "fp32"}):
        Net()(_random(2, 8))
    with mxu.unit(layers={"*": "fp32"}, allow=["aten::linalg_inv_ex"]) as unit:
        torch.linalg.inv(torch.eye(2))  # no product of the unit's
    assert unit.layers.unmatched() == ["*"]


def test_names_of_modules_after_an_error() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError

    with mxu.unit(trace=True) as unit:
        with pytest.raises(ZeroDivisionError):
            torch.nn.Sequential(Broken())(_random(2, 8))
        _random(2, 2).mm(_random(2, 2))
    assert [work.layer for work in unit.work] == [""]


def test_delayed_scales() -> None:
    """A tensor is scaled by the largest magnitudes before it, and saturates if it has larger ones; a first one by its
    own.
    """
    layer, w = torch.nn.Linear(4, 1, bias=False), torch.ones(1, 4)
    layer.weight.data = w
    results = []
    with mxu.unit(operand="fp8_e4m3/tensor/saturate", weight="fp32", history=2):
        for size in (28672.0, 0.3, 0.3, 0.3, 57344.0):
            results.append(layer(torch.full((1, 4), size)).item() / 4)
    # Scales are 64, 64, 64, where 0.3 is below the smallest normal number, then 2^-10.
    assert results == [28672.0, 0.0, 0.0, 0.3125, 448 * 2.0**-10]
    with mxu.unit(operand="fp8_e4m3/tensor/saturate", weight="fp32"):
        assert layer(torch.full((1, 4), 896.0)).item() == 4 * 896


def test_random_rounding_is_reproducible() -> None:
    x, w = _random(32, 64, seed=4, grad=False), _random(64, 32, seed=5, grad=False)

    def twice(seed: int) -> list[Any]:
        with mxu.unit(operand="bf16/stochastic", accumulate="bf16/stochastic", seed=seed):
            return [x @ w, x @ w]

    first, again, other = twice(1), twice(1), twice(2)
    equal(first, again)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])


def test_errors_are_those_of_products() -> None:
    a, b = _random(16, 32, seed=6, grad=False), _random(32, 8, seed=7, grad=False)
    with mxu.unit(operand="fp8_e4m3", errors=True) as unit:
        result = a @ b
        unit.next_step()
        a @ (2 * b)
    first, second = unit.errors()
    exact = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    error = result.numpy() - exact
    assert first["sqnr_db"] == pytest.approx(10 * np.log10(np.sum(exact**2) / np.sum(error**2)), rel=1e-9)
    assert first["largest"] == pytest.approx(np.abs(error).max() / np.abs(exact).max(), rel=1e-9)
    assert (first["step"], second["step"]) == (0, 1)
    assert (first["layer"], first["operator"], first["direction"]) == ("", "mm", "forward")
    assert f"| forward | {second['sqnr_db']:.1f} |" in unit.report().to_markdown()
    large = torch.full((1, 1), 1e6)
    with mxu.unit(operand="fp8_e4m3", errors=True) as unit:
        large @ large
    assert (unit.errors()[0]["overflowed"], unit.errors()[0]["lost"], unit.errors()[0]["operands"]) == (1, 2, 2)


def test_what_a_unit_is_called_and_its_copies() -> None:
    unit = mxu.unit(operand="fp8_e4m3", rows=4, allow=["aten::b", "aten::a"], threads=2)
    expected = "unit(operand='fp8_e4m3', rows=4, allow=('aten::a', 'aten::b'), threads=2)"
    assert repr(unit) == repr(mxu.unit(**eval(expected.replace("unit", "dict")))) == expected
    unit = mxu.unit(operand="e4m3/row", gradient=torch.float8_e5m2, layers={"head": "bf16"}, rows=4, history=3)
    copy = pickle.loads(pickle.dumps(unit))
    assert repr(copy) == repr(unit)
    assert "operand='fp8_e4m3/row'" in repr(copy)
    assert copy.numerics == unit.numerics


@pytest.mark.parametrize("way", ["reentrant", "checkpoint", "hooks", "cpu"])
@pytest.mark.parametrize(
    "options",
    [{"operand": "fp8_e4m3", "weight": "fp16", "gradient": "fp8_e5m2"}, {"layers": {"up": "fp8_e4m3", "head": "fp16"}}],
    ids=str,
)
def test_saved_tensors_elsewhere(way: str, options: dict[str, Any]) -> None:
    """Tensors that are computed again, or copied, keep roles and layers: gradients are those without."""
    net, x = Net(), _random(5, 8, seed=9)
    inputs = [x, *net.parameters()]
    saved = {
        "hooks": torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone),
        "cpu": torch.autograd.graph.save_on_cpu(),
    }

    def otherwise(x: Any) -> Any:
        if way not in saved:
            return checkpoint(net, x, use_reentrant=way == "reentrant")
        with saved[way]:
            return net(x)

    def gradients(run: Any) -> Any:
        with mxu.unit(threads=1, **options):
            loss = run(x).square().sum()
            if way != "reentrant":  # torch.autograd.grad does not go through it
                return torch.autograd.grad(loss, inputs)
            loss.backward()
        found, x.grad = [each.grad for each in inputs], None
        net.zero_grad()
        return found

    equal(gradients(net), gradients(otherwise))


@pytest.mark.parametrize(
    "options", [{"gradient": "fp8_e5m2"}, {"weight": "fp16"}, {"layers": {"head": "fp16"}}], ids=str
)
def test_roles_that_cannot_be_known(options: dict[str, Any]) -> None:
    """Under torch.func: an error, in place of other formats without a word."""
    net, x = Net(), _random(5, 8, grad=False)
    differentiate = torch.func.grad(lambda values: torch.func.functional_call(net, values, (x,)).sum())
    with mxu.unit(**options), pytest.raises(mxu.EscapeError, match=r"torch\.func"):
        differentiate(dict(net.named_parameters()))
    with mxu.unit(operand="fp16"):
        assert differentiate(dict(net.named_parameters()))


def test_operands_of_one_memory() -> None:
    """Queries and keys that are parts of one tensor keep their roles."""
    qkv = _random(2, 6, 6, seed=4)
    query, key = qkv.unbind(0)
    g = _random(6, 6, seed=5, grad=False)
    with mxu.unit(**FORMATS):
        (query @ key.T).backward(g)
    same(qkv.grad, [_golden(g, key, "fp8_e5m2", "e5f9"), _golden(query.T, g, "fp8_e4m3", "fp8_e5m2").T])


def test_delayed_scales_of_each_operand() -> None:
    """Where all sizes are equal, large weights do not scale with small inputs: nothing is lost, and nothing is NaN."""
    layer, x = torch.nn.Linear(8, 8, bias=False), _random(8, 8, seed=6)
    layer.weight.data.mul_(1000)
    results = []
    for history in (None, 3):
        with mxu.unit(operand="fp8_e4m3/tensor", history=history):
            results.append(torch.autograd.grad(layer(x).sum(), [x, layer.weight]))
    equal(*results, msg="a first tensor is scaled by its own")
    values = [_random(1, 1, 4, 4, seed=seed, grad=False) for seed in range(3)]
    values[2] *= 1000
    module = torch.nn.Module()
    module.forward = F.scaled_dot_product_attention
    with mxu.unit(operand="fp8_e4m3/tensor"):
        expected = F.scaled_dot_product_attention(*values)
    with mxu.unit(operand="fp8_e4m3/tensor", history=3):
        assert torch.equal(module(*values), expected)


def test_weights_gradients_are_those_of_a_convolution() -> None:
    """With a format of weights and none of gradients, these have the format of activations everywhere."""
    x, w = _random(6, 9, seed=1), _random(7, 9, seed=2)
    with mxu.unit(operand="fp8_e4m3", weight="fp32"):
        F.linear(x, w).square().sum().backward()
        of_linear, w.grad = w.grad, None
        F.conv1d(x.T[None], w[:, :, None]).square().sum().backward()
    same_bits(w.grad.numpy(), of_linear.numpy())


def test_names_do_not_depend_on_what_ran_before() -> None:
    net, x = Net(), _random(2, 8, grad=False)

    def layers(run: Any) -> list[str]:
        with mxu.unit(trace=True) as unit:
            run(x)
        return [work.layer for work in unit.work]

    assert layers(net.blocks[0]) == ["Block.up", "Block.down"]
    names = [f"Net.blocks.{block}.{part}" for block in range(2) for part in ("up", "down")]
    assert layers(net) == [*names, "Net.head"]
    net.head = torch.nn.Linear(8, 3)
    assert layers(net)[-1] == "Net.head"
    assert layers(torch.nn.Sequential(net))[-1] == "Sequential.0.head"
    assert layers(net)[-1] == "Net.head"
