"""Nodes of ONNX models as layers of the accelerator."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import Port
from openmxu_sim.accelerator.lowering import Layer
from openmxu_sim.accelerator.pictures import Shape, View
from openmxu_sim.accelerator.stripes import check_layer
from openmxu_sim.onnx.rules import same_padding, windows_within
from openmxu_sim.onnx.runtime import NodeProto, helper, inputs_of
from openmxu_sim.operands.aliases import Floats

_MOST_NUMBERS = 1 << 24
"""The most numbers of a picture; a scratchpad has fewer."""


class HostError(Exception):
    """A node that the accelerator does not compute; the text says why."""


class _Value(NamedTuple):
    """A tensor that layers compute, or read."""

    picture: str
    """Name of the layer, or of the picture that is read."""
    view: View


@dataclass
class Graph:
    """What is known of a model's graph before it runs."""

    constants: dict[str, Any]
    dims: Mapping[str, tuple[int, ...]]
    """Shapes of the tensors of FLOAT whose sizes are known."""
    readers: Counter[str]
    """How many read a tensor, outputs included."""
    config: AcceleratorConfig | None = None
    """Where layers must fit."""


@dataclass
class Layers:
    """A part of a model as layers."""

    inputs: list[Port] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)

    @property
    def sources(self) -> dict[str, Shape]:
        """Shapes of the pictures that are read."""
        return {port.picture: port.view.shape for port in self.inputs}

    @property
    def results(self) -> list[str]:
        """Layers whose results leave."""
        return list(dict.fromkeys(port.picture for port in self.outputs))


class LayerReader:
    """Layers of nodes, which are added one by one; ``given`` are tensors that others compute before."""

    def __init__(self, graph: Graph, given: Collection[str]) -> None:
        self._graph, self._given = graph, given
        self._constants, self._readers = graph.constants, graph.readers.copy()
        self._layers: list[Layer] = []
        self._values: dict[str, _Value] = {}
        self._sources: dict[tuple[str, View], str] = {}
        self._shapes: dict[str, Shape] = {}

    def has(self, node: NodeProto) -> bool:
        """Whether all that a node reads is there."""
        known = (self._constants, self._given, self._values)
        return all(any(name in some for some in known) for name in inputs_of(node))

    def is_source(self, name: str) -> bool:
        """Whether a tensor is only another name of one that is given."""
        return name in self._values and self._values[name].picture in self._sources.values()

    def part(self, needed: Iterable[str]) -> Layers:
        """The layers, with their inputs and with those tensors as outputs."""
        read = {name for layer in self._layers for name in (layer.source, layer.added)}
        inputs = [Port(name, picture, view) for (name, view), picture in self._sources.items() if picture in read]
        return Layers(inputs, self._layers, [Port(name, *self._values[name]) for name in needed])

    def add(self, node: NodeProto) -> None:
        """Compute one more node; a :exc:`HostError` says why not."""
        handler = _HANDLERS.get(node.op_type)
        if handler is None or node.domain not in ("", "ai.onnx"):
            raise HostError("not an operator of the accelerator")
        handler(self, node, {each.name: helper.get_attribute_value(each) for each in node.attribute})

    def _value(self, name: str, *, rows: bool = False, like: View | None = None) -> _Value:
        """A tensor: one that is computed; or one that is given, as images, as rows of numbers, or like another one."""
        if name in self._values:
            return self._values[name]
        dims = self._graph.dims.get(name)
        if name in self._constants or dims is None:
            reason = "a constant" if name in self._constants else "not of FLOAT and of known sizes"
            raise HostError(f"{name} is {reason}")
        view = like or (_rows(dims) if rows or len(dims) == 2 else _images(dims))
        if view is None or view.dims != dims:
            raise HostError(f"{name} has no channels that it knows")
        if math.prod(dims) > _MOST_NUMBERS:
            raise HostError(f"{name} has more than {_MOST_NUMBERS} numbers")
        if any(value.view.images != view.images for value in self._values.values()):
            raise HostError(f"{name} is of another number of images than what is computed beside it")
        if (name, view) not in self._sources:
            self._sources[name, view] = picture = self._free(name, f"{name} {view.order}")
            self._shapes[picture] = view.shape
        return _Value(self._sources[name, view], view)

    def _image(self, name: str) -> tuple[_Value, str]:
        """A tensor of images, and the axes of their plane."""
        value = self._value(name)
        if (plane := value.view.plane()) is None:
            raise HostError(f"{name} is no image")
        return value, plane

    def _operand(self, name: str, like: View | None = None) -> _Value:
        """A tensor whose numbers are changed one by one."""
        if name in self._values or like is not None or len(self._graph.dims.get(name, ())) in (2, 4):
            return self._value(name, like=like)
        raise HostError(f"{name} is not one of its results")

    def _layer(self, picture: str) -> Layer | None:
        return next((layer for layer in self._layers if layer.name == picture), None)

    def _open(self, name: str) -> Layer | None:
        """The layer of products behind a tensor, if it may be changed: nothing else reads it, and it has no bounds."""
        layer = self._layer(self._values[name].picture) if name in self._values else None
        fits = layer is not None and self._readers[name] == 1 and layer.weight is not None and not layer.relu
        return layer if fits else None

    def _fold(self, node: NodeProto, name: str, layer: Layer | None, **changes: Any) -> None:
        """Change the layer behind a tensor, so that it computes the node, or append one that does."""
        if layer is None:
            self._by_lanes(node, self._operand(name), **changes)
            return
        self._layers[next(index for index, each in enumerate(self._layers) if each is layer)] = replace(
            layer, **changes
        )
        self._values[node.output[0]] = self._values[name]

    def _append(self, node: NodeProto, layer: Layer, view: View) -> None:
        if layer.weight is not None:
            limit = 3.3961775e38  # what rounds to the largest number of bf16
            if not (np.abs(layer.weight) < limit).all():
                raise HostError("its weights are not in the range of bf16")
        if min(view.sizes) < 1:
            raise HostError("it has no results")
        if self._graph.config is not None:
            try:
                check_layer(self._graph.config, layer, self._shapes[layer.source])
            except ValueError as error:
                raise HostError(str(error)) from None
        self._shapes[layer.name] = view.shape
        self._layers.append(layer)
        self._values[node.output[0]] = _Value(layer.name, view)

    def _constant(self, node: NodeProto, index: int) -> Any:
        name = node.input[index] if index < len(node.input) else ""
        if name and name not in self._constants:
            raise HostError(f"{name} is not a constant")
        return self._constants.get(name)

    def _free(self, *names: str) -> str:
        """The first of the names, or the last with a number, that no picture has."""
        taken = {"", *self._sources.values(), *(layer.name for layer in self._layers)}
        return next(name for name in chain(names, map(f"{names[-1]} {{}}".format, count(2))) if name not in taken)

    def _name(self, node: NodeProto) -> str:
        return self._free(node.name, node.output[0], f"{node.op_type} {node.output[0]}")

    def _convolve(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        (source, view), plane = self._image(node.input[0])
        weight = self._constant(node, 1)
        if weight is None or weight.ndim != 2 + len(plane) or 0 in weight.shape:
            raise HostError("it has no weights for its image")
        kernel, window = _window(attributes, view, plane, weight.shape[2:])
        weight = np.asarray(weight.swapaxes(2, 3) if plane == "WH" else weight, np.float32)
        weight = weight.reshape(*weight.shape[:2], *kernel)
        bias = self._bias(self._constant(node, 2), len(weight))
        groups = attributes.get("group", 1)
        layer = Layer(self._name(node), source, kernel, weight=weight, bias=bias, groups=groups, **window)
        self._append(node, layer, _seen(view, layer.shape(view.shape), plane))

    def _pool(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        (source, view), plane = self._image(node.input[0])
        if any(self._readers[name] for name in node.output[1:]):
            raise HostError("it also outputs the indices of the largest pixels")
        kernel, window = _window(attributes, view, plane, attributes["kernel_shape"])
        if node.op_type == "MaxPool":
            if any(window["padding"]) and not self._is_positive(source):
                raise HostError("its border of zeros may be larger than numbers that are not behind ReLU")
            layer = Layer(self._name(node), source, kernel, **window)
            self._append(node, layer, _seen(view, layer.shape(view.shape), plane))
            return
        if any(window["padding"]) and (not attributes.get("count_include_pad", 0) or attributes.get("ceil_mode", 0)):
            raise HostError("it divides by fewer pixels at the border")
        layer = self._average(node, source, view, kernel, **window)
        self._append(node, layer, _seen(view, layer.shape(view.shape), plane))

    def _is_positive(self, picture: str) -> bool:
        """Whether no number of a picture is below 0."""
        layer = self._layer(picture)
        return layer is not None and (layer.relu or (layer.weight is None and self._is_positive(layer.source)))

    def _mean(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        if node.op_type == "GlobalAveragePool":
            (source, view), _ = self._image(node.input[0])
            reduced, keeps = {*range(2, len(view.dims))}, True
        else:
            source, view = self._value(node.input[0])
            axes, keeps = attributes.get("axes", self._constant(node, 1)), attributes.get("keepdims", 1)
            reduced = {int(axis) % len(view.dims) for axis in axes} if axes is not None else set[int]()
        kept = [axis for axis in range(len(view.dims)) if axis not in reduced]
        if len(kept) != 2 or kept[0] or view.dims[0] != view.images or not view.has_channels_at(kept[1]):
            raise HostError("it is not the mean of the pixels of an image")
        channels = view.shape[0]
        dims = tuple(size for axis, size in enumerate(view.dims) if axis in kept)
        if keeps:
            dims = tuple(size if axis in kept else 1 for axis, size in enumerate(view.dims))
        layer = self._average(node, source, view, view.shape[1:])
        self._append(node, layer, View(dims, (view.images, channels, 1, 1)))

    def _average(self, node: NodeProto, source: str, view: View, kernel: tuple[int, int], **window: Any) -> Layer:
        """A convolution of each channel by itself, with weights that are all the same."""
        weight = np.full((view.shape[0], 1, *kernel), 1 / math.prod(kernel), np.float32)
        return Layer(self._name(node), source, kernel, weight=weight, groups=view.shape[0], **window)

    def _dense(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        source, view = self._value(node.input[0], rows=True)
        matrix = self._matrix(node, attributes, len(view.dims))
        outputs = len(matrix)
        added = "".join(name for name in node.input[2:] if name and name not in self._constants)
        bias = None if added else self._bias(self._constant(node, 2), outputs)
        images, channels, lines, pixels = view.sizes
        groups = view.groups()
        dims = (*view.dims[:-1], outputs)
        if view.dims[-1] == channels and view.has_channels_at(-1):
            kernel, sizes = (1, 1), (images, outputs, lines, pixels)
            order = view.order.replace("C", "") + "C"
            matrix = matrix.reshape(outputs, channels, 1, 1)
        elif len(view.dims) == 2 and groups is not None and groups[0] == "N" * (images > 1):
            kernel, sizes, order = view.shape[1:], (images, outputs, 1, 1), "NCHW"
            matrix = _as_images(matrix, view)
        else:
            raise HostError("it is not a product of rows and a constant matrix")
        seen = View(dims, sizes, order)
        behind = self._operand(added, seen) if added else _Value("", seen)
        if _layout(behind.view) != _layout(seen):
            raise HostError("it adds what has another shape")
        layer = Layer(self._name(node), source, kernel, weight=matrix, bias=bias, added=behind.picture)
        self._append(node, layer, seen)

    def _matrix(self, node: NodeProto, attributes: dict[str, Any], rank: int) -> Floats:
        """The weights of a dense layer that reads a tensor of this rank, (outputs, inputs)."""
        weight = self._constant(node, 1)
        if weight is None or not 2 <= weight.ndim <= max(2, rank) or 0 in weight.shape:  # a matrix
            raise HostError("it is not a product of rows and a constant matrix")
        if math.prod(weight.shape[:-2]) != 1:
            raise HostError("it is a product of several matrices")
        if attributes.get("transA", 0) or attributes.get("alpha", 1) != 1 or attributes.get("beta", 1) != 1:
            raise HostError("alpha and beta must be 1, and transA 0")
        weight = weight.reshape(weight.shape[-2:])
        return np.asarray(weight if attributes.get("transB", 0) else weight.T, np.float32)

    def _bias(self, bias: Any, count: int) -> Any:
        """A constant as a number for each output."""
        if bias is None:
            return None
        if bias.size not in (1, count) or bias.shape[-1:] not in ((), (bias.size,)):
            raise HostError("it adds more than a number for each channel")
        return np.broadcast_to(np.asarray(bias, np.float32).reshape(-1), (count,)).copy()

    def _sum(self, node: NodeProto, _: dict[str, Any]) -> None:
        names = list(node.input)
        if len(names) == 1:
            self._same(node, {})
            return
        if len(names) != 2:
            raise HostError("it adds more than two")
        if any(name in self._constants for name in names):
            other, shift = self._of_channels(node)
            self._shift(node, other, shift)
            return
        names.sort(key=lambda name: name not in self._values)
        first = self._operand(names[0])
        second = self._operand(names[1], first.view)
        if _layout(first.view) != _layout(second.view):
            raise HostError("its operands are not of one shape")
        for name, other in (names, names[::-1]):
            layer, behind = self._open(name), self._operand(other, first.view).picture
            if layer is not None and layer is self._layers[-1] and behind != layer.name and not layer.added:
                self._fold(node, name, layer, added=behind)
                return
        self._by_lanes(node, first, added=second.picture)

    def _difference(self, node: NodeProto, _: dict[str, Any]) -> None:
        other, shift = self._of_channels(node)
        if node.input[0] != other:
            raise HostError("it subtracts from a constant")
        self._shift(node, other, -shift)

    def _shift(self, node: NodeProto, name: str, shift: Floats) -> None:
        layer = self._open(name)
        free = layer is not None and layer.bias is None and not layer.added
        self._fold(node, name, layer if free else None, bias=shift)

    def _factor(self, node: NodeProto, _: dict[str, Any]) -> None:
        other, weight = self._of_channels(node)
        self._by_lanes(node, self._operand(other), weight=weight)

    def _normalise(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        constants = [self._constant(node, index) for index in range(1, 5)]
        if attributes.get("training_mode", 0):
            raise HostError("it is in the mode of training")
        value = self._operand(node.input[0])
        scale, shift, mean, variance = (np.asarray(each, np.float64) for each in constants)
        # a number for each pixel, or for each of a vector
        if scale.shape != value.view.shape[:1] or not value.view.has_channels_at(1):
            raise HostError("it does not normalise channels of an image")
        with np.errstate(all="ignore"):  # what is no number in bf16 is refused as a weight
            factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
            weight, bias = factor.astype(np.float32), (shift - mean * factor).astype(np.float32)
        self._by_lanes(node, value, weight=weight, bias=bias)

    def _of_channels(self, node: NodeProto) -> tuple[str, Floats]:
        """The operand of a node that is a result, and the other one, a constant, as a number for each channel."""
        constants = [self._constants[name] for name in node.input if name in self._constants]
        results = [name for name in node.input if name not in self._constants]
        if not len(constants) == len(results) == 1:
            raise HostError("its operands are not a result and a constant")
        [value], [result] = constants, results
        view = self._operand(result).view
        known = (1,) * (len(view.dims) - value.ndim) + value.shape
        axes = [axis for axis, size in enumerate(known) if size != 1]
        single = len(axes) == 1 and known[axes[0]] == view.shape[0] and view.has_channels_at(axes[0])
        if len(known) != len(view.dims) or (axes and not single):
            raise HostError("its constant is not a number for each channel")
        return result, self._bias(value.ravel(), view.shape[0])

    def _by_lanes(self, node: NodeProto, value: _Value, weight: Floats | None = None, **fields: Any) -> None:
        """Append a layer that multiplies each channel by a number, 1 by default."""
        source, view = value
        channels = view.shape[0]
        factors = np.ones(channels, np.float32) if weight is None else weight
        layer = Layer(self._name(node), source, (1, 1), weight=factors.reshape(-1, 1, 1, 1), groups=channels, **fields)
        self._append(node, layer, view)

    def _relu(self, node: NodeProto, _: dict[str, Any]) -> None:
        self._fold(node, node.input[0], self._open(node.input[0]), relu=True)

    def _clip(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        least = attributes.get("min", self._constant(node, 1))
        most = attributes.get("max", self._constant(node, 2))
        if least is None or float(least) != 0 or (most is not None and not float(most) >= 0):
            raise HostError("its domain must begin at 0 and end above")
        high = None if most is None else float(most)
        self._fold(node, node.input[0], self._open(node.input[0]), relu=True, high=high)

    def _reshape(self, node: NodeProto, _: dict[str, Any]) -> None:
        """Another shape of the same numbers in the same order."""
        name, dims = node.input[0], self._graph.dims.get(node.output[0])
        picture, view = self._operand(name)
        if dims is None:
            raise HostError("its shape is not known")
        if name not in self._values and dims != (view.images, math.prod(view.shape)):  # who reads it knows more
            raise HostError("nothing before it is on the accelerator")
        self._alias(node, _Value(picture, view._replace(dims=dims)))

    def _transpose(self, node: NodeProto, attributes: dict[str, Any]) -> None:
        if node.input[0] not in self._values:
            raise HostError("nothing before it is on the accelerator")
        picture, view = self._values[node.input[0]]
        if (seen := view.transposed(attributes.get("perm", range(len(view.dims))[::-1]))) is None:
            raise HostError("it moves parts of channels")
        self._alias(node, _Value(picture, seen))

    def _slice(self, node: NodeProto, _: dict[str, Any]) -> None:
        """Another name, if the slice is all of a tensor."""
        value, steps = self._values.get(node.input[0]), self._constant(node, 4)
        if value is None:
            raise HostError("nothing before it is on the accelerator")
        if (steps is not None and (steps != 1).any()) or self._graph.dims.get(node.output[0]) != value.view.dims:
            raise HostError("it takes a part of its tensor")
        self._alias(node, value)

    def _same(self, node: NodeProto, _: dict[str, Any]) -> None:
        self._alias(node, self._operand(node.input[0]))

    def _alias(self, node: NodeProto, value: _Value) -> None:
        """Give a result another name; who reads it by that one reads it, too."""
        self._values[node.output[0]] = value
        self._readers[node.output[0]] += self._readers[node.input[0]] - 1


def _images(dims: tuple[int, ...]) -> View | None:
    """Images with two more axes, or with one; a single line is one of lines, of which there can be any number."""
    if len(dims) not in (3, 4):
        return None
    images, channels, *plane = dims
    lines, pixels = plane if len(plane) > 1 and plane[0] > 1 else (plane[-1], 1)
    return View(dims, (images, channels, lines, pixels))


def _rows(dims: tuple[int, ...]) -> View | None:
    """Rows of numbers, the pixels of a column."""
    return View(dims, (1, dims[-1], math.prod(dims[:-1]), 1), "NHWC") if dims else None


def _layout(view: View) -> tuple[Any, ...]:
    return view.dims, view.sizes, view.significant


def _seen(view: View, shape: Shape, plane: str) -> View:
    """Images of another shape with the same axes."""
    channels, lines, pixels = shape
    axes = {"HW": (lines, pixels), "WH": (pixels, lines)}.get(plane, (lines * pixels,))
    order = f"NC{plane}" if len(plane) > 1 else "NCHW"
    return View((view.images, channels, *axes), (view.images, channels, lines, pixels), order)


def _as_images(matrix: Floats, view: View) -> Floats:
    """Weights for all numbers of an image, in the order of a view, as (outputs, channels, y, x)."""
    alone = View((len(matrix), matrix.shape[1]), (len(matrix), *view.shape), "N" + view.order.replace("N", ""))
    return alone.to_images(matrix)


def _across(plane: str, values: Iterable[int], absent: int) -> tuple[int, int]:
    """Numbers for lines and pixels from those of the axes that there are."""
    known = dict(zip(plane, values, strict=True))
    return known.get("H", absent), known.get("W", absent)


def _window(
    attributes: dict[str, Any], view: View, plane: str, kernel: Iterable[int]
) -> tuple[tuple[int, int], dict[str, Any]]:
    """The kernel of a convolution or a pool, and its strides, padding and dilation, all of lines and pixels."""
    sides = _across(plane, kernel, 1)
    strides, dilation = (_across(plane, attributes.get(name, [1] * len(plane)), 1) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * len(plane))
    first, last = (_across(plane, some, 0) for some in (pads[: len(plane)], pads[len(plane) :]))
    extents = [(side - 1) * step + 1 for side, step in zip(sides, dilation, strict=True)]
    how = attributes.get("auto_pad", b"NOTSET")
    if how in (b"SAME_UPPER", b"SAME_LOWER"):
        pairs = same_padding(view.shape[1:], extents, strides, lower=how == b"SAME_LOWER")
        first, last = zip(*pairs, strict=True)
    elif how == b"VALID":
        first = last = (0, 0)
    if attributes.get("ceil_mode", 0):
        down, right = map(_ceiling, view.shape[1:], extents, strides, first, last)
        last = (down, right)
    return sides, {"stride": strides, "padding": (*first, *last), "dilation": dilation}


def _ceiling(size: int, extent: int, stride: int, first: int, last: int) -> int:
    """Padding behind an image so that its last window, which begins in it, is whole."""
    windows = windows_within(size, extent, stride, first, last)
    return max(last, (windows - 1) * stride + extent - size - first)


_HANDLERS: dict[str, Callable[[LayerReader, NodeProto, dict[str, Any]], None]] = {
    "Add": LayerReader._sum,
    "AveragePool": LayerReader._pool,
    "BatchNormalization": LayerReader._normalise,
    "Clip": LayerReader._clip,
    "Conv": LayerReader._convolve,
    "Dropout": LayerReader._same,
    "Flatten": LayerReader._reshape,
    "Gemm": LayerReader._dense,
    "GlobalAveragePool": LayerReader._mean,
    "Identity": LayerReader._same,
    "MatMul": LayerReader._dense,
    "MaxPool": LayerReader._pool,
    "Mul": LayerReader._factor,
    "ReduceMean": LayerReader._mean,
    "Relu": LayerReader._relu,
    "Reshape": LayerReader._reshape,
    "Slice": LayerReader._slice,
    "Squeeze": LayerReader._reshape,
    "Sub": LayerReader._difference,
    "Sum": LayerReader._sum,
    "Transpose": LayerReader._transpose,
    "Unsqueeze": LayerReader._reshape,
}
"""Operators of the accelerator."""
