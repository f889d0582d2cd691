"""Which products PyTorch's operators ask for, and where their results go: on small integers, PyTorch is the oracle.

The end has the operator of ours for one product: shapes, derivatives, and what PyTorch's own checks of operators say.
"""

from functools import partial
from typing import Any
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

import openmxu_sim.torch as mxu  # noqa: E402  # needs PyTorch
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.networks import numerics  # noqa: E402

from ..engines.runs import placed_by_golden  # noqa: E402
from ..networks.programs import patterns  # noqa: E402
from .tensors import Function, equal, same  # noqa: E402

F = torch.nn.functional
Shapes = tuple[tuple[int, ...], ...]


def integers(shapes: Shapes, seed: int = 1) -> list[Any]:
    """Products and sums of these are exact in every format here, in any order."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-8, 9, shape, generator=generator).float().requires_grad_() for shape in shapes]


def _with_gradients(function: Function, inputs: list[Any]) -> list[Any]:
    """A function's result, and the gradients of all inputs for some integers as the result's gradient."""
    result = function(*inputs)
    gradient = torch.arange(result.numel()).remainder(9).sub(4).reshape(result.shape).to(result.dtype)
    return [result, *torch.autograd.grad(result, inputs, gradient)]


def _check(function: Function, inputs: list[Any], count: int) -> None:
    """The unit gives what PyTorch does, and computes `count` products or stacks of them; also if it measures errors."""
    expected = _with_gradients(function, inputs)
    for errors in (False, True):
        with mxu.unit(errors=errors) as unit:
            found = _with_gradients(function, inputs)
        equal(found, expected)
        assert sum(unit.work.values()) == count


STEPS = {"stride": (1, 2), "padding": (2, 0), "dilation": (3, 1)}
PRODUCTS: dict[str, tuple[Function, Shapes]] = {
    "mm": (torch.mm, ((5, 7), (7, 3))),
    "mv": (torch.mv, ((5, 7), (7,))),
    "dot": (torch.dot, ((7,), (7,))),
    "vdot": (torch.vdot, ((7,), (7,))),
    "bmm": (torch.bmm, ((4, 5, 7), (4, 7, 3))),
    "addmm": (lambda s, a, b: torch.addmm(s, a, b, beta=3, alpha=2), ((4,), (5, 7), (7, 4))),
    "addmv": (lambda s, a, b: torch.addmv(s, a, b, beta=3, alpha=2), ((5,), (5, 7), (7,))),
    "addbmm": (lambda s, a, b: torch.addbmm(s, a, b, beta=3, alpha=2), ((5, 4), (3, 5, 7), (3, 7, 4))),
    "baddbmm": (lambda s, a, b: torch.baddbmm(s, a, b, beta=3, alpha=2), ((1, 5, 4), (3, 5, 7), (3, 7, 4))),
    "stacks": (torch.matmul, ((2, 1, 5, 7), (3, 7, 4))),
    "row by stack": (torch.matmul, ((7,), (3, 7, 4))),
    "stack by column": (torch.matmul, ((3, 4, 7), (7,))),
    "einsum": (lambda a, b: torch.einsum("bij,kjb->ik", a, b), ((3, 5, 7), (4, 7, 3))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), ((3, 5, 7), (5, 7, 2))),
    "linear of a vector": (F.linear, ((7,), (5, 7), (5,))),
    "linear of a stack": (F.linear, ((2, 3, 7), (5, 7), (5,))),
    "inner": (torch.inner, ((3, 5), (4, 5))),
    "transposed": (lambda a, b: a.t() @ b.t(), ((7, 5), (3, 7))),
    "overlapping": (lambda a, b: a.expand(4, 7) @ b[::2].t(), ((1, 7), (6, 7))),
    "padding by name": (lambda x, w: F.conv2d(x, w, padding="same"), ((2, 3, 6, 7), (4, 3, 3, 5))),
    "a step for each dimension": (partial(F.conv2d, **STEPS), ((2, 3, 9, 8), (4, 3, 3, 2))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    function, shapes = PRODUCTS[name]
    _check(function, integers(shapes), count=3)


GROUPS = {
    # Sizes of the operands, and where groups end: of rows, of columns, of the inner dimension; a stack has none.
    "rows": ((10, 8), (4, 8, 16), (3, 3, 8, 10)),
    "columns": ((4, 8, 16), (16, 16), (4, 4, 9, 16)),
    "inner": ((8, 16), (16, 8), (0, 5, 16)),
    "stack": ((3, 8, 8), (3, 8, 16), None),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", GROUPS)
def test_products_of_groups(name: str, dtype: Any) -> None:
    *shapes, ends = GROUPS[name]
    inputs = [each.detach().to(dtype).requires_grad_() for each in integers(tuple(shapes))]
    offsets = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    filled = 1 if ends is None else len(set(ends) - {0})
    _check(partial(torch._grouped_mm, offs=offsets), inputs, count=3 * filled)


def test_bits_of_products_of_groups() -> None:
    a, b = _random(10, 8, seed=3), _random(3, 8, 12, seed=4)
    with mxu.unit(rows=4) as unit:
        found = torch._grouped_mm(a, b, offs=torch.tensor([4, 4, 9], dtype=torch.int32))
    by_hand = [golden.matmul(a[:4].numpy(), b[0].numpy(), rows=4), golden.matmul(a[4:9].numpy(), b[2].numpy(), rows=4)]
    same([found[:4], found[4:9]], by_hand)
    assert not found[9:].any()  # in no group
    assert set(unit.work) == {mxu.Work("_grouped_mm", 1, m, 8, 12) for m in (4, 5)}


ENDS = torch.tensor([3, 3, 8, 10], dtype=torch.int32)


@pytest.mark.parametrize(
    ("shapes", "ends", "options"),
    [
        (((10, 8), (4, 8, 12)), None, {}),
        (((10, 8), (4, 8, 12)), ENDS[[0, 3]], {}),
        (((10, 8), (4, 4, 12)), ENDS, {}),
        (((10, 8), (4, 8, 12)), ENDS.long(), {}),
        (((10, 8), (4, 8, 12)), ENDS, {"bias": torch.ones(12)}),
        (((10, 8), (4, 8, 12)), ENDS, {"out_dtype": torch.bfloat16}),
        (((10, 5), (4, 5, 12)), ENDS, {}),
        (((3, 8, 4), (2, 4, 8)), None, {}),
    ],
)
def test_mistakes_with_groups_are_those_of_pytorch(shapes: Shapes, ends: Any, options: dict[str, Any]) -> None:
    a, b = (torch.ones(shape) for shape in shapes)
    with pytest.raises(RuntimeError) as plain:
        torch._grouped_mm(a, b, offs=ends, **options)
    with mxu.unit() as unit, pytest.raises(RuntimeError) as found:
        torch._grouped_mm(a, b, offs=ends, **options)
    assert str(found.value).partition("\n")[0] == str(plain.value).partition("\n")[0]
    assert not unit.work


FLOAT8 = {name: getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")}


@pytest.mark.parametrize("name", FLOAT8)
def test_float8(name: str) -> None:
    """All 256 patterns enter exactly, as ml_dtypes reads them, times one; results are rounded to the type, once."""
    every = np.arange(256, dtype=np.uint8)
    exact = every.view(getattr(ml_dtypes, name)).astype(np.float32)
    a = torch.from_numpy(every).view(FLOAT8[name])
    one, options = torch.ones(1, 1).to(FLOAT8[name]), dict[str, Any](operand="fp32", subnormals="ieee")
    with mxu.unit(**options):
        results = a[:, None] @ one, mxu.matmul(a[:, None], one, **options)
    for result in results:
        assert result.dtype == FLOAT8[name]
        np.testing.assert_array_equal(result[:, 0].float().numpy(), exact)
    # Products, sums with a scaled summand, a convolution with a bias: as PyTorch computes them.
    shapes = ((3, 4), (4, 3), (3,), (1, 3, 5), (2, 3, 3), (2,))
    small = [torch.randint(-1, 2, shape).to(FLOAT8[name]) for shape in shapes]

    def compute(a: Any, b: Any, s: Any, x: Any, w: Any, bias: Any) -> list[Any]:
        return [a @ b, torch.addmm(s, a, b, beta=2), F.conv1d(x, w, bias)]

    with mxu.unit() as unit:
        found = compute(*small)
    expected = [each.to(FLOAT8[name]) for each in compute(*(each.float() for each in small))]
    assert [each.dtype for each in found] == [FLOAT8[name]] * 3
    equal([each.float() for each in found], [each.float() for each in expected])
    assert sum(unit.work.values()) == 3


@pytest.mark.parametrize("name", FLOAT8)
def test_large_results_in_float8(name: str) -> None:
    """Too large for E4M3 is NaN, as the numerics say and ml_dtypes does; PyTorch's conversion has 448."""
    a, b = torch.tensor([[28.0, 16], [28, 20], [-28, -20], [256, 256], [28, -448]]), torch.tensor([[16.0], [1]])
    a, b = (each.to(FLOAT8[name]) for each in (a, b))
    expected = (a.float() @ b.float()).numpy().astype(getattr(ml_dtypes, name)).view(np.uint8)
    with mxu.unit():
        scaled = torch._scaled_mm(a, b, *[torch.ones(())] * 2)
        found = scaled, a @ b, torch.addmm(b[:1], a, b, beta=0), mxu.matmul(a, b)
        convolved = F.conv1d(a[:, :, None], b.mT[:, :, None])[..., 0]
    for each in (*found, convolved):
        np.testing.assert_array_equal(each.view(torch.uint8).numpy(), expected)


@pytest.mark.parametrize("by_row", [(False, False), (True, True), (True, False)])
@pytest.mark.parametrize("dtypes", [("e4m3fn", "e4m3fn", torch.float32), ("e5m2", "e4m3fnuz", torch.bfloat16)])
def test_scaled_products(dtypes: tuple[str, str, Any], by_row: tuple[bool, bool]) -> None:
    """The definition's bits: golden's product, times one scale, then the other, a bias; rounded to the type at last."""
    *float8, out = (getattr(torch, f"float8_{name}") if isinstance(name, str) else name for name in dtypes)
    torch.manual_seed(1)
    a, b = (torch.randn(shape).mul(9).to(dtype) for shape, dtype in zip(((7, 40), (40, 5)), float8, strict=True))
    shapes = [size if row else () for size, row in zip(((7, 1), (1, 5)), by_row, strict=True)]
    scales, bias = [torch.rand(shape) / 7 for shape in shapes], torch.randn(5).to(out)
    product = golden.matmul(a.float().numpy(), b.float().numpy(), rows=4)
    expected = (product * scales[0].numpy()) * scales[1].numpy()
    with mxu.unit(rows=4) as unit:
        plain = torch._scaled_mm(a, b, *scales, out_dtype=out)
        whole = torch._scaled_mm(a, b, *scales, bias, out_dtype=out, use_fast_accum=True)
        ways = [F.ScalingType.RowWise if row else F.ScalingType.TensorWise for row in by_row]
        again = F.scaled_mm(a, b, scales[0], ways[0], scales[1], ways[1], None, None, bias, out, (), True)
        with pytest.raises(RuntimeError, match="reduction dim"):
            torch._scaled_mm(a, b[1:], *scales, out_dtype=out)
    equal([plain, whole], [torch.from_numpy(each).to(out) for each in (expected, expected + bias.float().numpy())])
    equal(again, whole)
    assert sum(unit.work.values()) == 3


@pytest.mark.parametrize(
    "change",
    [
        *({"bias": torch.ones(shape)} for shape in ((), (1,), (7, 5), (2, 7, 5))),
        *({"bias": torch.ones(5, dtype=dtype)} for dtype in (torch.int32, torch.float64)),
        *({"out_dtype": dtype} for dtype in (torch.int32, torch.bool, torch.complex64)),
        {"scale_a": torch.ones(1, 1, 1)},
    ],
)
def test_arguments_of_scaled_products(change: dict[str, Any]) -> None:
    a, b = (torch.ones(shape).to(torch.float8_e4m3fn) for shape in ((7, 40), (40, 5)))
    given = {"scale_a": torch.ones(1), "scale_b": torch.ones(1)} | change
    with mxu.unit() as unit, pytest.raises(mxu.EscapeError, match=r"^aten::_scaled_mm must have .* bias of shape"):
        torch._scaled_mm(a, b, **given)
    assert not unit.work


@pytest.mark.parametrize("k", [1, 7, 1000, 1024])
@pytest.mark.parametrize("options", [{}, {"operand": "fp32", "terms": 8}, {"operand": "fp16", "terms": 32, "rows": 32}])
def test_products_of_integers(k: int, options: dict[str, Any]) -> None:
    """Exact, up to the largest sums of all, 2^24, beside small ones."""
    random = np.random.default_rng(k)
    a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((5, k), (k, 6)))
    a[0], b[:, 0], a[1, :] = -128, -128, 127
    b[-1, 0] = 1
    out = torch.empty(0, dtype=torch.int32)
    with mxu.unit(**options) as unit:
        found = torch._int_mm(torch.from_numpy(a), torch.from_numpy(b), out=out)
    np.testing.assert_array_equal(found.numpy(), a.astype(np.int64) @ b.astype(np.int64))
    assert found is out
    assert sum(unit.work.values()) == 1


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"operand": "fp8_e4m3"}, {}),
        ({"weight": "e3f9"}, {}),
        ({"operand": "int8/row/fp32"}, {}),
        ({"accumulate": "bf16"}, {}),
        ({"between": "e8f13"}, {}),
        ({"terms": 8, "accumulate": "fp32/guard0"}, {}),
        ({}, {"dtype": torch.uint8}),
        ({}, {"size": 1025}),
    ],
)
def test_integers_that_would_not_be_exact(options: dict[str, Any], change: dict[str, Any]) -> None:
    a = torch.ones(change.get("size", 24), change.get("size", 24), dtype=change.get("dtype", torch.int8))
    with mxu.unit(**options), pytest.raises(mxu.EscapeError, match=r"^aten::_int_mm must have .* K <= 1024, .* exact"):
        torch._int_mm(a, a)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "beyond"),
    [
        *((1, 0, 1, 1, None), (2, 1, 1, 2, None), (1, 2, 2, 1, None), (3, 1, 2, 4, None), (3, 4, 1, 1, None)),
        *((1, 0, 1, 1, 0), (2, 1, 1, 2, 1), (3, 1, 2, 4, 2), (1, 0, 3, 1, 2)),
    ],
)
def test_convolutions(
    stride: int, padding: int, dilation: int, groups: int, beyond: int | None, dimensions: int, bias: bool
) -> None:
    """Those with `beyond` are transposed."""
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    transposed = beyond is not None
    options |= {"output_padding": beyond} if transposed else {}
    function = partial(getattr(F, f"conv{'_transpose' * transposed}{dimensions}d"), **options)
    sizes, taps = (9, 8, 7)[:dimensions], (2, 3, 2)[:dimensions]
    weight, channels = ((4, 2, *taps), 2 * groups) if transposed else ((8, 4 // groups, *taps), 8)
    _check(function, integers(((3, 4, *sizes), weight, *[(channels,)] * bias)), count=3)


def _random(*shape: int, seed: int) -> Any:
    return torch.from_numpy(patterns(*shape, seed=seed).copy())


@pytest.mark.parametrize("operand", ["bf16", "fp16", "fp8_e4m3"])
def test_bits_of_products(operand: str, mode: str) -> None:
    """Activations are the first factor, the inner dimension is the usual one: one product of golden for each."""
    options = {"operand": operand, "subnormals": mode, "rows": 4}
    a, b, gradient = (_random(*shape, seed=seed) for shape, seed in (((5, 11), 7), ((3, 11), 8), ((5, 3), 12)))
    weight = b.clone().requires_grad_()
    with mxu.unit(**options):
        result = F.linear(a, weight)
        result.backward(gradient)
    of_weight = golden.matmul(a.numpy().T, gradient.numpy(), **options)
    same([result, weight.grad.t()], [golden.matmul(a.numpy(), b.numpy().T, **options), of_weight])


def test_bits_of_convolutions(mode: str) -> None:
    """By hand, products of PyTorch's patches; the gradient of the image is summed from the patches'."""
    torch.manual_seed(4)
    options, steps = dict[str, Any](subnormals=mode, rows=4), {"stride": (2, 1), "dilation": (1, 2)}
    image, weight, gradient = (torch.randn(shape) for shape in ((2, 3, 6, 11), (4, 3, 2, 3), (2, 4, 3, 7)))
    flat, beside = weight.flatten(1).numpy(), gradient.flatten(2).numpy()
    patches = F.unfold(image, (2, 3), **steps).numpy()
    result = np.stack([golden.matmul(flat, each, **options) for each in patches]).reshape(gradient.shape)
    of_weight = golden.matmul(np.concatenate(beside, 1), np.concatenate(patches, 1).T, **options)
    of_patches = np.stack([golden.matmul(flat.T, each, **options) for each in beside])
    of_image = F.fold(torch.from_numpy(of_patches), (6, 11), (2, 3), **steps)
    with mxu.unit(**options):
        found = F.conv2d(image.requires_grad_(), weight.requires_grad_(), **steps)
        gradients = torch.autograd.grad(found, [weight, image], gradient)
    same([found, *gradients], [result, of_weight.reshape(weight.shape), of_image.numpy()])


def _by_golden(a: np.ndarray, b: np.ndarray, *, threads: int, **options: Any) -> np.ndarray:
    return np.array([golden.matmul(*pair, **options) for pair in zip(*map(golden.from_bits, (a, b)), strict=True)])


def _models() -> dict[str, tuple[Any, Shapes]]:
    nn = torch.nn
    torch.manual_seed(2)
    return {
        "convolutions": (
            nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, groups=2), nn.GELU(), nn.ConvTranspose2d(4, 2, 2)),
            ((2, 2, 7, 6),),
        ),
        "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), ((2, 2, 5, 4),) * 3),
        "encoder": (nn.TransformerEncoderLayer(8, 2, 12, dropout=0, batch_first=True), ((2, 4, 8),)),
        "LSTM": (nn.LSTM(6, 5, 2, bidirectional=True), ((3, 2, 6),)),
        "GRU": (nn.GRU(6, 5), ((3, 2, 6),)),
        "RNN": (nn.RNN(6, 5), ((3, 2, 6),)),
    }


@pytest.mark.parametrize("name", _models())
def test_bits_of_models(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, shapes = _models()[name]
    torch.manual_seed(3)
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    variables = [*inputs, *(model.parameters() if isinstance(model, torch.nn.Module) else ())]
    results, products, placed = [], Mock(side_effect=_by_golden), Mock(side_effect=placed_by_golden)
    for _ in range(2):
        with mxu.unit(rows=8):
            found = model(*inputs)
            found = found[0] if isinstance(found, tuple) else found
            results.append([found, *torch.autograd.grad(found.square().sum(), variables)])
        monkeypatch.setattr(numerics.model, "products", products)
        monkeypatch.setattr(numerics, "placed_products", placed)
    assert products.called or placed.called
    same(results[0], [each.detach().numpy() for each in results[1]])


def test_types_of_results() -> None:
    """Of narrower tensors, results are rounded once, bias included."""
    for dtype, operand in ((torch.bfloat16, "bf16"), (torch.float16, "fp16")):
        bias, a, b = (torch.randn(shape).to(dtype) for shape in ((2,), (3, 40), (40, 2)))
        with mxu.unit(operand=operand):
            plain, added = a @ b, torch.addmm(bias, a, b)
        exact = torch.from_numpy(golden.matmul(a.float().numpy(), b.float().numpy(), rows=128, operand=operand))
        assert torch.equal(plain, exact.to(dtype))
        assert torch.equal(added, (exact + bias.float()).to(dtype))


def test_channels_last() -> None:
    layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last).requires_grad_()
    plain = layer(x)
    with mxu.unit():
        assert layer(x).stride() == plain.stride()
        assert torch.nn.Conv2d(3, 4, 3)(torch.randn(2, 3, 6, 6)).is_contiguous()


def test_summands() -> None:
    """They are scaled in fp32, and one times zero is not read."""
    s, a, b = (torch.randn(50, 50).bfloat16() for _ in range(3))
    with mxu.unit():
        exact = torch.addmm(torch.zeros(50), a.float(), b.float())
        assert torch.equal(torch.addmm(s, a, b, beta=0.3), (exact + 0.3 * s.float()).bfloat16())
        assert torch.equal(torch.addmm(s, a / 0, b, beta=1, alpha=0), s)
        assert torch.equal(torch.addmm(s * float("nan"), a, b, beta=0), exact.bfloat16())


def test_results_in_place() -> None:
    """FSDP resizes operands afterwards: it frees the memory of parameters by that."""
    a, b, s = (torch.randn(4, 4) for _ in range(3))
    with mxu.unit() as unit:
        expected, out = a @ b, torch.empty(0)
        assert torch.mm(a, b, out=out) is out
        assert torch.equal(out, expected)
        assert torch.equal(s.clone().addmm_(a, b), s + expected)
        assert torch.equal(s.clone().addmm_(a, b, beta=0), expected)
    assert {work.operator for work in unit.work} == {"mm", "addmm"}
    assert a.untyped_storage().resizable()


@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_nothing_to_multiply(m: int, k: int, n: int) -> None:
    with mxu.unit() as unit:
        assert torch.equal(torch.ones(m, k) @ torch.ones(k, n), torch.zeros(m, n))
        assert F.conv2d(torch.ones(0, 3, 5, 5), torch.ones(2, 3, 3, 3)).shape == (0, 2, 3, 3)
    assert not unit.work


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda: torch.ones(2, 3) @ torch.ones(2, 2), "same reduction dim"),
        (lambda: torch.ones(2, 2) @ torch.ones(2, 2).double(), "one dtype, not of torch.float32 and torch.float64"),
        (lambda: torch.mm(torch.ones(2), torch.ones(2)), "must be matrices|must be 2D|2D tensor"),
        (lambda: torch.bmm(torch.ones(2, 3, 3), torch.ones(3, 3, 3)), "batch"),
        (lambda: F.conv2d(torch.ones(1, 3, 5, 5), torch.ones(2, 4, 3, 3)), "channel"),
        (lambda: F.conv2d(torch.ones(1, 3, 2, 2), torch.ones(2, 3, 3, 3)), "Kernel size"),
        (lambda: torch.addmm(torch.ones(3), torch.ones(2, 2), torch.ones(2, 2)), "size|shape|expand"),
    ],
)
def test_mistakes_are_errors_of_pytorch(function: Function, text: str) -> None:
    with mxu.unit(), pytest.raises(RuntimeError, match=text):
        function()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *(((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((3, 5), (5, 4)), ((5,), (2, 5, 4)), ((2, 3, 5), (5,))),
        *(((2, 3, 5), (5, 4)), ((7, 1, 3, 5), (2, 5, 4)), ((0, 5), (5, 4)), ((2, 0), (0, 4))),
    ],
)
def test_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    a, b = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
    results = []
    with mxu.unit():
        for multiply in (mxu.matmul, torch.matmul):
            found = multiply(a, b)
            gradient = torch.linspace(-2, 1, found.numel()).reshape(found.shape)
            results.append([found, *torch.autograd.grad(found, [a, b], gradient)])
    equal(*results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_pytorch_accepts_the_operator(dtype: Any) -> None:
    a, b = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in ((2, 3, 5), (2, 5, 4)))
    numerics = ("fp16", "fp32", "default", "flush", 4, 1)
    found = torch.library.opcheck(torch.ops.openmxu.products.default, (a, b, *numerics))
    assert set(found.values()) == {"SUCCESS"}


def test_compiled_and_exported() -> None:
    a, b = torch.randn(3, 5, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    multiply = partial(mxu.matmul, operand="fp8_e4m3")
    compiled = torch.compile(multiply, fullgraph=True, backend="aot_eager")
    found, expected = compiled(a, b), multiply(a, b)
    equal(found, expected)
    equal(torch.autograd.grad(found.sum(), a), torch.autograd.grad(expected.sum(), a))

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
    left, right = ([each] * 3 if at is None else each.unbind(at) for each, at in zip((a, b), dimensions, strict=True))
    equal(found.unbind(), tuple(map(mxu.matmul, left, right)))
    assert torch.vmap(lambda a: mxu.matmul(a, torch.ones(4, 5)))(torch.ones(3, 0, 4)).shape == (3, 0, 5)


def test_second_derivatives() -> None:
    a, b = (torch.randint(-3, 4, (3, 3)).float().requires_grad_() for _ in range(2))
    found = []
    for multiply in (partial(mxu.matmul, operand="fp32"), torch.matmul):
        (gradient,) = torch.autograd.grad(multiply(a, b).square().sum(), a, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [a, b]))
    equal(*found)


def test_without_a_context_and_within() -> None:
    """Its arguments decide, not the context's."""
    a = torch.tensor([[1 + 2**-9]])
    with mxu.unit(operand="bf16"):
        assert mxu.matmul(a, a.T, operand="fp32").item() > 1
    assert mxu.matmul(a, a.T).item() == 1
