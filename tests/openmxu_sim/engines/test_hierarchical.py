"""Verilator, row by row: the same bits and cycles as from Amaranth's own simulator."""

import re
from pathlib import Path

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.cosim.runner import SimulationError
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator
from openmxu_sim.engines import hierarchical, pysim
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stalls, collect, stimulus

from ...bits import same_bits

# Payloads of one word of C++ (weights), of two (results), and of an array of them (activations).
SMALL = MxuConfig(rows=5, columns=1, stages=6, depth=8, source=BF16, subnormals="ieee")

M, K, N = 11, 7, 5

try:
    load_simulator("verilator")
except SimulatorNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


def operands(config: MxuConfig) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of patterns of every sort."""
    return (
        vectors.matrix((M, K), config.source.name, 1),
        np.ascontiguousarray(vectors.matrix((N, K), config.source.name, 2).T),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3, 5], ids=["free", "stalled", "activations first"])
def test_bits_and_cycles(seed: int | None) -> None:
    config = SMALL
    a, b = operands(config)
    given = stimulus(config, a, b)
    stalls = None if seed is None else Stalls(seed)
    if seed == 5:
        assert stalls
        stalls.pattern[0, :9], stalls.pattern[1, :9] = True, False
    told: list[tuple[int, int]] = []
    run = hierarchical.run(given, stalls=stalls, progress=lambda *state: told.append(state))
    wide = (golden.from_bits(bits, config.source.name) for bits in (a, b))
    expected = golden.matmul(*wide, rows=config.rows, subnormals=config.subnormals)
    same_bits(collect(config, run.beats, M, K, N), golden.to_bits(expected))
    other = pysim.run(given, stalls=stalls)
    same_bits(run.beats, other.beats)
    assert run.cycles == other.cycles
    assert stalls is not None or run.cycles == cycles(config, M, K, N)
    assert told[-1] == (given.results, given.results)


@pytest.mark.slow
def test_time_is_that_of_the_simulation() -> None:
    timed = hierarchical.run_timed(stimulus(SMALL, *operands(SMALL)))
    assert timed.clocks == timed.run.cycles
    assert timed.seconds > 0
    assert hierarchical.run_timed(stimulus(SMALL, *operands(SMALL))).build < 1  # it is there


@pytest.mark.slow
def test_a_unit_that_hangs_is_reported() -> None:
    given = stimulus(SMALL, *operands(SMALL))
    stalls = Stalls(1, period=32)
    stalls.pattern[2] = True  # nobody ever takes a result
    with pytest.raises(RuntimeError) as expected:
        pysim.run(given, stalls=stalls)
    with pytest.raises(SimulationError, match=f"^{re.escape(str(expected.value))}$"):
        hierarchical.run(given, stalls=stalls)


def test_no_waveform(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^vcd must be None, .* not '.*wave\.vcd'$"):
        hierarchical.run(stimulus(SMALL, *operands(SMALL)), vcd=tmp_path / "wave.vcd")
