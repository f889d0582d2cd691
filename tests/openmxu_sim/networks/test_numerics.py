"""Formats by the names that frameworks have for them."""

from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.networks.numerics import Numerics

with suppress(ImportError):
    import jax.numpy  # noqa: F401  # before any test: it sets variables of the environment

NAMES = ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4"]


@pytest.mark.parametrize("name", NAMES)
def test_types_of_ml_dtypes(name: str) -> None:
    """By name, as a type and as a dtype: the format has the very numbers of the type."""
    given = getattr(ml_dtypes, name, None) or getattr(np, name)
    found = {Numerics(operand=each, accumulate=each).checked() for each in (name, given, np.dtype(given))}  # type: ignore[arg-type]
    assert len(found) == 1
    fmt = found.pop().operand
    if fmt == "fp32":
        return
    bits = np.arange(1 << 8 * np.dtype(given).itemsize, dtype=np.uint32)
    values = golden.from_bits(golden.convert(bits, fmt, "fp32", subnormals="ieee"))
    expected = bits.astype(f"u{np.dtype(given).itemsize}").view(given).astype(np.float32)
    assert np.array_equal(values, expected, equal_nan=True)


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
@pytest.mark.parametrize("name", NAMES)
def test_types_of_frameworks(framework: str, name: str) -> None:
    there = pytest.importorskip(framework, reason=f"{framework} is not installed: make setup-models")
    given: Any = getattr(there, name, None)
    if given is not None:  # PyTorch has fewer
        assert Numerics(operand=given).checked() == Numerics(operand=name).checked()


@pytest.mark.parametrize(
    ("names", "ours"),
    [("half", "fp16"), ("float", "fp32"), ("e4m3 e4m3fn", "fp8_e4m3"), ("e5m2", "fp8_e5m2"), ("e5f9", "e5f9")],
)
def test_other_names(names: str, ours: str) -> None:
    assert {Numerics(operand=name).checked().operand for name in names.split()} == {ours}


@pytest.mark.parametrize("given", ["float64", "bfloat", "torch.bfloat16", "e4m4", "", None, 3, float, np.int8, [], ()])
def test_no_formats(given: Any) -> None:
    """Errors name what was given, and what there is."""
    with pytest.raises((TypeError, ValueError), match=r"^operand must be ") as error:
        Numerics(operand=given).checked()
    assert str(error.value).endswith(f"not {given!r}")
