"""LSTM, GRU and RNN: on small integers onnxruntime is the oracle, for bits golden in a recurrence written here."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto  # noqa: E402  # needs ONNX

from openmxu_sim import golden  # noqa: E402
from openmxu_sim.onnx import Network  # noqa: E402

from ...bits import same_bits  # noqa: E402
from . import graphs  # noqa: E402

Arrays = dict[str, Any]
TIMES, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
NAMES = ("x", "w", "r", "b", "lengths", "h", "c", "p")
EXACT = {"LSTM": ["HardSigmoid", "Relu", "Relu"], "GRU": ["HardSigmoid", "relu"], "RNN": ["HardSigmoid"]}
"""Activations with a step from 0 to 1, which keeps integers small."""


def inputs_of(operator: str, directions: int, make: Callable[..., Any]) -> Arrays:
    """All that an operator may have."""
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


def check(operator: str, without: str = "", direction: str = "forward", **attributes: Any) -> Network:
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


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("without", ["", "lengths", "b h c p lengths"])
def test_integers(operator: str, direction: str, without: str) -> None:
    check(operator, without, direction)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LSTM", {"clip": 2.0}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["Relu"] * 3, "clip": 3.0}),
        ("GRU", {"clip": 2.0}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 1, "clip": 1.0}),
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.5], "clip": 4.0}),
    ],
)
def test_attributes(operator: str, attributes: Arrays) -> None:
    check(operator, **attributes)


def test_products_of_a_layer() -> None:
    """One for all times, and one at each."""
    network = check("LSTM", "lengths")
    assert {(work.operator, work.layer, work.m, work.k, work.n): times for work, times in network.work.items()} == {
        ("LSTM", "layer", TIMES * BATCH, INPUTS, 4 * HIDDEN): 1,
        ("LSTM", "layer", BATCH, HIDDEN, 4 * HIDDEN): TIMES,
    }


def elementwise(operator: str) -> Callable[[Any], Any]:
    """One of onnxruntime's operators."""
    model = graphs.single(operator, {"x": (TensorProto.FLOAT, None)}, ["y"])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda x: session.run(None, {"x": x})[0]


def recurrence(operator: str, linear: bool, inputs: Arrays, product: Callable[[Any, Any], Any]) -> Any:
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
            gates = product(x, weights[:, :n]) + product(hidden, back[:, :n]) + (one + other)[:n]
            z, r = sigmoid(gates[:, :HIDDEN]), sigmoid(gates[:, HIDDEN:])
            if linear:
                new = product(x, weights[:, n:]) + r * (product(hidden, back[:, n:]) + other[n:]) + one[n:]
            else:
                new = product(x, weights[:, n:]) + product(r * hidden, back[:, n:]) + (one + other)[n:]
            hidden = (1 - z) * tanh(new) + z * hidden
        else:
            gates = product(x, weights) + product(hidden, back) + (one + other)
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
def test_bits(operator: str, linear: bool, unit: Arrays) -> None:
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


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"activations": ["Affine", "Tanh", "Tanh"]}, "activations must be 3 a direction of Relu, Tanh, "),
        ({"activations": ["Tanh"]}, "activations must be 3 a direction of Relu, Tanh, "),
        ({"direction": "bidirectional"}, "direction must fit weights of 1 directions, not be 'bidirectional'"),
    ],
)
def test_mistakes(attributes: Arrays, text: str) -> None:
    inputs = inputs_of("LSTM", 1, lambda *shape: np.ones(shape, np.float32))
    with pytest.raises(ValueError, match=text):
        Network(model_of("LSTM", inputs, **attributes)).run(inputs)
