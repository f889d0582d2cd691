"""ONNX models on the accelerator: small integers give onnxruntime's numbers exactly; what does not fit is said."""

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import helper

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator import Memories, run
from openmxu_sim.accelerator.lowering import lower
from openmxu_sim.onnx.runtime import ModelError, Session
from openmxu_sim.onnx.to_layers import Layers, to_layers

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


def _check(model: Any, x: np.ndarray | None = None) -> Layers:
    x = _integers(1, 2, 8, 8, least=-2, most=2) if x is None else x
    found = to_layers(model)
    lowered = lower(_MACHINE, {found.source: found.shape}, found.layers)
    memories = Memories(_MACHINE, lowered.weights)
    lowered.put(found.source, x.reshape(found.shape), memories.scratchpad)
    run(lowered.program, memories)
    values = lowered.get(found.result, memories.scratchpad)[np.newaxis]
    values = values.reshape(1, -1) if found.flat else values
    if found.host is not None:
        [values] = Session(found.host).run({found.host.graph.input[0].name: values}).values()
    expected = Session(model).run({"x": x})["y"]
    assert values.shape == expected.shape
    assert (values == expected).all()
    assert np.abs(expected).max() <= 256
    return found


@pytest.mark.parametrize("name", ["first", "x", "c2"], ids=["", "of the input", "of a tensor"])
def test_a_network(name: str) -> None:
    """Also where a node has the name of the input, or of what a node without a name computes."""
    found = _check(_model(_NODES.replace("first", name), **_CONSTANTS))
    assert [bool(layer.added) for layer in found.layers] == [False, False, True, False, False, False]
    assert found.host is None
    assert found.left == []
    # three convolutions' worth by hand: outputs x kernel x channels; two dense layers
    assert found.products == 6 * 64 * 18 + 6 * 16 * 54 + 24 * 7 + 7 * 5


def test_the_host_computes_the_rest() -> None:
    found = _check(_model(_NODES.replace("y =", "s =") + "p = Softmax (s) y = Neg (p)", **_CONSTANTS))
    assert found.left == [("Softmax p", 0, "not an operator of the accelerator"), ("Neg y", 0, "")]
    assert found.host is not None


def test_groups_and_averages() -> None:
    nodes = """
        c = Conv <group = 2, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
        a = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        g = GlobalAveragePool (a)
        y = Flatten (g)
    """
    found = _check(_model(nodes, w=_integers(6, 1, 3, 3)), _integers(1, 2, 8, 8))
    assert (found.host, [layer.groups for layer in found.layers]) == (None, [2, 6, 6])


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
        "a = CONV (x, k) r = Relu (a) p, i = MaxPool <kernel_shape = [2, 2]> (r) y = Cast <to = 1> (i)", "host"
    ),
    "another name": (
        "t = CONV (x, k) f = Flatten (t) r = Relu (f) g = MatMul (r, matrix) "
        "u = Reshape (t, flat) v = MatMul (u, matrix) y = Add (g, v)", "host"
    ),
    "first": ("a = Add (x, x) y = CONV (a, k)", ""),
    "twice": ("a = CONV (x, k) y = Add (a, a)", ""),
    "sum of one": ("a = CONV (x, k) y = Sum (a)", ""),
    "sum of three": ("a = CONV (x, k) b = CONV (a, k) y = Sum (x, a, b)", "begin"),
    "sum that others read": ("a = CONV (x, k) b = CONV (a, k) s = Add (a, b) r = Relu (s) y = Add (r, s)", ""),
    "shift": ("a = CONV (x, k) y = Add (channels, a)", ""),
    "shift of a bias": ("a = CONV (x, k) s = Add (a, channels) y = Sub (s, up)", ""),
    "shift of a sum": ("a = CONV (x, k) s = Add (a, x) y = Sub (s, channels)", ""),
    "shift behind a bound": ("a = CONV (x, k) r = Relu (a) y = Sub (r, up)", ""),
    "difference from a constant": ("a = CONV (x, k) r = Relu (a) y = Sub (up, r)", "host"),
    "difference of results": ("a = CONV (x, k) b = CONV (a, k) y = Sub (a, b)", "host"),
    "factor": ("a = CONV (x, k) r = Relu (a) s = Mul (r, channels) y = CONV (s, k)", ""),
    "factor of the input": ("s = Mul (planes, x) y = CONV (s, k)", ""),
    "factor of a vector": (f"{_DENSE} r = Relu (g) y = Mul (r, row)", ""),
    "factor of all pixels": ("r = Relu (x) f = Flatten (r) s = Mul (f, down) y = MatMul (s, matrix)", ""),
    "factors of its pixels": ("a = CONV (x, k) r = Relu (a) f = Flatten (r) y = Mul (f, pixels)", "host"),
    "factors of a line": ("a = CONV (x, k) r = Relu (a) y = Mul (r, eight)", "host"),
    "product of results": ("a = CONV (x, k) b = Conv (x, one) y = Mul (a, b)", "begin"),
    "normalisation first": (
        "n = BatchNormalization <epsilon = 0.0> (x, quarters, ones, ones, quarters) r = Relu (n) y = CONV (r, k)", ""
    ),
    "normalisation of pixels": (
        "r = Relu (x) f = Flatten (r) y = BatchNormalization (f, all, all, all, all)", "host"
    ),
    "loops": (
        "a = CONV (x, k) y = Loop (three_times, yes, a) <"
        "body = body (int64 i, bool go, float[1, 2, 8, 8] v) => (bool on, float[1, 2, 8, 8] w) {"
        "on = Identity (go) w = Neg (v) }>", "host"
    ),
    "bounds of a pool": (
        "p = MaxPool <kernel_shape = [2, 2]> (x) r = Relu (p) a = Add (p, r) y = Clip (a, zero, up)", ""
    ),
    "bound of the input": ("r = Clip (x, zero, up) y = CONV (r, k)", ""),
    "bounds of bounds": ("a = CONV (x, k) r = Relu (a) y = Clip (r, zero, up)", ""),
    "mean": ("a = CONV (x, k) m = ReduceMean <axes = [-1, 2]> (a) y = Conv (m, one)", ""),
    "mean as a vector": ("a = CONV (x, k) m = ReduceMean <axes = [2, 3], keepdims = 0> (a) y = MatMul (m, two)", ""),
    "mean of channels": ("a = CONV (x, k) y = ReduceMean <axes = [1]> (a)", "host"),
    "sum of two": ("a = CONV (x, k) b = CONV (a, k) y = Sum (a, b)", ""),
    "column": (f"{_DENSE} y = Add (g, column)", "host"),
    "row": (f"{_DENSE} y = Add (g, row)", ""),
    "rank": ("a = CONV (x, k) y = Reshape (a, one_vector)", "host"),
    "rank of a vector": ("a = CONV (x, k) f = Flatten (a) y = Reshape (f, three)", "host"),
    "two rows": ("a = CONV (x, k) y = Reshape (a, halves)", "host"),
    "same upper": ('y = Conv <strides = [2, 1], auto_pad = "SAME_UPPER"> (x, k)', ""),
    "same lower": ('y = Conv <strides = [1, 3], auto_pad = "SAME_LOWER"> (x, k)', ""),
    "names": ('["y"] a = Conv (x, k) ["Conv y"] b = Conv (a, one) y = Conv (b, one)', ""),
    # what only they read belongs to the host's model, too
    "branches": (
        "a = CONV (x, k) m = ReduceMax <keepdims = 0> (a) c = Greater (m, zero) y = If (c) <"
        "then_branch = then () => (float[] o) { o = Add (a, up) },"
        "else_branch = else () => (float[] q) { q = Add (a, down) }>", "host"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _MODELS)
def test_the_numbers_of_onnxruntime(name: str) -> None:
    nodes, host = _MODELS[name]
    model = _model(nodes, **_SMALL)
    if host == "begin":
        with pytest.raises(ModelError, match=r"^model must begin with layers of the accelerator: (Sum|Mul) y: it"):
            to_layers(model)
    else:
        assert (_check(model).host is not None) == (host == "host")


def test_constants_that_are_inputs() -> None:
    """All are in a file of IR 3; onnxruntime merges equal ones, and would leave the input of one behind."""
    model = _model("a = CONV (x, k) b = CONV (a, k3) y = Relu (b)", k=_SMALL["k"], k3=_SMALL["k"])
    model.ir_version, names = 3, ("k", "k3")
    model.graph.input.extend(helper.make_tensor_value_info(name, 1, [2, 2, 3, 3]) for name in names)
    assert len(_check(model).layers) == 2
    assert [each.name for each in model.graph.input] == ["x", *names]


def test_normalisation_by_pixels() -> None:
    """ONNX had it up to version 8: a scale for each number of an image."""
    text = (
        "it (float[1, 2, 2, 2] x) => (float[] y) { a = Relu (x) y = BatchNormalization <spatial = 0> (a, s, s, s, s) }"
    )
    found = to_layers(graphs.model(text, opset=7, ir=8, s=np.ones((2, 2, 2), np.float32)))
    assert found.left == [("BatchNormalization y", 0, "it does not normalise channels of an image")]


def test_a_vector() -> None:
    _check(_model("y = Gemm (x, w4, b4)", "float[1, 7]", **_CONSTANTS), _integers(1, 7, least=-9, most=9))


def _dense(weight: float) -> Any:
    return _model("[dense] y = MatMul (x, w)", "float[1, 7]", w=np.full((7, 1), weight, np.float32))


_POOL = partial(_model, "y = MaxPool <kernel_shape = [2, 2]> (x)")
_SIZES = "input x must have fixed sizes, 1 x C x H x W or 1 x K, not"
_BEGIN = "model must begin with layers of the accelerator"
_OTHER, _DILATED = "not an operator of the accelerator", "it is not a convolution of an image without dilation"
_NEGATIVE = "[wrong] y = BatchNormalization (x, ones, ones, ones, negative)"
_MIXED = "[first] a = CONV (x, k) [wave] b = Sin (a) y = Concat <axis = 1> (x, b)"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_POOL("float[n, 2, 8, 8]"), f"{_SIZES} n x 2 x 8 x 8"),
        (_POOL("float[2, 2, 8, 8]"), f"{_SIZES} 2 x 2 x 8 x 8"),
        (_POOL("double[1, 2, 8, 8]"), "input x must be of FLOAT for the accelerator, not DOUBLE"),
        (_POOL("float[1, 2, 4096, 4096]"), "input x must have at most 16777216 numbers, not more"),
        (_model("[wave] y = Sin (x)", **_SMALL), f"{_BEGIN}: Sin wave: {_OTHER}"),
        (_model("[wide] y = Conv <dilations = [2, 2]> (x, k)", **_SMALL), f"{_BEGIN}: Conv wide: {_DILATED}"),
        (_model(_NEGATIVE, **_SMALL), "weights of wrong must be in the range of bf16"),
        (_model(_MIXED, **_SMALL), f"{_BEGIN}: Sin wave: {_OTHER}"),
        *((_dense(weight), "weights of dense must be in the range of bf16") for weight in (3.4e38, np.inf, np.nan)),
        (b"no model", "model must be an ONNX file, not these bytes: .*"),
    ],
)
def test_models_that_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=f"^{message}$"):
        to_layers(model)
