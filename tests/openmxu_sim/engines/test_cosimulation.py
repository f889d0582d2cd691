"""Whole products in Amaranth's simulator and in others: bits, stalls, cycles and counters, for many units."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FORMATS, FP32, FloatFormat
from openmxu.spec.tiling import cycles, tiles
from openmxu_sim.cosim.runner import SimulationError
from openmxu_sim.engines import compiled, load, pysim
from openmxu_sim.engines.cosimulation import STIMULUS, read_stimulus, write_stimulus
from openmxu_sim.engines.protocol import Engine
from openmxu_sim.operands.stimulus import Stalls, Stimulus, stimulus
from openmxu_studies.speed import hierarchical

from ...conftest import need, slow, thorough
from .runs import check, hanging, operands


def test_long_runs_of_pysim_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    for side, said in ((8, []), (128, ["Amaranth's simulator takes about 69 minutes for 128x128 (an estimate); "
                                       "fewer rows and columns, or another engine, take less"])):  # fmt: skip
        words = np.zeros((2, side), np.uint32)
        pysim._announce(stimulus(MxuConfig(rows=side, columns=side), words, words.T))
        assert caplog.messages == said


SMALL = MxuConfig(rows=2, columns=2, status=True)
PIPELINED = MxuConfig(rows=3, columns=2, stages=7, depth=4, subnormals="ieee")
# Payloads of one word of C++ (weights), of two (results), and of an array of them (activations).
WORDS = MxuConfig(rows=5, columns=1, stages=6, depth=8, source=BF16, subnormals="ieee")


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


# Amaranth's simulator


@pytest.mark.parametrize("seed", [0, slow(1), slow(2), slow(3), slow(4), slow(5), slow(6)])
def test_random_units_and_shapes(seed: int) -> None:
    choose = np.random.default_rng(seed)
    rows, columns = choose.integers(1, [5, 4]).tolist()
    depth, mode = int(choose.choice([2, 4, 8, 16])), ("flush", "ieee")[seed % 2]
    config = MxuConfig(rows, columns, stages=1 + seed % 7, depth=depth, subnormals=mode)
    sizes = choose.integers(1, 10, 3).tolist()
    for stalls in (None, Stalls(seed)):
        check(pysim.run, config, *sizes, stalls=stalls, seed=seed)


OPERANDS = [slow("operand", "fp16"), ("operand", "fp8_e4m3"), slow("operand", "e3f2"), slow("operand", "fp32")]


@pytest.mark.parametrize(("port", "name"), [*OPERANDS, ("source", "bf16")])
def test_other_formats(port: str, name: str) -> None:
    other: dict[str, Any] = {port: FORMATS.get(name) or FloatFormat.parse(name)}
    check(pysim.run, MxuConfig(rows=2, columns=2, depth=4, **other), 5, 5, 3)


@pytest.mark.parametrize("stages", [1, slow(6)])
def test_blocks_that_keep_their_weights(stages: int) -> None:
    """More rows than places, on an array with room for all of the inner dimension."""
    config = MxuConfig(rows=2, columns=1, depth=4, stages=stages)
    given = stimulus(config, *operands(config, 11, 2, 2))
    assert [tile.keep for tile in given.tiles] == 2 * [False, True, True]
    for stalls in (None, Stalls(1)):
        check(pysim.run, config, 11, 2, 2, stalls=stalls)


# Verilator, row by row


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3, 5], ids=["free", "stalled", "activations first"])
def test_rows_have_the_bits_and_cycles_of_the_unit(seed: int | None) -> None:
    need("verilator")
    stalls = None if seed is None else Stalls(seed)
    if stalls and seed == 5:
        stalls.pattern[0, :9], stalls.pattern[1, :9] = True, False
    check(hierarchical.run, WORDS, 11, 7, 5, stalls=stalls, other=pysim.run)


@pytest.mark.slow
def test_time_is_that_of_the_simulation() -> None:
    need("verilator")
    timed, again = (hierarchical.run_timed(stimulus(WORDS, *operands(WORDS, 11, 7, 5))) for _ in range(2))
    assert timed.clocks == timed.run.cycles
    assert timed.seconds > 0
    assert again.build < 1  # it is there


@pytest.mark.slow
def test_rows_of_a_unit_that_hangs() -> None:
    need("verilator")
    given, stalls = hanging(WORDS)
    with pytest.raises(RuntimeError) as expected:
        pysim.run(given, stalls=stalls)
    with pytest.raises(SimulationError, match=f"^{re.escape(str(expected.value))}$"):
        hierarchical.run(given, stalls=stalls)


def test_rows_have_no_waveform(tmp_path: Path) -> None:
    need("verilator")
    with pytest.raises(ValueError, match=r"^vcd must be None, .* not '.*wave\.vcd'$"):
        hierarchical.run(stimulus(WORDS, *operands(WORDS, 11, 7, 5)), vcd=tmp_path / "wave.vcd")
