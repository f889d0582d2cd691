"""ONNX models as layers of the accelerator, and the rest, which the host computes."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from openmxu_sim.accelerator.lowering import Layer
from openmxu_sim.onnx.products import products_of
from openmxu_sim.onnx.rules import checked
from openmxu_sim.onnx.runtime import (
    ModelError,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    inner_graphs,
    inner_nodes,
    load,
    named,
    numpy_helper,
    optimised,
)
from openmxu_sim.operands.aliases import Floats

_Shape = tuple[int, int, int]

_MOST_INPUTS = 1 << 24
"""The most numbers of an input; a scratchpad has fewer."""


class _HostError(Exception):
    """A node that the accelerator does not compute; the text says why."""


class Left(NamedTuple):
    """A node that is left to the host."""

    name: str
    """Its operator and its own name."""
    products: int | None
    """Multiplications of matrix elements; ``None`` if shapes or the operator do not say."""
    reason: str
    """Why the accelerator does not compute it; empty for those that go with another node."""


@dataclass
class Layers:
    """A model as layers."""

    source: str
    """Name of the input."""
    shape: _Shape
    """Its channels, lines and pixels."""
    layers: list[Layer] = field(default_factory=list)
    result: str = ""
    """Name of the tensor that the last layer computes."""
    flat: bool = False
    """Whether it is a vector."""
    output: str = ""
    """Name of the model's output."""
    host: ModelProto | None = None
    """The host's part, from the result to the output, if these differ."""
    left: list[Left] = field(default_factory=list)
    """Nodes of the host."""
    products: int = 0
    """Multiplications of matrix elements in the other nodes."""


def to_layers(model: "ModelProto | Path | str | bytes") -> Layers:
    """Read a model, simplified by onnxruntime, up to the first node that the accelerator does not compute."""
    return _LayerReader(optimised(checked(load(model)))).read()


class _LayerReader:
    def __init__(self, model: ModelProto) -> None:
        self._model = model
        graph = model.graph
        self._nodes = _needed(list(graph.node), (output.name for output in graph.output))
        self._constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self._readers = Counter(name for node in self._nodes for name in _inputs(node))
        self._readers.update(output.name for output in graph.output)
        inputs = [each for each in graph.input if each.name not in self._constants]
        if len(inputs) != 1 or len(graph.output) != 1:
            counts = f"{len(inputs)} and {len(graph.output)}"
            raise ModelError(f"model must have one input and one output for the accelerator, not {counts}")
        dims = inputs[0].type.tensor_type.shape.dim
        sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims]
        if not all(isinstance(size, int) and size > 0 for size in sizes) or len(sizes) not in (2, 4) or sizes[0] != 1:
            shape = " x ".join(map(str, sizes))
            raise ModelError(f"input {inputs[0].name} must have fixed sizes, 1 x C x H x W or 1 x K, not {shape}")
        channels, *plane = map(int, sizes[1:])
        if math.prod((channels, *plane)) > _MOST_INPUTS:
            raise ModelError(f"input {inputs[0].name} must have at most {_MOST_INPUTS} numbers, not more")
        if (kind := inputs[0].type.tensor_type.elem_type) != TensorProto.FLOAT:
            kinds = TensorProto.DataType
            raise ModelError(f"input {inputs[0].name} must be of FLOAT for the accelerator, not {kinds.Name(kind)}")
        self._found = Layers(inputs[0].name, (channels, *(plane or (1, 1))))
        self._tensors: dict[str, tuple[str, _Shape, bool]] = {
            inputs[0].name: (inputs[0].name, self._found.shape, len(sizes) == 2)
        }
        """Name of the layer behind a tensor, its shape, and whether the tensor is flat."""

    def read(self) -> Layers:
        found, last, products = self._found, self._model.graph.output[0].name, products_of(self._model)
        found.output = last
        begin, before = len(self._nodes), list[list[Layer]]()
        for index, node in enumerate(self._nodes):
            before.append(found.layers.copy())
            try:
                self._add(node)
            except _HostError as error:
                begin, last = self._cut(index)
                found.layers = before[begin]
                left = [(other, str(error) * (other is node)) for other in self._nodes[begin:]]
                found.left = [Left(named(other), products.get(other.output[0], 0), why) for other, why in left]
                found.host = self._host(self._nodes[begin:], last)
                break
        found.products = sum(products.get(node.output[0]) or 0 for node in self._nodes[:begin])
        if not found.layers:
            reasons = "; ".join(f"{each.name}: {each.reason}" for each in found.left if each.reason) or "it has none"
            raise ModelError(f"model must begin with layers of the accelerator: {reasons}")
        found.result, _, found.flat = self._tensors[last]
        return found

    def _cut(self, stop: int) -> tuple[int, str]:
        """The last node up to one that is the host's from which on all nodes need one result alone, and that result."""
        made, needed = set(self._constants), set[str]()
        for index in reversed(range(len(self._nodes))):
            made |= {*self._nodes[index].output}
            needed |= _inputs(self._nodes[index])
            if index <= stop and len(results := needed - made) == 1 and results <= self._tensors.keys():
                return index, results.pop()
        raise ModelError("model must have an output that depends on its input")

    def _host(self, nodes: list[NodeProto], last: str) -> ModelProto:
        """The model of nodes that compute the output from a result."""
        _, shape, flat = self._tensors[last]
        sizes = [1, math.prod(shape)] if flat else [1, *shape]
        needed = {name for node in nodes for name in _inputs(node)}
        constants = [each for each in self._model.graph.initializer if each.name in needed]
        graph = helper.make_graph(
            nodes, "host", [helper.make_tensor_value_info(last, 1, sizes)], list(self._model.graph.output), constants
        )
        opsets = list(self._model.opset_import)
        return helper.make_model(graph, opset_imports=opsets, ir_version=self._model.ir_version)

    def _add(self, node: NodeProto) -> None:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            self._constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            return
        handler = _HANDLERS.get(node.op_type)
        if handler is None or node.domain not in ("", "ai.onnx"):
            raise _HostError("not an operator of the accelerator")
        skipped = self._constants if node.op_type in _SYMMETRIC else ()
        first = next((name for name in node.input if name not in skipped), node.input[0])
        if first not in self._tensors:
            raise _HostError(f"{first} is not one of its results")
        handler(self, node, {each.name: helper.get_attribute_value(each) for each in node.attribute})

    def _open(self, name: str) -> Layer | None:
        """The layer of products behind a tensor, if it may be changed: nothing else reads it, and it has no bounds."""
        source = self._tensors[name][0]
        layer = next((layer for layer in self._found.layers if layer.name == source), None)
        fits = layer is not None and self._readers[name] == 1 and layer.weight is not None and not layer.relu
        return layer if fits else None

    def _fold(self, node: NodeProto, name: str, layer: Layer | None, **changes: Any) -> None:
        """Change the layer behind a tensor, so that it computes the node, or append one that does."""
        if layer is None:
            self._by_lanes(node, name, **changes)
            return
        layers = self._found.layers
        layers[next(index for index, each in enumerate(layers) if each is layer)] = replace(layer, **changes)
        self._tensors[node.output[0]] = self._tensors[name]

    def _append(self, node: NodeProto, layer: Layer, shape: _Shape, flat: bool = False) -> None:
        if layer.weight is not None:
            limit = 3.3961775e38  # what rounds to the largest number of bf16
            if not (np.abs(layer.weight) < limit).all():
                raise ModelError(f"weights of {layer.name} must be in the range of bf16")
        self._found.layers.append(layer)
        self._tensors[node.output[0]] = (layer.name, shape, flat)

    def _constant(self, node: NodeProto, index: int) -> Any:
        name = node.input[index] if index < len(node.input) else ""
        if name and name not in self._constants:
            raise _HostError(f"{name} is not a constant")
        return self._constants.get(name)

    def _name(self, node: NodeProto) -> str:
        """The node's name, or one of its output, where no layer and no input has it."""
        taken = {"", self._found.source, *(layer.name for layer in self._found.layers)}
        names = node.name, node.output[0], f"{node.op_type} {node.output[0]}"
        return next(name for name in chain(names, map(f"{names[1]} {{}}".format, count(2))) if name not in taken)

    def _convolve(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        weight = self._constant(node, 1)
        source, shape, flat = self._tensors[node.input[0]]
        if flat or weight.ndim != 4 or set(attributes.get("dilations", [1])) != {1}:
            raise _HostError("it is not a convolution of an image without dilation")
        kernel, strides = tuple(weight.shape[2:]), tuple(attributes.get("strides", (1, 1)))
        if 0 in weight.shape:
            raise _HostError("it has no weights")
        layer = Layer(
            self._name(node),
            source,
            kernel,
            strides,
            _padding(attributes, shape, kernel, strides),
            np.asarray(weight, np.float32),
            self._bias(self._constant(node, 2)),
            groups=attributes.get("group", 1),
        )
        self._append(node, layer, layer.shape(shape))

    def _pool(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, shape, flat = self._tensors[node.input[0]]
        kernel, strides = tuple(attributes.get("kernel_shape", shape[1:])), tuple(attributes.get("strides", (1, 1)))
        before = next((layer for layer in self._found.layers if layer.name == source), None)
        if flat or len(kernel) != 2 or attributes.get("ceil_mode", 0) or set(attributes.get("dilations", [1])) != {1}:
            raise _HostError("it is not a pool of an image without dilation")
        if any(self._readers[name] for name in node.output[1:]):
            raise _HostError("it also outputs the indices of the largest pixels")
        pads = _padding(attributes, shape, kernel, strides)
        if node.op_type == "MaxPool":
            if any(pads) and not (before and before.relu):
                raise _HostError("its border of zeros may be larger than numbers that are not behind ReLU")
            layer = Layer(self._name(node), source, kernel, strides, pads)
            self._append(node, layer, layer.shape(shape))
            return
        if any(pads) and not attributes.get("count_include_pad", 0):
            raise _HostError("it divides by fewer pixels at the border")
        self._average(node, kernel, strides, pads)

    def _mean(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        _, shape, flat = self._tensors[node.input[0]]
        axes = attributes.get("axes", self._constant(node, 1))
        if flat or axes is None or {int(axis) % 4 for axis in axes} != {2, 3}:
            raise _HostError("it is not the mean of the pixels of an image")
        self._average(node, shape[1:], flat=not attributes.get("keepdims", 1))

    def _average(
        self,
        node: NodeProto,
        kernel: tuple[int, int],
        strides: tuple[int, int] = (1, 1),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        flat: bool = False,
    ) -> None:
        """Append a convolution of each channel by itself, with weights that are all the same."""
        source, shape, _ = self._tensors[node.input[0]]
        weight = np.full((shape[0], 1, *kernel), 1 / math.prod(kernel), np.float32)
        layer = Layer(self._name(node), source, kernel, strides, pads, weight, groups=shape[0])
        self._append(node, layer, layer.shape(shape), flat)

    def _dense(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, shape, flat = self._tensors[node.input[0]]
        weight = self._constant(node, 1)
        if not flat or weight is None or weight.ndim != 2:
            raise _HostError("it is not a product of a vector and a constant matrix")
        if attributes.get("transA", 0) or attributes.get("alpha", 1) != 1 or attributes.get("beta", 1) != 1:
            raise _HostError("alpha and beta must be 1, and transA 0")
        matrix = np.asarray(weight if attributes.get("transB", 0) else weight.T, np.float32)
        bias = self._bias(self._constant(node, 2), len(matrix))
        name = self._name(node)
        layer = Layer(name, source, shape[1:], weight=matrix.reshape(-1, *shape), bias=bias)
        self._append(node, layer, layer.shape(shape), flat=True)

    def _bias(self, bias: Any, count: int = 0) -> Any:
        if bias is None:
            return None
        return np.broadcast_to(np.asarray(bias, np.float32).reshape(-1), (count or bias.size,)).copy()

    def _sum(self, node: NodeProto, _: dict[str, Any]) -> None:
        names = list(node.input)
        if len(names) == 1:
            self._same(node, {})
            return
        if len(names) != 2:
            raise _HostError("it adds more than two")
        if any(name in self._constants for name in names):
            other, shift = self._of_channels(node)
            self._shift(node, other, shift)
            return
        if any(name not in self._tensors for name in names) or len({self._tensors[name][1:] for name in names}) > 1:
            raise _HostError("its operands are not results of one shape")
        for name, other in (names, names[::-1]):
            layer, behind = self._open(name), self._tensors[other][0]
            if layer is not None and layer is self._found.layers[-1] and behind != layer.name and not layer.added:
                self._fold(node, name, layer, added=behind)
                return
        self._by_lanes(node, names[0], added=self._tensors[names[1]][0])

    def _difference(self, node: NodeProto, _: dict[str, Any]) -> None:
        other, shift = self._of_channels(node)
        self._shift(node, other, -shift)

    def _shift(self, node: NodeProto, name: str, shift: Floats) -> None:
        layer = self._open(name)
        free = layer is not None and layer.bias is None and not layer.added
        self._fold(node, name, layer if free else None, bias=shift)

    def _factor(self, node: NodeProto, _: dict[str, Any]) -> None:
        other, weight = self._of_channels(node)
        self._by_lanes(node, other, weight=weight)

    def _normalise(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        constants = [self._constant(node, index) for index in range(1, 5)]
        if attributes.get("training_mode", 0):
            raise _HostError("it is in the mode of training")
        scale, shift, mean, variance = (np.asarray(each, np.float64) for each in constants)
        if scale.shape != self._tensors[node.input[0]][1][:1]:  # a number for each pixel, or for each of a vector
            raise _HostError("it does not normalise channels of an image")
        with np.errstate(all="ignore"):  # what is no number in bf16 is refused as a weight
            factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
            weight, bias = factor.astype(np.float32), (shift - mean * factor).astype(np.float32)
        self._by_lanes(node, node.input[0], weight=weight, bias=bias)

    def _of_channels(self, node: NodeProto) -> tuple[str, Floats]:
        """The operand of a node that is a result, and the other one, a constant, as a number for each channel."""
        constants = [self._constants[name] for name in node.input if name in self._constants]
        results = [name for name in node.input if name in self._tensors]
        if not len(constants) == len(results) == 1:
            raise _HostError("its operands are not a result and a constant")
        [value], [result] = constants, results
        _, shape, flat = self._tensors[result]
        sizes = (1, math.prod(shape)) if flat else (1, *shape)
        known = (1,) * (len(sizes) - value.ndim) + value.shape
        if len(known) != len(sizes) or known[1] not in (1, shape[0]) or known[0] * math.prod(known[2:]) != 1:
            raise _HostError("its constant is not a number for each channel")
        return result, self._bias(value, shape[0])

    def _by_lanes(self, node: NodeProto, name: str, weight: Floats | None = None, **fields: Any) -> None:
        """Append a layer that multiplies each channel by a number, 1 by default."""
        source, shape, flat = self._tensors[name]
        factors = np.ones(shape[0], np.float32) if weight is None else weight
        layer = Layer(self._name(node), source, (1, 1), weight=factors.reshape(-1, 1, 1, 1), groups=shape[0], **fields)
        self._append(node, layer, shape, flat)

    def _relu(self, node: NodeProto, _: dict[str, Any]) -> None:
        self._fold(node, node.input[0], self._open(node.input[0]), relu=True)

    def _clip(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        least = attributes.get("min", self._constant(node, 1))
        most = attributes.get("max", self._constant(node, 2))
        if least is None or float(least) != 0 or most is None or not float(most) >= 0:
            raise _HostError("its domain must begin at 0 and end above")
        self._fold(node, node.input[0], self._open(node.input[0]), relu=True, high=float(most))

    def _flatten(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, shape, flat = self._tensors[node.input[0]]
        size = math.prod(shape)
        if node.op_type == "Reshape":
            wanted = self._constant(node, 1)
            kept = (1, size) if flat else (1, *shape)  # what a zero stands for
            known = wanted is not None and len(wanted) == 2
            sizes = [int(each) or kept[at] for at, each in enumerate(wanted)] if known else []
            if attributes.get("allowzero", 0) or sizes not in ([1, size], [1, -1], [-1, size]):
                raise _HostError("it does not make a vector")
        elif attributes.get("axis", 1) != 1:
            raise _HostError("its axis must be 1")
        self._alias(node, source, shape, flat=True)

    def _same(self, node: NodeProto, _: dict[str, Any]) -> None:
        self._alias(node, *self._tensors[node.input[0]])

    def _alias(self, node: NodeProto, source: str, shape: _Shape, flat: bool) -> None:
        """Give a result another name; who reads it by that one reads it, too."""
        self._tensors[node.output[0]] = (source, shape, flat)
        self._readers[node.output[0]] += self._readers[node.input[0]] - 1


def _inputs(node: NodeProto) -> set[str]:
    """The names that a node reads, in its branches and loops, too, without those that are made there."""
    made = set[str]()
    for graph in inner_graphs([node]):
        made |= {each.name for each in (*graph.input, *graph.initializer)}
        made |= {name for each in graph.node for name in each.output}
    return {name for each in inner_nodes([node]) for name in each.input if name} - made


def _needed(nodes: list[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that outputs depend on."""
    names, needed = {*outputs}, list[NodeProto]()
    for node in reversed(nodes):
        if names.intersection(node.output):
            needed.append(node)
            names |= _inputs(node)
    return needed[::-1]


def _padding(
    attributes: dict[str, Any], shape: _Shape, kernel: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Lines above, pixels on the left, lines below, pixels on the right."""
    how = attributes.get("auto_pad", b"NOTSET")
    if how not in (b"SAME_UPPER", b"SAME_LOWER"):
        above, left, below, right = attributes.get("pads", (0, 0, 0, 0)) if how == b"NOTSET" else (0, 0, 0, 0)
        return above, left, below, right
    sizes = zip(shape[1:], kernel, strides, strict=True)
    both = [max((-(-size // step) - 1) * step + length - size, 0) for size, length, step in sizes]
    first = [(each + (how == b"SAME_LOWER")) // 2 for each in both]
    return first[0], first[1], both[0] - first[0], both[1] - first[1]


_HANDLERS: dict[str, Callable[[_LayerReader, NodeProto, dict[str, Any]], None]] = {
    "Add": _LayerReader._sum,
    "AveragePool": _LayerReader._pool,
    "BatchNormalization": _LayerReader._normalise,
    "Clip": _LayerReader._clip,
    "Conv": _LayerReader._convolve,
    "Dropout": _LayerReader._same,
    "Flatten": _LayerReader._flatten,
    "Gemm": _LayerReader._dense,
    "GlobalAveragePool": _LayerReader._pool,
    "Identity": _LayerReader._same,
    "MatMul": _LayerReader._dense,
    "MaxPool": _LayerReader._pool,
    "Mul": _LayerReader._factor,
    "ReduceMean": _LayerReader._mean,
    "Relu": _LayerReader._relu,
    "Reshape": _LayerReader._flatten,
    "Sub": _LayerReader._difference,
    "Sum": _LayerReader._sum,
}
"""Operators of the accelerator."""

_SYMMETRIC = {"Add", "Mul", "Sum"}
"""Those of them whose operands may be in any order."""
