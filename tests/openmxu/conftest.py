"""Helpers for tests of hardware on Amaranth's simulator, and of the command line."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from amaranth.sim import Simulator

from openmxu.cli.frame import main

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


Refused = Callable[[str, str], None]


@pytest.fixture
def refused(command: Command, tmp_path: Path) -> Refused:
    """Fail unless ``openmxu verilog`` refuses its arguments in one line and leaves no file."""

    def check(arguments: str, complaint: str) -> None:
        (tmp_path / "file").write_text("kept")
        assert command(f"verilog {arguments}") == (2, "", f"openmxu verilog: {complaint}\n")
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "kept")]

    return check


def clocked(dut: Any, testbench: Callable[[Any], Any]) -> None:
    """Run a test bench beside a component, with a clock if it has one."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6, if_exists=True)
    simulator.add_testbench(testbench)
    simulator.run()


Evaluate = Callable[[Any, Iterable[tuple[int, ...]]], list[int]]


@pytest.fixture
def evaluate() -> Evaluate:
    """What a rigid component (inputs ``i`` or ``i_*``, output ``o``) makes of operands given cycle by cycle."""

    def run(dut: Any, operands: Iterable[tuple[int, ...]]) -> list[int]:
        operands = list(operands)
        inputs = [getattr(dut, name) for name in dut.signature.members if name.startswith("i")]
        results: list[int] = []

        async def testbench(ctx: Any) -> None:
            for cycle in range(len(operands) + dut.latency):
                for port, value in zip(inputs, operands[min(cycle, len(operands) - 1)], strict=True):
                    ctx.set(port, int(value))
                if dut.latency:
                    (_, _, bits) = await ctx.tick().sample(dut.o)
                else:
                    await ctx.delay(1e-6)
                    bits = ctx.get(dut.o)
                if cycle >= dut.latency:
                    results.append(bits)

        clocked(dut, testbench)
        return results

    return run
