"""What multiplies nothing is onnxruntime's, and where that has nothing, the evaluator's."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu_sim.onnx import Network  # noqa: E402  # needs ONNX
from openmxu_sim.onnx import nodes as others  # noqa: E402

from .graphs import model  # noqa: E402

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)


def _check(text: str, **options: Any) -> None:
    """Here the whole model in onnxruntime is the oracle; its operators are the same, so all bits are."""
    network = model(f"graph (float[2, 3, 9, 8] x) => {text}", **options)
    found = Network(network).run({"x": IMAGE})
    expected = onnxruntime.InferenceSession(network.SerializeToString()).run(None, {"x": IMAGE})
    for (name, left), right in zip(found.items(), expected, strict=True):
        assert np.asarray(left).dtype == right.dtype, name
        assert np.array_equal(left, right), name


def test_batch_normalization_of_old_models() -> None:
    """The evaluator takes the images' own mean before version 14, whatever the model has learned."""
    learned = {name: np.array([0.5, 1.0, 2.0], np.float32) for name in ("scale", "bias", "mean", "variance")}
    text = "(o) { o = BatchNormalization <epsilon = 1e-5> (x, scale, bias, mean, variance) }"
    _check(text, opset=12, ir=8, **learned)


def test_nodes_that_leave_things_out() -> None:
    """Outputs may be missing, and inputs in the midst, and one may be there twice."""
    text = """(squared, places) {
        pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        resized = Resize <mode = "linear"> (pooled, , scales)
        kept, "" = Dropout (resized)
        squared = Mul (kept, kept)
        largest, places = TopK (squared, two)
    }"""
    _check(text, scales=np.array([1, 1, 2, 2], np.float32), two=np.array([2], np.int64))


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
    _check(text, last=np.array(1), zero=np.array(0, np.float32))


def test_what_onnxruntime_lacks() -> None:
    """It does not add bf16 on a processor."""
    kept = {"w": np.eye(3).astype(ml_dtypes.bfloat16), "b": np.array([1, 2, 3]).astype(ml_dtypes.bfloat16)}
    network = Network(model("graph (bfloat16[2, 3] x) => (o) { p = MatMul (x, w) o = Add (p, b) }", **kept))
    [found] = network.run({"x": np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)}).values()
    assert np.array_equal(np.asarray(found, np.float32), np.arange(6).reshape(2, 3) + np.array([1, 2, 3]))


def test_nodes_that_do_the_same_share_a_session() -> None:
    others._session.cache_clear()
    nodes = " ".join(f"[node_{n}] o{n + 1} = Relu (o{n})" for n in range(5))
    Network(model(f"graph (float[2, 3, 9, 8] o0) => (o5) {{ {nodes} }}")).run({"o0": IMAGE})
    assert others._session.cache_info().currsize == 1


def test_an_error_names_the_node() -> None:
    network = Network(model("graph (float[2, 3] x) => (o) { [fold] o = Reshape (x, shape) }", shape=np.array([5, 7])))
    with pytest.raises(ValueError, match=r"^Reshape fold cannot be computed: .*5,7"):
        network.run({"x": np.ones((2, 3), np.float32)})
