"""Nodes that multiply no matrices: onnxruntime computes them, one by one, and ONNX's evaluator those that it lacks.

The evaluator is the definition of ONNX in Python: slow, and now and then wrong.
"""

from collections.abc import Callable, Collection
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from openmxu_sim.onnx.runtime import (
    ModelError,
    ModelProto,
    NodeProto,
    OpRun,
    Session,
    TensorProto,
    ValueInfoProto,
    helper,
    inner_nodes,
    load_op,
)
from openmxu_sim.operands.aliases import Floats

_EVALUATED = ("Constant", "If", "Loop", "Scan", "SequenceMap")
"""Operators without inputs, or with graphs of their own, in which there may be products."""


def others(model: ModelProto, computed: Collection[str]) -> list[type[OpRun]]:
    """Return operators that replace the evaluator's own for a model, except those that are computed."""
    version = {opset.domain: opset.version for opset in model.opset_import}.get("", 1)
    names = {node.op_type for node in inner_nodes(model.graph.node) if not node.domain}
    of_model = {"version": version, "ir_version": model.ir_version}
    return [type(name, (_Node,), of_model) for name in sorted(names - {*computed, *_EVALUATED})]


def function(operator: str, **attributes: float) -> Callable[[Floats], Floats]:
    """Return an operator of one tensor of fp32."""
    node = helper.make_node(operator, ["i0"], ["o0"], **attributes)
    session = _session(node.SerializeToString(deterministic=True), (("i0", TensorProto.FLOAT),), *_STEADY)
    if session is None:
        raise ModelError(f"{operator} cannot be computed by onnxruntime")
    return lambda x: session.run({"i0": x})["o0"]


_STEADY = 18, 8
"""Versions of ONNX's operators and files for :func:`function`; its operators had not changed until then."""


class _Node(OpRun):
    """A node; each operator has a class of its name."""

    op_domain = ""
    version: int
    ir_version: int

    @cached_property
    def _anonymous(self) -> bytes:
        """The node with names of its own removed, so that nodes that do the same are equal."""
        node = NodeProto()
        node.CopyFrom(self.onnx_node)
        node.name = ""
        node.input[:] = [f"i{index}" if name else "" for index, name in enumerate(node.input)]
        node.output[:] = [f"o{index}" if name else "" for index, name in enumerate(node.output)]
        return bytes(node.SerializeToString(deterministic=True))

    def _run(self, *inputs: Any, **_attributes: Any) -> tuple[Any, ...]:
        """Return the outputs, in the node's order."""
        node: NodeProto = self.onnx_node
        arrays = {f"i{index}": np.asarray(value) for index, value in enumerate(inputs) if value is not None}
        if any(isinstance(value, list) for value in inputs) or any(value.dtype == object for value in arrays.values()):
            session = None  # sequences and texts
        else:
            types = tuple((name, int(helper.np_dtype_to_tensor_dtype(array.dtype))) for name, array in arrays.items())
            session = _session(self._anonymous, types, self.version, self.ir_version)
        if session is None:
            results: tuple[Any, ...] = load_op("", node.op_type, self.version)(node, self.run_params).run(*inputs)
            return results
        outputs = iter(session.run(arrays, f"{node.op_type} {node.name or node.output[0]} cannot be computed").values())
        return tuple(next(outputs) if name else np.empty(0) for name in node.output)  # unused, but something must be


@lru_cache(maxsize=4096)
def _session(serialized: bytes, types: tuple[tuple[str, int], ...], version: int, ir_version: int) -> Session | None:
    """Return a model of one node; ``None`` if onnxruntime does not know it, or not for these types."""
    node = NodeProto.FromString(serialized)
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in types],
        [ValueInfoProto(name=name) for name in node.output if name],
    )
    opset = [helper.make_opsetid("", version)]
    try:
        return Session(helper.make_model(graph, opset_imports=opset, ir_version=ir_version))
    except ModelError:
        return None
