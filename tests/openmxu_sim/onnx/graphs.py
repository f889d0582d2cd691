"""Models for tests: from ONNX's own text, or of a single node; and onnxruntime as their oracle."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper

from openmxu_sim.onnx import Network


def model(text: str, *functions: str, opset: int = 18, ir: int = 10, **initializers: Any) -> Any:
    """A graph, functions of the domain `own`, and arrays with which the graph begins."""
    imports = f'opset_import: ["": {opset}, "own": 1]'
    parts = [f"<ir_version: {ir}, {imports}> {text}", *(f'<domain: "own", {imports}> {each}' for each in functions)]
    parsed = onnx.parser.parse_model("\n".join(parts))
    parsed.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers.items())
    return parsed


def single(operator: str, inputs: Mapping[str, Any], outputs: Sequence[str], **attributes: Any) -> Any:
    """A node whose operands are inputs, each of a type and a shape; one that is left out has None."""
    names = [name if kind else "" for name, kind in inputs.items()]
    node = helper.make_node(operator, names, outputs, name="layer", **attributes)
    operands = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items() if kind]
    graph = helper.make_graph([node], "graph", operands, [onnx.ValueInfoProto(name=name) for name in outputs])
    opset = helper.make_opsetid("", 23 if operator == "Attention" else 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def agree(model: Any, inputs: Mapping[str, Any], **options: Any) -> tuple[Network, Mapping[str, Any]]:
    """The network on the unit and its outputs, which are those of onnxruntime."""
    network = Network(model, **options)
    found, expected = network.run(inputs), onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    for (name, left), right in zip(found.items(), expected, strict=True):
        np.testing.assert_array_equal(left, right, name, strict=True)
    return network, found
