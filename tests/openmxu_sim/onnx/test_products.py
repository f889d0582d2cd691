"""Products by hand: outputs, times what is summed for each."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu_sim.onnx.products import products_of
from openmxu_sim.onnx.runtime import inferred

from . import graphs

_IMAGE = "float[1, 4, 5, 6]"


@pytest.mark.parametrize(
    ("x", "node", "w", "products"),
    [
        (_IMAGE, "y = Conv <group = 2> (x, w)", (6, 2, 3, 3), 6 * 3 * 4 * 2 * 9),
        (_IMAGE, "y = Conv <strides = [2, 3], pads = [1, 1, 1, 1]> (x, w)", (6, 4, 3, 3), 6 * 3 * 2 * 4 * 9),
        (_IMAGE, "y = ConvTranspose <strides = [2, 2]> (x, w)", (4, 3, 2, 2), 4 * 5 * 6 * 3 * 4),
        ("float[7, 2]", "y = Gemm <transA = 1, transB = 1> (x, w)", (5, 7), 2 * 7 * 5),
        ("float[2, 3, 4, 5]", "y = MatMul (x, w)", (5, 6), 2 * 3 * 4 * 5 * 6),
        ("float[n, 5]", "y = MatMul (x, w)", (5, 6), None),
        (_IMAGE, 'y = Einsum <equation = "abcd,de->abce"> (x, w)', (6, 2), None),
        (_IMAGE, "y = Add (x, w)", (6,), "none"),
    ],
)
def test_products(x: str, node: str, w: tuple[int, ...], products: Any) -> None:
    model = graphs.model(f"it ({x} x) => (float[] y) {{ {node} }}", opset=17, ir=8, w=np.ones(w, np.float32))
    assert products_of(inferred(model).graph).get("y", "none") == products


def test_recurrent() -> None:
    """In both directions, for 7 words of 2 sentences: four gates of the input and the last output."""
    text = 'it (float[7, 2, 3] x) => (float[] y) { y = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r) }'
    sizes = {"w": (2, 16, 3), "r": (2, 16, 4)}
    model = graphs.model(text, opset=17, ir=8, **{name: np.ones(size, np.float32) for name, size in sizes.items()})
    assert products_of(inferred(model).graph) == {"y": 7 * 2 * 2 * 4 * 4 * (3 + 4)}
