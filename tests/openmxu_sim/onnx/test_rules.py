"""Nodes that break ONNX's rules: refused before anything runs where sizes are fixed, else before the node; and by
convolutions themselves. onnxruntime refuses each of them, too.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto  # noqa: E402  # needs ONNX

from openmxu_sim.engines.model.placed import Side, placed_products  # noqa: E402
from openmxu_sim.networks.convolution import Convolution  # noqa: E402
from openmxu_sim.networks.numerics import Multiplier, Numerics  # noqa: E402
from openmxu_sim.onnx import Network  # noqa: E402
from openmxu_sim.onnx.partition import partition  # noqa: E402

from . import graphs  # noqa: E402

_X, _W = (1, 4, 8, 8), (4, 4, 3, 3)
_ROWS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("Conv", (_X, (3, 2, 3, 3)), {"group": 2}, "must have weights for a multiple of group = 2, not (3, 2, 3, 3)"),
    ("Conv", (_X, _W), {"group": 0}, "must have a group of at least 1, not 0"),
    ("Conv", (_X, _W), {"group": -1}, "must have a group of at least 1, not -1"),
    ("Conv", (_X, _W), {"kernel_shape": [5, 5]}, "must have the kernel_shape (3, 3) of its weights, not (5, 5)"),
    ("Conv", (_X, _W, (1,)), {}, "must have a bias of shape (4), not (1)"),
    ("Conv", (_X, _W, (4, 1)), {}, "must have a bias of shape (4), not (4, 1)"),
    ("Conv", (_X, (4, 3, 3, 3)), {}, "must have images of 3 channels for weights (4, 3, 3, 3) in 1 groups, not 4"),
    ("Conv", (_X, _W), {"auto_pad": "SAME"}, "must have an auto_pad of NOTSET, "),
    ("Conv", (_X, _W), {"auto_pad": "VALID", "pads": [1] * 4}, "must have pads or auto_pad, not "),
    ("Conv", (_X, _W), {"strides": [0, 1]}, ""),
    ("Conv", (_X, _W), {"strides": [2]}, ""),
    ("Conv", (_X, _W), {"dilations": [1, 0]}, ""),
    ("Conv", (_X, _W), {"pads": [1, 1]}, ""),
    ("Conv", (_X, _W), {"pads": [-1] * 4}, ""),
    ("Conv", ((1, 4, 8), _W), {}, ""),
    ("Conv", ((1, 4, 2, 2), _W), {}, "weights (4, 4, 3, 3) with a kernel (3, 3) in 1 groups must fit "),
    ("ConvTranspose", ((1, 2, 4, 4), (3, 2, 1, 1)), {}, "must have images of 3 channels for weights "),
    ("ConvTranspose", ((1, 3, 4, 4), (3, 2, 1, 1)), {"group": 2}, ""),
    ("ConvTranspose", (_X, _W), {"group": 0}, ""),
    ("ConvTranspose", (_X, _W), {"pads": [-1] * 4}, ""),
    ("ConvTranspose", (_X, _W), {"output_padding": [1, 0]}, "must have an output_padding of less than its strides"),
    ("ConvTranspose", (_X, _W), {"output_padding": [-1, 0], "strides": [2, 2]}, ""),
    ("ConvTranspose", (_X, _W), {"output_shape": [50, 50]}, "output_shape must be at most (10, 10), not "),
    ("ConvTranspose", (_X, _W), {"pads": [9] * 4}, ""),
    ("ConvTranspose", (_X, _W, (3,)), {}, "must have a bias of shape (4), not (3)"),
    ("MatMul", ((3, 4), (5, 4)), {}, ""),
    ("Gemm", ((3, 4), (5, 4)), {}, ""),
    ("Gemm", ((1, 3, 4), (4, 5)), {}, ""),
    ("Gemm", ((3, 4), (4, 5), (3,)), {}, "must have a summand that broadcasts to (3, 5), not (3)"),
    ("Gemm", ((3, 4), (4, 5), (1, 3, 5)), {}, "must have a summand that broadcasts to (3, 5), not (1, 3, 5)"),
    ("LSTM", ((5, 3, 4), (1, 24, 4), (1, 24, 6), (1, 24)), {"hidden_size": 6}, "must have B of the shape (1, 48), not"),
    ("GRU", ((5, 3, 4), (1, 24, 4), (1, 24, 6)), {"hidden_size": 6}, "must have W of the shape (1, 18, 4), not"),
    ("RNN", ((5, 3, 4), (1, 6, 5), (1, 6, 6)), {"hidden_size": 6}, "must have W of the shape (1, 6, 4), not"),
    (
        "Attention",
        ((1, 2, 3, 4),) * 3,
        {"q_num_heads": 4, "kv_num_heads": 2},
        "must have 2 heads for (1, 2, 3, 4), not",
    ),
    ("Attention", ((1, 2, 3, 4),) * 3, {"qk_matmul_output_mode": 4}, "must have a qk_matmul_output_mode from 0 to 3"),
    ("Attention", ((1, 2, 3, 4),) * 3, {"softmax_precision": 7}, "must have a softmax_precision of 1, 10, 11 or 16"),
    ("Attention", ((1, 3, 8),) * 3, {"q_num_heads": 3, "kv_num_heads": 2}, "must have numbers of heads that divide "),
    ("Attention", ((1, 3, 8),) * 3, {}, ""),
    ("Attention", ((1, 2, 3, 4), (1, 2, 6, 4), (1, 2, 5, 4)), {}, "must have queries, keys and values that fit, not"),
    ("Attention", ((1, 3, 3, 4), (1, 2, 6, 4), (1, 2, 6, 4)), {}, "must have queries, keys and values that fit, not"),
    ("Attention", ((1, 3, 4), (1, 2, 6, 4), (1, 2, 6, 4)), {}, ""),
    ("Einsum", ((3, 4), (5, 4)), {"equation": "ij,jk->ik"}, "must have one size of j in 'ij,jk->ik', not 4 and 5"),
    ("Einsum", ((3, 4), (4, 5)), {"equation": "ijk,kl->ijl"}, ""),
    ("Einsum", ((2, 3, 4), (2, 5, 4)), {"equation": "...ij,...jk->...ik"}, "must have one size of j in "),
]


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "free"])
@pytest.mark.parametrize(("operator", "shapes", "attributes", "message"), _ROWS)
def test_rules(operator: str, shapes: tuple[Any, ...], attributes: dict[str, Any], message: str, fixed: bool) -> None:
    arrays = {f"i{at}": np.ones(shape, np.float32) for at, shape in enumerate(shapes)}
    operands = {name: (TensorProto.FLOAT, array.shape if fixed else None) for name, array in arrays.items()}
    model = graphs.single(operator, operands, ["y"], **attributes)
    # It computes with pads below 0, and does not read what does not change its one output.
    read = {"qk_matmul_output_mode", "softmax_precision"}.isdisjoint(attributes)
    with pytest.raises(Exception, match=r".") if fixed and read else suppress(Exception):
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, arrays)
    with pytest.raises(ValueError, match=r"layer|model cannot be run") as caught:
        Network(model).run(arrays)
    assert message in str(caught.value)


def test_lengths_of_sequences() -> None:
    operands = dict.fromkeys("xwr", (TensorProto.FLOAT, None))
    operands |= {"b": None, "lengths": (TensorProto.INT32, None)}  # type: ignore[dict-item]
    arrays = {
        "x": np.ones((5, 1, 4), np.float32),
        "w": np.ones((1, 6, 4), np.float32),
        "r": np.ones((1, 6, 6), np.float32),
    }
    network = Network(graphs.single("RNN", operands, ["y"], hidden_size=6, direction="reverse"))
    for length in (-1, 6):
        with pytest.raises(ValueError, match=rf"sequence_lens must be from 0 to 5, not \[{length}\]"):
            network.run(arrays | {"lengths": np.array([length], np.int32)})


@pytest.mark.parametrize("attributes", [{"group": 0}, {"kernel_shape": [5, 5]}, {"group": 1 << 40}])
def test_models_for_the_accelerator(attributes: dict[str, Any]) -> None:
    text = "graph (float[1, 4, 8, 8] x) => (float[] y) { [layer] y = Conv (x, w) }"
    model = graphs.model(text, w=np.ones(_W, np.float32))
    model.graph.node[0].attribute.extend(onnx.helper.make_attribute(*each) for each in attributes.items())
    with pytest.raises(ValueError, match=r"^Conv layer must have (a group|the kernel_shape|weights for a multiple) .*"):
        partition(model)


def _convolution(**changes: Any) -> Convolution:
    multiplier = Multiplier(Numerics(rows=4), 1, lambda _: None)
    sizes = {"kernel": (3, 3), "stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 2}
    return Convolution(multiplier, **sizes | changes)


@pytest.mark.parametrize(
    "changes",
    [{"groups": 0}, {"stride": (0, 1)}, {"dilation": (1, 0)}, {"kernel": (3,)}, {"padding": ((-1, 0), (0, 0))}],
)
def test_convolutions_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(kernel, stride|padding must be)"):
        _convolution(**changes)


@pytest.mark.parametrize(
    ("way", "shapes", "size"),
    [
        ("gather", ((1, 4, 8, 8), (3, 2, 3, 3)), (8, 8)),
        ("gather", ((1, 3, 8, 8), (4, 2, 3, 3)), (8, 8)),
        ("gather", ((1, 4, 8, 8), (4, 2, 5, 5)), (8, 8)),
        ("gather", ((1, 4, 8, 8), (4, 2, 3, 3)), (9, 8)),
        ("gather", ((1, 4, 8), (4, 2, 3)), (8,)),
        ("scatter", ((1, 6, 8, 8), (4, 2, 3, 3)), (8, 8)),
        ("scatter", ((1, 4, 8, 8), (4, 2, 3, 3)), (7, 8)),
        ("correlate", ((1, 3, 8, 8), (1, 4, 8, 8)), ()),
        ("correlate", ((2, 4, 8, 8), (1, 4, 8, 8)), ()),
        ("correlate", ((1, 4, 8, 8), (1, 4, 4, 4)), ()),
    ],
)
def test_operands_that_do_not_fit_a_convolution(way: str, shapes: tuple[Any, ...], size: tuple[int, ...]) -> None:
    operands = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(ValueError, match=r"must fit images"):
        getattr(_convolution(), way)(*operands, *([size] if size else []))


@pytest.mark.parametrize("wrong", ["a", "b", "out"])
def test_offsets_beyond_an_array(wrong: str) -> None:
    arrays = {name: np.ones(4 if name == wrong else 8, np.float32) for name in ("a", "b", "out")}
    two, four = np.arange(2, dtype=np.int64), np.arange(0, 8, 2, dtype=np.int64)
    a, b = (Side(arrays[name], two, four, 0, along_k=True) for name in ("a", "b"))
    out = Side(arrays["out"], two, two + 5, 0, along_k=False)
    with pytest.raises(ValueError, match="offsets must lie in the 4 numbers"):
        placed_products(a, b, out, 1, **Numerics(rows=4).options())


def test_sums_of_nothing() -> None:
    """Images and weights without channels give zeros, not what the memory had."""
    model = graphs.single("Conv", {"x": (TensorProto.FLOAT, None), "w": (TensorProto.FLOAT, None)}, ["y"])
    inputs = {"x": np.ones((1, 0, 8, 8), np.float32), "w": np.ones((4, 0, 3, 3), np.float32)}
    np.full((4, 4, 6, 6), 7.25, np.float32)
    assert not Network(model).run(inputs)["y"].any()
    for name in ("x", "w"):
        shape = (0, 4, 3, 3) if name == "w" else (1, 4, 8, 8)
        inputs[name] = np.ones(shape, np.float32)
    assert Network(model).run(inputs)["y"].shape == (1, 0, 6, 6)
