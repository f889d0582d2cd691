"""Helpers for tests of hardware on Amaranth's simulator, and of the command line."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amaranth.sim import Simulator

from openmxu.cli.frame import main

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``openmxu`` in ``tmp_path`` with words and arguments that follow them; exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(words: str, *arguments: str) -> tuple[int, str, str]:
        try:
            code = main([*words.split(), *arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return run


def clocked(dut: Any, testbench: Callable[[Any], Any]) -> None:
    """Run a test bench beside a component, with a clock if it has one."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6, if_exists=True)
    simulator.add_testbench(testbench)
    simulator.run()
