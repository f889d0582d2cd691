"""The tools that make a bitstream: YoWASP's, which come from PyPI and run wherever Python does.

They are WebAssembly and see the directory that they run in, whatever its absolute path is; so everything
here uses names relative to it.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from openmxu import process
from openmxu.synth import yowasp

__all__ = ["LOG_LINES", "check", "missing", "run", "versions"]

LOG_LINES = 6
"""Last lines of a tool's messages that its failure shows."""

_LIMIT = 7200.0
"""Seconds after which a tool is ended. Each takes a minute or two."""


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
        if not yowasp.is_installed(name):
            raise missing(yowasp.package(name))


def versions(names: Sequence[str]) -> dict[str, str]:
    """Package and version of each tool, and of what describes hardware and boards for them."""
    packages = {"amaranth", "amaranth-boards", *map(yowasp.package, names)}
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
        It failed, and the text ends with its last messages; or it took too long.
    OSError
        It cannot be compiled.
    """
    name, *arguments = command
    yowasp.prepare(name, lambda: tell(f"{name} is compiled for this machine: once only, up to a minute"))
    log = work / f"{name}.messages"
    done = process.run([*yowasp.command(name), *arguments], what=name, limit=_LIMIT, directory=work, log=log)
    if done.code:
        messages = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = "\n".join(messages[-LOG_LINES:])
        raise RuntimeError(f"{name} failed with exit code {done.code}:\n{last}")
