"""ONNX models: on small integers onnxruntime is the oracle, for bits it is golden, product by product.

What multiplies nothing is onnxruntime's, and where that has nothing, the evaluator's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto  # noqa: E402  # needs ONNX

from openmxu_sim import golden  # noqa: E402
from openmxu_sim.onnx import EscapeError, Network  # noqa: E402
from openmxu_sim.onnx import nodes as others  # noqa: E402
from openmxu_sim.onnx.matrix_nodes import REFUSED, operators  # noqa: E402
from openmxu_sim.operands import vectors  # noqa: E402

from ...bits import same_bits  # noqa: E402
from . import graphs  # noqa: E402

Shape = tuple[int, ...]


def _model(operator: str, shapes: tuple[Shape, ...], kind: int = TensorProto.FLOAT, **attributes: Any) -> Any:
    """A model of one operator, all of whose operands are inputs."""
    return graphs.single(operator, {f"i{at}": (kind, shape) for at, shape in enumerate(shapes)}, "o", **attributes)


def _square(**options: Any) -> Network:
    return Network(_model("MatMul", ((2, 2), (2, 2))), **options)


def _integers(shapes: tuple[Shape, ...], dtype: Any = np.float32) -> dict[str, Any]:
    choose = np.random.default_rng(1)
    return {f"i{place}": choose.integers(-6, 7, shape).astype(dtype) for place, shape in enumerate(shapes)}


def _check(operator: str, *shapes: Shape, **attributes: Any) -> Network:
    return graphs.agree(_model(operator, shapes, **attributes), _integers(shapes))[0]


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 5), (5, 4)), ((5,), (5, 4)), ((3, 5), (5,)), ((2, 3, 5), (5, 4)), ((7, 1, 3, 5), (2, 5, 4)), ((5,), (5,))],
)
def test_matmul(left: Shape, right: Shape) -> None:
    _check("MatMul", left, right)


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("scales", [{}, {"alpha": 2.0, "beta": 3.0}, {"beta": 0.0}])
def test_gemm(transposed: tuple[int, int], scales: dict[str, float]) -> None:
    left, right = ((5, 3) if transposed[0] else (3, 5)), ((4, 5) if transposed[1] else (5, 4))
    for summand in ([], [(4,)], [(3, 1)], [(3, 4)]):
        _check("Gemm", left, right, *summand, transA=transposed[0], transB=transposed[1], **scales)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1], "pads": [1, 0, 2, 1]},
        {"dilations": [1, 2], "pads": [0, 2, 0, 2]},
        {"group": 2},
        {"group": 4, "strides": [3, 2]},
        {"auto_pad": "VALID", "strides": [2, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    ],
)
@pytest.mark.parametrize("bias", [[], [(8,)]])
def test_conv(attributes: dict[str, Any], bias: list[Shape]) -> None:
    groups = attributes.get("group", 1)
    network = _check("Conv", (2, 4, 9, 8), (8, 4 // groups, 3, 2), *bias, **attributes)
    [work] = network.work
    expected = {"operator": "Conv", "layer": "layer", "products": groups, "k": 24 // groups, "n": 8 // groups}
    assert expected.items() <= work._asdict().items()


@pytest.mark.parametrize("dimensions", [1, 3])
def test_conv_of_other_dimensions(dimensions: int) -> None:
    _check("Conv", (2, 4, *(7, 6, 5)[:dimensions]), (3, 4, *(2, 3, 2)[:dimensions]), pads=[1] * 2 * dimensions)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 0, 2]},
        {"strides": [2, 2], "output_padding": [1, 0]},
        {"dilations": [2, 2]},
        {"group": 2},
        {"strides": [2, 2], "output_shape": [10, 12]},
        {"strides": [3, 3], "output_shape": [16, 18]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ],
)
def test_conv_transpose(attributes: dict[str, Any]) -> None:
    _check("ConvTranspose", (2, 4, 5, 6), (4, 3, 3, 2), **attributes)


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 4), (2, 3, 5, 4, 3)])
def test_global_max_pool(shape: Shape) -> None:
    """No product, but the evaluator's own one is wrong for all but images."""
    _check("GlobalMaxPool", shape)


@pytest.mark.parametrize("subnormals", ["flush", "ieee"])
@pytest.mark.parametrize("operand", ["bf16", "fp16", "fp8_e4m3"])
def test_bits(operand: str, subnormals: str) -> None:
    a, b = (golden.from_bits(vectors.operands("fp32", m * n, 3)).reshape(m, n) for m, n in ((5, 11), (11, 3)))
    options: dict[str, Any] = {"operand": operand, "subnormals": subnormals, "rows": 4}
    [found] = Network(_model("MatMul", (a.shape, b.shape)), **options).run({"i0": a, "i1": b}).values()
    same_bits(found, golden.matmul(a, b, **options))


def test_types() -> None:
    shapes = ((3, 5), (5, 4))
    inputs = _integers(shapes, np.float16)
    [found] = Network(_model("MatMul", shapes, TensorProto.FLOAT16), operand="fp16").run(inputs).values()
    np.testing.assert_array_equal(found, inputs["i0"] @ inputs["i1"], strict=True)
    with pytest.raises(EscapeError, match=r"MatMul must have tensors of one type among .* not of int32"):
        Network(_model("MatMul", shapes, TensorProto.INT32)).run(_integers(shapes, np.int32))


def test_products_elsewhere_are_an_error() -> None:
    """Also in branches, and before anything is computed."""
    branch = '() => (b) { b = Einsum <equation = "ij,jk->ik"> (i0, i1) }'
    node = f"o = If (c) <then_branch = then {branch}, else_branch = else {branch}>"
    model = graphs.model(f"graph (bool c, float[2, 3] i0, float[3, 2] i1) => (o) {{ {node} }}")
    with pytest.raises(EscapeError, match=r"Einsum does not multiply on the unit.* allow Einsum"):
        Network(model)
    inputs = {"i0": np.ones((2, 3), np.float32), "i1": np.ones((3, 2), np.float32), "c": np.array(True)}
    for network in (Network(model, strict=False), Network(model, allow=["Einsum"])):
        assert (network.run(inputs)["o"] == 3).all()


def test_every_operator_is_known() -> None:
    """All that ONNX says to multiply matrices by its name is computed or refused."""
    computed = {each.__name__ for each in operators(lambda *_: None)}  # type: ignore[arg-type,return-value]
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx")}
    assert computed <= names
    parts = ("MatMul", "Gemm", "Conv", "Attention", "LSTM", "GRU", "RNN", "Einsum", "Det", "DFT", "STFT")
    assert {name for name in names if any(part in name for part in parts)} <= computed | REFUSED


def test_functions_of_a_model() -> None:
    text = "graph (float[2, 2] x) => (float[2, 2] y) { y = own.Twice (x, x) }"
    network = Network(graphs.model(text, "Twice (a, b) => (c) { c = MatMul (a, b) }"))
    network.run({"x": np.ones((2, 2), np.float32)})
    assert [work.operator for work in network.work] == ["MatMul"]


def test_inputs_with_values_of_their_own() -> None:
    text = "graph (float[2, 3] i0, float[3, 2] i1) => (o) { o = MatMul (i0, i1) }"
    network = Network(graphs.model(text, i1=np.full((3, 2), 2, np.float32)))
    ones = np.ones((2, 3), np.float32)
    assert (network.run({"i0": ones})["o"] == 6).all()
    assert (network.run({"i0": ones, "i1": np.ones((3, 2), np.float32)})["o"] == 3).all()
    assert set(network.zeros()) == {"i0"}


@pytest.mark.parametrize("free", [-1, None, "n"])
def test_sizes_that_are_free(free: int | str | None) -> None:
    """Exporters have three ways to say so, for onnxruntime, too. A size of 0 is one."""
    model, inputs = _model("MatMul", ((free, 3), (3, 2))), _integers(((7, 3), (3, 2)))  # type: ignore[arg-type]
    network, _ = graphs.agree(model, inputs)
    assert network.zeros()["i0"].shape == (1, 3)
    with pytest.raises(ValueError, match=r"input i0 must be float32 \(any, 3\), not float32 \(7, 2\)"):
        network.run(inputs | {"i0": np.ones((7, 2), np.float32)})
    with pytest.raises(ValueError, match=r"input i0 must be float32 \(0, 3\), not float32 \(7, 3\)"):
        Network(_model("MatMul", ((0, 3), (3, 2)))).run(inputs)


def test_no_images() -> None:
    network = Network(_model("Conv", (("n", 3, 5, 5), (4, 3, 3, 3))))
    found = network.run({"i0": np.ones((0, 3, 5, 5), np.float32), "i1": np.ones((4, 3, 3, 3), np.float32)})
    assert found["o"].shape == (0, 4, 3, 3)
    assert network.report().utilisation == 0


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_model("MatMul", ((2, 2), (2, 2))), path)
    assert Network(path).run(_integers(((2, 2), (2, 2))))["o"].shape == (2, 2)
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"model must be an ONNX file, not .*model.onnx: "):
        Network(path)
    with pytest.raises(FileNotFoundError):
        Network(tmp_path / "absent.onnx")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: _square(operand="bf15"), "operand must be one of"),
        (lambda: _square(rows=0), "rows must be"),
        (lambda: _square(threads=0), "threads must be"),
        (lambda: _square(allow="Einsum"), "allow must be types of operators such as 'Einsum', not 'Einsum'"),
        (lambda: _square().run({"x": np.ones((2, 2), np.float32)}), "inputs must be i0, i1, not x"),
        (lambda: _check("Conv", (1, 3, 2, 2), (4, 3, 3, 3)), "Conv must have images that its kernel fits"),
    ],
)
def test_mistakes(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


IMAGE = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)


def _check_nodes(text: str, **options: Any) -> None:
    graphs.agree(graphs.model(f"graph (float[2, 3, 9, 8] x) => {text}", **options), {"x": IMAGE})


def test_batch_normalization_of_old_models() -> None:
    """The evaluator takes the images' own mean before version 14, whatever the model has learned."""
    learned = dict.fromkeys(("scale", "bias", "mean", "variance"), np.array([0.5, 1.0, 2.0], np.float32))
    text = "(o) { o = BatchNormalization <epsilon = 1e-5> (x, scale, bias, mean, variance) }"
    _check_nodes(text, opset=12, ir=8, **learned)


def test_nodes_that_leave_things_out() -> None:
    """Outputs may be missing, and inputs in the midst, and one may be there twice."""
    text = """(squared, places) {
        pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        resized = Resize <mode = "linear"> (pooled, , scales)
        kept, "" = Dropout (resized)
        squared = Mul (kept, kept)
        largest, places = TopK (squared, two)
    }"""
    _check_nodes(text, scales=np.array([1, 1, 2, 2], np.float32), two=np.array([2], np.int64))


def test_sequences_and_branches() -> None:
    text = """(o) {
        parts = SplitToSequence <axis = 0> (x)
        one = SequenceAt (parts, last)
        sum = ReduceSum <keepdims = 0> (one)
        positive = Greater (sum, zero)
        o = If (positive) <
            then_branch = then () => (b) { b = Relu (one) }, else_branch = else () => (b) { b = Neg (one) }
        >
    }"""
    _check_nodes(text, last=np.array(1), zero=np.array(0, np.float32))


def test_what_onnxruntime_lacks() -> None:
    """It does not add bf16 on a processor."""
    kept = {"w": np.eye(3).astype(ml_dtypes.bfloat16), "b": np.array([1, 2, 3]).astype(ml_dtypes.bfloat16)}
    network = Network(graphs.model("graph (bfloat16[2, 3] x) => (o) { p = MatMul (x, w) o = Add (p, b) }", **kept))
    [found] = network.run({"x": np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)}).values()
    assert np.array_equal(np.asarray(found, np.float32), np.arange(6).reshape(2, 3) + np.array([1, 2, 3]))


def test_nodes_that_do_the_same_share_a_session() -> None:
    others._session.cache_clear()
    nodes = " ".join(f"[node_{n}] o{n + 1} = Relu (o{n})" for n in range(5))
    Network(graphs.model(f"graph (float[2, 3, 9, 8] o0) => (o5) {{ {nodes} }}")).run({"o0": IMAGE})
    assert others._session.cache_info().currsize == 1


def test_an_error_names_the_node() -> None:
    text = "graph (float[2, 3] x) => (o) { [fold] o = Reshape (x, shape) }"
    network = Network(graphs.model(text, shape=np.array([5, 7])))
    with pytest.raises(ValueError, match=r"^Reshape fold cannot be computed: .*5,7"):
        network.run({"x": np.ones((2, 3), np.float32)})
