"""Nodes that multiply no matrices: onnxruntime computes them, one by one, and ONNX's evaluator those that it lacks.

The evaluator is the definition of ONNX in Python: slow, and now and then wrong. Where onnxruntime lacks a node in bf16,
it computes it in fp32, and rounds the results.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from openmxu_sim.onnx.evaluator import Value
from openmxu_sim.onnx.runtime import (
    ModelError,
    ModelProto,
    NodeProto,
    ReferenceEvaluator,
    Session,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    constant,
    helper,
    inferred,
    inner_nodes,
    named,
    numpy_helper,
)
from openmxu_sim.operands.aliases import Floats

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
"""Domains of ONNX itself: of operators elsewhere nobody knows whether they multiply matrices."""

_RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)


def function(operator: str, **attributes: float) -> Callable[[Floats], Floats]:
    """Return an operator of one tensor of fp32."""
    node = helper.make_node(operator, ["i0"], ["o0"], **attributes)
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None).SerializeToString()
    session = _session(node.SerializeToString(deterministic=True), (("i0", kind),), ((("", 18),), 8))
    if session is None:
        raise ModelError(f"{operator} cannot be computed by onnxruntime")
    return lambda x: session.run({"i0": x})["o0"]


_Versions = tuple[tuple[tuple[str, int], ...], int]
"""Versions of operator sets by their domains, and of the file's format.

Those of :func:`function` are 18 and 8: its operators had not changed until then.
"""


_Types = tuple[tuple[str, bytes], ...]
"""Names of inputs, and their types as ONNX writes them."""


def random_nodes(model: ModelProto) -> list[str]:
    """Return the nodes that draw random numbers: ``Dropout`` does in training."""
    nodes = [*inner_nodes(model.graph.node)]
    modes = [(each.name, numpy_helper.to_array(each)) for each in model.graph.initializer if not each.dims]
    modes += [(name, value) for node in nodes for name in node.output if (value := constant(node)) is not None]
    off = {name for name, mode in modes if mode.dtype == bool and not mode.any()}
    return [named(node) for node in nodes if _may_draw(node) and off.isdisjoint(node.input[2:])]


def _may_draw(node: NodeProto) -> bool:
    trains = node.op_type == "Dropout" and any(node.input[2:])
    return not node.domain and (node.op_type in _RANDOM or trains)


@dataclass(frozen=True)
class Other:
    """A node that another engine computes."""

    node: NodeProto
    versions: _Versions

    @cached_property
    def _anonymous(self) -> bytes:
        """The node with names of its own removed, so that nodes that do the same are equal."""
        node = NodeProto()
        node.CopyFrom(self.node)
        node.name = ""
        del node.metadata_props[:]
        node.input[:] = [f"i{index}" if name else "" for index, name in enumerate(node.input)]
        node.output[:] = [f"o{index}" if name else "" for index, name in enumerate(node.output)]
        return bytes(node.SerializeToString(deterministic=True))

    @cached_property
    def _session(self) -> Callable[[_Types], Session | None]:
        """Sessions by types of inputs; those that draw random numbers are the node's own, with a generator each."""
        cached = lru_cache(_session.__wrapped__) if _may_draw(self.node) else _session
        return partial(cached, self._anonymous, versions=self.versions)

    def __call__(self, inputs: Sequence[Value]) -> Sequence[Value]:
        """Return the outputs, in the node's order; what nobody asks for is ``None``."""
        given = {f"i{index}": value for index, value in enumerate(inputs) if value is not None}
        given = {name: value if isinstance(value, list) else np.asarray(value) for name, value in given.items()}
        types = {name: _type(value) for name, value in given.items()}
        known = tuple((name, kind) for name, kind in types.items() if kind is not None)
        session = self._session(known) if len(known) == len(types) else None
        if session is None:
            model = _model(NodeProto.FromString(self._anonymous), {}, self.versions)
            names = [each.name for each in model.graph.output]
            results = dict(zip(names, ReferenceEvaluator(model).run(None, given), strict=True))
        else:
            results = session.run(given, f"{named(self.node)} cannot be computed")
        return [results.get(f"o{index}") for index in range(len(self.node.output))]


def _type(value: Value) -> bytes | None:
    """Return the type of a tensor, or of a sequence of them, as ONNX writes it; ``None`` if there is none."""
    if not isinstance(value, list):
        kind = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), None)
        return bytes(kind.SerializeToString())
    if not value or not all(isinstance(each, np.ndarray) for each in value):
        return None
    inner = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value[0].dtype), None)
    return bytes(helper.make_sequence_type_proto(inner).SerializeToString())


def _model(node: NodeProto, types: Mapping[str, TypeProto], versions: _Versions) -> ModelProto:
    """Return a model of one node whose inputs have these types, or any."""
    inputs = [ValueInfoProto(name=name, type=types.get(name)) for name in filter(None, node.input)]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    opsets = [helper.make_opsetid(*each) for each in versions[0]]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=versions[1])


@lru_cache(maxsize=4096)
def _session(serialized: bytes, types: _Types, versions: _Versions) -> Session | None:
    """Return a model of one node; ``None`` if onnxruntime does not know it, or not for these types."""
    model = _model(
        NodeProto.FromString(serialized), {name: TypeProto.FromString(kind) for name, kind in types}, versions
    )
    try:
        return Session(model)
    except ModelError:
        return _in_fp32(model)


def _in_fp32(model: ModelProto) -> Session | None:
    """Return a model of one node with its tensors of bf16 in fp32, its results rounded."""
    [node] = model.graph.node
    narrow = TensorProto.BFLOAT16
    inputs = [each.name for each in model.graph.input if each.type.tensor_type.elem_type == narrow]
    try:
        results = inferred(model).graph.output if inputs else ()
        outputs = [each.name for each in results if each.type.tensor_type.elem_type == narrow]
        if not inputs:
            return None
        node.input[:] = [f"{name} wide" if name in inputs else name for name in node.input]
        node.output[:] = [f"{name} wide" if name in outputs else name for name in node.output]
        before = [helper.make_node("Cast", [name], [f"{name} wide"], to=TensorProto.FLOAT) for name in inputs]
        behind = [helper.make_node("Cast", [f"{name} wide"], [name], to=narrow) for name in outputs]
        nodes = [*before, node, *behind]
        graph = helper.make_graph(nodes, "node", list(model.graph.input), list(results))
        return Session(helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version))
    except ModelError:
        return None


def versions_of(model: ModelProto, domains: Collection[str] = DOMAINS) -> _Versions:
    """Return the versions of the operators of a model."""
    found = {each.domain: each.version for each in model.opset_import if each.domain in domains}
    return tuple(sorted({"": 1, **found}.items())), model.ir_version
