"""What multiplies nothing is onnxruntime's, and where that has nothing, the evaluator's."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto, helper  # noqa: E402  # needs ONNX

from openmxu_sim.onnx import Network  # noqa: E402
from openmxu_sim.onnx import nodes as others  # noqa: E402

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)


def _model(nodes: list[Any], outputs: list[str], *, opset: int = 18, kind: int = TensorProto.FLOAT, **kept: Any) -> Any:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, None)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in kept.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _check(nodes: list[Any], outputs: list[str], **options: Any) -> None:
    """Here the whole model in onnxruntime is the oracle; its operators are the same, so all bits are."""
    model = _model(nodes, outputs, **options)
    found = Network(model).run({"x": IMAGE})
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(outputs, {"x": IMAGE})
    for name, right in zip(outputs, expected, strict=True):
        assert np.asarray(found[name]).dtype == right.dtype
        assert np.array_equal(found[name], right)


def test_batch_normalization_of_old_models() -> None:
    """The evaluator takes the images' own mean before version 14, whatever the model has learned."""
    learned = {name: np.array([0.5, 1.0, 2.0], np.float32) for name in ("scale", "bias", "mean", "variance")}
    node = helper.make_node("BatchNormalization", ["x", *learned], ["o"], epsilon=1e-5)
    _check([node], ["o"], opset=12, **learned)


def test_nodes_that_leave_things_out() -> None:
    """Outputs may be missing, and inputs in the midst, and one may be there twice."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["pooled", "", "scales"], ["resized"], mode="linear"),
        helper.make_node("Dropout", ["resized"], ["kept", ""]),
        helper.make_node("Mul", ["kept", "kept"], ["squared"]),
        helper.make_node("TopK", ["squared", "two"], ["largest", "places"]),
    ]
    scales = np.array([1, 1, 2, 2], np.float32)
    _check(nodes, ["squared", "places"], scales=scales, two=np.array([2], np.int64))


def test_sequences_and_branches() -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["one"], ["b"])], "then", [], [onnx.ValueInfoProto(name="b")])
    other = helper.make_graph([helper.make_node("Neg", ["one"], ["b"])], "else", [], [onnx.ValueInfoProto(name="b")])
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("SequenceAt", ["parts", "last"], ["one"]),
        helper.make_node("ReduceSum", ["one"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["o"], then_branch=branch, else_branch=other),
    ]
    _check(nodes, ["o"], last=np.array(1), zero=np.array(0, np.float32))


def test_what_onnxruntime_lacks() -> None:
    """It does not add bf16 on a processor."""
    kept = {"w": np.eye(3).astype(ml_dtypes.bfloat16), "b": np.array([1, 2, 3]).astype(ml_dtypes.bfloat16)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["o"])]
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    [found] = Network(_model(nodes, ["o"], kind=TensorProto.BFLOAT16, **kept)).run({"x": x}).values()
    assert np.array_equal(np.asarray(found, np.float32), np.arange(6).reshape(2, 3) + np.array([1, 2, 3]))


def test_nodes_that_do_the_same_share_a_session() -> None:
    others._session.cache_clear()
    nodes = [helper.make_node("Relu", [f"o{n}" if n else "x"], [f"o{n + 1}"], name=f"node {n}") for n in range(5)]
    Network(_model(nodes, ["o5"])).run({"x": IMAGE})
    assert others._session.cache_info().currsize == 1


def test_an_error_names_the_node() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["o"], name="fold")
    network = Network(_model([node], ["o"], shape=np.array([5, 7], np.int64)))
    with pytest.raises(ValueError, match=r"^Reshape fold cannot be computed: .*5,7"):
        network.run({"x": IMAGE})
