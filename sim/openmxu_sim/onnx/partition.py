"""ONNX models in parts, which the accelerator and the host compute in turn.

::

    image ─► [ Conv, Relu, Conv ] ─► [ Sigmoid, Mul ] ─► [ Conv, Add ] ─► [ Softmax ] ─► scores
               the accelerator          the host          the accelerator     the host

Nodes are taken in turn, each as soon as all that it reads is there: for the accelerator until none of those left is one
that it computes, then for the host until none is one that it must compute. Between two parts a tensor is rounded to
bf16 where the accelerator reads it. Nodes that multiply no matrices, nor are joined to such, are the host's.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import Input
from openmxu_sim.onnx.products import products_of, shape_of
from openmxu_sim.onnx.rules import checked
from openmxu_sim.onnx.runtime import (
    ModelError,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    first_output,
    helper,
    inferred,
    inner_graphs,
    inputs_of,
    load,
    named,
    numpy_helper,
    optimised,
)
from openmxu_sim.onnx.to_layers import Graph, HostError, LayerReader, Layers

Sizes = Mapping[str, tuple[int, ...]]
"""Shapes of a model's inputs, by their names."""


class Left(NamedTuple):
    """A node that is left to the host."""

    name: str
    """Its operator and its own name."""
    products: int | None
    """Multiplications of matrix elements; ``None`` if shapes or the operator do not say."""
    reason: str
    """Why the accelerator does not compute it."""


@dataclass
class Partition:
    """A model in parts, one after another."""

    inputs: list[Input]
    outputs: list[str]
    parts: list[Layers | ModelProto] = field(default_factory=list)
    """Layers of the accelerator, and models of the host."""
    left: list[Left] = field(default_factory=list)
    """Nodes of the host."""
    products: int = 0
    """Multiplications of matrix elements in the other nodes."""


def partition(
    model: "ModelProto | Path | str | bytes", sizes: Sizes | None = None, config: AcceleratorConfig | None = None
) -> Partition:
    """Read a model, simplified by onnxruntime, whose free sizes are ``sizes``, in parts.

    What an accelerator has no room for is the host's, if ``config`` is given.

    Raises
    ------
    ModelError
        The model cannot be read, sizes of its inputs are missing, or an output does not depend on any.
    """
    loaded = load(model)
    sized = _sized(loaded, sizes or {})
    inputs = [_input(each) for each in _inputs(sized)]
    try:
        simple = optimised(checked(sized))
    except ModelError:
        if not sizes or not any(each.node for each in inner_graphs(loaded.graph.node)):
            raise
        simple = optimised(checked(loaded))  # a branch that is not taken may not be of these sizes
    return _Partitioner(simple, inputs, config).partition()


def _inputs(model: ModelProto) -> list[ValueInfoProto]:
    constants = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in constants]


def _sized(model: ModelProto, sizes: Sizes) -> ModelProto:
    """The model with these shapes of inputs; a name that stands for a size stands for it everywhere."""
    if not sizes:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    inputs = {each.name: each for each in _inputs(copy)}
    if unknown := [name for name in sizes if name not in inputs]:
        raise ModelError(f"--size must name an input of the model, {', '.join(inputs)}, not {unknown[0]}")
    known = dict[str, int]()
    for name, given in sizes.items():
        dims = inputs[name].type.tensor_type.shape.dim
        fixed = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in dims]
        if len(given) != len(dims) or any(size not in (new, 0, -1) for size, new in zip(fixed, given, strict=True)):
            raise ModelError(f"--size of {name} must fit {_written(inputs[name])}, not {','.join(map(str, given))}")
        for dim, size in zip(dims, given, strict=True):
            if _names(dim) and known.setdefault(dim.dim_param, size) != size:
                raise ModelError(f"{dim.dim_param} must be one size, not {known[dim.dim_param]} and {size}")
            dim.dim_value = size
    for dim in (dim for each in inputs.values() for dim in each.type.tensor_type.shape.dim):
        if _names(dim) and dim.dim_param in known:
            dim.dim_value = known[dim.dim_param]
    del copy.graph.value_info[:]  # what was known of the sizes before may be of others
    for each in copy.graph.output:
        each.type.tensor_type.ClearField("shape")
    return copy


def _names(dim: TensorShapeProto.Dimension) -> bool:
    """Whether a size has a name of its own; some exporters call all that are free alike."""
    return dim.dim_param not in ("", "?")


def _written(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return ",".join(str(dim.dim_value or dim.dim_param or "?") for dim in dims)


def _input(value: ValueInfoProto) -> Input:
    kind = value.type.tensor_type
    known = value.type.HasField("tensor_type") and kind.HasField("shape")
    if not known or kind.elem_type not in helper.get_all_tensor_dtypes():
        raise ModelError(f"input {value.name} must be a tensor of a known type and rank")
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if dtype.hasobject:
        raise ModelError(f"input {value.name} must be numbers, not {TensorProto.DataType.Name(kind.elem_type)}")
    dims = tuple(dim.dim_value if dim.dim_value > 0 else 0 for dim in kind.shape.dim)
    if not all(dims):
        asked = ",".join(str(size or "N") for size in dims)
        raise ModelError(f"input {value.name} must have sizes, not {_written(value)}: --size {value.name}={asked}")
    return Input(value.name, dims, str(dtype))


class _Partitioner:
    def __init__(self, model: ModelProto, inputs: list[Input], config: AcceleratorConfig | None) -> None:
        self._model, graph = model, model.graph
        self._nodes = _needed(list(graph.node), (output.name for output in graph.output))
        self._found = Partition(inputs, [output.name for output in graph.output])
        known = inferred(model).graph
        self._values = {each.name: each for each in (*known.input, *known.value_info, *known.output)}
        readers = Counter(name for node in self._nodes for name in inputs_of(node))
        readers.update(self._found.outputs)
        constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        floats = (each for each in self._values.values() if each.type.tensor_type.elem_type == TensorProto.FLOAT)
        dims = {each.name: shape for each in floats if (shape := shape_of(each))}
        self._graph = Graph(constants, dims, readers, config)
        self._reasons = dict[str, str]()
        """Of nodes of the host, by their first output."""
        self._products = products_of(known)

    def partition(self) -> Partition:
        found = self._found
        made = {name for node in self._nodes for name in node.output}
        given = {each.name for each in found.inputs}
        if lonely := [name for name in found.outputs if name not in made | given]:
            raise ModelError(f"output {lonely[0]} must depend on an input")
        left, host = self._nodes, list[NodeProto]()
        while left:
            taken, part = self._of_accelerator(left, given)
            if part is None:
                taken = self._of_host(left, given)
                host += taken
            elif host:
                found.parts.append(self._host(host))
                host = []
            found.parts += [part] if part is not None else []
            given |= {name for node in taken for name in node.output}
            done = set(map(first_output, taken))
            left = [node for node in left if first_output(node) not in done]
        found.parts += [self._host(host)] if host else []
        return found

    def _of_accelerator(self, left: list[NodeProto], given: Collection[str]) -> tuple[list[NodeProto], Layers | None]:
        """The nodes that the accelerator computes next, and their layers."""
        while True:
            reader, taken = LayerReader(self._graph, given), list[NodeProto]()
            for node in left:
                if reader.has(node) and self._takes(reader, node):
                    taken.append(node)
            joined, needed = self._joined(taken), self._needed_outside(taken)
            alone = [node for node in taken if first_output(node) not in joined]
            alone += [node for node in taken if any(reader.is_source(name) for name in needed & {*node.output})]
            if not alone:
                break
            self._reasons |= {first_output(node): "it is not joined to products" for node in alone}
        if not taken:
            return [], None
        self._found.products += sum(self._products.get(first_output(node)) or 0 for node in taken)
        return taken, reader.part(name for node in taken for name in node.output if name in needed)

    def _takes(self, reader: LayerReader, node: NodeProto) -> bool:
        """Whether the accelerator computes a node, and if not, note why."""
        if first_output(node) not in self._reasons:
            try:
                reader.add(node)
            except HostError as error:
                self._reasons[first_output(node)] = str(error)
        return first_output(node) not in self._reasons

    def _joined(self, nodes: list[NodeProto]) -> set[str]:
        """First outputs of the nodes that are joined, by what they read, to such as multiply matrices."""
        group = dict[str, set[str]]()
        for node in nodes:
            own = {first_output(node)}.union(*(group[name] for name in inputs_of(node) if name in group))
            for name in own | {*node.output}:
                group[name] = own
        return {name for name, own in group.items() if any(each in self._products for each in own)}

    def _needed_outside(self, nodes: list[NodeProto]) -> set[str]:
        """Tensors that other nodes read, or that are outputs."""
        own = set(map(first_output, nodes))
        others = (node for node in self._nodes if first_output(node) not in own)
        return {*self._found.outputs}.union(*map(inputs_of, others))

    def _of_host(self, left: list[NodeProto], given: Collection[str]) -> list[NodeProto]:
        """The nodes that the host must compute next."""
        known, taken = {*given, *self._graph.constants}, list[NodeProto]()
        for node in left:
            if not inputs_of(node) <= known or self._takes(LayerReader(self._graph, known), node):
                continue
            taken.append(node)
            known |= {*node.output}
            key = first_output(node)
            self._found.left.append(Left(named(node), self._products.get(key, 0), self._reasons[key]))
        return taken

    def _host(self, nodes: list[NodeProto]) -> ModelProto:
        """A model of nodes."""
        made = {name for node in nodes for name in node.output}
        read = {name for node in nodes for name in inputs_of(node)}
        constants = [each for each in self._model.graph.initializer if each.name in read]
        names = sorted(read - made - self._graph.constants.keys()), sorted(made & self._needed_outside(nodes))
        if unknown := [name for name in chain(*names) if name not in self._values]:
            raise ModelError(f"the type of {unknown[0]} must follow from the model")
        inputs, outputs = ([self._values[name] for name in some] for some in names)
        graph = helper.make_graph(nodes, "host", inputs, outputs, constants)
        opsets = list(self._model.opset_import)
        return helper.make_model(graph, opset_imports=opsets, ir_version=self._model.ir_version)


def _needed(nodes: list[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that outputs depend on."""
    names, needed = {*outputs}, list[NodeProto]()
    for node in reversed(nodes):
        if names.intersection(node.output):
            needed.append(node)
            names |= inputs_of(node)
    return needed[::-1]
