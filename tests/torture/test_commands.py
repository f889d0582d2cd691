"""Random command lines, made from the parser itself: each ends in time, with a result or a line, and leaves nothing."""

import argparse
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from openmxu.cli.frame import make_parser
from openmxu_sim.operands.npy import to_npy, to_npz
from openmxu_studies.faults.leftovers import Ending, end_at

from .readers import READERS

_LIMIT = 10.0
"""Seconds after which a command is terminated; it ends within as many, on a machine with other work."""

_LINES = 4
"""Command lines for each command, in a round."""

_BOUNDS = ("prlimit", f"--as={12 << 30}", f"--fsize={1 << 30}")
"""The most memory and the largest file of a command."""

_INTEGERS = (
    "2",
    "4",
    "1",
    "3",
    "8",
    "0",
    "-1",
    "1.5",
    "nan",
    "",
    "1e3",
    "1000000",
    "9" * 30,
    "\u0663",
    "0x10",
    " 4",
    "abc",
)
_NUMBERS = ("0.5", "1", "0", "-1", "nan", "inf", "-inf", "1e-300", "1e300", "", "0,5", "abc")
_WORDS = (
    *("bf16", "fp8_e4m3", "e8f13", "e0f1", "bf16/stochastic", "mxfp4", "fp8_e4m3/row", "none", "ieee", "axi", "golden"),
    *(
        "model",
        "pysim",
        "minimal",
        "all",
        "area",
        "generic",
        "icebreaker",
        "tang-nano-9k",
        "64K",
        "1T",
        "A=1",
        "=",
        "::",
    ),
    *(
        "0:4",
        "4:0",
        "tcp://127.0.0.1:1",
        "os:getcwd",
        "no:such",
        "",
        " ",
        "a b",
        "\x1b[31m",
        "<b>",
        "\u00fc\n",
        "x" * 5000,
        "-",
    ),
)
_INPUTS = (
    "A.npy",
    "B.npy",
    "x.npz",
    "model.onnx",
    "model.mxa",
    "layers.csv",
    "layers.json",
    "v.v",
    "list.f",
    "cells.lib",
)
_ODD = ("empty", "junk", "folder", "loop", "nosuch", ".", "", "/dev/null", "/dev/full", "x" * 300, "\x1b\n")
_ENDLESS = ("/dev/zero", "/proc/self/mem")
_OUTPUTS = ("out.npy", "out.npz", "out", "no/out", "out.svg", "out.html", "/dev/stdout")
_DESIGNS = ("product", "multiplier", "pe", "mxu", "mxu_2x2", "accelerator", "nope", "")


def _leaves(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands of a parser that have none below."""
    below = next((each for each in parser._actions if isinstance(each, argparse._SubParsersAction)), None)
    if below is None or not below.required:
        yield " ".join(words), parser
    for name, inner in below.choices.items() if below else ():
        yield from _leaves(inner, *words, name)


COMMANDS = dict(_leaves(make_parser()))


def _value(action: argparse.Action, random: Random) -> str:
    """A word for an argument, by its type; a good one half of the time."""
    name, kind = action.metavar or "", getattr(action.type, "__name__", "")
    if action.choices and random.random() < 0.8:
        return str(random.choice([*action.choices]))
    if action.type is Path:
        likely = (
            _OUTPUTS
            if action.dest.startswith(("output", "json", "plot", "stats", "vcd", "core", "template"))
            else _INPUTS
        )
        named = [each for each in _INPUTS if each == str(name).lower() or each == name]
        return random.choice(named or likely if random.random() < 0.7 else (*likely, *_ODD, "A.npy", *_ENDLESS))
    if kind in ("integer", "number", "float"):
        words = _INTEGERS if kind == "integer" else _NUMBERS
        return random.choice(words[:5] if random.random() < 0.5 else words)
    return random.choice(_DESIGNS if action.dest == "design" else _WORDS)


def _arguments(parser: argparse.ArgumentParser, random: Random) -> list[str]:
    """Arguments, of which any may be wrong or missing."""
    words = []
    options = [each for each in parser._actions if each.option_strings and each.dest != "help"]
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        if random.random() > (
            0.95 if action.required else 0.6 if action not in options else min(0.4, 2.5 / len(options))
        ):
            continue
        option = action.option_strings[-1:]
        if action.nargs == 0:
            words += option
        else:
            value = _value(action, random)
            words += [f"{option[0]}={value}"] if option and value.startswith("-") else [*option, value]
    return [*words, random.choice(("--bogus", "extra", "--", "-h"))] if random.random() < 0.05 else words


def _fill(folder: Path) -> None:
    """The files of _INPUTS and _ODD."""
    matrix = np.arange(64, dtype=np.float32).reshape(8, 8)
    contents = {"A.npy": to_npy(matrix), "B.npy": to_npy(matrix), "empty": b"", "junk": Random(1).randbytes(400)}
    contents |= {"x.npz": to_npz({"x": matrix[:4, :4].reshape(1, 1, 4, 4), "activations": matrix, "weights": matrix})}
    contents |= {"v.v": b"module v(input a, output b); assign b = ~a; endmodule\n", "list.f": b"v.v\n"}
    rows = {"model.onnx": "onnx", "model.mxa": "mxa", "layers.csv": "layers.csv", "layers.json": "layers.json"}
    for file, row in {**rows, "cells.lib": "liberty"}.items():
        if not READERS[row].absent():
            contents[file] = READERS[row].seeds()[0]
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")


def _state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _problems(ending: Ending, before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """What a command must not do."""
    complaints = [line for line in ending.errors.splitlines() if line.startswith("openmxu")]
    failed = ending.code != 0 and not ending.sent
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    checks = {
        "a traceback": "Traceback" in ending.errors + ending.output or "Exception ignored" in ending.errors,
        "a warning of Python": "Warning: " in ending.errors,
        "more than printable lines": not all(line.isprintable() for line in ending.errors.splitlines()),
        f"exit code {ending.code}": (not ending.sent and ending.code not in (0, 1, 2)) or ending.code < 0,
        f"{len(complaints)} complaints": failed and len(complaints) != 1 and ending.code == 2,
        "an exit code without a word": failed and not ending.errors + ending.output,
        f"{ending.seconds:.1f} s to its end": ending.sent and ending.seconds > _LIMIT,
        f"left {ending.left}": bool(ending.left),
        f"changed {changed}": failed and ending.code == 2 and bool(changed),
        "half of a file": any(".part" in name for name in after),
    }
    return [what for what, wrong in checks.items() if wrong]


@pytest.mark.torture
@pytest.mark.parametrize("words", COMMANDS)
def test_random_command_lines(words: str, seed: str, rounds: int, tmp_path: Path) -> None:
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "YoWASP"
    (tmp_path / "cache").mkdir()
    if kept.is_dir():
        (tmp_path / "cache" / "YoWASP").symlink_to(kept)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    failures = []
    for number in range(rounds * _LINES):
        random = Random(f"{words} {seed} {number}")
        arguments = [word.replace("\0", "") for word in _arguments(COMMANDS[words], random)]
        work, scratch = tmp_path / f"work{number}", tmp_path / f"tmp{number}"
        work.mkdir(), scratch.mkdir()
        _fill(work)
        before = _state(work)
        command = [*_BOUNDS, sys.executable, "-m", "openmxu", *words.split(), *arguments]
        how: Any = {"marker": uuid.uuid4().hex, "folder": scratch, "directory": work, "environment": environment}
        ending = end_at(_LIMIT, signal.SIGTERM, command, awake=True, **how)
        if problems := _problems(ending, before, _state(work)):
            failures.append(
                f"{number}: openmxu {words} {arguments!r:.500}: {'; '.join(problems)}\n{ending.errors[-800:]}"
            )
    assert not failures, "\n".join(failures)
