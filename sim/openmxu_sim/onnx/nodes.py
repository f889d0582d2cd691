"""What multiplies no matrices: onnxruntime computes it, node by node, and ONNX's evaluator what onnxruntime lacks.

The evaluator is the definition of ONNX in Python: slow, and now and then wrong.
"""

from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op

__all__ = ["inner_nodes", "others", "session_of"]

_EVALUATED = ("Constant", "If", "Loop", "Scan", "SequenceMap")
"""What has no inputs, or graphs of its own, in which there may be products."""


def inner_nodes(nodes: Collection[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """All of them, and those of their branches and loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from inner_nodes(graph.node)


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A model in onnxruntime, on one thread, without its warnings of what a model's author could have left out."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def others(model: onnx.ModelProto, computed: Collection[str]) -> list[type[OpRun]]:
    """What the evaluator takes in place of its own for each operator of a model, but for those that are computed."""
    version = {each.domain: each.version for each in model.opset_import}.get("", 1)
    names = {node.op_type for node in inner_nodes(model.graph.node) if not node.domain}
    of_model = {"version": version, "ir_version": model.ir_version}
    return [type(name, (_Node,), of_model) for name in sorted(names - {*computed, *_EVALUATED})]


class _Node(OpRun):
    """A node; each operator has a class of its name."""

    op_domain = ""
    version: int
    ir_version: int

    @cached_property
    def _anonymous(self) -> bytes:
        """The node with a name, inputs and outputs that are called alike in all nodes that do the same."""
        found = onnx.NodeProto()
        found.CopyFrom(self.onnx_node)
        found.name = ""
        found.input[:] = [f"i{place}" if name else "" for place, name in enumerate(found.input)]
        found.output[:] = [f"o{place}" if name else "" for place, name in enumerate(found.output)]
        return bytes(found.SerializeToString(deterministic=True))

    def _run(self, *inputs: Any, **_attributes: Any) -> tuple[Any, ...]:
        """The outputs, in the order that the node has them in."""
        node: onnx.NodeProto = self.onnx_node
        arrays = {f"i{place}": np.asarray(each) for place, each in enumerate(inputs) if each is not None}
        if any(isinstance(each, list) for each in inputs) or any(each.dtype == object for each in arrays.values()):
            session = None  # sequences and texts
        else:
            types = tuple((name, int(helper.np_dtype_to_tensor_dtype(array.dtype))) for name, array in arrays.items())
            session = _session(self._anonymous, types, self.version, self.ir_version)
        if session is None:
            found: tuple[Any, ...] = load_op("", node.op_type, self.version)(node, self.run_params).run(*inputs)
            return found
        try:
            outputs = iter(session.run(None, arrays))
        except Exception as error:  # onnxruntime's own, of many kinds
            where = f"{node.op_type} {node.name or node.output[0]}"
            raise ValueError(f"{where} cannot be computed: {str(error).splitlines()[0]}") from None
        return tuple(next(outputs) if name else np.empty(0) for name in node.output)  # unused, but something must be


@lru_cache(maxsize=4096)
def _session(
    serialized: bytes, types: tuple[tuple[str, int], ...], version: int, ir_version: int
) -> "onnxruntime.InferenceSession | None":
    """A model of one node; ``None`` if onnxruntime does not know it, or not for these types."""
    node = onnx.NodeProto.FromString(serialized)
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in types],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    opset = [helper.make_opsetid("", version)]
    try:
        return session_of(helper.make_model(graph, opset_imports=opset, ir_version=ir_version))
    except Exception:  # onnxruntime's own, of many kinds
        return None
