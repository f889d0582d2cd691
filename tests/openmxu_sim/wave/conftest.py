"""The command ``openmxu wave`` in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu.cli.frame import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def wave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command; exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(options: str = "") -> tuple[int, str, str]:
        code = main(["wave", *options.split()])
        return (code, *capsys.readouterr())

    return run
