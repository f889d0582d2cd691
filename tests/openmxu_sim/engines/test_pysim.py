"""Whole products on Amaranth's simulator: bits, stalls and cycles, for many units."""

from pathlib import Path

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FP32
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.engines.pysim import run
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stalls, Stimulus, collect, stimulus

from ...bits import same_bits
from ...conftest import slow


def _product(config: MxuConfig, m: int, k: int, n: int, seed: int) -> tuple[Stimulus, np.ndarray, np.ndarray]:
    """A stimulus from all bit patterns, its operands' fp32 patterns, and what must come out."""
    name = config.source.name
    a = vectors.matrix((m, k), name, seed)
    b = vectors.matrix((n, k), name, seed + 1000).T
    expected = golden.matmul(
        *(golden.from_bits(np.ascontiguousarray(x), name) for x in (a, b)),
        rows=config.rows,
        subnormals=config.subnormals,
        operand=config.operand.name,
    )
    return stimulus(config, a, b), golden.to_bits(expected), a


@pytest.mark.parametrize("seed", [0, slow(1), slow(2), slow(3), slow(4), slow(5), slow(6)])
def test_random_units_and_shapes(seed: int) -> None:
    choose = np.random.default_rng(seed)
    config = MxuConfig(
        rows=int(choose.integers(1, 5)),
        columns=int(choose.integers(1, 4)),
        stages=1 + seed % 7,
        depth=int(choose.choice([2, 4, 8, 16])),
        subnormals=("flush", "ieee")[seed % 2],
    )
    m, k, n = (int(size) for size in choose.integers(1, 10, 3))
    given, expected, _ = _product(config, m, k, n, seed)
    free = run(given)
    same_bits(collect(config, free.beats, m, k, n), expected)
    assert free.cycles == cycles(config, m, k, n)
    stalled = run(given, stalls=Stalls(seed))
    same_bits(collect(config, stalled.beats, m, k, n), expected)
    assert stalled.cycles >= free.cycles


@pytest.mark.parametrize("operand", [slow("fp16"), "fp8_e4m3", slow("e3f2"), slow("fp32")])
def test_other_operand_formats(operand: str) -> None:
    fmt = FORMATS.get(operand) or type(FP32).parse(operand)
    config = MxuConfig(rows=2, columns=2, operand=fmt, depth=4)
    given, expected, _ = _product(config, 5, 5, 3, seed=50)
    same_bits(collect(config, run(given).beats, 5, 5, 3), expected)


@pytest.mark.parametrize("stages", [1, slow(6)])
def test_blocks_that_keep_their_weights(stages: int) -> None:
    """More rows than places, on an array with room for all of the inner dimension."""
    config = MxuConfig(rows=3, columns=2, depth=4, stages=stages)
    given, expected, _ = _product(config, 11, 3, 3, seed=70)
    assert [tile.keep for tile in given.tiles] == 2 * [False, True, True]
    for stalls in (None, Stalls(1)):
        done = run(given, stalls=stalls)
        same_bits(collect(config, done.beats, 11, 3, 3), expected)
        assert stalls or done.cycles == cycles(config, 11, 3, 3)


def test_bf16_source_skips_the_converters() -> None:
    config = MxuConfig(rows=2, columns=2, source=FORMATS["bf16"], depth=4)
    given, expected, a = _product(config, 5, 5, 3, seed=60)
    assert a.max() < 1 << 16
    same_bits(collect(config, run(given).beats, 5, 5, 3), expected)


@pytest.mark.slow
def test_one_tile_longer_costs_its_beats_only() -> None:
    """Weights load while the tile before runs: no bubble between tiles."""
    config = MxuConfig(rows=3, columns=2, depth=16)
    m = config.shortest_tile
    times = [run(_product(config, m, 3 * tiles, 2, seed=tiles)[0]).cycles for tiles in (2, 3, 4)]
    assert np.diff(times).tolist() == [m, m]


def test_waveform(tmp_path: Path) -> None:
    path = tmp_path / "wave.vcd"
    run(_product(MxuConfig(rows=1, columns=1, depth=2), 1, 1, 1, seed=0)[0], vcd=path)
    assert "o_psum" in path.read_text()
