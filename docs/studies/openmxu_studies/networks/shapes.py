"""Networks of published shapes with random weights: the cycles of a machine depend on shapes alone."""

import math
from typing import Any

import numpy as np

from openmxu_sim.onnx.runtime import ModelProto, TensorProto, helper, numpy_helper

_OPSET = 17


class _Graph:
    """Nodes of a model, and its random constants."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, name: str, *shape: int, scale: float = 1.0) -> str:
        values = (self._random.standard_normal(shape) * scale).astype(np.float32)
        self._constants.append(numpy_helper.from_array(values, name))
        return name

    def number(self, name: str, value: float) -> str:
        self._constants.append(numpy_helper.from_array(np.array(value, np.float32), name))
        return name

    def integers(self, name: str, *values: int) -> str:
        self._constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, operator: str, name: str, *inputs: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def convolution(
        self, name: str, source: str, channels: tuple[int, int], kernel: int, stride: int = 1, groups: int = 1
    ) -> str:
        inner = channels[0] // groups
        weights = self.constant(
            f"{name}.w", channels[1], inner, kernel, kernel, scale=math.sqrt(2 / (inner * kernel**2))
        )
        biases = self.constant(f"{name}.b", channels[1], scale=0.1)
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": groups}
        return self.node("Conv", name, source, weights, biases, **sizes)

    def dense(self, name: str, source: str, inner: int, outer: int) -> str:
        product = self.node("MatMul", f"{name}.p", source, self.constant(f"{name}.w", inner, outer, scale=inner**-0.5))
        return self.node("Add", name, product, self.constant(f"{name}.b", outer, scale=0.1))

    def model(self, name: str, source: tuple[int, ...], result: tuple[int, ...], last: str) -> ModelProto:
        ends = [
            [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape)]
            for each, shape in (("input", source), (last, result))
        ]
        graph = helper.make_graph(self._nodes, name, *ends, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


def _block(graph: _Graph, name: str, source: str, widths: tuple[int, int, int], stride: int) -> str:
    """A residual block: two convolutions of 3x3, or one between two of 1x1 where the widths differ."""
    into, inner, out = widths
    if inner == out:
        first = graph.node("Relu", f"{name}.ar", graph.convolution(f"{name}.a", source, (into, inner), 3, stride))
        last = graph.convolution(f"{name}.b", first, (inner, out), 3)
    else:
        first = graph.node("Relu", f"{name}.ar", graph.convolution(f"{name}.a", source, (into, inner), 1))
        second = graph.node("Relu", f"{name}.br", graph.convolution(f"{name}.b", first, (inner, inner), 3, stride))
        last = graph.convolution(f"{name}.c", second, (inner, out), 1)
    beside = source if into == out else graph.convolution(f"{name}.d", source, (into, out), 1, stride)
    return graph.node("Relu", name, graph.node("Add", f"{name}.s", last, beside))


def _residual(name: str, size: int, stages: list[tuple[int, int, int]], classes: int) -> ModelProto:
    """A residual network; of each stage the inner and outer channels, and the blocks."""
    graph = _Graph()
    if size > 100:
        picture = graph.node("Relu", "first", graph.convolution("first.c", "input", (3, 64), 7, 2))
        picture = graph.node("MaxPool", "pool", picture, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    else:
        picture = graph.node("Relu", "first", graph.convolution("first.c", "input", (3, stages[0][0]), 3))
    width = 64 if size > 100 else stages[0][0]
    for stage, (inner, out, blocks) in enumerate(stages):
        for index in range(blocks):
            stride = 2 if stage and not index else 1
            picture = _block(graph, f"stage{stage}.{index}", picture, (width, inner, out), stride)
            width = out
    return graph.model(name, (1, 3, size, size), (1, classes), _scores(graph, picture, width, classes))


def _scores(graph: _Graph, picture: str, width: int, classes: int) -> str:
    """A number for each class, from the means of channels."""
    vector = graph.node("Flatten", "vector", graph.node("GlobalAveragePool", "mean", picture))
    weights = graph.constant("scores.w", classes, width, scale=width**-0.5)
    return graph.node("Gemm", "scores", vector, weights, graph.constant("scores.b", classes, scale=0.1), transB=1)


def resnet20() -> ModelProto:
    """ResNet-20 for pictures of 32x32; He et al., arXiv:1512.03385, with projections where the width changes."""
    return _residual("resnet20", 32, [(width, width, 3) for width in (16, 32, 64)], 10)


def resnet50() -> ModelProto:
    """ResNet-50 for pictures of 224x224, with the stride in the convolutions of 3x3."""
    blocks = zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)
    return _residual("resnet50", 224, [(inner, 4 * inner, count) for inner, count in blocks], 1000)


def mobilenet_v2() -> ModelProto:
    """MobileNetV2 for pictures of 224x224; Sandler et al., arXiv:1801.04381, table 2."""
    graph = _Graph()
    ends = graph.number("zero", 0), graph.number("six", 6)

    def clipped(name: str, *how: Any) -> str:
        return graph.node("Clip", name, graph.convolution(f"{name}.c", *how), *ends)

    picture, width = clipped("first", "input", (3, 32), 3, 2), 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (factor, out, count, stride) in enumerate(rows):
        for index in range(count):
            name, inner = f"stage{stage}.{index}", factor * width
            wide = clipped(f"{name}.wide", picture, (width, inner), 1) if factor > 1 else picture
            deep = clipped(f"{name}.deep", wide, (inner, inner), 3, 1 if index else stride, inner)
            last = graph.convolution(f"{name}.narrow", deep, (inner, out), 1)
            picture = graph.node("Add", name, picture, last) if index else last
            width = out
    picture = clipped("last", picture, (width, 1280), 1)
    return graph.model("mobilenet_v2", (1, 3, 224, 224), (1, 1000), _scores(graph, picture, 1280, 1000))


def transformer_block(tokens: int = 128, width: int = 768, heads: int = 12) -> ModelProto:
    """A block of an encoder, of the sizes of BERT-base: attention, its products included, and two dense layers."""
    graph, each = _Graph(), width // heads
    split = graph.integers("split", 1, tokens, heads, each)
    parts = []
    for name, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        divided = graph.node("Reshape", f"{name}.s", graph.dense(name, "input", width, width), split)
        parts.append(graph.node("Transpose", f"{name}.t", divided, perm=order))
    scores = graph.node("Softmax", "softmax", graph.node("MatMul", "scores", *parts[:2]), axis=-1)
    mixed = graph.node("Transpose", "mixed.t", graph.node("MatMul", "mixed", scores, parts[2]), perm=(0, 2, 1, 3))
    joined = graph.node("Reshape", "joined", mixed, graph.integers("joined.s", 1, tokens, width))
    after = graph.node("Add", "after", "input", graph.dense("out", joined, width, width))
    inner = graph.node("Relu", "inner.r", graph.dense("inner", after, width, 4 * width))
    result = graph.node("Add", "result", after, graph.dense("outer", inner, 4 * width, width))
    return graph.model("block", (1, tokens, width), (1, tokens, width), result)
