"""Verilator by rows: the bits and cycles of the other engines."""

from pathlib import Path

import numpy as np
import pytest

from openmxu.config import MxuConfig
from openmxu_sim import golden, vectors
from openmxu_sim.cosim.process import SimulationError
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator
from openmxu_sim.engines import hierarchical, pysim
from openmxu_sim.stimulus import Stalls, collect, stimulus

try:
    load_simulator("verilator")
except SimulatorNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)

CONFIG = MxuConfig(rows=2, columns=3, depth=4)
M, K, N = 6, 5, 4
A = vectors.matrix((M, K), "fp32", 1)
B = np.ascontiguousarray(vectors.matrix((N, K), "fp32", 2).T)


@pytest.mark.parametrize("seed", [None, 3])
def test_bits_and_cycles(seed: int | None) -> None:
    stalls = None if seed is None else Stalls(seed)
    given = stimulus(CONFIG, A, B)
    told: list[tuple[int, int]] = []
    found = hierarchical.run_timed(given, stalls=stalls, progress=lambda *state: told.append(state))
    expected = golden.matmul(golden.from_bits(A), golden.from_bits(B), rows=CONFIG.rows)
    np.testing.assert_array_equal(collect(CONFIG, found.run.beats, M, K, N), golden.to_bits(expected))
    assert found.run.cycles == pysim.run(given, stalls=stalls).cycles
    assert found.clocks >= found.run.cycles
    assert told[-1] == (given.results, given.results)


def test_a_unit_that_hangs_is_reported() -> None:
    stalls = Stalls(1, period=32)
    stalls.pattern[2] = True  # nobody ever takes a result
    with pytest.raises(SimulationError, match="hangs"):
        hierarchical.run(stimulus(CONFIG, A, B), stalls=stalls)


def test_no_waveform(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^vcd must be None, as rows that are compiled once have no waveform"):
        hierarchical.run(stimulus(CONFIG, A, B), vcd=tmp_path / "wave.vcd")
