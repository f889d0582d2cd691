"""Whole products on Amaranth's simulator: bits, stalls and cycles, for many units."""

from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FloatFormat
from openmxu_sim.engines.pysim import run
from openmxu_sim.operands.stimulus import Stalls, stimulus

from ...conftest import slow
from .runs import check, operands


@pytest.mark.parametrize("seed", [0, slow(1), slow(2), slow(3), slow(4), slow(5), slow(6)])
def test_random_units_and_shapes(seed: int) -> None:
    choose = np.random.default_rng(seed)
    rows, columns = choose.integers(1, [5, 4]).tolist()
    depth, mode = int(choose.choice([2, 4, 8, 16])), ("flush", "ieee")[seed % 2]
    config = MxuConfig(rows, columns, stages=1 + seed % 7, depth=depth, subnormals=mode)
    sizes = choose.integers(1, 10, 3).tolist()
    for stalls in (None, Stalls(seed)):
        check(run, config, *sizes, stalls=stalls, seed=seed)


OPERANDS = [slow("operand", "fp16"), ("operand", "fp8_e4m3"), slow("operand", "e3f2"), slow("operand", "fp32")]


@pytest.mark.parametrize(("port", "name"), [*OPERANDS, ("source", "bf16")])
def test_other_formats(port: str, name: str) -> None:
    other: dict[str, Any] = {port: FORMATS.get(name) or FloatFormat.parse(name)}
    check(run, MxuConfig(rows=2, columns=2, depth=4, **other), 5, 5, 3)


@pytest.mark.parametrize("stages", [1, slow(6)])
def test_blocks_that_keep_their_weights(stages: int) -> None:
    """More rows than places, on an array with room for all of the inner dimension."""
    config = MxuConfig(rows=3, columns=2, depth=4, stages=stages)
    given = stimulus(config, *operands(config, 11, 3, 3))
    assert [tile.keep for tile in given.tiles] == 2 * [False, True, True]
    for stalls in (None, Stalls(1)):
        check(run, config, 11, 3, 3, stalls=stalls)
