"""A child process with a log, a time limit and an environment of its own."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openmxu.runtime import process
from openmxu.runtime.process import TimeLimitError

_TAIL = 40
"""Lines of a log that a failure shows."""

_FOREIGN = ("COCOTB_", "GPI_", "PYGPI_", "PYTEST_", "SIM_CMD_", "VERILATOR_")
_FOREIGN_NAMES = {"WAVES", "GUI", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}


class SimulationError(RuntimeError):
    """A simulation could not be built or its test bench failed; the text ends with the end of the log."""


class BenchFailedError(SimulationError):
    """A test of the bench failed: the simulation ran, and showed something wrong."""


class SimulationTimeoutError(SimulationError):
    """A simulation took longer than allowed."""


def run_child(spec: Mapping[str, Any], *, directory: Path, **options: Any) -> None:
    """Run cocotb's runner in a process of its own; ``options`` are those of :func:`run_program`."""
    (directory / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "openmxu_sim.cosim.child", "spec.json"]
    run_program(command, directory=directory, **options)


def run_program(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    what: str,
    timeout: float | None,
    tick: Callable[[], None] | None = None,
) -> None:
    """Run a program to its end, with a log in the folder, which errors quote."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and name not in _FOREIGN_NAMES
    }
    log = directory / "log.txt"
    try:
        done = process.run(
            command,
            what=what,
            limit=timeout,
            directory=directory,
            environment=inherited | dict(environment),
            log=log,
            tick=tick,
        )
    except TimeLimitError:
        raise SimulationTimeoutError(f"{what} took longer than {timeout:g} s\n{_tail(log)}") from None
    if done.code != 0:
        raise SimulationError(f"{what} failed\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])
