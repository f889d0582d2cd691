"""The same bits, cycles and counters from Verilog in other simulators as from the compiled netlist."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP32, FloatFormat
from openmxu.spec.tiling import cycles, tiles
from openmxu_sim.cosim.runner import SimulationError
from openmxu_sim.engines import compiled, load, pysim
from openmxu_sim.engines.cosimulation import STIMULUS, read_stimulus, write_stimulus
from openmxu_sim.engines.protocol import Engine
from openmxu_sim.operands.stimulus import Stalls, Stimulus, stimulus

from ...conftest import slow, thorough
from .runs import check, hanging, operands

SMALL = MxuConfig(rows=2, columns=2, status=True)
PIPELINED = MxuConfig(rows=3, columns=2, stages=7, depth=4, subnormals="ieee")


@pytest.fixture
def engine(simulator: str) -> Engine:
    return load(simulator)


@pytest.mark.parametrize(
    ("config", "seed", "precision"),
    [
        *(thorough(SMALL, None, "highest"), (SMALL, 3, "default")),
        *(slow(PIPELINED, None, "highest"), slow(PIPELINED, 3, "default")),
    ],
)
def test_bits_and_cycles(engine: Engine, config: MxuConfig, seed: int | None, precision: str) -> None:
    stalls = None if seed is None else Stalls(seed)
    check(engine, config, 11, 7, 5, stalls=stalls, precision=precision, other=compiled.run)


def test_activations_that_come_first_are_counted(engine: Engine) -> None:
    """By engines and by the unit alike: from the first beat of either stream."""
    stalls, late = Stalls(0), 5
    stalls.pattern[:] = False
    stalls.pattern[0, :late] = True
    given = stimulus(SMALL, *operands(SMALL, 3, 2, 2))
    for run in (engine(given, stalls=stalls), compiled.run(given, stalls=stalls), pysim.run(given, stalls=stalls)):
        assert run.counters is not None
        assert run.cycles == run.counters.cycles == cycles(SMALL, 3, 2, 2) + late


@pytest.mark.parametrize("stalls", [None, Stalls(3, period=64)], ids=["free", "stalled"])
def test_what_goes_in_is_written_and_read(stalls: Stalls | None, tmp_path: Path) -> None:
    config = MxuConfig(rows=3, columns=2, stages=7, depth=4, operand=FloatFormat("mine", 4, 3), result=FP32)
    given = stimulus(config, *operands(config, 9, 3, 3))
    assert any(tile.keep for tile in given.tiles)
    other = replace(config, operand=BF16)
    many = Stimulus(other, given.a, given.b, tuple(tiles(other, 5, 7, 3, "highest")))
    if stalls is not None:
        stalls.pattern[1, :7] = True
    for each in (given, many):
        write_stimulus(tmp_path / STIMULUS, each, stalls)
        found, waits = read_stimulus(tmp_path / STIMULUS)
        assert (found.config, found.tiles) == (each.config, each.tiles)
        np.testing.assert_array_equal(found.a, each.a, strict=True)
        np.testing.assert_array_equal(found.b, each.b, strict=True)
        assert waits == stalls
        if stalls is not None and waits is not None:
            np.testing.assert_array_equal(waits.pattern, stalls.pattern, strict=True)


def test_what_goes_in_runs_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / STIMULUS, config=np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_stimulus(tmp_path / STIMULUS)


@pytest.mark.slow
def test_waveform(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a wave.vcd"
    engine(stimulus(MxuConfig(rows=1, columns=1, depth=4), *operands(SMALL, 2, 2, 2)), vcd=path)
    assert {"results__payload", "o_psum"} <= set(re.findall(r"\w+", path.read_text()))


def test_a_unit_that_hangs_is_reported(engine: Engine) -> None:
    given, stalls = hanging(SMALL)
    with pytest.raises(SimulationError, match="the unit hangs: nothing moved for"):
        engine(given, stalls=stalls)
