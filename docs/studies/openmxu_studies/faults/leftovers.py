"""Processes and files that a command leaves behind when it is interrupted or killed."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARKER = "OPENMXU_MARKER"
"""Environment variable that marks the processes of a trial."""

_START = 30.0
"""Seconds within which a command must handle signals."""


@dataclass(frozen=True)
class Ending:
    """End of a command that was sent a signal."""

    sent: bool
    """Whether the signal came in time: the command had not ended before."""
    code: int
    """Its exit code; negative: the number of the signal that ended it."""
    output: str
    errors: str
    seconds: float
    """Seconds from the signal to the end of the command."""
    left: tuple[str, ...]
    """Leftovers a second later, see :func:`leftovers`."""


def processes(marker: str) -> dict[int, str]:
    """Numbers and command lines of the processes that carry the marker in their environment."""
    commands = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARKER}={marker}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                commands[int(entry.name)] = " ".join(words).strip()[:200]
        except OSError:  # ended, or somebody else's
            continue
    return commands


def leftovers(marker: str, folder: Path, *, patience: float = 1.0) -> list[str]:
    """Processes that carry the marker and entries of a folder, a line each, that do not go away."""
    limit = time.monotonic() + patience
    while True:
        lines = [f"process {number}: {command}" for number, command in processes(marker).items()]
        lines += [f"file {entry.name}" for entry in folder.iterdir()]
        if not lines or time.monotonic() > limit:
            return lines
        time.sleep(0.02)


def end_at(
    seconds: float,
    number: signal.Signals,
    command: Sequence[str],
    *,
    marker: str,
    folder: Path,
    environment: Mapping[str, str],
    directory: Path,
    again: float | None = None,
    awake: bool = False,
) -> Ending:
    """Start a command, send it a signal, and look for leftovers in ``folder``, where its temporary files go."""
    variables, pipe = {**environment, MARKER: marker, "TMPDIR": str(folder)}, subprocess.PIPE
    with subprocess.Popen(
        command, cwd=directory, env=variables, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as process:
        # Not for ever: a command that fails earlier may be writing more than a pipe holds, which is read below.
        give_up = time.monotonic() + _START
        while awake and process.poll() is None and not _handles_signals(process.pid) and time.monotonic() < give_up:
            time.sleep(0.001)
        try:
            output, errors = process.communicate(timeout=seconds)
            sent, start = False, time.monotonic()
        except subprocess.TimeoutExpired:
            sent, start = True, time.monotonic()
            process.send_signal(number)
            if again is not None:
                time.sleep(again)
                process.send_signal(number)  # nothing happens if it has ended
            output, errors = process.communicate()
        took = time.monotonic() - start
    texts = output.decode(errors="replace"), errors.decode(errors="replace")
    return Ending(sent, process.returncode, *texts, took, tuple(leftovers(marker, folder)))


def _handles_signals(process: int) -> bool:
    """Whether the command handles or ignores SIGINT, SIGTERM and SIGHUP. Python itself catches the first one only."""
    try:
        lines = Path("/proc", str(process), "status").read_text().splitlines()
    except OSError:  # it has ended
        return False
    masks = dict(line.split(":", 1) for line in lines)
    told = int(masks["SigCgt"], 16) | int(masks["SigIgn"], 16)
    return all(told >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
