"""Every call that may fail fails once, in turn: a command has its whole result, or says in a line why it has none."""

import os
import signal
import subprocess
import sys
import uuid
from errno import EIO, EMFILE, ENOMEM, ENOSPC
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from openmxu.runtime.native import find_compiler
from openmxu_sim.operands.npy import to_npy, to_npz
from openmxu_studies.faults.leftovers import Ending, end_at

from ..conftest import needs_compiler
from .readers import READERS
from .test_commands import COMMANDS

_LIMIT = 120.0
"""Seconds after which a command hangs."""

_CALLS = 12
"""Calls that fail of each command line, in a round; it makes thousands."""

KINDS = (
    *(
        "write",
        "short write",
        "read",
        "open",
        "close",
        "fsync",
        "rename",
        "mkdir",
        "posix_fallocate",
        "ftruncate",
        "flock",
    ),
    *("fchmod", "mmap", "fork", "execve", "pthread_create", "dlopen", "malloc"),
)
"""As in ``fail.c``."""

_FAULTS = {
    "matmul": (
        "A.npy B.npy -o C.npy --engine model",
        "A.npy B.npy -o C.npy --vcd w.vcd --engine compiled --rows 2 --columns 2",
    ),
    "verilog": ("pe -o C.v --template C.vo",),
    "compile": ("model.onnx --rows 2 --columns 2 -o m.mxa",),
    "run": ("model.mxa --input x.npz --simulate -o Y.npz",),
    "infer": ("model.onnx --input x.npz -o out",),
    "roofline": ("--rows 4 --plot r.svg",),
    "wave": ("--rows 2 --columns 2 -o w.svg",),
    "area": ("--target generic --format e4f3 --part multiplier -o out",),
}
"""Command lines whose calls fail."""

_UNTRIED = {"takes minutes, or has no output": "accuracy bench demo layout verify study board cache list completion"}
"""Commands without such lines, and why."""


def test_each_command_is_tried_or_it_is_known_why_not() -> None:
    named = [*_FAULTS, *" ".join(_UNTRIED.values()).split()]
    assert sorted({words.split()[0] for words in COMMANDS}) == sorted(named)


class Trials:
    """A command with its result when nothing fails, and how often it makes each call."""

    def __init__(self, words: str, folder: Path) -> None:
        self._words, self._folder, self._number = words, folder, 0
        self._library = folder / "fail.so"
        source = Path(__file__).with_name("fail.c")
        subprocess.run(
            [*find_compiler(), "-shared", "-fPIC", "-O1", str(source), "-o", str(self._library), "-ldl"], check=True
        )
        self.cache = folder / "warm"
        self.cache.mkdir()
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "YoWASP"
        if kept.is_dir():
            (self.cache / "YoWASP").symlink_to(kept)
        self.expected: dict[str, bytes] = {}
        for _ in range(2):  # the second one finds the cache full
            ending, self.expected, calls = self.run(-1, 0, 0)
            assert ending.code == 0, ending.errors
            self.counts = calls[4:]

    def run(self, kind: int, number: int, error: int) -> tuple[Ending, dict[str, bytes], list[int]]:
        """How the command ends, its outputs, and the plan afterwards."""
        self._number += 1
        place = self._folder / f"trial{self._number}"
        work, scratch = place / "work", place / "tmp"
        for each in (work, scratch):
            each.mkdir(parents=True)
        _fill(work)
        before = {path.name for path in work.iterdir()}
        plan = np.zeros(4 + len(KINDS), np.int64)
        plan[:3] = kind, number, error
        plan.tofile(place / "plan")
        variables = {
            "GIT_DIR": os.devnull,  # headers have the commit, unless the call that fails is git's
            "LD_PRELOAD": str(self._library),
            "FAIL_PLAN": str(place / "plan"),
            "FAIL_BELOW": str(self._folder),
        }
        variables |= {"XDG_CACHE_HOME": str(self.cache), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "openmxu", *self._words.split()]
        how: Any = {
            "marker": uuid.uuid4().hex,
            "folder": scratch,
            "directory": work,
            "environment": os.environ | variables,
        }
        ending = end_at(_LIMIT, signal.SIGKILL, command, **how)
        outputs = {str(path.relative_to(work)): path.read_bytes() for path in work.rglob("*") if path.is_file()}
        made = {name: content for name, content in outputs.items() if name not in before}
        return ending, made, np.fromfile(place / "plan", np.int64).tolist()

    def problems(self, ending: Ending, outputs: dict[str, bytes], *, failed: bool) -> list[str]:
        """What a command must not do, with a call that has failed or without."""
        complaints = [line for line in ending.errors.splitlines() if line.startswith("openmxu")]
        others = [name for name, content in outputs.items() if self._differs(name, content)]
        left = list(ending.left)
        checks = {
            "it hangs": ending.sent,
            "a traceback": "Traceback" in ending.errors or "Exception ignored" in ending.errors,
            f"exit code {ending.code}": ending.code not in ((0, 1, 2) if failed else (0,)),
            f"{len(complaints)} complaints": ending.code in (1, 2) and len(complaints) != 1,
            f"outputs {sorted(outputs)}": ending.code == 0 and outputs.keys() != self.expected.keys(),
            f"other contents of {others}": bool(others),
            f"left {left}": bool(left),
        }
        return [what for what, wrong in checks.items() if wrong]

    def _differs(self, name: str, content: bytes) -> bool:
        """Whether an output is not the expected one; reports say how long it took, so their sizes are alike."""
        expected = self.expected.get(name)
        exact = Path(name).suffix in (".npy", ".npz", ".mxa", ".v", ".vo")
        return expected is None or (content != expected if exact else abs(len(content) - len(expected)) > 200)


def _fill(folder: Path) -> None:
    matrix = np.arange(64, dtype=np.float32).reshape(8, 8)
    contents = {
        "A.npy": to_npy(matrix),
        "B.npy": to_npy(matrix),
        "x.npz": to_npz({"x": matrix[:4, :4].reshape(1, 1, 4, 4)}),
    }
    for file, row in {"model.onnx": "onnx", "model.mxa": "mxa"}.items():
        if not READERS[row].absent():
            contents[file] = READERS[row].seeds()[0]
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def _trial(trials: Trials, kind: int, number: int, error: int) -> str:
    """What a command does of a failing call that it must not; empty if it does nothing such."""
    ending, outputs, plan = trials.run(kind, number, error)
    problems = trials.problems(ending, outputs, failed=bool(plan[3]))
    what = f"{KINDS[kind]} {number} of {trials.counts[kind]} fails ({os.strerror(error)})"
    return f"{what}: {'; '.join(problems)}\n{ending.errors[-800:]}" if problems else ""


@pytest.mark.torture
@needs_compiler
@pytest.mark.parametrize("words", [f"{name} {words}" for name, lines in _FAULTS.items() for words in lines])
def test_calls_that_fail(words: str, seed: str, rounds: int, tmp_path: Path) -> None:
    """Some of all calls, which the seed decides."""
    if any(file in words for file in (".onnx", ".mxa")) and READERS["onnx"].absent():
        pytest.skip("onnxruntime is not installed")
    trials, random, failures = Trials(words, tmp_path), Random(f"{words} {seed}"), []
    calls = [(kind, number) for kind, count in enumerate(trials.counts) for number in range(1, count + 1)]
    random.shuffle(calls)
    for kind, number in calls[: rounds * _CALLS]:
        error = ENOMEM if KINDS[kind] in ("malloc", "mmap") else random.choice((EIO, ENOSPC, EMFILE))
        failures += [each] if (each := _trial(trials, kind, number, error)) else []
    assert not failures, f"openmxu {words}, " + "\n".join(failures)
