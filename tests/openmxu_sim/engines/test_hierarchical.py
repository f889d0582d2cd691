"""Verilator, row by row: the same bits and cycles as from Amaranth's own simulator."""

import re
from pathlib import Path

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu_sim.cosim.runner import SimulationError
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator
from openmxu_sim.engines import hierarchical, pysim
from openmxu_sim.operands.stimulus import Stalls, stimulus

from .runs import check, hanging, operands

# Payloads of one word of C++ (weights), of two (results), and of an array of them (activations).
SMALL = MxuConfig(rows=5, columns=1, stages=6, depth=8, source=BF16, subnormals="ieee")

M, K, N = 11, 7, 5

try:
    load_simulator("verilator")
except SimulatorNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3, 5], ids=["free", "stalled", "activations first"])
def test_bits_and_cycles(seed: int | None) -> None:
    stalls = None if seed is None else Stalls(seed)
    if seed == 5:
        assert stalls
        stalls.pattern[0, :9], stalls.pattern[1, :9] = True, False
    check(hierarchical.run, SMALL, M, K, N, stalls=stalls, other=pysim.run)


@pytest.mark.slow
def test_time_is_that_of_the_simulation() -> None:
    timed = hierarchical.run_timed(stimulus(SMALL, *operands(SMALL, M, K, N)))
    assert timed.clocks == timed.run.cycles
    assert timed.seconds > 0
    assert hierarchical.run_timed(stimulus(SMALL, *operands(SMALL, M, K, N))).build < 1  # it is there


@pytest.mark.slow
def test_a_unit_that_hangs_is_reported() -> None:
    given, stalls = hanging(SMALL)
    with pytest.raises(RuntimeError) as expected:
        pysim.run(given, stalls=stalls)
    with pytest.raises(SimulationError, match=f"^{re.escape(str(expected.value))}$"):
        hierarchical.run(given, stalls=stalls)


def test_no_waveform(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^vcd must be None, .* not '.*wave\.vcd'$"):
        hierarchical.run(stimulus(SMALL, *operands(SMALL, M, K, N)), vcd=tmp_path / "wave.vcd")
