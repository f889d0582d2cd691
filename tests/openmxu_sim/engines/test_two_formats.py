"""Whole products on units whose weights have another format than activations, on all engines that run the hardware."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FloatFormat
from openmxu_sim import golden, matmul, simulate
from openmxu_sim.engines import compiled, load, pysim
from openmxu_sim.engines.compiled.wiring import check_parts, check_wiring
from openmxu_sim.engines.known_answer import difference, question
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stalls
from openmxu_studies.speed import hierarchical

from ...bits import same_bits
from ...conftest import Bench, Said, slow, thorough
from .runs import check, product

_HYBRID = MxuConfig(rows=4, columns=3, depth=8, operand=FP8_E5M2, weight=FP8_E4M3, status=True)
_UNITS = {
    "gradients": _HYBRID,
    "mixed": MxuConfig(rows=4, columns=2, depth=8, operand=BF16, weight=FP8_E4M3, subnormals="ieee", stages=4),
    "recoded": MxuConfig(rows=4, columns=3, depth=8, operand=FP8_E4M3, weight=FP16, subnormals="ieee", result=FP8_E4M3),
    "terms": MxuConfig(rows=8, columns=3, depth=8, operand=FP8_E5M2, weight=FP8_E4M3, terms=4, stages=4),
    "terms, wide": MxuConfig(rows=4, columns=2, depth=8, operand=FP16, weight=BF16, terms=2),
    "fp32": MxuConfig(rows=2, columns=2, depth=8, weight=FloatFormat.parse("fp32"), subnormals="ieee"),
}


def _side(fmt: FloatFormat, shape: tuple[int, int], seed: int) -> np.ndarray:
    """fp32 patterns of operands of a format of every sort; in some rows any numbers, an infinity or a NaN."""
    words = golden.convert(vectors.matrix(shape, fmt.name, seed), fmt.name, "fp32", subnormals="ieee")
    words[::8] = vectors.matrix(shape, "fp32", seed + 1)[::8]
    words[3::8, 0], words[4::8, 1] = 0x7F80_0000, 0xFF80_0001
    return words


def _operands(config: MxuConfig, m: int, k: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    b = _side(config.weight_format, (n, k), seed + 2)
    return _side(config.operand, (m, k), seed), np.ascontiguousarray(b.T)


def _check(engine: Callable[..., Run], config: MxuConfig, seed: int, *, stalls: bool = True) -> None:
    """A ragged product, with and without stalls, and results of every sort."""
    m, k, n = 11, 2 * config.rows + 3, config.columns + 2
    given = _operands(config, m, k, n, seed)
    values = golden.from_bits(product(config, *given), config.result.name)
    assert not np.isfinite(values).all()
    assert (np.isfinite(values) & (values != 0)).sum() > 10
    for waits in (None, *([Stalls(seed)] if stalls else [])):
        check(engine, config, m, k, n, stalls=waits, seed=seed, given=given)


@pytest.mark.parametrize("name", _UNITS)
def test_operands(name: str) -> None:
    config = _UNITS[name]
    sides = zip(_operands(config, 50, 40, 50, 1), (config.operand, config.weight_format), strict=True)
    for words, fmt in sides:
        values = golden.from_bits(words)
        smallest = golden.find_format(fmt.name).min_normal
        assert np.isnan(values).any()
        assert np.isinf(values).any()
        assert ((np.abs(values) < smallest) & (values != 0)).any()
        assert {0, 1 << 31} <= {*words.ravel().tolist()}


@pytest.mark.parametrize("name", ["terms", *map(slow, ["gradients", "mixed", "recoded", "terms, wide", "fp32"])])
def test_compiled(name: str) -> None:
    for seed in range(5):
        _check(compiled.run, _UNITS[name], seed)


@pytest.mark.parametrize("name", ["recoded", *map(slow, ["gradients", "mixed", "terms", "terms, wide", "fp32"])])
def test_pysim(name: str) -> None:
    """Of as few elements as show both formats."""
    unit = _UNITS[name]
    _check(pysim.run, replace(unit, rows=2 * unit.terms, columns=2), 7, stalls=False)


@pytest.mark.parametrize("name", [*map(slow, ["terms", "recoded"]), *map(thorough, ["gradients", "mixed"])])
def test_simulators(name: str, simulator: str) -> None:
    _check(load(simulator), _UNITS[name], 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", [thorough("gradients"), "terms"])
def test_hierarchical(name: str) -> None:
    _check(hierarchical.run, replace(_UNITS[name], status=False), 9)


@pytest.mark.parametrize("name", ["terms", *map(slow, ["gradients", "mixed", "recoded", "terms, wide", "fp32"])])
def test_wiring(name: str) -> None:
    assert check_wiring(_UNITS[name]) > 0
    assert check_parts(_UNITS[name]) == 4 + _UNITS[name].status


def test_known_answer() -> None:
    unit = replace(_HYBRID, rows=2, columns=2)
    run = pysim.run(question(unit))
    assert difference(unit, run) == ""
    assert "of a known product is" in difference(replace(unit, operand=FP8_E4M3, weight=FP8_E5M2), run)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["flush", "ieee"])
def test_bench(bench: Bench, mode: str) -> None:
    bench("mxu_2x2", {"operand": "fp8_e5m2", "weight": "fp8_e4m3", "subnormals": mode, "status": True}, count=400)


def test_simulate() -> None:
    a, b = (golden.from_bits(words) for words in _operands(_HYBRID, 5, 6, 4, 1))
    options = {"operand": "fp8_e5m2", "weight": "fp8_e4m3", "rows": 2, "columns": 3}
    expected = golden.matmul(a, b, rows=2, operand="fp8_e5m2", weight="fp8_e4m3")
    for engine in ("golden", "model", "compiled"):
        found = simulate(a, b, **options, engine=engine)
        same_bits(found.result, expected)
        assert found.statistics.as_dict()["weight"] == "fp8_e4m3"
    unit = found.statistics.config
    assert (unit.weight, unit.source.name) == (FP8_E4M3, "fp32")
    same_bits(matmul(a, b, unit=unit, engine="compiled"), expected)
    one = simulate(a, b, rows=2, columns=3, operand="fp8_e4m3", weight="fp8_e4m3", engine="golden").statistics
    assert one.config.weight is None
    assert "weight" not in one.as_dict()
    # Streams of a unit with two formats carry fp32, whatever type the arrays have.
    a = np.ones((2, 2), np.float16)
    found = simulate(a, a, rows=2, columns=2, operand="fp16", weight="fp8_e4m3", engine="golden")
    assert found.statistics.config.source.name == "fp32"
    assert simulate(a, a, rows=2, columns=2, operand="fp16", engine="golden").statistics.config.source == FP16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "fp64"}, "weight must be one of bf16, fp16, .* or eXfY .*, not 'fp64'"),
        ({"weight": "fp16", "splitter": True}, "splitter must be False unless fp32 is .*, not fp32 into bf16_x_fp16"),
        ({"weight": "fp16", "precision": "high"}, "precision must be 'default' "),
        ({"weight": "fp16", "output": "fp16"}, "output must be 'fp32' or 'bf16', not 'fp16'"),
    ],
)
@pytest.mark.parametrize("engine", ["golden", "model", "compiled"])
def test_messages(options: dict[str, str], message: str, engine: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(np.ones((2, 2)), np.ones((2, 2)), rows=2, columns=2, engine=engine, **options)


def test_command(shown: Said) -> None:
    a = np.float32([[1.1, 2.3], [-3.3, 0.07]])
    np.save("a.npy", a)
    words = "--rows 2 --columns 2 --engine golden --operand fp8_e5m2 --weight fp8_e4m3"
    shown(f"matmul a.npy a.npy -o c.npy {words}")
    same_bits(np.load("c.npy"), golden.matmul(a, a, rows=2, operand="fp8_e5m2", weight="fp8_e4m3"))
