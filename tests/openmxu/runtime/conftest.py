"""Helpers for tests of processes and files."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ...conftest import ran


def python(program: str, folder: Path | None = None, /, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter that imports what this one does."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
    return ran([sys.executable, "-c", program], cwd=folder, env=environment, timeout=60)


def contents(folder: Path) -> dict[str, str]:
    """Texts of the files of a folder, by name."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def wait_until(reached: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what another process or thread does; fail if that takes too long."""
    limit = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < limit
        time.sleep(0.01)
