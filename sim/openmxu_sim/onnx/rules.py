"""ONNX's rules for nodes that multiply, where its own shape inference is silent: shapes and attributes that fit.

The same rules hold before a run, for the sizes that a model fixes, and in it, for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from openmxu_sim.onnx.runtime import (
    GraphProto,
    ModelError,
    ModelProto,
    NodeProto,
    attributes_of,
    helper,
    inferred,
    inner_nodes,
    named,
    numpy_helper,
    without_functions,
)

Shape = Sequence[int | None]
"""Sizes, ``None`` for those that are not known."""

Shapes = Sequence[Shape | None]
"""Shapes of a node's inputs, ``None`` for those that are not known or left out."""

_AUTOMATIC = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def checked(model: ModelProto) -> ModelProto:
    """Return a model with the types of its tensors and without functions of its own, whose nodes fit ONNX's rules.

    Sizes that are free fit any.

    Raises
    ------
    ModelError
        A node breaks a rule.
    """
    model = without_functions(model)
    version = {each.domain: each.version for each in model.opset_import}.get("", 1)
    model = inferred(_without_windows_behind(model, version))
    _check_graph(model.graph, version, {})
    return model


_POOLS = ("MaxPool", "AveragePool", "LpPool")
_WHOLE = 22
"""The version of ONNX from which on windows that begin behind an image are not counted."""


_MOST_PADDING = 1 << 31


def _without_windows_behind(model: ModelProto, version: int) -> ModelProto:
    """Return a model whose pools have no window behind their image.

    With ``ceil_mode`` ONNX's shape inference counts them in versions before :data:`_WHOLE`; onnxruntime, and PyTorch,
    leave them out. So does a ``Slice`` behind such a pool.
    """
    if version >= _WHOLE or not any(map(_rounds_up, model.graph.node)):
        return model
    copy, known = ModelProto(), dict[str, Any]()
    copy.CopyFrom(model)
    nodes = copy.graph.node
    taken = {name for node in inner_nodes(nodes) for name in (*node.input, *node.output)}
    taken |= {each.name for each in (*copy.graph.input, *copy.graph.initializer)}
    free = (name for name in map("windows {}".format, range(len(taken) + 4 * len(nodes))) if name not in taken)
    for node in filter(_rounds_up, list(nodes)):
        if not known:
            graph = inferred(copy, strict=False).graph
            known = {
                each.name: each.type.tensor_type.shape for each in (*graph.input, *graph.value_info, *graph.output)
            }
        sizes = sizes_of(known[node.input[0]]) if node.input[0] in known else []
        if (windows := _windows_within(attributes_of(node, version), sizes[2:])) is not None:
            name, node.output[0] = node.output[0], next(free)
            ends = np.array([[0] * len(windows), windows, range(2, 2 + len(windows))])  # from, to, axes
            constants = [numpy_helper.from_array(values, next(free)) for values in ends]
            copy.graph.initializer.extend(constants)
            inputs = [node.output[0], *(each.name for each in constants)]
            nodes.insert(list(nodes).index(node) + 1, helper.make_node("Slice", inputs, [name]))
            known = {}  # of what is behind it
    return copy


def _rounds_up(node: NodeProto) -> bool:
    up = any(each.name == "ceil_mode" and each.i for each in node.attribute)
    return node.op_type in _POOLS and not node.domain and up and any(node.output[:1])


def _windows_within(attributes: Mapping[str, Any], known: Shape) -> list[int] | None:
    """Return how many windows of each axis begin in an image or in front of it, if fewer do than are counted."""
    sizes = [size for size in known if size is not None]
    ones = [1] * len(sizes)
    kernel, strides, dilations = (attributes.get(name) or ones for name in ("kernel_shape", "strides", "dilations"))
    pads = attributes["pads"] or [0, 0] * len(sizes)
    lengths = {len(kernel), len(strides), len(dilations), len(known), len(pads) / 2}
    if lengths != {len(sizes)} or min(strides, default=0) < 1 or max(pads) >= _MOST_PADDING:  # not known, or no pool
        return None
    if attributes["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        return [-(-size // step) for size, step in zip(sizes, strides, strict=True)]
    windows, every = list[int](), list[int]()
    for axis, (size, side, step, apart) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        extent, first, last = (side - 1) * apart + 1, pads[axis], pads[axis + len(sizes)]
        every.append(_rounded_up(size + first + last - extent, step))
        windows.append(windows_within(size, extent, step, first, last))
    return windows if windows != every else None


def windows_within(size: int, extent: int, step: int, first: int, last: int) -> int:
    """Return how many windows a pool with ``ceil_mode`` has: all that begin in its image or in front of it."""
    windows = _rounded_up(size + first + last - extent, step)
    return windows - ((windows - 1) * step >= size + first)


def _rounded_up(way: int, step: int) -> int:
    """Windows, of which the last one may end behind the way."""
    return -(-way // step) + 1


def _check_graph(graph: GraphProto, version: int, outer: Mapping[str, Shape]) -> None:
    values = (*graph.input, *graph.value_info, *graph.output)
    shaped = (each for each in values if each.type.tensor_type.HasField("shape"))
    shapes = {**outer, **{each.name: sizes_of(each.type.tensor_type.shape) for each in shaped}}
    shapes |= {each.name: tuple(each.dims) for each in graph.initializer}
    for node in graph.node:
        if node.op_type in RULES and not node.domain:
            check_node(node, attributes_of(node, version), [shapes.get(name) for name in node.input])
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _check_graph(inner, version, shapes)


def same_padding(
    image: Sequence[int], extents: Sequence[int], strides: Sequence[int], *, lower: bool
) -> list[tuple[int, int]]:
    """Return what stands in front of each axis and behind it, so that there are as many windows as strides fit.

    The larger half is behind it with ``SAME_UPPER``, in front with ``SAME_LOWER``.
    """
    sizes = zip(image, extents, strides, strict=True)
    over = [max(0, (-(-size // step) - 1) * step + extent - size) for size, extent, step in sizes]
    halves = [(total // 2, total - total // 2) for total in over]
    return [pair[::-1] for pair in halves] if lower else halves


def sizes_of(shape: Any) -> Shape:
    """Return the sizes of a tensor, ``None`` for any, for which exporters write -1, too."""
    return [each.dim_value if each.HasField("dim_value") and each.dim_value >= 0 else None for each in shape.dim]


def check_node(node: NodeProto, attributes: Mapping[str, Any], shapes: Shapes) -> None:
    """Check a node by the rules for its operator."""
    for problem in RULES[node.op_type](attributes, [*shapes, *[None] * 8]):
        raise ModelError(f"{named(node)} {problem}")


def _convolution(attributes: Mapping[str, Any], shapes: Shapes) -> Iterator[str]:
    image, weight, bias, *_ = shapes
    rank = next((len(each) - 2 for each in (weight, image) if each is not None), None)
    yield from _steps(attributes, rank)
    if weight is None:
        return
    if len(weight) < 3:
        yield f"must have weights (outputs, inputs, kernel...), not {_text(weight)}"
    kernel = attributes["kernel_shape"]
    if kernel is not None and not _fit(kernel, weight[2:]):
        yield f"must have the kernel_shape {_text(weight[2:])} of its weights, not {_text(kernel)}"
    if image is not None and len(image) != len(weight):
        yield f"must have weights of as many dimensions as its images {_text(image)}, not {_text(weight)}"
    groups, transposed = attributes["group"] or 1, "output_padding" in attributes
    if weight[0] is not None and weight[0] % groups:
        yield f"must have weights for a multiple of group = {groups}, not {_text(weight)}"
    inner = weight[1] if weight[1] is None else weight[1] * groups
    channels, outputs = (weight[0], inner) if transposed else (inner, weight[0])
    if image is not None and not _fit([channels], image[1:2]):
        yield f"must have images of {channels} channels for weights {_text(weight)} in {groups} groups, not {image[1]}"
    if bias is not None and not _fit([outputs], bias):
        yield f"must have a bias of shape ({outputs}), not {_text(bias)}"


def _steps(attributes: Mapping[str, Any], rank: int | None) -> Iterator[str]:
    """Rules for the attributes of a convolution with so many dimensions of images."""
    if attributes["group"] is not None and attributes["group"] < 1:
        yield f"must have a group of at least 1, not {attributes['group']}"
    if attributes["auto_pad"] not in _AUTOMATIC:
        yield f"must have an auto_pad of {', '.join(_AUTOMATIC)}, not {attributes['auto_pad']!r}"
    if attributes["auto_pad"] != "NOTSET" and any(attributes["pads"] or ()):
        yield f"must have pads or auto_pad, not {attributes['pads']} and {attributes['auto_pad']!r}"
    sizes = {"strides": (1, 1), "dilations": (1, 1), "kernel_shape": (1, 1), "pads": (0, 2)}
    sizes |= {"output_padding": (0, 1), "output_shape": (1, 1)}
    for name, (least, each) in sizes.items():
        values = attributes.get(name)
        if values and ((rank is not None and len(values) != rank * each) or min(values) < least):
            count = "" if rank is None else f"{rank * each} "
            yield f"must have {name} of {count}numbers from {least} on, not {values}"
    beyond = attributes.get("output_padding") or ()
    steps = zip_longest(beyond, attributes["strides"] or (), attributes["dilations"] or (), fillvalue=1)
    if beyond and any(more >= max(stride, apart) for more, stride, apart in steps):
        yield f"must have an output_padding of less than its strides or dilations, not {beyond}"


def _gemm(attributes: Mapping[str, Any], shapes: Shapes) -> Iterator[str]:
    a, b, c, *_ = shapes
    if a is None or b is None:
        return
    if not len(a) == len(b) == 2:
        yield f"must have two matrices, not {_text(a)} and {_text(b)}"
    m, k = a[::-1] if attributes["transA"] else a
    inner, n = b[::-1] if attributes["transB"] else b
    if not _fit([k], [inner]):
        yield f"must have matrices (M, K) and (K, N), transposed if wanted, not {_text(a)} and {_text(b)}"
    pairs = zip((c or ())[::-1], (n, m), strict=False)
    if c is not None and (len(c) > 2 or any(size not in (None, 1, whole) and whole for size, whole in pairs)):
        yield f"must have a summand that broadcasts to ({m}, {n}), not {_text(c)}"


def _recurrent(gates: int) -> Callable[[Mapping[str, Any], Shapes], Iterator[str]]:
    def rules(attributes: Mapping[str, Any], shapes: Shapes) -> Iterator[str]:
        x, w, r, bias, lengths, *rest = shapes
        if x is None or w is None or r is None:
            return
        if not len(x) == len(w) == len(r) == 3:
            yield f"must have tensors of three dimensions, not {_text(x)}, {_text(w)} and {_text(r)}"
        # GRU of version 1 has the default "foward".
        ways = {"forward": 1, "foward": 1, "reverse": 1, "bidirectional": 2}.get(attributes["direction"])
        if ways is None or not _fit([ways], r[:1]):
            yield f"must have a direction that fits weights of {r[0]} directions, not {attributes['direction']!r}"
        hidden = r[2] if attributes["hidden_size"] is None else attributes["hidden_size"]
        first = bool(attributes.get("layout"))
        batch = x[0 if first else 1]
        all_gates = None if hidden is None else gates * hidden
        state: Shape = (batch, ways, hidden) if first else (ways, batch, hidden)
        both, holes = (None, None) if hidden is None else (2 * gates * hidden, 3 * hidden)
        wanted: Mapping[str, tuple[Shape | None, Shape]] = {
            "W": (w, (ways, all_gates, x[2])),
            "R": (r, (ways, all_gates, hidden)),
            "B": (bias, (ways, both)),
            "sequence_lens": (lengths, (batch,)),
            "initial_h": (rest[0], state),
            **({"initial_c": (rest[1], state), "P": (rest[2], (ways, holes))} if gates == 4 else {}),
        }
        for name, (given, right) in wanted.items():
            if given is not None and not _fit(right, given):
                yield f"must have {name} of the shape {_text(right)}, not {_text(given)}"

    return rules


def _attention(attributes: Mapping[str, Any], shapes: Shapes) -> Iterator[str]:
    if attributes["qk_matmul_output_mode"] not in range(4):
        yield f"must have a qk_matmul_output_mode from 0 to 3, not {attributes['qk_matmul_output_mode']}"
    if attributes["softmax_precision"] not in (None, 1, 10, 11, 16):
        yield f"must have a softmax_precision of 1, 10, 11 or 16, not {attributes['softmax_precision']}"
    operands = [shape for shape in shapes[:3] if shape is not None]
    if len(operands) < 3:
        return
    if {*map(len, operands)} not in ({3}, {4}):
        yield f"must have three operands of 3 or of 4 dimensions, not {', '.join(map(_text, operands))}"
    counts = [attributes[f"{side}_num_heads"] for side in ("q", "kv", "kv")]
    for at, (shape, count) in enumerate(zip(operands, counts, strict=True)):
        if len(shape) == 4 and count is not None and not _fit([count], shape[1:2]):
            yield f"must have {shape[1]} heads for {_text(shape)}, not {count}"
        if len(shape) == 3 and (not count or count < 1 or (shape[2] or 0) % count):
            yield f"must have numbers of heads that divide its operands, not {count} for {_text(shape)}"
        if len(shape) == 3 and count:
            operands[at] = (shape[0], count, shape[1], shape[2] and shape[2] // count)
    q, k, v = operands
    if not _fit((q[0], k[1], v[2], q[3]), k) or not _fit((q[0], k[1]), v[:2]) or (k[1] and q[1] and q[1] % k[1]):
        yield f"must have queries, keys and values that fit, not {', '.join(map(_text, operands))}"


def _einsum(attributes: Mapping[str, Any], shapes: Shapes) -> Iterator[str]:
    equation, sizes = attributes["equation"] or "", dict[str, int]()
    for term, shape in zip(equation.replace(" ", "").partition("->")[0].split(","), shapes, strict=False):
        head, dots, tail = term.partition("...")
        if shape is None:
            continue
        if len(head + tail) > len(shape) or (not dots and len(head) < len(shape)):
            yield f"must have a letter of {equation!r} for each dimension of {_text(shape)}"
        for label, size in (*zip(head, shape, strict=False), *zip(tail[::-1], shape[::-1], strict=False)):
            if size not in (None, 1) and sizes.setdefault(label, size) != size:
                yield f"must have one size of {label} in {equation!r}, not {sizes[label]} and {size}"


def _fit(wanted: Shape, given: Shape) -> bool:
    """Whether shapes are equal as far as they are known."""
    pairs = zip(wanted, given, strict=False)
    return len(wanted) == len(given) and all(one == other or None in (one, other) for one, other in pairs)


def _text(shape: Shape) -> str:
    return f"({', '.join('?' if size is None else str(size) for size in shape)})"


RULES: Mapping[str, Callable[[Mapping[str, Any], Shapes], Iterator[str]]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    "Gemm": _gemm,
    "Attention": _attention,
    "Einsum": _einsum,
    **{name: _recurrent(gates) for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))},
}
"""Rules of each operator: problems with a node's attributes and the shapes of its inputs."""
