"""A waveform is whole or absent, and an older one survives a run that fails."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu.spec.config import MxuConfig
from openmxu_sim.cosim.simulators import find_simulator
from openmxu_sim.cosim.waveform import waveform
from openmxu_sim.engines import load, pysim

from ..engines.runs import hanging

OLD = "what stood there before"


def test_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "wave.vcd"

    def fail() -> None:
        with waveform(path) as file:
            file.write_text("half")
            raise KeyError

    for before in (None, OLD):
        if before is not None:
            path.write_text(before)
        with pytest.raises(KeyError):
            fail()
        assert [each.read_text() for each in tmp_path.iterdir()] == [before] * (before is not None)
    with waveform(path) as file:
        file.write_text("whole")
        assert path.read_text() == OLD
    assert [each.read_text() for each in tmp_path.iterdir()] == ["whole"]


def test_a_place_that_cannot_be_written_shows_first(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), waveform(tmp_path / "missing" / "wave.vcd"):
        pytest.fail("the simulation has begun")


def hang(run: Callable[..., object], path: Path) -> None:
    """Run a unit whose results nobody takes."""
    given, stalls = hanging(MxuConfig(rows=1, columns=1, depth=2))
    with pytest.raises(RuntimeError, match=r"the unit hangs: nothing moved for .* 0 of 4 results are there"):
        run(given, stalls=stalls, vcd=path)


def test_pysim_that_fails_leaves_the_older_one(tmp_path: Path) -> None:
    (tmp_path / "wave.vcd").write_text(OLD)
    hang(pysim.run, tmp_path / "wave.vcd")
    assert [path.read_text() for path in tmp_path.iterdir()] == [OLD]


@pytest.mark.slow
def test_a_simulator_shows_why_a_bench_failed(tmp_path: Path) -> None:
    """Its run is over when the bench has seen the mistake: the waveform is whole, and wanted."""
    if find_simulator("icarus") is None:
        pytest.skip("icarus is not installed")
    hang(load("icarus"), tmp_path / "wave.vcd")
    assert "results__valid" in (tmp_path / "wave.vcd").read_text()
