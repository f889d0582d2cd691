"""Whole products on Amaranth's simulator: bits, stalls and cycles, for many units."""

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FP32
from openmxu_sim.engines.pysim import run
from openmxu_sim.operands.stimulus import Stalls, stimulus

from ...conftest import slow
from .runs import check, operands


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
    sizes = [int(size) for size in choose.integers(1, 10, 3)]
    for stalls in (None, Stalls(seed)):
        check(run, config, *sizes, stalls=stalls, seed=seed)


@pytest.mark.parametrize("operand", [slow("fp16"), "fp8_e4m3", slow("e3f2"), slow("fp32")])
def test_other_operand_formats(operand: str) -> None:
    fmt = FORMATS.get(operand) or type(FP32).parse(operand)
    check(run, MxuConfig(rows=2, columns=2, operand=fmt, depth=4), 5, 5, 3)


@pytest.mark.parametrize("stages", [1, slow(6)])
def test_blocks_that_keep_their_weights(stages: int) -> None:
    """More rows than places, on an array with room for all of the inner dimension."""
    config = MxuConfig(rows=3, columns=2, depth=4, stages=stages)
    given = stimulus(config, *operands(config, 11, 3, 3))
    assert [tile.keep for tile in given.tiles] == 2 * [False, True, True]
    for stalls in (None, Stalls(1)):
        check(run, config, 11, 3, 3, stalls=stalls)


def test_bf16_source_skips_the_converters() -> None:
    check(run, MxuConfig(rows=2, columns=2, source=FORMATS["bf16"], depth=4), 5, 5, 3)


@pytest.mark.slow
def test_one_tile_longer_costs_its_beats_only() -> None:
    """Weights load while the tile before runs: no bubble between tiles."""
    config = MxuConfig(rows=3, columns=2, depth=16)
    m = config.shortest_tile
    times = [run(stimulus(config, *operands(config, m, 3 * tiles, 2))).cycles for tiles in (2, 3, 4)]
    assert np.diff(times).tolist() == [m, m]
