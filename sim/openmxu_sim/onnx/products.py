"""How many products ONNX's operators need, by the shapes of their tensors."""

import math
from collections.abc import Callable, Mapping

from openmxu_sim.onnx.matrix_nodes import COMPUTED, REFUSED
from openmxu_sim.onnx.recurrent import CELLS
from openmxu_sim.onnx.runtime import GraphProto, NodeProto, ValueInfoProto, first_output

_Shape = tuple[int, ...]


def products_of(graph: GraphProto) -> dict[str, int | None]:
    """Return the products of each node that multiplies matrices, by its first output; ``None`` where nothing says them.

    The graph has the shapes of its tensors. Nodes in branches and loops are not among them.
    """
    shapes = {each.name: tuple(each.dims) for each in graph.initializer if each.dims}
    shapes |= {
        each.name: shape for each in (*graph.input, *graph.value_info, *graph.output) if (shape := shape_of(each))
    }
    nodes = (node for node in graph.node if node.op_type in COMPUTED.keys() | REFUSED)
    return {first_output(node): _count(node, shapes) for node in nodes}


def shape_of(value: ValueInfoProto) -> tuple[int, ...]:
    """Return the shape of a tensor that has numbers, and of which all sizes are known, or an empty one."""
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.dim_value > 0 for dim in dims) else ()


def _count(node: NodeProto, shapes: Mapping[str, _Shape]) -> int | None:
    names = (*node.input[: 3 if node.op_type in CELLS else 2], node.output[0])
    try:
        return _COUNTS[node.op_type](*(shapes[name] for name in names))
    except (KeyError, TypeError):  # no shape, or no rule
        return None


def _dense(a: _Shape, *others: _Shape) -> int:
    return math.prod(others[-1]) * a[-1]


def _gemm(a: _Shape, *others: _Shape) -> int:
    return math.prod(others[-1]) * math.prod(a) // others[-1][0]


def _convolution(_: _Shape, weight: _Shape, *others: _Shape) -> int:
    return math.prod(others[-1]) * math.prod(weight[1:])


def _transposed(image: _Shape, weight: _Shape, *_: _Shape) -> int:
    return math.prod(image) * math.prod(weight[1:])


def _recurrent(sequence: _Shape, weight: _Shape, recurrence: _Shape, *_: _Shape) -> int:
    return math.prod(sequence[:2]) * (math.prod(weight) + math.prod(recurrence))


_COUNTS: Mapping[str, Callable[..., int]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "MatMul": _dense,
    "MatMulInteger": _dense,
    "RNN": _recurrent,
}
"""From the shapes of up to three inputs and the first output."""
