"""Helpers for tests of the command line and of what needs Icarus Verilog."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu.cli.frame import main

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")


@pytest.fixture(autouse=True)
def _no_libraries_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are of what a test names, whatever the machine has for others."""
    monkeypatch.delenv("OPENMXU_LIBERTY", raising=False)


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


Refused = Callable[..., str]


@pytest.fixture
def refused(command: Command) -> Refused:
    """The one line that ``openmxu`` says of a mistake, with exit code 2, before it works or writes."""

    def run(words: str, *arguments: str) -> str:
        before = sorted(Path().rglob("*"))
        code, shown, message = command(words, *arguments)
        assert (code, shown, message.count("\n"), sorted(Path().rglob("*"))) == (2, "", 1, before), message
        return message

    return run
