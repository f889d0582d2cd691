"""Scaled operands, blocks, integers, and sums rounded in other ways: the model against the definition, bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ...conftest import slow, thorough

OPERANDS = [
    *("fp8_e4m3/tensor", "fp8_e4m3/row", "fp8_e4m3/block32", "fp8_e5m2/tensor/fp32", "fp8_e4m3/row/fp32/saturate"),
    *("fp8_e4m3/saturate", "fp8_e5m2/saturate", "bf16/tensor", "fp32/row/fp32", "fp8_e5m2/block64/fp32/stochastic"),
    *("bf16/stochastic", "fp8_e4m3/stochastic", "fp8_e4m3/saturate/stochastic", "fp32/stochastic", "e2f1/stochastic"),
    *("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4", "mxfp4/stochastic", "nvfp4/stochastic"),
    *("int8/tensor", "int8/row/fp32", "int8/block32", "int8/block32/fp32/stochastic"),
]
SUMS: list[dict[str, Any]] = [
    *(
        {"accumulate": f"{fmt}/{way}"}
        for fmt in ("fp32", "bf16", "fp8_e4m3", "e5f2")
        for way in ("truncate", "stochastic")
    ),
    *({"accumulate": fmt, "between": "fp32"} for fmt in ("bf16", "e8f13", "fp16/truncate")),
    {"between": "bf16"},
    {"accumulate": "bf16", "between": "fp16/stochastic"},
    {"accumulate": "fp32/truncate", "between": "fp32/stochastic", "operand": "fp32"},
    {"terms": 32, "accumulate": "e8f13/truncate/guard0", "between": "fp32", "operand": "fp8_e4m3"},
    {"terms": 16, "accumulate": "fp32/truncate/guard2"},
    {"terms": 16},
    {"terms": 8, "accumulate": "fp32/guard1"},
    {"terms": 4, "accumulate": "bf16/stochastic"},
    {"terms": 32, "operand": "fp8_e4m3/row", "weight": "fp8_e5m2/tensor/fp32", "accumulate": "e8f13/truncate"},
]
PAIRS: list[dict[str, Any]] = [
    {"operand": a, "weight": b} for a, b in (("fp8_e5m2", "fp8_e4m3"), ("bf16", "fp32"), ("fp8_e4m3/row", "mxfp4"))
]
CASES = [{"operand": operand} for operand in OPERANDS] + SUMS + PAIRS
KINDS = ("all", "normal", "uniform")


def _matrix(shape: tuple[int, int], seed: int, kind: str) -> npt.NDArray[np.float32]:
    return golden.from_bits(vectors.matrix(shape, "fp32", seed, kind=kind))


def _check(m: int, k: int, n: int, options: dict[str, Any], mode: str, kind: str, seed: int = 0) -> None:
    if mode == "ieee" and "terms" in options:
        pytest.skip("several terms are for flush mode")
    a, b = _matrix((m, k), seed, kind), _matrix((n, k), seed + 1000, kind).T
    options = {"rows": 32, "subnormals": mode, "seed": seed, **options}
    same_bits(model.matmul(a, b, **options), golden.matmul(a, b, **options), note=f"{options} {kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", CASES, ids=str)
def test_model(options: dict[str, Any], kind: str, mode: str) -> None:
    _check(7, 197, 37, options, mode, kind)
    _check(13, 32, 40, options, mode, kind, seed=5)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_large_products(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """In several calls, on several threads, from a size on that is less here."""
    monkeypatch.setattr(model, "TASK", 1 << 20)
    _check(100, 200, 400, options, "flush", "normal", seed=2)


@pytest.mark.parametrize("options", [(thorough if n % 3 else slow)(case) for n, case in enumerate(CASES)], ids=str)
def test_larger_products(options: dict[str, Any]) -> None:
    _check(300, 600, 400, options, "flush", "normal", seed=2)


@pytest.mark.parametrize(
    ("a", "options"),
    [
        ([2e-5], {"operand": "int8/row", "subnormals": "ieee", "result": "fp16"}),
        ([400, 400], {"accumulate": "fp8_e4m3", "between": "fp32"}),
        ([400, 400], {"accumulate": "fp8_e4m3", "between": "bf16"}),
        ([np.inf, 1], {"accumulate": "fp8_e4m3"}),
        ([np.inf, 1], {"accumulate": "fp8_e4m3", "terms": 2}),
    ],
)
def test_odd_ends(a: list[float], options: dict[str, Any]) -> None:
    left, right = np.float32([a]), np.ones((len(a), 1), np.float32)
    same_bits(*(engine.matmul(left, right, rows=2, **options) for engine in (model, golden)), note=str(options))


@pytest.mark.parametrize("spec", ["bf16/stochastic", "nvfp4/stochastic", "fp8_e4m3/row", "int8/block32/fp32"])
def test_stacks(spec: str) -> None:
    """The scale of a tensor is that of the stack, and each product has the next seed, in however many calls."""
    a, b = (np.stack([_matrix(shape, seed, "normal") for seed in range(5)]) for shape in ((9, 64), (64, 7)))
    options = {"operand": spec, "accumulate": "fp32" if "int8" in spec else "bf16/stochastic"}
    peaks = float(np.abs(a).max()), float(np.abs(b).max())
    result = model.products(a.view(np.uint32), b.view(np.uint32), rows=32, seed=7, **options)
    for number, (left, right, product) in enumerate(zip(a, b, result, strict=True)):
        same_bits(product, golden.matmul(left, right, rows=32, seed=7 + number, largest=peaks, **options))


@pytest.mark.parametrize("options", SUMS, ids=str)
def test_sums_beyond_binary64(options: dict[str, Any]) -> None:
    """Terms 60 binades apart, of both signs: binary64 rounds their sums, and may round them away from zero."""
    rng = np.random.default_rng(8)
    a, b = (
        np.ldexp(rng.uniform(1, 2, shape) * rng.choice([-1, 1], shape), rng.integers(-30, 30, shape)).astype(np.float32)
        for shape in ((40, 64), (64, 40))
    )
    a[:, ::5] = np.float32(2.0**25)
    for seed in range(3):
        given = {"rows": 32, "seed": seed, **options}
        same_bits(model.matmul(a, b, **given), golden.matmul(a, b, **given), note=str(given))


@pytest.mark.parametrize("inner", [1040, 1041, 3000])
@pytest.mark.parametrize("spec", ["int8/row", "int8/block1500/fp32"])
def test_long_sums_of_integers(spec: str, inner: int) -> None:
    """All as large as they can be, where fp32 holds their sums exactly, and where it does not."""
    a, b = np.full((3, inner), 127, np.float32), np.full((inner, 4), 127, np.float32)
    a[1, ::2] = -126
    b[-1, 2] = 126
    options = {"rows": 4, "operand": spec}
    same_bits(model.matmul(a, b, **options), golden.matmul(a, b, **options))
    assert golden.matmul(a, b, **options)[0, 0] == np.float32(127 * 127 * inner)


@pytest.mark.parametrize("options", [thorough(case) for case in CASES], ids=str)
def test_a_million_sums(options: dict[str, Any], mode: str) -> None:
    for seed in range(10):
        for kind in KINDS:
            _check(190, 33, 190, options, mode, kind, seed=seed)
