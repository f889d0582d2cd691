"""Operands of PyTorch and JAX: the bits of NumPy's, and results of their kind."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim import golden, matmul, simulate

A = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
B = np.random.default_rng(2).standard_normal((7, 3)).astype(np.float32)
FRAMEWORKS = {name: import_module(name) for name in ("torch", "jax") if find_spec(name)}
OPTIONS: dict[str, Any] = {"rows": 4, "columns": 2, "engine": "golden"}


def _import(framework: str) -> Any:
    if framework not in FRAMEWORKS:
        pytest.skip(f"{framework} is not installed: make setup-models")
    return FRAMEWORKS[framework]


def _made(framework: str, array: Any) -> Any:
    """An array of a framework, by way of a list: nothing of ours."""
    module = _import(framework)
    return module.tensor(array.tolist()) if framework == "torch" else module.numpy.array(array.tolist())


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_tensors(framework: str) -> None:
    a, b = _made(framework, A), _made(framework, B)
    expected = golden.matmul(A, B, rows=4)
    for pair in ((a, b), (a, B), (A, b)):
        found = matmul(*pair, **OPTIONS)
        assert type(found) is type(a)
        assert str(found.dtype).endswith("float32")
        assert np.array_equal(np.asarray(found).view(np.uint32), expected.view(np.uint32))
    assert isinstance(simulate(a, b, **OPTIONS).result, np.ndarray)
    assert type(matmul(a[0], b[:, 0], **OPTIONS)) is type(a)
    stacked = matmul(_made(framework, np.stack([A, A])), b, **OPTIONS)
    assert np.array_equal(np.asarray(stacked)[1], expected)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_bfloat16_of_tensors(framework: str) -> None:
    """In and out, bit for bit; streams carry it, as they do for NumPy's."""
    a, b = _made(framework, A), _made(framework, B)
    narrow = [each.bfloat16() if framework == "torch" else each.astype("bfloat16") for each in (a, b)]
    given = [each.astype(ml_dtypes.bfloat16) for each in (A, B)]
    expected = simulate(*given, **OPTIONS, output="bf16")
    found = simulate(*narrow, **OPTIONS, output="bf16")
    assert np.array_equal(found.result.view(np.uint16), expected.result.view(np.uint16))
    assert found.statistics.config == expected.statistics.config
    for pair, right in ((narrow, expected.result), ([narrow[0][0], narrow[1][:, 0]], expected.result[0, 0])):
        result = matmul(*pair, **OPTIONS, output="bf16")
        assert str(result.dtype).endswith("bfloat16")
        wide = result.float().numpy() if framework == "torch" else np.asarray(result, np.float32)
        assert np.array_equal(wide, np.asarray(right, np.float32))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_float8_of_tensors(name: str) -> None:
    """As NumPy's arrays of ml_dtypes; and the tensor's memory can still be resized."""
    torch = _import("torch")
    patterns = np.arange(256, dtype=np.uint8)[:, None]
    one = np.ones((1, 1), np.float32)
    tensor = torch.from_numpy(patterns.copy()).clone().view(getattr(torch, name))
    how: dict[str, Any] = {"operand": "fp32", "subnormals": "ieee"}
    found = matmul(tensor, torch.ones(1, 1), **OPTIONS, **how).numpy()
    expected = golden.matmul(patterns.view(getattr(ml_dtypes, name)).astype(np.float32), one, rows=4, **how)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    assert tensor.untyped_storage().resizable()


def test_tensors_that_are_no_operands() -> None:
    a = _import("torch").ones(2, 2)
    grad = a.clone().requires_grad_()
    for left, right, message in (
        (grad, a, r"^a must be a tensor without derivatives, as of detach\(\); .*torch.matmul has"),
        (a, a.to_sparse(), r"^b must be a dense tensor on the CPU, not torch.sparse_coo on cpu$"),
        (a.to("meta"), a, r"^a must be a dense tensor on the CPU, not torch.strided on meta$"),
        (a * 1j, a, r"^a must be an array of real numbers, not of complex64$"),
    ):
        with pytest.raises(TypeError, match=message):
            matmul(left, right, **OPTIONS)
    negative = (a * 1j).conj().imag
    assert negative.is_neg()
    assert matmul(negative, a, **OPTIONS).tolist() == [[-2, -2], [-2, -2]]
