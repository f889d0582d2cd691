"""ONNX models on the accelerator: small integers give onnxruntime's numbers exactly; what does not fit is said."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu.spec.accelerator import AcceleratorConfig  # noqa: E402
from openmxu_sim.accelerator import Memories, run  # noqa: E402
from openmxu_sim.accelerator.lowering import lower  # noqa: E402
from openmxu_sim.onnx.runtime import ModelError, Session  # noqa: E402
from openmxu_sim.onnx.to_layers import to_layers  # noqa: E402

_MACHINE = AcceleratorConfig(size=4, stages=1, depth=64, rows=4096, weights=4096)
_node = onnx.helper.make_node


def _model(
    nodes: list[Any],
    constants: Mapping[str, Any],
    shape: tuple[Any, ...] = (1, 2, 8, 8),
    outputs: tuple[str, ...] = ("y",),
) -> Any:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "model",
        [value("x", 1, shape)],
        [value(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def _integers(*shape: int, least: int = -1, most: int = 1) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(least, most + 1, shape).astype(np.float32)


_CONSTANTS = {
    "w1": _integers(6, 2, 3, 3),
    "b1": _integers(6, least=-3, most=3),
    "w2": _integers(6, 6, 3, 3) // 2,
    "w3": _integers(7, 6 * 2 * 2),
    "w4": _integers(7, 5),
    "b4": _integers(5),
    **{name: np.full(6, value, np.float32) for name, value in (("scale", 2), ("shift", 1), ("mean", 0), ("var", 1))},
    "zero": np.float32(0),
    "six": np.float32(6),
    "vector": np.array([0, -1]),
}
_NODES = [
    _node("Conv", ["x", "w1", "b1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
    _node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"], epsilon=0.0),
    _node("Relu", ["n1"], ["r1"]),
    _node("MaxPool", ["r1"], ["p1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    _node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
    _node("Add", ["p1", "c2"], ["a2"]),
    _node("Clip", ["a2", "zero", "six"], ["r2"]),
    _node("MaxPool", ["r2"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
    _node("Reshape", ["p2", "vector"], ["f"]),
    _node("Gemm", ["f", "w3"], ["g"], transB=1),
    _node("Relu", ["g"], ["r3"]),
    _node("MatMul", ["r3", "w4"], ["m"]),
    _node("Add", ["m", "b4"], ["y"]),
]


def _computed(model: Any, image: np.ndarray) -> tuple[Any, np.ndarray]:
    found = to_layers(model)
    lowered = lower(_MACHINE, found.shape, found.layers, found.source)
    memories = Memories(_MACHINE, lowered.weights)
    lowered.put(found.source, image.reshape(found.shape), memories.scratchpad)
    run(lowered.program, memories)
    values = lowered.get(found.result, memories.scratchpad)[np.newaxis]
    return found, values.reshape(1, -1) if found.flat else values


def test_a_network() -> None:
    """Normalisation in the weights, a residual sum, pools with and without a border, dense layers."""
    model = _model(_NODES, _CONSTANTS)
    image = _integers(1, 2, 8, 8, least=-2, most=2)
    [expected] = Session(model).run({"x": image}).values()
    found, values = _computed(model, image)
    assert np.abs(expected).max() <= 256
    assert (values == expected).all()
    assert [bool(layer.added) for layer in found.layers] == [False, False, True, False, False, False]
    assert found.host is None
    assert found.reasons == []


@pytest.mark.parametrize("name", ["x", "c2"])
def test_a_node_with_the_name_of_a_tensor(name: str) -> None:
    """Of the input, or of what a node without a name computes."""
    model = _model(_NODES, _CONSTANTS)
    model.graph.node[0].name = name
    image = _integers(1, 2, 8, 8, least=-2, most=2)
    _, values = _computed(model, image)
    assert (values == Session(model).run({"x": image})["y"]).all()


def test_the_host_computes_the_rest() -> None:
    nodes = [*_NODES[:-1], _node("Add", ["m", "b4"], ["s"]), _node("Softmax", ["s"], ["p"]), _node("Neg", ["p"], ["y"])]
    model = _model(nodes, _CONSTANTS)
    image = _integers(1, 2, 8, 8, least=-2, most=2)
    found, values = _computed(model, image)
    assert [reason.partition(":")[0] for reason in found.reasons] == ["Softmax p", "Neg y"]
    assert found.host is not None
    [output] = Session(found.host).run({found.host.graph.input[0].name: values}).values()
    assert (output == Session(model).run({"x": image})["y"]).all()


def test_groups_and_averages() -> None:
    """A convolution of two groups, averages of windows and of all pixels, without a host."""
    nodes = [
        _node("Conv", ["x", "w"], ["c"], group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
        _node("AveragePool", ["c"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        _node("GlobalAveragePool", ["a"], ["g"]),
        _node("Flatten", ["g"], ["y"]),
    ]
    model = _model(nodes, {"w": _integers(6, 1, 3, 3)})
    image = _integers(1, 2, 8, 8)
    found, values = _computed(model, image)
    assert (values == Session(model).run({"x": image})["y"]).all()
    assert (found.host, [layer.groups for layer in found.layers]) == (None, [2, 6, 6])


_SMALL = {
    "k": _integers(2, 2, 3, 3),
    "k2": _integers(2, 2, 3, 3, least=-2),
    "one": _integers(2, 2, 1, 1),
    "row": _integers(1, 2),
    "column": _integers(2, 1),
    "matrix": _integers(128, 2),
    "one vector": np.array([0, 0, -1]),
    "halves": np.array([-1, 0]),
    "flat": np.array([1, -1]),
    "three": np.array([1, -1, 1]),
}


def _conv(source: str, target: str, weight: str = "k", **how: Any) -> Any:
    return _node("Conv", [source, weight], [target], **(how or {"pads": [1] * 4}))


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ([_conv("x", "a"), _conv("a", "b"), _conv("b", "c"), _node("Add", ["c", "a"], ["s"]),
          _node("Add", ["s", "b"], ["y"])], "refused"),
        ([_conv("x", "a"), _node("Add", ["a", "x"], ["y"])], ""),
        ([_conv("x", "y"), _conv("x", "z", "k2")], ""),
        ([_conv("x", "y"), _conv("y", "z", "k2")], ""),
        ([_conv("x", "a"), _node("Relu", ["a"], ["r"]),
          _node("MaxPool", ["r"], ["p", "i"], kernel_shape=[2, 2]), _node("Cast", ["i"], ["y"], to=1)], "host"),
        ([_conv("x", "t"), _node("Flatten", ["t"], ["f"]), _node("Relu", ["f"], ["r"]),
          _node("MatMul", ["r", "matrix"], ["g"]), _node("Reshape", ["t", "flat"], ["u"]),
          _node("MatMul", ["u", "matrix"], ["v"]), _node("Add", ["g", "v"], ["y"])], "refused"),
        ([_conv("x", "a"), _node("Flatten", ["a"], ["f"]), _node("MatMul", ["f", "matrix"], ["g"]),
          _node("Add", ["g", "column"], ["y"])], "host"),
        ([_conv("x", "a"), _node("Flatten", ["a"], ["f"]), _node("MatMul", ["f", "matrix"], ["g"]),
          _node("Add", ["g", "row"], ["y"])], ""),
        ([_conv("x", "a"), _node("Reshape", ["a", "one vector"], ["y"])], "host"),
        ([_conv("x", "a"), _node("Flatten", ["a"], ["f"]), _node("Reshape", ["f", "three"], ["y"])], "host"),
        ([_conv("x", "a"), _node("Reshape", ["a", "halves"], ["y"])], "host"),
        ([_node("Conv", ["x", "k"], ["y"], strides=[2, 1], auto_pad="SAME_UPPER")], ""),
        ([_node("Conv", ["x", "k"], ["y"], strides=[1, 3], auto_pad="SAME_LOWER")], ""),
        ([_node("Conv", ["x", "k"], ["a"], name="y"), _node("Conv", ["a", "one"], ["b"], name="Conv y"),
          _node("Conv", ["b", "one"], ["y"])], ""),
    ],
    ids=["two sums", "sum with the input", "dead", "dead behind", "places", "another name", "column", "row", "rank",
         "rank of a vector", "two rows", "same upper", "same lower", "names"],
)  # fmt: skip
def test_the_numbers_of_onnxruntime(nodes: list[Any], host: str) -> None:
    """Or the host computes the rest, from one result."""
    model = _model(nodes, _SMALL)
    if host == "refused":
        with pytest.raises(ModelError, match=r"^host must need one result alone"):
            to_layers(model)
        return
    image = _integers(1, 2, 8, 8, least=-2, most=2)
    found, values = _computed(model, image)
    assert (found.host is not None) == (host == "host")
    if found.host is not None:
        [values] = Session(found.host).run({found.host.graph.input[0].name: values}).values()
    expected = Session(model).run({"x": image})["y"]
    assert values.shape == expected.shape
    assert (values == expected).all()


def test_branches_of_the_host() -> None:
    """What only they read belongs to the host's model, too."""
    value = onnx.helper.make_tensor_value_info
    branches = [
        onnx.helper.make_graph([_node("Add", ["a", name], [f"o{name}"])], name, [], [value(f"o{name}", 1, None)])
        for name in ("up", "down")
    ]
    nodes = [
        _conv("x", "a"),
        _node("ReduceMax", ["a"], ["m"], keepdims=0),
        _node("Greater", ["m", "zero"], ["c"]),
        _node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    model = _model(nodes, {"k": _SMALL["k"], "zero": np.float32(0), "up": np.float32(1), "down": np.float32(-1)})
    image = _integers(1, 2, 8, 8, least=-2, most=2)
    found, values = _computed(model, image)
    assert found.host is not None
    [output] = Session(found.host).run({"a": values}).values()
    assert (output == Session(model).run({"x": image})["y"]).all()


@pytest.mark.parametrize(
    ("kind", "shape", "message"),
    [
        (onnx.TensorProto.DOUBLE, (1, 2, 8, 8), "input x must be of FLOAT for the accelerator, not DOUBLE"),
        (onnx.TensorProto.FLOAT, (1, 2, 1 << 12, 1 << 12), "input x must have at most 16777216 numbers, not more"),
    ],
)
def test_inputs_that_are_refused(kind: int, shape: tuple[int, ...], message: str) -> None:
    model = _model([_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], {}, shape)
    for each in (*model.graph.input, *model.graph.output):
        each.type.tensor_type.elem_type = kind
    with pytest.raises(ModelError, match=f"^{message}$"):
        to_layers(model)


def test_a_vector() -> None:
    model = _model([_node("Gemm", ["x", "w4", "b4"], ["y"])], _CONSTANTS, (1, 7))
    vector = _integers(1, 7, least=-9, most=9)
    _, values = _computed(model, vector)
    assert (values == Session(model).run({"x": vector})["y"]).all()


@pytest.mark.parametrize(
    ("nodes", "shape", "message"),
    [
        (_NODES[:1], ("n", 2, 8, 8), "input x must have fixed sizes, 1 x C x H x W or 1 x K, not n x 2 x 8 x 8"),
        (_NODES[:1], (2, 2, 8, 8), "input x must have fixed sizes, 1 x C x H x W or 1 x K, not 2 x 2 x 8 x 8"),
        (
            [_node("Sin", ["x"], ["c1"], name="wave")],
            (1, 2, 8, 8),
            "model must begin with layers of the accelerator: Sin wave: no operator of the accelerator",
        ),
        (
            [_node("Conv", ["x", "w1", "b1"], ["c1"], dilations=[2, 2], name="wide")],
            (1, 2, 8, 8),
            "model must begin with layers of the accelerator: Conv wide: "
            "it is no convolution of a picture without dilation",
        ),
        (
            [
                _node("Conv", ["x", "w1", "b1"], ["a"], name="first", pads=[1, 1, 1, 1]),
                _node("Sin", ["a"], ["b"], name="wave"),
                _node("Concat", ["x", "b"], ["c1"], axis=1),
            ],
            (1, 2, 8, 8),
            "host must need one result alone, not a, x: no operator of the accelerator",
        ),
    ],
)
def test_models_that_are_refused(nodes: list[Any], shape: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ModelError) as raised:
        to_layers(_model(nodes, _CONSTANTS, shape, ("c1",)))
    assert str(raised.value) == message


@pytest.mark.parametrize("value", [3.4e38, np.inf, np.nan])
def test_weights_beyond_bf16(value: float) -> None:
    weight = np.full((1, 7), value, np.float32)
    with pytest.raises(ModelError, match=r"^weights of dense must be in the range of bf16$"):
        to_layers(_model([_node("MatMul", ["x", "w"], ["y"], name="dense")], {"w": weight.T}, (1, 7)))


def test_files_that_are_none() -> None:
    with pytest.raises(ModelError, match=r"^model must be an ONNX file, not these bytes: "):
        to_layers(b"no model")
