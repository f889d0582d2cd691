"""Commands that a signal ends at a random moment: nothing is left, and the next command has the right result."""

import os
import signal
import sys
import uuid
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from openmxu.yosys import yowasp
from openmxu_studies.faults import HANG, LEFTOVER, LOST, SURVIVED, WRONG
from openmxu_studies.faults.leftovers import Ending, end_at
from openmxu_studies.faults.products import Product

_MATMUL = "matmul A.npy B.npy --rows 2 --columns 2 -o out/C.npy --stats out/stats.json --engine"
_COMMANDS = {
    f"{_MATMUL} compiled --vcd out/wave.vcd": 2.5,
    f"{_MATMUL} pysim --vcd out/wave.vcd": 1.5,
    f"{_MATMUL} golden": 0.6,
    f"{_MATMUL} model": 5.0,
    f"{_MATMUL} verilator": 8.0,
    "verilog mxu --rows 3 --columns 3 -o out/mxu.v": 1.5,
    "area --format e3f2 --target generic -o area": 5.0,
    "verify --only converter": 8.0,
    "board build icebreaker -o board": 20.0,
    "demo -o demo": 10.0,
}
"""Commands, and the seconds within which the signal comes."""

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OLD = b"what stood there before"
_LATE = 10.0
"""Most seconds to the end on a machine that does other things, too. On an idle one it takes one."""


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """End a command by a signal; then sometimes multiply with its leftovers in the cache."""
    for ignored in _SIGNALS[1:]:  # as under nohup: the command would ignore them, too
        if signal.getsignal(ignored) == signal.SIG_IGN:
            signal.signal(ignored, signal.SIG_DFL)
    random = Random(f"kills {seed}")
    command, number = random.choice([*_COMMANDS]), random.choice(_SIGNALS)
    seconds, product = random.random() * _COMMANDS[command], Product(random)
    outputs = {word for word in command.split() if word.startswith("out/")}
    for name in ("tmp", "cache", "work/out"):
        (folder / name).mkdir(parents=True)
    work = folder / "work"
    np.save(work / "A.npy", product.a)
    np.save(work / "B.npy", product.b)
    for output in outputs:
        (work / output).write_bytes(_OLD)
    ending = _end(folder, command, seconds, number)
    text = f"{command}, {number.name} after {seconds:.2f} s: {ending}"
    fate = _judge(ending, work, outputs, killed=number == signal.SIGKILL)
    if fate == SURVIVED and command.startswith("matmul") and random.random() < 0.5:
        after = _end(folder, f"{command} --subnormals {product.mode}", 300.0, signal.SIGKILL)
        if after.code != 0:
            return LOST, f"{text}, then {after}"
        return (SURVIVED if np.load(work / "out/C.npy").tobytes() == product.right else WRONG), text
    return fate, text


def _end(folder: Path, command: str, seconds: float, number: signal.Signals) -> Ending:
    caches = {"XDG_CACHE_HOME": str(folder / "cache"), "YOWASP_CACHE_DIR": str(yowasp.folder())}
    words = [sys.executable, "-m", "openmxu", *command.split()]
    places: dict[str, Any] = {"folder": folder / "tmp", "directory": folder / "work"}
    return end_at(seconds, number, words, marker=uuid.uuid4().hex, environment=os.environ | caches, **places)


def _judge(ending: Ending, work: Path, outputs: set[str], *, killed: bool) -> str:
    """The outcome of a command, by its leftovers, its end and its outputs; after SIGKILL hidden files may stay."""
    there = {f"out/{path.name}" for path in (work / "out").iterdir()}
    if there - {name for name in there if killed and name.startswith("out/.openmxu-")} != outputs:
        return LEFTOVER
    if ending.left and not (killed and ending.sent):
        return LEFTOVER
    if ending.sent and ending.seconds > _LATE:
        return HANG
    halves = any(not (work / output).read_bytes() for output in outputs)
    return LOST if "Traceback" in ending.errors or (ending.sent and ending.code and halves) else SURVIVED
