"""ONNX models as layers of the accelerator, and the rest, which the host computes."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from openmxu_sim.accelerator.lowering import Layer
from openmxu_sim.onnx.runtime import ModelError, ModelProto, NodeProto, helper, load, numpy_helper, optimised

_Shape = tuple[int, int, int]


class _HostError(Exception):
    """A node that the accelerator does not compute; the text says why."""


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
    """What the host computes from the result, if that is not the output."""
    reasons: list[str] = field(default_factory=list)
    """Nodes of the host, and why the first one is."""


def to_layers(model: "ModelProto | Path | str | bytes") -> Layers:
    """Read a model, simplified by onnxruntime, up to the first node that the accelerator does not compute."""
    return _Reader(optimised(load(model))).read()


class _Reader:
    def __init__(self, model: ModelProto) -> None:
        self._model = model
        graph = model.graph
        self._constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self._readers = Counter(name for node in graph.node for name in node.input)
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
        self._found = Layers(inputs[0].name, (channels, *(plane or (1, 1))))
        self._tensors: dict[str, tuple[str, _Shape, bool]] = {
            inputs[0].name: (inputs[0].name, self._found.shape, len(sizes) == 2)
        }
        """Name of the layer behind a tensor, its shape, and whether the tensor is flat."""

    def read(self) -> Layers:
        found, nodes = self._found, list(self._model.graph.node)
        last = found.source
        for index, node in enumerate(nodes):
            try:
                self._add(node)
                last = node.output[0]
            except _HostError as error:
                self._leave(nodes[index:], str(error), last)
                break
        if not found.layers:
            raise ModelError(f"model must begin with layers of the accelerator: {'; '.join(found.reasons)}")
        found.result, _, found.flat = self._tensors[last]
        found.output = self._model.graph.output[0].name
        return found

    def _leave(self, nodes: list[NodeProto], reason: str, last: str) -> None:
        """Leave nodes to the host, which must need nothing but the last result."""
        made = {name for node in nodes for name in node.output}
        needed = {name for node in nodes for name in node.input if name} - made - set(self._constants)
        if needed - {last}:
            raise ModelError(f"host must need the last result alone, {last}, not {', '.join(sorted(needed))}: {reason}")
        names = [f"{node.op_type} {node.name or node.output[0]}" for node in nodes]
        self._found.reasons = [f"{names[0]}: {reason}", *names[1:]]
        _, shape, flat = self._tensors[last]
        sizes = [1, math.prod(shape)] if flat else [1, *shape]
        constants = [each for each in self._model.graph.initializer if any(each.name in node.input for node in nodes)]
        graph = helper.make_graph(
            nodes, "host", [helper.make_tensor_value_info(last, 1, sizes)], list(self._model.graph.output), constants
        )
        opsets = list(self._model.opset_import)
        self._found.host = helper.make_model(graph, opset_imports=opsets, ir_version=self._model.ir_version)

    def _add(self, node: NodeProto) -> None:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            self._constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            return
        handler = _HANDLERS.get(node.op_type)
        if handler is None or node.domain not in ("", "ai.onnx"):
            raise _HostError("no operator of the accelerator")
        unknown = [name for name in node.input[:1] if name not in self._tensors]
        if unknown:
            raise _HostError(f"{unknown[0]} is none of its results")
        handler(self, node, {each.name: helper.get_attribute_value(each) for each in node.attribute})

    def _layer(self, name: str) -> Layer:
        """The layer behind a tensor, if nothing else reads it: it may be changed."""
        layer = next((layer for layer in self._found.layers if layer.name == self._tensors[name][0]), None)
        if layer is None or self._readers[name] > 1 or layer.weight is None:
            raise _HostError(f"{name} is no result of a product that nothing else reads")
        if layer.relu or layer.high is not None:
            raise _HostError(f"{name} is behind ReLU")
        return layer

    def _change(self, name: str, node: NodeProto, **changes: Any) -> None:
        """Change the layer behind a tensor; the node's output is its result."""
        layer, layers = self._layer(name), self._found.layers
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
            raise _HostError(f"{name} is no constant")
        return self._constants.get(name)

    def _name(self, node: NodeProto) -> str:
        """The node's name, or one of its output, where no layer and no input has it."""
        taken = {self._found.source, *(layer.name for layer in self._found.layers)}
        names = node.name, node.output[0], f"{node.op_type} {node.output[0]}"
        return next(name for name in names if name and name not in taken)

    def _convolve(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        weight = self._constant(node, 1)
        source, shape, flat = self._tensors[node.input[0]]
        if flat or weight.ndim != 4 or set(attributes.get("dilations", [1])) != {1}:
            raise _HostError("it is no convolution of a picture without dilation")
        _check_padding(attributes)
        layer = Layer(
            self._name(node),
            source,
            tuple(weight.shape[2:]),
            tuple(attributes.get("strides", (1, 1))),
            tuple(attributes.get("pads", (0, 0, 0, 0))),
            np.asarray(weight, np.float32),
            self._bias(self._constant(node, 2)),
            groups=attributes.get("group", 1),
        )
        self._append(node, layer, layer.shape(shape))

    def _pool(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, shape, flat = self._tensors[node.input[0]]
        kernel, pads = tuple(attributes.get("kernel_shape", shape[1:])), tuple(attributes.get("pads", (0, 0, 0, 0)))
        before = next((layer for layer in self._found.layers if layer.name == source), None)
        if flat or len(kernel) != 2 or attributes.get("ceil_mode", 0) or set(attributes.get("dilations", [1])) != {1}:
            raise _HostError("it is no pool of a picture without dilation")
        _check_padding(attributes)
        strides = tuple(attributes.get("strides", (1, 1)))
        layer = Layer(self._name(node), source, kernel, strides, pads)
        if node.op_type == "MaxPool":
            if any(pads) and not (before and before.relu):
                raise _HostError("its border of zeros may be larger than numbers that are not behind ReLU")
        elif any(pads) and not attributes.get("count_include_pad", 0):
            raise _HostError("it divides by fewer pixels at the border")
        else:
            weight = np.full((shape[0], 1, *kernel), 1 / math.prod(kernel), np.float32)
            layer = replace(layer, weight=weight, groups=shape[0])
        self._append(node, layer, layer.shape(shape))

    def _dense(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, shape, flat = self._tensors[node.input[0]]
        weight = self._constant(node, 1)
        if not flat or weight is None or weight.ndim != 2:
            raise _HostError("it is no product of a vector and a constant matrix")
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

    def _sum(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        del attributes
        names = list(node.input)
        constants = [name for name in names if name in self._constants]
        if constants:
            [other] = [name for name in names if name not in constants]
            layer, bias = self._layer(other), self._constants[constants[0]]
            assert layer.weight is not None
            if layer.bias is not None or layer.added or bias.size != len(layer.weight) or not self._tensors[other][2]:
                raise _HostError("it adds no bias of a dense layer")
            self._change(other, node, bias=self._bias(bias))
            return
        if any(name not in self._tensors for name in names) or len({self._tensors[name][1:] for name in names}) > 1:
            raise _HostError("its operands are no results of one shape")
        for name, other in (names, names[::-1]):
            later = [layer.name for layer in self._found.layers]
            behind = self._tensors[other][0]
            if self._readers[name] == 1 and self._tensors[name][0] == later[-1] and behind != later[-1]:
                self._change(name, node, added=behind)
                return
        raise _HostError("none of its operands is the last result, which nothing else reads")

    def _relu(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        del attributes
        self._change(node.input[0], node, relu=True)

    def _clip(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        least = attributes.get("min", self._constant(node, 1))
        most = attributes.get("max", self._constant(node, 2))
        if least is None or float(least) != 0 or most is None or not float(most) >= 0:
            raise _HostError("its domain must begin at 0 and end above")
        self._change(node.input[0], node, relu=True, high=float(most))

    def _flatten(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, shape, _ = self._tensors[node.input[0]]
        wanted = [1, math.prod(shape)]
        if node.op_type == "Reshape":
            given = [int(size) for size in self._constant(node, 1)]
            given = [size if size > 0 else wanted[index] for index, size in enumerate(given)]
            if given != wanted:
                raise _HostError("it does not make a vector")
        elif attributes.get("axis", 1) != 1:
            raise _HostError("its axis must be 1")
        self._tensors[node.output[0]] = (source, shape, True)

    def _same(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        del attributes
        self._tensors[node.output[0]] = self._tensors[node.input[0]]


def _check_padding(attributes: dict[str, Any]) -> None:
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise _HostError("its padding must be given in numbers")


_HANDLERS: dict[str, Callable[[_Reader, NodeProto, dict[str, Any]], None]] = {
    "Add": _Reader._sum,
    "AveragePool": _Reader._pool,
    "Clip": _Reader._clip,
    "Conv": _Reader._convolve,
    "Dropout": _Reader._same,
    "Flatten": _Reader._flatten,
    "Gemm": _Reader._dense,
    "GlobalAveragePool": _Reader._pool,
    "Identity": _Reader._same,
    "MatMul": _Reader._dense,
    "MaxPool": _Reader._pool,
    "Relu": _Reader._relu,
    "Reshape": _Reader._flatten,
}
"""Operators of the accelerator."""
