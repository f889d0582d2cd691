"""ONNX's operators that multiply matrices: those that the unit computes, and those that it cannot."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from openmxu_sim.networks.attention import attention
from openmxu_sim.networks.convolution import Convolution
from openmxu_sim.networks.einsum import einsum, labels_of
from openmxu_sim.networks.numerics import EscapeError, Multiplier
from openmxu_sim.onnx.evaluator import Compute, Value
from openmxu_sim.onnx.nodes import function
from openmxu_sim.onnx.recurrent import CELLS, recur
from openmxu_sim.onnx.rules import RULES, check_node, same_padding
from openmxu_sim.onnx.runtime import ModelError, NodeProto, attributes_of, named
from openmxu_sim.operands.aliases import Floats
from openmxu_sim.product import to_stacks

_Array = npt.NDArray[Any]

TYPES = tuple(map(np.dtype, (np.float32, ml_dtypes.bfloat16, np.float16, np.float64)))
"""Types that the unit multiplies. All but the last go into fp32 exactly; float64 is rounded to it."""

REFUSED = frozenset(
    (
        *("AffineGrid", "CausalConvWithState", "ConvInteger", "DFT", "DeformConv", "Det", "FlexAttention"),
        *("LinearAttention", "MatMulInteger", "QLinearConv", "QLinearMatMul", "STFT"),
        *("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"),
    )
)
"""Operators that multiply matrices in a way of their own."""


def computed(node: NodeProto, version: int, multiplier: Callable[[str, str], Multiplier]) -> Compute:
    """Return what computes a node of an operator that the unit computes."""
    attributes, compute, name = attributes_of(node, version), COMPUTED[node.op_type], _layer(node)
    attributes.pop("broadcast", None)  # of Gemm before version 7; shapes say the same
    if node.op_type == "Attention":
        compute = partial(compute, padded=version > 23)

    def run(inputs: Sequence[Value]) -> Sequence[Value]:
        if any(not isinstance(value, np.ndarray | np.generic | None) for value in inputs):
            raise ModelError(f"{named(node)} must have tensors as inputs, not sequences")
        if node.op_type in RULES:
            check_node(node, attributes, [None if value is None else value.shape for value in inputs])
        try:
            outputs = compute(multiplier(node.op_type, name), *inputs, **attributes)
        except ValueError as error:
            raise ModelError(f"{named(node)} cannot be computed: {error}") from None
        return outputs[: len(node.output)] if isinstance(outputs, tuple) else (outputs,)

    return run


def refusal(node: NodeProto, version: int) -> str:
    """Return why the unit does not compute a node that multiplies matrices; nothing if it does, or none does."""
    if node.op_type in REFUSED:
        return "an operator that does not"
    if node.op_type == "Einsum" and len(node.input) > 1:
        equation = attributes_of(node, version)["equation"] or ""
        terms = equation.replace(" ", "").partition("->")[0].replace("...", "·").split(",")
        try:
            labels_of(equation, (len(terms[0]), len(terms[-1])))
        except ValueError as error:
            return str(error)
    if node.op_type == "Attention":
        attributes = attributes_of(node, version)
        windows = {attributes.get(f"{side}_window_size", -1) for side in ("left", "right")}
        if any(node.input[4:]) or any(node.output[1:]) or attributes["softcap"] or windows - {None, -1}:
            return "it must have no cache, lengths, softcap, window or second output"
    return ""


def is_product(node: NodeProto) -> bool:
    """Whether a node multiplies matrices in a way that the unit has; ``Einsum`` of one operand does not multiply."""
    return not node.domain and node.op_type in COMPUTED and (node.op_type != "Einsum" or len(node.input) > 1)


def _layer(node: Any) -> str:
    """Return the name of the module of PyTorch that a node was exported from, if it is known, else the node's."""
    scopes = next((entry.value for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"), "")
    names = re.findall(r"'([^']*)'", scopes)  # of modules, outermost first, and of the operation
    return names[-2] if len(names) > 2 else node.name or node.output[0]


def _operands(name: str, *arrays: _Array) -> list[Floats]:
    """Return the numbers of arrays of one type in fp32."""
    types = {array.dtype for array in arrays}
    if len(types) > 1 or not types <= set(TYPES):
        raise EscapeError(
            f"{name} must have tensors of one type among {', '.join(map(str, TYPES))} to multiply on the unit, "
            f"not of {' and '.join(sorted(map(str, types)))}"
        )
    return [np.asarray(array, np.float32) for array in arrays]


def _matmul(multiplier: Multiplier, a: _Array, b: _Array) -> _Array:
    left, right, shape = to_stacks(*_operands("MatMul", a, b))
    return multiplier.stacks(left, right).reshape(shape).astype(a.dtype)


def _gemm(
    multiplier: Multiplier,
    a: _Array,
    b: _Array,
    c: _Array | None = None,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    transA: int | None = None,
    transB: int | None = None,
) -> _Array:
    left, right = _operands("Gemm", a, b)
    result = multiplier.stacks((left.T if transA else left)[None], (right.T if transB else right)[None])[0]
    if alpha not in (None, 1):
        result *= np.float32(alpha)
    if c is not None and beta != 0:
        result += c if beta in (None, 1) else np.float32(beta) * c
    return result.astype(a.dtype)


def _conv(multiplier: Multiplier, x: _Array, w: _Array, b: _Array | None = None, **attributes: Any) -> _Array:
    image, weight = _operands("Conv", x, w)
    convolution = _convolution(multiplier, weight, attributes, image.shape[2:])
    result = convolution.gather(image, weight, convolution.places(image.shape[2:]))
    return _with_bias(result, b).astype(x.dtype)


def _conv_transpose(multiplier: Multiplier, x: _Array, w: _Array, b: _Array | None = None, **attributes: Any) -> _Array:
    values, weight = _operands("ConvTranspose", x, w)
    beyond = attributes["output_padding"] or [0] * (weight.ndim - 2)
    padded = {**attributes, **_fitted(multiplier, weight, attributes, values.shape[2:], beyond)}
    beyond = padded["output_padding"] or beyond
    convolution = _convolution(multiplier, weight, padded, ())
    result = convolution.scatter(values, weight, convolution.image(values.shape[2:], beyond))
    return _with_bias(result, b).astype(x.dtype)


def _fitted(
    multiplier: Multiplier, weight: Floats, attributes: Mapping[str, Any], places: Sequence[int], beyond: Sequence[int]
) -> dict[str, Any]:
    """Return attributes with which a transposed convolution gives an image of the wanted size, if one is wanted.

    Padding removes the excess; its larger half lies where ``auto_pad`` says.
    """
    shape, automatic = attributes["output_shape"], attributes["auto_pad"]
    steps = attributes["strides"] or [1] * len(places)
    if shape is None and automatic in ("SAME_UPPER", "SAME_LOWER"):
        shape = [size * step for size, step in zip(places, steps, strict=True)]
    if shape is None:
        return {}
    whole = _convolution(multiplier, weight, {**attributes, "auto_pad": "VALID"}, ()).image(places, beyond)
    apart = attributes["dilations"] or [1] * len(places)
    largest = [most + max(pair) - 1 for most, pair in zip(whole, zip(steps, apart, strict=True), strict=True)]
    if any(size > most for size, most in zip(shape, largest, strict=True)):
        raise ValueError(f"output_shape must be at most {tuple(largest)}, not {tuple(shape)}")
    over = [max(0, most - size) for most, size in zip(whole, shape, strict=True)]
    more = [own + max(0, size - most) for own, most, size in zip(beyond, whole, shape, strict=True)]
    smaller, larger = [total // 2 for total in over], [total - total // 2 for total in over]
    pads = [*smaller, *larger] if automatic == "SAME_UPPER" else [*larger, *smaller]
    return {"auto_pad": "NOTSET", "pads": pads, "output_padding": more}


def _with_bias(result: Floats, bias: _Array | None) -> Floats:
    if bias is not None:
        result += np.asarray(bias, np.float32).reshape(-1, *[1] * (result.ndim - 2))
    return result


def _convolution(
    multiplier: Multiplier, weight: Floats, attributes: Mapping[str, Any], image: Sequence[int]
) -> Convolution:
    """Return the convolution of a node; the size of the image matters for automatic padding alone."""
    dimensions = weight.ndim - 2
    kernel = weight.shape[2:]
    stride, dilation = (tuple(attributes[name] or [1] * dimensions) for name in ("strides", "dilations"))
    automatic = attributes["auto_pad"]
    pads = attributes["pads"] or [0] * 2 * dimensions
    padding = tuple(zip(pads[:dimensions], pads[dimensions:], strict=True))
    if automatic == "VALID":
        padding = ((0, 0),) * dimensions
    elif automatic in ("SAME_UPPER", "SAME_LOWER") and image:
        extents = [(taps - 1) * apart + 1 for taps, apart in zip(kernel, dilation, strict=True)]
        padding = tuple(same_padding(image, extents, stride, lower=automatic == "SAME_LOWER"))
    return Convolution(multiplier, kernel, stride, padding, dilation, attributes["group"] or 1)


def _recurrent(
    name: str, multiplier: Multiplier, x: _Array, w: _Array, r: _Array, *rest: _Array | None, **attributes: Any
) -> tuple[_Array, ...]:
    outputs = recur(CELLS[name], multiplier, _operands(name, x, w, r), rest, attributes)
    return tuple(output.astype(x.dtype) for output in outputs)


def _einsum(multiplier: Multiplier, a: _Array, b: _Array, *, equation: str) -> _Array:
    return einsum(multiplier.stacks, equation, *_operands("Einsum", a, b)).astype(a.dtype)


def _attention(
    multiplier: Multiplier,
    q: _Array,
    k: _Array,
    v: _Array,
    mask: _Array | None = None,
    *,
    padded: bool,
    **attributes: Any,
) -> _Array:
    arrays, heads = _operands("Attention", q, k, v), [attributes[f"{side}_num_heads"] for side in ("q", "kv", "kv")]
    if flat := all(each.ndim == 3 for each in arrays):
        pairs = zip(arrays, heads, strict=True)
        arrays = [each.reshape(*each.shape[:2], count, -1).swapaxes(1, 2) for each, count in pairs]
    wanted = {"scale": attributes["scale"], "mask": mask, "padded": padded, "causal": bool(attributes["is_causal"])}
    result = attention(multiplier.stacks, function("Softmax", axis=-1), (arrays[0], arrays[1], arrays[2]), **wanted)
    result = result.swapaxes(1, 2).reshape(*q.shape[:2], -1) if flat else result
    return result.astype(q.dtype)


COMPUTED: Mapping[str, Callable[..., Any]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    **{name: partial(_recurrent, name) for name in CELLS},
    **{"Einsum": _einsum, "Attention": _attention},
}
"""Operators that the unit computes."""

PARTLY = frozenset(("Attention", "Einsum"))
"""Those that may be computed elsewhere, where that is allowed."""
