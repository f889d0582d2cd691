"""ONNX models on the accelerator: small integers give onnxruntime's numbers exactly; what does not fit is said."""

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import helper

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator import Memories, run
from openmxu_sim.accelerator.lowering import Layer, lower
from openmxu_sim.onnx.network import Network
from openmxu_sim.onnx.partition import Partition, partition
from openmxu_sim.onnx.runtime import ModelError, Session
from openmxu_sim.onnx.to_layers import Layers

from . import graphs

_MACHINE = AcceleratorConfig(size=4, stages=1, depth=64, rows=4096, weights=4096)


def _integers(*shape: int, least: int = -1, most: int = 1) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(least, most + 1, shape).astype(np.float32)


_CONSTANTS: dict[str, Any] = {
    "w1": _integers(6, 2, 3, 3),
    "b1": _integers(6, least=-3, most=3),
    "w2": _integers(6, 6, 3, 3) // 2,
    "w3": _integers(7, 6 * 2 * 2),
    "w4": _integers(7, 5),
    "b4": _integers(5),
    **{name: np.full(6, value, np.float32) for name, value in (("scale", 2), ("shift", 1), ("mean", 0), ("var", 1))},
    **{name: np.array(value, np.float32) for name, value in (("zero", 0), ("six", 6))},
    "vector": np.array([0, -1]),
}


def _model(nodes: str, x: str = "float[1, 2, 8, 8]", **constants: Any) -> Any:
    """CONV is a convolution that keeps the size of its picture."""
    nodes = nodes.replace("CONV", "Conv <pads = [1, 1, 1, 1]>")
    return graphs.model(f"it ({x} x) => ({x.partition('[')[0]}[] y) {{ {nodes} }}", opset=17, ir=8, **constants)


_NODES = """
    [first] c1 = CONV (x, w1, b1)
    n1 = BatchNormalization <epsilon = 0.0> (c1, scale, shift, mean, var)
    r1 = Relu (n1)
    p1 = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (r1)
    c2 = CONV (p1, w2)
    a2 = Add (p1, c2)
    r2 = Clip (a2, zero, six)
    p2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r2)
    f = Reshape (p2, vector)
    g = Gemm <transB = 1> (f, w3)
    r3 = Relu (g)
    m = MatMul (r3, w4)
    y = Add (m, b4)
"""


def _check(model: Any, x: np.ndarray | None = None, **more: np.ndarray) -> Partition:
    """All outputs are onnxruntime's, with the accelerator's parts as the definition says."""
    tensors = {"x": _integers(1, 2, 8, 8, least=-2, most=2) if x is None else x, **more}
    expected = Session(model).run(tensors)
    found = partition(model)
    for part in found.parts:
        if not isinstance(part, Layers):
            tensors |= Session(part).run({each.name: tensors[each.name] for each in part.graph.input})
            continue
        lowered = lower(_MACHINE, part.sources, part.layers)
        images = [
            dict(zip(part.sources, some, strict=True))
            for some in zip(*(port.view.to_images(tensors[port.name]) for port in part.inputs), strict=True)
        ]
        scratchpads = []
        for pictures in images:
            memories = Memories(_MACHINE, lowered.weights)
            for name, picture in pictures.items():
                lowered.put(name, picture, memories.scratchpad)
            run(lowered.program, memories)
            scratchpads.append(memories.scratchpad)
        for name, picture, view in part.outputs:
            tensors[name] = view.to_tensor(np.stack([lowered.get(picture, each) for each in scratchpads]))
    assert found.outputs == list(expected)
    for name, values in expected.items():
        assert tensors[name].shape == values.shape, name
        assert (tensors[name] == values).all(), name
        assert np.abs(values).max() <= 256
    return found


def _layers(found: Partition) -> list[Layer]:
    return [layer for part in found.parts if isinstance(part, Layers) for layer in part.layers]


def _left(found: Partition) -> str:
    """Operators of the host."""
    return " ".join(each.name.partition(" ")[0] for each in found.left)


@pytest.mark.parametrize("name", ["first", "x", "c2"], ids=["", "of the input", "of a tensor"])
def test_a_network(name: str) -> None:
    """Also where a node has the name of the input, or of what a node without a name computes."""
    found = _check(_model(_NODES.replace("first", name), **_CONSTANTS))
    assert [bool(layer.added) for layer in _layers(found)] == [False, False, True, False, False, False]
    assert (len(found.parts), found.left) == (1, [])
    # three convolutions' worth by hand: outputs x kernel x channels; two dense layers
    assert found.products == 6 * 64 * 18 + 6 * 16 * 54 + 24 * 7 + 7 * 5


def test_the_host_computes_the_rest() -> None:
    found = _check(_model(_NODES.replace("y =", "s =") + "p = Softmax (s) y = Neg (p)", **_CONSTANTS))
    reason = "not an operator of the accelerator"
    assert found.left == [("Softmax p", 0, reason), ("Neg y", 0, reason)]
    assert len(found.parts) == 2


def test_groups_and_averages() -> None:
    nodes = """
        c = Conv <group = 2, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
        a = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        g = GlobalAveragePool (a)
        y = Flatten (g)
    """
    found = _check(_model(nodes, w=_integers(6, 1, 3, 3)), _integers(1, 2, 8, 8))
    assert (found.left, [layer.groups for layer in _layers(found)]) == ([], [2, 6, 6])


_SMALL: dict[str, Any] = {
    "k": _integers(2, 2, 3, 3),
    "k2": _integers(2, 2, 3, 3, least=-2),
    "one": _integers(2, 2, 1, 1),
    "row": _integers(1, 2),
    "column": _integers(2, 1),
    "matrix": _integers(128, 2),
    "two": _integers(2, 2),
    "all": np.ones(128, np.float32),
    "three_times": np.int64(3),
    "yes": np.bool_(True),
    "pixels": _integers(1, 128),
    "eight": _integers(8),
    "channels": np.array([[[3]], [[-2]]], np.float32),
    "planes": np.array([[[[-1]], [[2]]]], np.float32),
    "ones": np.ones(2, np.float32),
    "negative": -np.ones(2, np.float32),
    "quarters": np.array([4, 16], np.float32),
    **{"one_vector": np.array([0, 0, -1]), "halves": np.array([-1, 0])},
    "eights": _integers(2, 8, 3, 3),
    "k1": _integers(2, 2, 3),
    "high": _integers(2, 2, 8, 1),
    "wide": _integers(2, 2, 1, 8),
    "turn": _integers(8, 8),
    "columns": _integers(64, 1),
    "column_of_two": _integers(1, 1),
    "two_of_three": _integers(1, 2, 2),
    "several": _integers(8, 2, 2),
    "much": np.array(3.4e38, np.float32),
    **{"tokens": np.array([1, 2, 64]), "parts": np.array([1, 4, 32]), "pairs": np.array([64, 2])},
    **{"line": np.array([1, 2, 64]), "triples": np.array([8, 8, 2])},
    **{"axis_2": np.array([2]), "axis_3": np.array([3])},
    **{"flat": np.array([1, -1]), "three": np.array([1, -1, 1])},
    **{name: np.array(value, np.float32) for name, value in (("zero", 0), ("up", 1), ("down", -1))},
}
_DENSE = "a = CONV (x, k) f = Flatten (a) g = MatMul (f, matrix)"
_MODELS = {
    "two sums": ("a = CONV (x, k) b = Conv (a, one) s = Add (b, a) y = Add (s, x)", ""),
    "sum with the input": ("a = CONV (x, k) y = Add (a, x)", ""),
    "dead": ("y = CONV (x, k) z = CONV (x, k2)", ""),
    "dead behind": ("y = CONV (x, k) z = CONV (y, k2)", ""),
    "places": (
        "a = CONV (x, k) r = Relu (a) p, i = MaxPool <kernel_shape = [2, 2]> (r) y = Cast <to = 1> (i)", "MaxPool Cast"
    ),
    "another name": (
        "t = CONV (x, k) f = Flatten (t) r = Relu (f) g = MatMul (r, matrix) "
        "u = Reshape (t, flat) v = MatMul (u, matrix) y = Add (g, v)", ""
    ),
    "first": ("a = Add (x, x) y = CONV (a, k)", ""),
    "twice": ("a = CONV (x, k) y = Add (a, a)", ""),
    "sum of one": ("a = CONV (x, k) y = Sum (a)", ""),
    "sum of three": ("a = CONV (x, k) b = CONV (a, k) y = Sum (x, a, b)", "Sum"),
    "sum that others read": ("a = CONV (x, k) b = CONV (a, k) s = Add (a, b) r = Relu (s) y = Add (r, s)", ""),
    "shift": ("a = CONV (x, k) y = Add (channels, a)", ""),
    "shift of a bias": ("a = CONV (x, k) s = Add (a, channels) y = Sub (s, up)", ""),
    "shift of a sum": ("a = CONV (x, k) s = Add (a, x) y = Sub (s, channels)", ""),
    "shift behind a bound": ("a = CONV (x, k) r = Relu (a) y = Sub (r, up)", ""),
    "difference from a constant": ("a = CONV (x, k) r = Relu (a) y = Sub (up, r)", "Sub"),
    "difference of results": ("a = CONV (x, k) b = CONV (a, k) y = Sub (a, b)", "Sub"),
    "factor": ("a = CONV (x, k) r = Relu (a) s = Mul (r, channels) y = CONV (s, k)", ""),
    "factor of the input": ("s = Mul (planes, x) y = CONV (s, k)", ""),
    "factor of a vector": (f"{_DENSE} r = Relu (g) y = Mul (r, row)", ""),
    "factor of all pixels": ("r = Relu (x) f = Flatten (r) s = Mul (f, down) y = MatMul (s, matrix)", ""),
    "factors of its pixels": ("a = CONV (x, k) r = Relu (a) f = Flatten (r) y = Mul (f, pixels)", "Mul"),
    "factors of a line": ("a = CONV (x, k) r = Relu (a) y = Mul (r, eight)", "Mul"),
    "product of results": ("a = CONV (x, k) b = Conv (x, one) y = Mul (a, b)", "Mul"),
    "normalisation first": (
        "n = BatchNormalization <epsilon = 0.0> (x, quarters, ones, ones, quarters) r = Relu (n) y = CONV (r, k)", ""
    ),
    "normalisation of pixels": (
        "r = Relu (x) f = Flatten (r) y = BatchNormalization (f, all, all, all, all)", "Relu Flatten BatchNormalization"
    ),
    "loops": (
        "a = CONV (x, k) y = Loop (three_times, yes, a) <"
        "body = body (int64 i, bool go, float[1, 2, 8, 8] v) => (bool on, float[1, 2, 8, 8] w) {"
        "on = Identity (go) w = Neg (v) }>", "Loop"
    ),
    "bounds of a pool": (
        "p = MaxPool <kernel_shape = [2, 2]> (x) r = Relu (p) a = Add (p, r) b = Clip (a, zero, up) y = CONV (b, k)", ""
    ),
    "bound of the input": ("r = Clip (x, zero, up) y = CONV (r, k)", ""),
    "bounds of bounds": ("a = CONV (x, k) r = Relu (a) y = Clip (r, zero, up)", ""),
    "mean": ("a = CONV (x, k) m = ReduceMean <axes = [-1, 2]> (a) y = Conv (m, one)", ""),
    "mean as a vector": ("a = CONV (x, k) m = ReduceMean <axes = [2, 3], keepdims = 0> (a) y = MatMul (m, two)", ""),
    "mean of channels": ("a = CONV (x, k) y = ReduceMean <axes = [1]> (a)", "ReduceMean"),
    "sum of two": ("a = CONV (x, k) b = CONV (a, k) y = Sum (a, b)", ""),
    "column": (f"{_DENSE} y = Add (g, column)", "Add"),
    "row": (f"{_DENSE} y = Add (g, row)", ""),
    "rank": ("a = CONV (x, k) y = Reshape (a, one_vector)", ""),
    "rank of a vector": ("a = CONV (x, k) f = Flatten (a) y = Reshape (f, three)", ""),
    "two rows": ("a = CONV (x, k) y = Reshape (a, halves)", ""),
    "same upper": ('y = Conv <strides = [2, 1], auto_pad = "SAME_UPPER"> (x, k)', ""),
    "same lower": ('y = Conv <strides = [1, 3], auto_pad = "SAME_LOWER"> (x, k)', ""),
    "names": ('["y"] a = Conv (x, k) ["Conv y"] b = Conv (a, one) y = Conv (b, one)', ""),
    "pools alone": ("p = MaxPool <kernel_shape = [2, 2]> (x) r = Relu (p) y = Add (p, r)", "MaxPool Relu Add"),
    "several turns": (
        "a = CONV (x, k) s = Neg (a) b = CONV (s, k) c = Abs (b) t = Add (c, b) y = CONV (t, one)", "Neg Abs"
    ),
    "turns beside each other": (
        "a = CONV (x, k) s = Neg (a) b = CONV (s, k) c = CONV (x, k2) d = Abs (c) e = Conv (d, one) y = Add (b, e)",
        "Neg Abs"
    ),
    "joined to nothing": ("s = Neg (x) r = Relu (s) t = Sign (r) y = CONV (t, k)", "Neg Relu Sign"),
    "names of the input alone": ("i = Identity (x) s = Neg (i) a = CONV (i, k) y = Add (a, s)", "Neg Add"),
    "flat input read by both": (
        "f = Flatten (x) m = MatMul (f, matrix) n = Neg (f) s = MatMul (n, matrix) y = Sub (m, s)", "Flatten Neg Sub"
    ),
    "dilation": ("y = Conv <dilations = [2, 1], pads = [2, 1, 2, 1]> (x, k)", ""),
    "dilation and strides": ("y = Conv <dilations = [2, 3], strides = [1, 2], pads = [0, 3, 1, 3]> (x, k)", ""),
    "whole windows": (
        "a = CONV (x, k) r = Relu (a) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = "
        "1> (r)", ""
    ),
    "whole windows of a border": (
        "a = CONV (x, k) r = Relu (a) y = MaxPool <kernel_shape = [2, 2], strides = [3, 3], ceil_mode = "
        "1, pads = [1, 1, 1, 1]> (r)", ""
    ),
    "pool of a pool": (
        "a = CONV (x, k) r = Relu (a) p = MaxPool <kernel_shape = [2, 2]> (r) y = MaxPool <kernel_shape "
        "= [2, 2], pads = [1, 1, 0, 0]> (p)", ""
    ),
    "a bound below": ("a = CONV (x, k) y = Clip (a, zero)", ""),
    "channels last": (
        "a = CONV (x, k) t = Transpose <perm = [0, 2, 3, 1]> (a) m = MatMul (t, two) s = Add (m, ones) "
        "y = Transpose <perm = [0, 3, 1, 2]> (s)", ""
    ),
    "vectors of channels last": (
        "a = CONV (x, k) t = Transpose <perm = [0, 2, 3, 1]> (a) f = Flatten (t) y = MatMul (f, matrix)", ""
    ),
    "pixels of channels last": (
        "a = CONV (x, k) t = Transpose <perm = [0, 2, 3, 1]> (a) y = CONV (t, eights)", "Conv"
    ),
    "mean of channels last": (
        "a = CONV (x, k) t = Transpose <perm = [0, 2, 3, 1]> (a) m = ReduceMean <axes = [1, 2], keepdims = 0> (t) "
        "y = MatMul (m, two)", ""
    ),
    "tokens": (
        "a = CONV (x, k) r = Reshape (a, tokens) t = Transpose <perm = [0, 2, 1]> (r) y = MatMul (t, "
        "two)", ""
    ),
    "parts of channels": (
        "a = CONV (x, k) r = Reshape (a, parts) t = Transpose <perm = [0, 2, 1]> (r) y = Neg (t)", "Transpose Neg"
    ),
    "rows": ("r = Reshape (x, pairs) m = MatMul (r, two) s = Add (m, ones) y = Relu (s)", "Reshape"),
    "rows from the host": (
        "r = Reshape (x, pairs) a = MatMul (r, two) s = Neg (a) b = MatMul (s, two) y = Add (a, b)", "Reshape Neg"
    ),
    "a line": (
        "r = Reshape (x, line) c = Conv <pads = [1, 1], strides = [2]> (r, k1) d = Relu (c) y = Conv (d, "
        "k1)", "Reshape"
    ),
    "a line of an image": (
        "c = Conv (x, high) s = Squeeze (c, axis_2) d = Conv <pads = [0, 2], dilations = [2]> (s, k1) y "
        "= Unsqueeze (d, axis_2)", ""
    ),
    "a column of an image": ("c = Conv (x, wide) s = Squeeze (c, axis_3) y = Conv (s, k1)", ""),
    "a sum that is no bias": (f"{_DENSE} y = Gemm (g, two, column_of_two)", ""),
    "more outputs than axes": ("r = Reshape (x, pairs) y = Gemm (r, two, columns)", "Reshape Gemm"),
    "constants first": ("y = MatMul (turn, x)", "MatMul"),
    "a matrix of three axes": ("r = Reshape (x, triples) y = MatMul (r, two_of_three)", "Reshape"),
    "several matrices": ("r = Reshape (x, triples) y = MatMul (r, several)", "Reshape MatMul"),
    "weights out of range": ("a = CONV (x, k) r = Relu (a) b = Mul (r, much) y = Sign (b)", "Mul Sign"),
    # what only they read belongs to the host's model, too
    "branches": (
        "a = CONV (x, k) m = ReduceMax <keepdims = 0> (a) c = Greater (m, zero) y = If (c) <"
        "then_branch = then () => (float[] o) { o = Add (a, up) },"
        "else_branch = else () => (float[] q) { q = Add (a, down) }>", "ReduceMax Greater If"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _MODELS)
def test_the_numbers_of_onnxruntime(name: str) -> None:
    nodes, left = _MODELS[name]
    assert _left(_check(_model(nodes, **_SMALL))) == left


def test_constants_that_are_inputs() -> None:
    """All are in a file of IR 3; onnxruntime merges equal ones, and would leave the input of one behind."""
    model = _model("a = CONV (x, k) b = CONV (a, k3) y = Relu (b)", k=_SMALL["k"], k3=_SMALL["k"])
    model.ir_version, names = 3, ("k", "k3")
    model.graph.input.extend(helper.make_tensor_value_info(name, 1, [2, 2, 3, 3]) for name in names)
    assert len(_layers(_check(model))) == 2
    assert [each.name for each in model.graph.input] == ["x", *names]


def test_normalisation_by_pixels() -> None:
    """ONNX had it up to version 8: a scale for each number of an image."""
    nodes = "a = Conv (x, one) y = BatchNormalization <spatial = 0> (a, s, s, s, s)"
    text = f"it (float[1, 2, 2, 2] x) => (float[] y) {{ {nodes} }}"
    constants = {"s": np.ones((2, 2, 2), np.float32), "one": _SMALL["one"]}
    found = partition(graphs.model(text, opset=7, ir=8, **constants))
    assert found.left == [("BatchNormalization y", 0, "it does not normalise channels of an image")]


def test_a_vector() -> None:
    _check(_model("y = Gemm (x, w4, b4)", "float[1, 7]", **_CONSTANTS), _integers(1, 7, least=-9, most=9))


_TWO = """it (float[2, 2, 8, 8] x, float[2, 2, 8, 8] z, int64 n) => (float[] y, float[] s, float[] t, float[] c) {
    a = Conv <pads = [1, 1, 1, 1]> (x, k) b = Conv <pads = [1, 1, 1, 1]> (z, k2) y = Add (a, b) s = Relu (a)
    f = Cast <to = 1> (n) t = Mul (b, f) c = Neg (x) }"""


def test_several_inputs_outputs_and_images() -> None:
    """One of them a number for the host; a result that leaves and is read."""
    model = graphs.model(_TWO, opset=17, ir=8, k=_SMALL["k"], k2=_SMALL["k2"])
    x, z = (_integers(2, 2, 8, 8, least=-number, most=2) for number in (1, 2))
    found = _check(model, x, z=z, n=np.array(3))
    assert _left(found) == "Cast Mul Neg"
    assert [each.dtype for each in found.inputs] == ["float32", "float32", "int64"]


def test_outputs_that_are_left_out() -> None:
    """Two recurrent nodes have no first output, a product between them: neither is taken for the other."""
    text = """it (float[4, 1, 3] x) => (float[] y) { no, h = LSTM <hidden_size = 2> (x, w, r)
        m = MatMul (h, three) s = Abs (m) other, y = LSTM <hidden_size = 2> (s, w, r) }"""
    constants = {"w": np.ones((1, 8, 3), np.float32), "r": np.ones((1, 8, 2), np.float32), "three": _integers(2, 3)}
    model = graphs.model(text, opset=17, ir=8, **constants)
    for node in (model.graph.node[0], model.graph.node[3]):
        node.output[0] = ""
    found = partition(model)
    assert _left(found) == "LSTM Abs LSTM"
    assert [type(part) is Layers for part in found.parts] == [False, True, False]


def test_a_line_that_becomes_an_image() -> None:
    """By a border; its axes stay apart from those of an image that has as many lines and pixels."""
    nodes = "a = Conv <pads = [2, 1, 1, 0]> (x, wider) b = Conv <strides = [2, 1]> (a, wide) y = Neg (b)"
    constants = {"wider": _integers(2, 2, 2, 3), "wide": _integers(3, 2, 1, 2)}
    model = _model(nodes, "float[1, 2, 1, 4]", **constants)
    assert _left(_check(model, _integers(1, 2, 1, 4, least=-2, most=2))) == "Neg"


@pytest.mark.parametrize("version", [17, 22])
@pytest.mark.parametrize(
    ("kind", "window"),
    [
        ("MaxPool", "kernel_shape = [1, 1], strides = [3, 2]"),
        ("MaxPool", 'kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_UPPER"'),
        ("AveragePool", "kernel_shape = [2, 2], strides = [2, 3], pads = [1, 0, 1, 0]"),
        ("AveragePool", "kernel_shape = [1, 2], strides = [4, 7], count_include_pad = 1"),
    ],
)
def test_windows_behind_an_image(kind: str, window: str, version: int) -> None:
    """With ceil_mode older versions of ONNX count those, and onnxruntime does not, for nodes of both sides."""
    nodes = f"r = Relu (x) p = {kind} <{window}, ceil_mode = 1> (r) a = Conv <pads = [1, 1, 1, 1]> (p, k) b = Neg (a) "
    nodes += f"q = {kind} <{window}, ceil_mode = 1> (b) y = Conv <pads = [1, 1, 1, 1]> (q, k)"
    text = f"it (float[1, 2, 7, 8] x) => (float[] y) {{ {nodes} }}"
    model = graphs.model(text, opset=version, ir=8, k=_SMALL["k"])
    x = 16 * _integers(1, 2, 7, 8)
    [expected] = Session(model).run({"x": x}).values()
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, expected.shape))
    assert set(_left(_check(model, x)).split()) <= {"Relu", "Neg", "Slice", kind}
    [computed] = Network(model, rows=4, columns=4).run({"x": x}).values()
    assert (computed == expected).all()


@pytest.mark.parametrize(
    "how",
    [
        "strides = [0, 0]",
        'strides = [0, 2], auto_pad = "SAME_UPPER"',
        "dilations = [1]",
        f"pads = [{(1 << 63) - 1}, 0, {(1 << 63) - 1}, 0]",
    ],
)
def test_pools_of_no_windows(how: str) -> None:
    model = _model(f"y = MaxPool <kernel_shape = [2, 2], ceil_mode = 1, {how}> (x)")
    with pytest.raises(ModelError, match=r"^model cannot be run: .* (Attribute (strides|dilations) |Integer overflow)"):
        partition(model)


def test_names_of_windows_that_are_taken() -> None:
    nodes = "a = MaxPool <kernel_shape = [1, 1], strides = [5, 5], ceil_mode = 1> (x) b = CONV (a, k) y = Neg (b)"
    model = _model(nodes, k=_SMALL["k"])
    for each in [model.graph.node[1].output, model.graph.node[2].input]:
        each[0] = "windows 0"
    assert _left(_check(model)) == "Neg"


def test_all_of_an_input() -> None:
    """What is only another name of an input says nothing of its channels."""
    nodes = "s = Slice (x, begin, end, axis) t = Transpose <perm = [0, 2, 1, 3]> (s) y = CONV (t, k)"
    ends = {name: np.array([value]) for name, value in {"begin": 0, "end": 8, "axis": 2}.items()}
    model = _model(nodes, "float[1, 5, 8, 4]", k=_integers(2, 8, 3, 3), **ends)
    found = _check(model, _integers(1, 5, 8, 4))
    assert _left(found) == "Slice Transpose"
    assert found.products == 2 * 8 * 9 * 5 * 4


def test_a_kernel_that_has_no_room() -> None:
    """A line of 20 pixels needs 82 rows of weights, or 22 where a row has four pixels."""
    config = AcceleratorConfig(size=4, stages=1, depth=64, rows=4096, weights=64, beat=64)
    for channels, left in ((1, []), (4, ["Conv c"])):
        kernel = np.ones((2, channels, 2, 20), np.float32)
        model = _model("[c] y = Conv (x, k)", f"float[1, {channels}, 2, 24]", k=kernel)
        found = partition(model, config=config)
        assert [each.name for each in found.left] == left


def test_as_many_lines_as_channels() -> None:
    """A number for each line is none for each channel."""
    model = _model("a = CONV (x, k) r = Relu (a) y = Mul (r, column)", "float[1, 2, 2, 8]", **_SMALL)
    assert _left(_check(model, _integers(1, 2, 2, 8, least=-2, most=2))) == "Mul"


def test_other_numbers_of_images() -> None:
    """A part runs once for each image; what has another number of them is the host's."""
    nodes = "y = Conv (x, one) s = Conv (z, one)"
    text = f"it (float[2, 2, 3, 3] x, float[1, 2, 3, 3] z) => (float[] y, float[] s) {{ {nodes} }}"
    model = graphs.model(text, opset=17, ir=8, one=_SMALL["one"])
    found = _check(model, _integers(2, 2, 3, 3), z=_integers(1, 2, 3, 3))
    assert found.left == [("Conv s", 36, "z is of another number of images than what is computed beside it")]


def test_images_that_are_outputs() -> None:
    """What is read and what leaves without a node."""
    model = graphs.model(
        "it (float[1, 2] x) => (float[1, 2] x, float[] y) { y = MatMul (x, two) }", opset=17, ir=8, two=_SMALL["two"]
    )
    assert _left(_check(model, _integers(1, 2))) == ""


def test_open_sizes() -> None:
    """They are given; a name of one stands for it in all inputs."""
    nodes = "a = Conv (x, one) b = Conv (z, one) y = Add (a, b)"
    text = f"it (float[n, 2, h, 8] x, float[n, 2, h, 8] z) => (float[n, 2, h, 8] y) {{ {nodes} }}"
    model = graphs.model(text, opset=17, ir=8, one=_SMALL["one"])
    found = partition(model, {"z": (3, 2, 5, 8)})
    assert [each.dims for each in found.inputs] == [(3, 2, 5, 8)] * 2
    for sizes, message in (
        ({}, "input x must have sizes, not n,2,h,8: --size x=N,2,N,8"),
        ({"x": (1, 3, 8, 8)}, "--size of x must fit n,2,h,8, not 1,3,8,8"),
        ({"x": (1, 2, 8)}, "--size of x must fit n,2,h,8, not 1,2,8"),
        ({"y": (1,)}, "--size must name an input of the model, x, z, not y"),
        ({"x": (1, 2, 8, 8), "z": (2, 2, 8, 8)}, "n must be one size, not 1 and 2"),
    ):
        with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
            partition(model, sizes)


def test_sizes_that_do_not_fit() -> None:
    """They are refused, unless a branch alone is not of them: that may be the one which is not taken."""
    text = "it (float[1, n] x) => (float[1, 2] y) {{ {} }}"
    constants = {"three": _integers(3, 2), "two": _integers(2, 2), "zero": np.float32(0)}
    model = graphs.model(text.format("y = Gemm <transB = 0> (x, three)"), opset=17, ir=8, three=constants["three"])
    with pytest.raises(ModelError, match=r"^model cannot be run"):
        partition(model, {"x": (1, 2)})
    branches = """m = ReduceMax <keepdims = 0> (x) c = Greater (m, zero) y = If (c) <
        then_branch = then () => (float[1, 2] a) { a = MatMul (x, two) },
        else_branch = other () => (float[1, 2] b) { b = MatMul (x, three) }>"""
    model = graphs.model(text.replace("{{ {} }}", f"{{ {branches} }}"), opset=17, ir=8, **constants)
    assert _left(partition(model, {"x": (1, 2)})) == "ReduceMax Greater If"


@pytest.mark.parametrize("weight", [3.4e38, np.inf, np.nan])
def test_weights_that_bf16_does_not_have(weight: float) -> None:
    found = partition(_model("[dense] y = MatMul (x, w)", "float[1, 7]", w=np.full((7, 1), weight, np.float32)))
    assert found.left == [("MatMul dense", 7, "its weights are not in the range of bf16")]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            _model("[dense] y = MatMul (x, two)", "double[1, 2]", two=_SMALL["two"].astype(float)),
            "x is not of FLOAT and of known sizes",
        ),
        (
            _model("[dense] y = MatMul (x, two)", "float[9000000, 2]", two=_SMALL["two"]),
            "x has more than 16777216 numbers",
        ),
        (
            _model("[wrong] y = BatchNormalization (x, ones, ones, ones, negative) ", **_SMALL),
            "its weights are not in the range of bf16",
        ),
        (_model("[wave] y = Sin (x)"), "not an operator of the accelerator"),
    ],
)
def test_reasons(model: Any, reason: str) -> None:
    assert partition(model).left[0].reason == reason


@pytest.mark.parametrize("field", ["elem_type", "shape"])
def test_inputs_of_no_known_type(field: str) -> None:
    model = graphs.model("it (float[2] x) => (float[2] y) { y = Neg (x) }", opset=17, ir=8)
    model.graph.input[0].type.tensor_type.ClearField(field)
    with pytest.raises(ModelError, match=r"^(input x must be a tensor of a known type and rank$|.*cannot be)"):
        partition(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (b"no model", "model must be an ONNX file, not these bytes: .*"),
        (
            graphs.model(
                "it (float[2] x) => (float[2] y) { y = Identity (c) }", opset=17, ir=8, c=np.ones(2, np.float32)
            ),
            "output y must depend on an input",
        ),
        (
            graphs.model("it (string[2] x) => (string[2] y) { y = Identity (x) }", opset=17, ir=8),
            "input x must be numbers, not STRING",
        ),
        (graphs.model("it (float[2] x) => (float[2] y) { y = Other (x) }", opset=17, ir=8), ".*Other.*"),
        (graphs.model("it (float[2] x) => (float[2] y) { y = Add (x, z) z = Neg (y) }", opset=17, ir=8), ".*"),
    ],
)
def test_models_that_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=f"^{message}$"):
        partition(model)
