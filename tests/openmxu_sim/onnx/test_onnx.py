"""ONNX models: on small integers onnxruntime is the oracle, for bits it is golden, product by product.

What multiplies nothing is onnxruntime's, and where that has nothing, the evaluator's.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto  # noqa: E402  # needs ONNX

from openmxu_sim import golden  # noqa: E402
from openmxu_sim.onnx import EscapeError, Network  # noqa: E402
from openmxu_sim.onnx import nodes as others  # noqa: E402
from openmxu_sim.onnx.matrix_nodes import COMPUTED, REFUSED  # noqa: E402
from openmxu_sim.operands import vectors  # noqa: E402

from ...bits import same_bits  # noqa: E402
from . import graphs  # noqa: E402

Shape = tuple[int, ...]
Arrays = dict[str, Any]


def _model(operator: str, shapes: tuple[Shape, ...], kind: int = TensorProto.FLOAT, **attributes: Any) -> Any:
    return graphs.single(operator, {f"i{at}": (kind, shape) for at, shape in enumerate(shapes)}, "o", **attributes)


def _square(**options: Any) -> Network:
    return Network(_model("MatMul", ((2, 2), (2, 2))), **options)


def _integers(shapes: tuple[Shape, ...], dtype: Any = np.float32) -> dict[str, Any]:
    choose = np.random.default_rng(1)
    return {f"i{place}": choose.integers(-6, 7, shape).astype(dtype) for place, shape in enumerate(shapes)}


def _check(operator: str, *shapes: Shape, **attributes: Any) -> Network:
    return graphs.agree(_model(operator, shapes, **attributes), _integers(shapes))[0]


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


_UP = (2, 4, 5, 6), (4, 3, 3, 2)


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes"),
    [
        *(("MatMul", shapes, {}) for shapes in (((3, 5), (5, 4)), ((5,), (5, 4)), ((3, 5), (5,)), ((5,), (5,)))),
        *(("MatMul", shapes, {}) for shapes in (((2, 3, 5), (5, 4)), ((7, 1, 3, 5), (2, 5, 4)))),
        ("Conv", ((2, 4, 7), (3, 4, 2)), {"pads": [1] * 2}),
        ("Conv", ((2, 4, 7, 6, 5), (3, 4, 2, 3, 2)), {"pads": [1] * 6}),
        ("ConvTranspose", _UP, {}),
        ("ConvTranspose", _UP, {"strides": [2, 3], "pads": [1, 0, 0, 2]}),
        ("ConvTranspose", _UP, {"strides": [2, 2], "output_padding": [1, 0]}),
        ("ConvTranspose", _UP, {"dilations": [2, 2]}),
        ("ConvTranspose", _UP, {"group": 2}),
        ("ConvTranspose", _UP, {"strides": [2, 2], "output_shape": [10, 12]}),
        ("ConvTranspose", _UP, {"strides": [3, 3], "output_shape": [16, 18]}),
        *(("ConvTranspose", _UP, {"strides": [2, 2], "auto_pad": pad}) for pad in ("SAME_UPPER", "SAME_LOWER")),
        # No product, but the evaluator's own one is wrong for all but images.
        *(("GlobalMaxPool", (shape,), {}) for shape in ((2, 3, 7), (2, 3, 5, 4), (2, 3, 5, 4, 3))),
    ],
)
def test_operators(operator: str, shapes: tuple[Shape, ...], attributes: dict[str, Any]) -> None:
    _check(operator, *shapes, **attributes)


@pytest.mark.parametrize("operand", ["bf16", "fp16", "fp8_e4m3"])
def test_bits(operand: str, mode: str) -> None:
    a, b = (golden.from_bits(vectors.operands("fp32", m * n, 3)).reshape(m, n) for m, n in ((5, 11), (11, 3)))
    options: dict[str, Any] = {"operand": operand, "subnormals": mode, "rows": 4}
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
    branch = '() => (b) { b = Einsum <equation = "ij,jk->i"> (i0, i1) }'
    node = f"o = If (c) <then_branch = then {branch}, else_branch = else {branch}>"
    model = graphs.model(f"graph (bool c, float[2, 3] i0, float[3, 2] i1) => (o) {{ {node} }}")
    with pytest.raises(
        EscapeError, match=r"Einsum b does not multiply on the unit: equation must be a product: .* allow Einsum"
    ):
        Network(model)
    inputs = {"i0": np.ones((2, 3), np.float32), "i1": np.ones((3, 2), np.float32), "c": np.array(True)}
    for options in ({"strict": False}, {"allow": ["Einsum"]}):
        assert (Network(model, **options).run(inputs)["o"] == 6).all()


def test_every_operator_is_known() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx")}
    assert set(COMPUTED) <= names
    parts = ("MatMul", "Gemm", "Conv", "Attention", "LSTM", "GRU", "RNN", "Einsum", "Det", "DFT", "STFT")
    assert {name for name in names if any(part in name for part in parts)} <= set(COMPUTED) | REFUSED


def test_functions_of_a_model() -> None:
    text = "graph (float[2, 2] x) => (float[2, 2] y) { y = own.Twice (x, x) }"
    network = Network(graphs.model(text, "Twice (a, b) => (c) { c = MatMul (a, b) }"))
    network.run({"x": np.ones((2, 2), np.float32)})
    assert [work.operator for work in network.work] == ["MatMul"]


def test_inputs_with_values_of_their_own() -> None:
    text = "graph (float[2, 3] i0, float[3, 2] i1) => (o) { o = MatMul (i0, i1) }"
    network, ones = Network(graphs.model(text, i1=np.full((3, 2), 2, np.float32))), np.ones((2, 3), np.float32)
    assert (network.run({"i0": ones})["o"] == 6).all()
    assert (network.run({"i0": ones, "i1": ones.T})["o"] == 3).all()
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
        (lambda: _check("Conv", (1, 3, 2, 2), (4, 3, 3, 3)), "Conv layer cannot be computed: weights .* must fit"),
        (lambda: lstm(activations=["Affine", "Tanh", "Tanh"]), "activations must be 3 a direction of Relu, Tanh, "),
        (lambda: lstm(activations=["Tanh"]), "activations must be 3 a direction of Relu, Tanh, "),
        (lambda: lstm(direction="bidirectional"), "must have a direction that fits weights of 1 directions, not 'bid"),
    ],
)
def test_mistakes(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def lstm(**attributes: Any) -> Any:
    inputs = inputs_of("LSTM", 1, reals(7))
    return Network(model_of("LSTM", inputs, **attributes)).run(inputs)


IMAGE = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)


def _check_nodes(text: str, **options: Any) -> None:
    graphs.agree(graphs.model(f"graph (float[2, 3, 9, 8] x) => {text}", **options), {"x": IMAGE})


def test_batch_normalization_of_old_models() -> None:
    """The evaluator takes the images' own mean before version 14, whatever the model has learned."""
    learned = dict.fromkeys(("scale", "bias", "mean", "variance"), np.array([0.5, 1.0, 2.0], np.float32))
    text = "(o) { o = BatchNormalization <epsilon = 1e-5> (x, scale, bias, mean, variance) }"
    _check_nodes(text, opset=12, ir=8, **learned)


def test_nodes_that_leave_things_out() -> None:
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


_MOVES = (
    *("t = Transpose (c)", "t = Identity (c)", "t = Reshape (c, shape)", "t = Flatten <axis = 0> (c)"),
    *("t = Unsqueeze (c, one)", "t = Slice (c, one, two)", "t = Gather (c, one)", "t = Concat <axis = 0> (c, c)"),
    *("t = Expand (c, more)", "t, u = Split <axis = 1> (c, halves)", "t = Where (yes, c, c)", "t = Tile (c, two_two)"),
)
_MOVES_OF_ALL = 5
"""ONNX has the first ones for fp8 and int4, too."""


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4"])
def test_narrow_tensors_that_move(kind: str) -> None:
    """Small integers are exact in all types: onnxruntime gives the same without the casts."""
    constants = {"shape": np.array([4, 3]), "one": np.array([1]), "two": np.array([2]), "more": np.array([2, 3, 4])}
    constants |= {"halves": np.array([2, 2]), "yes": np.array([True]), "two_two": np.array([2, 2])}
    x = np.arange(12, dtype=np.float32).reshape(3, 4) % 7
    for move in _MOVES if kind == "BFLOAT16" else _MOVES[:_MOVES_OF_ALL]:
        text = "graph (float[3, 4] x) => (float[] y) {{ c = {} {} v = {} y = Neg (v) }}"
        casts = [f"Cast <to = {to}> ({name})" for to, name in ((TensorProto.DataType.Value(kind), "x"), (1, "t"))]
        narrow = graphs.model(text.format(casts[0], move, casts[1]), opset=21, **constants)
        wide = graphs.model(text.format("Identity (x)", move, "Identity (t)"), opset=21, **constants)
        expected = onnxruntime.InferenceSession(wide.SerializeToString()).run(None, {"x": x})[0]
        np.testing.assert_array_equal(Network(narrow).run({"x": x})["y"], expected, move, strict=True)


def test_narrow_weights() -> None:
    """As quantised models have them; in blocks, too."""
    values = np.arange(-8, 8).reshape(8, 2)
    for dtype, size in ((ml_dtypes.int4, 0), (ml_dtypes.int4, 4), (ml_dtypes.float8_e4m3fn, 0), (np.int8, 0)):
        scale = np.array([[1, 2], [4, 1]], np.float32) if size else np.float32(2)
        node = f"w = DequantizeLinear <axis = 0, block_size = {size}> (q, s)"
        text = f"graph (float[3, 8] x) => (y) {{ {node} y = MatMul (x, w) }}"
        model = graphs.model(text, opset=21, q=values.astype(dtype), s=scale)
        graphs.agree(model, {"x": np.eye(3, 8, dtype=np.float32)})


def test_bf16_that_onnxruntime_lacks() -> None:
    """It is computed in fp32, and rounded once: a sum over 1,000 ones in bf16 would be 256."""
    text = """graph (bfloat16[4, 1000] x) => (s, n) {
        s = ReduceSum <keepdims = 0> (x, axis) n = LayerNormalization (x, ones) }"""
    ones = np.ones((5, 1000), ml_dtypes.bfloat16)
    found = Network(graphs.model(text, ones=ones[4], axis=np.array([1]))).run({"x": ones[:4]})
    assert {str(array.dtype) for array in found.values()} == {"bfloat16"}
    assert (found["s"] == 1000).all()
    assert not found["n"].any()


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((3, 4), (4, 5))),
        ("ij,jk", ((3, 4), (4, 5))),
        ("ba,cb", ((4, 3), (5, 4))),
        ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("bqhd,bkhd->bhqk", ((2, 4, 3, 5), (2, 6, 3, 5))),
        ("bhqk, bkhd -> bqhd", ((2, 3, 4, 6), (2, 6, 3, 5))),
        ("bcd,cde->be", ((2, 3, 4), (3, 4, 5))),
        ("i,j->ji", ((3,), (4,))),
        ("i,i->", ((3,), (3,))),
        ("ij,ij->ij", ((3, 4), (3, 4))),
        ("ij,ij->ij", ((3, 1), (1, 4))),
        ("ij,jk->ik", ((3, 1), (4, 5))),
        ("bij,bjk->bik", ((1, 3, 4), (2, 4, 5))),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (2, 7, 4, 5))),
        ("...ij,jk->k...i", ((2, 3, 4), (4, 5))),
    ],
)
def test_einsum(equation: str, shapes: tuple[Shape, ...]) -> None:
    network = _check("Einsum", *shapes, equation=equation)
    assert [work.operator for work in network.work] == ["Einsum"]


@pytest.mark.parametrize("equation", ["ij,jk->i", "ii,ij->j", "ij,jk,kl->il", "ij,jk->iik"])
def test_einsums_that_are_no_products(equation: str) -> None:
    shapes = ((3, 3),) * (1 + equation.count(","))
    with pytest.raises(
        EscapeError, match=r"^Einsum layer does not multiply on the unit: equation must .* allow Einsum$"
    ):
        Network(_model("Einsum", shapes, equation=equation))
    network = _check("Einsum", (3, 3), equation="ij->ji")
    assert not network.work


def _heads(array: Any, heads: int) -> Any:
    return array.reshape(*array.shape[:2], heads, -1).swapaxes(1, 2)


@pytest.mark.parametrize(
    ("heads", "mask", "attributes"),
    [
        ((4, 4), None, {}),
        ((4, 2), None, {"scale": 0.5}),
        ((4, 1), None, {"is_causal": 1}),
        ((2, 2), np.array([[True] * 4 + [False] * 2] * 3), {}),
        ((2, 1), np.linspace(-2, 2, 36, dtype=np.float32).reshape(2, 1, 3, 6), {"is_causal": 1}),
    ],
)
@pytest.mark.parametrize("flat", [True, False])
def test_attention(heads: tuple[int, int], mask: Any, attributes: Arrays, flat: bool) -> None:
    """Bits are golden's, product by product; onnxruntime is near."""
    make, (many, few) = reals(4), heads
    inputs = {"q": make(2, 3, 8 * many), "k": make(2, 6, 8 * few), "v": make(2, 6, 5 * few)}
    split = [_heads(array, count) for array, count in zip(inputs.values(), (many, few, few), strict=True)]
    if not flat:
        inputs = dict(zip(inputs, split, strict=True))
    operands = {name: (TensorProto.FLOAT, array.shape) for name, array in inputs.items()}
    if mask is not None:
        inputs["m"] = mask
        operands["m"] = (TensorProto.BOOL if mask.dtype == bool else TensorProto.FLOAT, mask.shape)
    counts = {"q_num_heads": many, "kv_num_heads": few} if flat else {}
    model = graphs.single("Attention", operands, ["y"], **attributes, **counts)
    model.opset_import[0].version = 23
    [found] = Network(model, rows=4).run(inputs).values()
    near = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
    assert np.abs(found - near).max() < 0.05
    q, k, v = (np.repeat(each, many // each.shape[1], 1).reshape(2 * many, *each.shape[2:]) for each in split)
    root = np.sqrt(np.float32(attributes.get("scale", 1 / np.sqrt(8))))
    pairs = zip(q * root, (k * root).swapaxes(1, 2), strict=True)
    scores = np.stack([golden.matmul(*pair, rows=4) for pair in pairs]).reshape(2, many, 3, 6)
    if mask is not None:
        scores = scores + (np.where(mask, np.float32(0), np.float32("-inf")) if mask.dtype == bool else mask)
    if "is_causal" in attributes:
        scores = np.where(np.tri(3, 6, dtype=bool), scores, np.float32("-inf"))
    pairs = zip(elementwise("Softmax")(scores).reshape(-1, 3, 6), v, strict=True)
    right = np.stack([golden.matmul(*pair, rows=4) for pair in pairs]).reshape(2, many, 3, 5)
    same_bits(found, right.swapaxes(1, 2).reshape(2, 3, -1) if flat else right)


def test_attention_elsewhere() -> None:
    """A query that sees no key finds zeros; a cache, or a soft cap, is refused by name."""
    shapes = dict.fromkeys("qkv", (TensorProto.FLOAT, (1, 2, 3, 4)))
    inputs = {name: np.ones((1, 2, 3, 4), np.float32) for name in "qkv"}
    model = graphs.single("Attention", shapes | {"m": (TensorProto.BOOL, (3, 3))}, ["y"])
    model.opset_import[0].version = 23
    found = Network(model).run(inputs | {"m": np.diag([True, False, True])})["y"]
    assert (found == np.array([1, 0, 1])[:, None]).all()
    for outputs, attributes in ((["y"], {"softcap": 2.0}), (["y", "key", "value"], {})):
        model = graphs.single("Attention", shapes, outputs, **attributes)
        model.opset_import[0].version = 23
        with pytest.raises(EscapeError, match="Attention layer does not multiply on the unit: it must have no cache, "):
            Network(model)
        assert Network(model, allow=["Attention"]).run(inputs)["y"].shape == (1, 2, 3, 4)


@pytest.mark.parametrize("kind", [TensorProto.BOOL, TensorProto.FLOAT])
@pytest.mark.parametrize(
    ("version", "keys", "sees"), [(23, 1, 6), (24, 1, 1), (25, 4, 4), (24, 6, 6), (23, 4, 0), (25, 7, 0)]
)
def test_masks_of_attention(kind: int, version: int, keys: int, sees: int) -> None:
    """From version 24 on a query sees no key beyond a short mask; onnxruntime agrees in version 25."""
    shapes = dict.fromkeys("qkv", (TensorProto.FLOAT, (1, 2, 6, 4))) | {"m": (kind, (6, keys))}
    inputs = {name: reals(at)(*shape) for at, (name, (_, shape)) in enumerate(shapes.items())}
    inputs["m"] = np.full((6, keys), kind == TensorProto.BOOL, onnx.helper.tensor_dtype_to_np_dtype(kind))
    model = graphs.single("Attention", shapes, ["y"])
    model.opset_import[0].version = version
    if not sees:
        with pytest.raises(ValueError, match=rf"mask must broadcast to \(1, 2, 6, 6\), not \(6, {keys}\)$"):
            Network(model).run(inputs)
        return
    wide = dict(inputs, m=np.arange(6) < np.full((6, 1), sees))
    model.graph.input[3].CopyFrom(onnx.helper.make_tensor_value_info("m", kind, None))
    found = Network(model, operand="fp32").run(inputs)["y"]
    model.opset_import[0].version, model.graph.input[3].type.tensor_type.elem_type = 25, TensorProto.BOOL
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, wide)[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("where", ["node", "opset"])
def test_another_name_of_the_domain(where: str) -> None:
    model = graphs.model(
        "graph (float[2, 3, 9, 8] x) => (y) { [fc] m = MatMul (x, w) y = Relu (m) }", w=np.eye(8, dtype="f4")
    )
    (model.graph.node[0] if where == "node" else model.opset_import[0]).domain = "ai.onnx"
    network, _ = graphs.agree(model, {"x": IMAGE}, operand="fp32")
    assert [work.layer for work in network.work] == ["fc"]


@pytest.mark.parametrize(
    "nodes", ["s = Cast <to = 8> (x) z = Cast <to = 1> (s)", "o = Optional (x) z = OptionalGetElement (o)"]
)
def test_texts_and_optional_tensors(nodes: str) -> None:
    text = f"graph (float[2, 2] x) => (y) {{ {nodes} y = MatMul (z, z) }}"
    graphs.agree(graphs.model(text), {"x": np.array([[1, 2], [3, 4]], np.float32)})


def test_gemm_of_old_versions() -> None:
    """With an attribute that it lost later; onnxruntime does not have it any more."""
    text, x = (
        "graph (float[2, 2] x) => (y) { y = Gemm <broadcast = 1> (x, x, b) }",
        np.array([[1, 2], [3, 4]], np.float32),
    )
    [found] = Network(graphs.model(text, opset=6, b=np.ones(2, np.float32))).run({"x": x}).values()
    assert (found == x @ x + 1).all()


def test_operators_of_learning() -> None:
    """Types behind other domains are not known before a run; a domain that is not ONNX's may hide products."""
    model = graphs.model("graph (float[2, 2] x) => (y) { z = own.Scaler (x) y = MatMul (z, z) }")
    model.graph.node[0].attribute.extend(
        onnx.helper.make_attribute(*each) for each in (("scale", [2.0]), ("offset", [1.0]))
    )
    model.graph.node[0].domain = model.opset_import[1].domain = "ai.onnx.ml"
    graphs.agree(model, {"x": np.array([[1, 2], [3, 4]], np.float32)})
    model.graph.node[0].domain = model.opset_import[1].domain = "com.microsoft"
    with pytest.raises(ValueError, match=r"^Scaler z must be an operator of ONNX, not of com.microsoft$"):
        Network(model)


def test_a_convolution_of_bf16_in_old_versions() -> None:
    """ONNX has none before version 22, but PyTorch exports it."""
    text = "graph (bfloat16[1, 2, 4, 4] x) => (y) { c = Conv (x, w) y = Relu (c) }"
    x, w = (np.arange(size, dtype=ml_dtypes.bfloat16) for size in (32, 36))
    [found] = Network(graphs.model(text, w=w.reshape(2, 2, 3, 3))).run({"x": x.reshape(1, 2, 4, 4)}).values()
    wide = graphs.model(text.replace("bfloat16", "float"), w=w.reshape(2, 2, 3, 3).astype(np.float32))
    [expected] = Network(wide).run({"x": x.reshape(1, 2, 4, 4).astype(np.float32)}).values()
    assert np.array_equal(found, expected.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("node", [True, False])
def test_sparse_constants(linear: bool, node: bool) -> None:
    model = graphs.model("graph (float[3, 4] x) => (y) { y = MatMul (x, w) }")
    places = np.array([1, 6]) if linear else np.array([[0, 1], [3, 0]])
    values = onnx.numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    indices = onnx.numpy_helper.from_array(places, "indices")
    sparse = onnx.helper.make_sparse_tensor(values, indices, [4, 2])
    if node:
        model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    else:
        model.graph.sparse_initializer.append(sparse)
    graphs.agree(model, {"x": np.arange(12, dtype=np.float32).reshape(3, 4)})


@pytest.mark.parametrize(
    ("places", "dims"),
    [
        ([1, 8], [4, 2]),
        ([1, -2], [4, 2]),
        ([1], [4, 2]),
        ([[0, 1], [4, 0]], [4, 2]),
        ([[0, 1], [-1, 0]], [4, 2]),
        ([[0], [1]], [4, 2]),
        ([1, 6], [1 << 20, 1 << 20]),
        ([1, 6], [-4, -2]),
    ],
)
def test_sparse_constants_that_cannot_be(places: Any, dims: list[int]) -> None:
    model = graphs.model("graph (float[3, 4] x) => (y) { y = MatMul (x, w) }")
    arrays = ((np.array([5, 7], np.float32), "w"), (np.array(places), "indices"))
    model.graph.sparse_initializer.append(
        onnx.helper.make_sparse_tensor(*(onnx.numpy_helper.from_array(*each) for each in arrays), dims)
    )
    with pytest.raises(ValueError, match=r"^(w must have a place in|sparse tensors of|model has a sparse tensor)"):
        Network(model)


@pytest.mark.parametrize("version", [17, 18])
def test_two_versions_of_onnx(version: int) -> None:
    model = graphs.model("graph (float[2] x) => (y) { y = Relu (x) }")
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx", version))
    if version == 18:
        assert Network(model).run({"x": np.ones(2, np.float32)})["y"].all()
    else:
        with pytest.raises(ValueError, match=r"^model must be of one version of ONNX, not of \[17, 18\]$"):
            Network(model)


def test_nodes_that_do_the_same_share_a_session() -> None:
    others._session.cache_clear()
    nodes = " ".join(f"[node_{n}] o{n + 1} = Relu (o{n})" for n in range(5))
    Network(graphs.model(f"graph (float[2, 3, 9, 8] o0) => (o5) {{ {nodes} }}")).run({"o0": IMAGE})
    assert others._session.cache_info().currsize == 1


@pytest.mark.parametrize(
    "node",
    [
        "RandomNormalLike <seed = 1.0> (x)",
        "Bernoulli <seed = 1.0> (x)",
        "Dropout <seed = 1> (x, half, on)",
        "Dropout <seed = 1> (x, half, late)",
    ],
)
def test_random_numbers_of_a_seed(node: str) -> None:
    """A second network draws what the first one did, and onnxruntime does."""
    text = f"graph (float[4, 8] x) => (y, z) {{ late = Not (off) y = {node} z = {node} }}"
    values = {"half": np.float32(0.5), "on": np.array(True), "off": np.array(False)}
    model, x = graphs.model(text, **{name: np.asarray(value) for name, value in values.items()}), np.full((4, 8), 0.5)
    for _ in range(2):
        network, _ = graphs.agree(model, {"x": x.astype(np.float32)})
        assert len(network.random) == 2


@pytest.mark.parametrize(
    "constant",
    [
        "value = float[2] {1, 2}",
        "value_int = 3",
        "value_ints = [3, 4]",
        "value_float = 0.1",
        "value_floats = [0.1, 2.0]",
    ],
)
def test_constants(constant: str) -> None:
    """No session keeps them."""
    others._session.cache_clear()
    graphs.agree(graphs.model(f"graph () => (y) {{ y = Constant <{constant}> () }}"), {})
    assert not others._session.cache_info().currsize


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (onnx.helper.make_node("Constant", [], ["y"]), "Constant y must have one attribute, not 0"),
        (
            onnx.helper.make_node("Conv", ["x", "x"], ["y"], auto_pad=b"\xff"),
            r"Conv y must have an auto_pad of NOTSET, .*, not '\\\\xff'",
        ),
    ],
)
def test_attributes_that_cannot_be(node: Any, text: str) -> None:
    """Also where ONNX's own inference is not strict, as beside another domain."""
    model = graphs.model("graph (float[1, 1, 2, 2] x) => (y) { y = Relu (x) z = own.Scaler (x) }")
    model.graph.node[0].CopyFrom(node)
    model.graph.node[1].domain = model.opset_import[1].domain = "ai.onnx.ml"
    with pytest.raises(ValueError, match=f"^{text}$"):
        Network(model)


def test_an_error_names_the_node() -> None:
    text = "graph (float[2, 3] x) => (o) { [fold] o = Reshape (x, shape) }"
    network = Network(graphs.model(text, shape=np.array([5, 7])))
    with pytest.raises(ValueError, match=r"^Reshape fold cannot be computed: .*5,7"):
        network.run({"x": np.ones((2, 3), np.float32)})


# LSTM, GRU and RNN: for bits golden in a recurrence written here


TIMES, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
NAMES = ("x", "w", "r", "b", "lengths", "h", "c", "p")
EXACT = {"LSTM": ["HardSigmoid", "Relu", "Relu"], "GRU": ["HardSigmoid", "relu"], "RNN": ["HardSigmoid"]}
"""Activations with a step from 0 to 1, which keeps integers small."""


def inputs_of(operator: str, directions: int, make: Callable[..., Any]) -> Arrays:
    size = GATES[operator] * HIDDEN
    found = {"x": make(TIMES, BATCH, INPUTS), "lengths": np.array([TIMES, 2, 1], np.int32)}
    found |= {"w": make(directions, size, INPUTS), "r": make(directions, size, HIDDEN)}
    found |= {"b": make(directions, 2 * size), "h": make(directions, BATCH, HIDDEN)}
    if operator == "LSTM":
        found |= {"c": make(directions, BATCH, HIDDEN), "p": make(directions, 3 * HIDDEN)}
    return found


def model_of(operator: str, inputs: Arrays, **attributes: Any) -> Any:
    outputs = ["y", "last", "cell"][: 3 if operator == "LSTM" else 2]
    kinds = {name: (TensorProto.INT32 if name == "lengths" else TensorProto.FLOAT, None) for name in inputs}
    operands = {name: kinds.get(name) for name in (NAMES if operator == "LSTM" else NAMES[:6])}
    return graphs.single(operator, operands, outputs, hidden_size=HIDDEN, **attributes)


def reals(seed: int) -> Callable[..., Any]:
    choose = np.random.default_rng(seed)
    return lambda *shape: choose.normal(size=shape).astype(np.float32)


def check_recurrent(operator: str, without: str = "", direction: str = "forward", **attributes: Any) -> Network:
    directions = 1 + (direction == "bidirectional")
    choose = np.random.default_rng(3)
    inputs = inputs_of(operator, directions, lambda *shape: choose.integers(-2, 3, shape).astype(np.float32))
    inputs = {name: array for name, array in inputs.items() if name not in without.split()}
    functions = EXACT[operator] * directions
    steps = functions.count("HardSigmoid")
    exact = {"activations": functions, "activation_alpha": [1.0] * steps, "activation_beta": [0.0] * steps}
    model = model_of(operator, inputs, direction=direction, **exact | attributes)
    network, found = graphs.agree(model, inputs, operand="fp32")
    assert len(np.unique(found["y"])) > 1
    return network


DIRECTIONS = ("forward", "reverse", "bidirectional")
WITHOUT = ("", "lengths", "b h c p lengths")


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        *((each, {"direction": way, "without": left}) for left, way, each in product(WITHOUT, DIRECTIONS, GATES)),
        ("LSTM", {"clip": 2.0}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["Relu"] * 3, "clip": 3.0}),
        ("GRU", {"clip": 2.0}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 1, "clip": 1.0}),
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.5], "clip": 4.0}),
    ],
)
def test_recurrences(operator: str, attributes: Arrays) -> None:
    check_recurrent(operator, **attributes)


def test_products_of_a_layer() -> None:
    work = check_recurrent("LSTM", "lengths").work.items()
    assert {(each.operator, each.layer, each.m, each.k, each.n): times for each, times in work} == {
        ("LSTM", "layer", TIMES * BATCH, INPUTS, 4 * HIDDEN): 1,
        ("LSTM", "layer", BATCH, HIDDEN, 4 * HIDDEN): TIMES,
    }


def elementwise(operator: str) -> Callable[[Any], Any]:
    model = graphs.single(operator, {"x": (TensorProto.FLOAT, None)}, ["y"])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda x: session.run(None, {"x": x})[0]


def recurrence(operator: str, linear: bool, inputs: Arrays, multiply: Callable[[Any, Any], Any]) -> Any:
    """The outputs at all times, forward, with everything that there is but lengths."""
    sigmoid, tanh = elementwise("Sigmoid"), elementwise("Tanh")
    weights, back = inputs["w"][0].T, inputs["r"][0].T
    one, other = np.split(inputs["b"][0], 2)
    hidden = inputs["h"][0]
    cell, (pi, po, pf) = (inputs["c"][0], np.split(inputs["p"][0], 3)) if operator == "LSTM" else (None, [None] * 3)
    found = []
    for x in inputs["x"]:
        if operator == "GRU":
            n = 2 * HIDDEN
            gates = multiply(x, weights[:, :n]) + multiply(hidden, back[:, :n]) + (one + other)[:n]
            z, r = sigmoid(gates[:, :HIDDEN]), sigmoid(gates[:, HIDDEN:])
            if linear:
                new = multiply(x, weights[:, n:]) + r * (multiply(hidden, back[:, n:]) + other[n:]) + one[n:]
            else:
                new = multiply(x, weights[:, n:]) + multiply(r * hidden, back[:, n:]) + (one + other)[n:]
            hidden = (1 - z) * tanh(new) + z * hidden
        else:
            gates = multiply(x, weights) + multiply(hidden, back) + (one + other)
            if operator == "RNN":
                hidden = tanh(gates)
            else:
                i, o, f, c = np.split(gates, 4, axis=1)
                cell = sigmoid(f + pf * cell) * cell + sigmoid(i + pi * cell) * tanh(c)
                hidden = sigmoid(o + po * cell) * tanh(cell)
        found.append(hidden)
    return np.stack(found)


@pytest.mark.parametrize(
    "unit",
    [
        {"operand": "bf16"},
        {"operand": "fp8_e4m3", "subnormals": "ieee"},
        {"operand": "bf16", "precision": "high"},
        {"operand": "fp16", "accumulate": "bf16"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("operator", "linear"), [("LSTM", False), ("GRU", False), ("GRU", True), ("RNN", False)])
def test_bits_of_recurrences(operator: str, linear: bool, unit: Arrays) -> None:
    inputs = inputs_of(operator, 1, reals(5))
    del inputs["lengths"]
    options: Arrays = {"rows": 3, **unit}
    attributes = {"linear_before_reset": 1} if linear else {}
    found = Network(model_of(operator, inputs, **attributes), **options).run(inputs)
    right = recurrence(operator, linear, inputs, lambda a, b: golden.matmul(a, b, **options))
    same_bits(found["y"][:, 0], right)
    same_bits(found["last"][0], right[-1])


@pytest.mark.parametrize("operator", GATES)
def test_batches_first(operator: str) -> None:
    """A layout that onnxruntime does not have."""
    inputs = inputs_of(operator, 2, reals(6))
    expected = Network(model_of(operator, inputs, direction="bidirectional")).run(inputs)
    swapped = {name: array.swapaxes(0, 1) if name in ("x", "h", "c") else array for name, array in inputs.items()}
    found = Network(model_of(operator, inputs, direction="bidirectional", layout=1)).run(swapped)
    assert np.array_equal(found["y"], expected["y"].transpose(2, 0, 1, 3))
    for name in set(found) - {"y"}:
        assert np.array_equal(found[name], expected[name].swapaxes(0, 1))
