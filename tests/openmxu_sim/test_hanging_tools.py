"""A tool that never answers is ended, with a line that names it."""

from pathlib import Path

import pytest

from openmxu.area.target import timing
from openmxu.runtime.process import TimeLimitError
from openmxu_sim.cosim import simulators
from openmxu_sim.netlist import native


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A program that sleeps whatever it is asked."""
    path = tmp_path / "tool"
    path.write_text("#!/bin/sh\nsleep 1000\n")
    path.chmod(0o755)
    return path


def test_c_compiler(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(tool))
    monkeypatch.setattr(native, "_ANSWER_LIMIT", 0.2)
    monkeypatch.setattr(native, "_LIMIT", 0.3)
    with pytest.raises(
        TimeLimitError,
        match=r"^C compiler, asked for its version, took longer than 0.2 s and was "
        r"ended; does tool run by itself\?$",
    ):
        native.compiler_version()
    with pytest.raises(TimeLimitError, match=r"^C compiler took longer than 0.3 s and was ended; "):
        native.build_library("")


def test_simulator(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_ANSWER_LIMIT", 0.2)
    with pytest.raises(TimeLimitError, match=r"tool -V took longer than 0.2 s"):
        simulators._first_line(str(tool), "-V")


def test_opensta(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_command", lambda: str(tool))
    monkeypatch.setattr(timing, "_LIMIT", 0.2)
    with pytest.raises(TimeLimitError, match=r"^OpenSTA, asked for its version, took longer than 0.2 s"):
        timing.find_sta()
    with pytest.raises(timing.TimingError, match=r"^OpenSTA: no result within 0.2 s$"):
        timing.delay("module top(clk);", "top", b"")
