"""Commands that a signal ends at a random moment: nothing is left, and the next command has the right result."""

import os
import signal
import sys
import uuid
from pathlib import Path
from random import Random

import numpy as np

from openmxu.yosys import yowasp
from openmxu_sim.cosim.simulators import find_simulator
from openmxu_studies.faults import HANG, LEFTOVER, LOST, SURVIVED, WRONG
from openmxu_studies.faults.leftovers import Ending, end_at
from openmxu_studies.faults.products import Product

_MATMUL = "matmul A.npy B.npy --rows 2 --columns 2 -o out/C.npy --stats out/stats.json"
_COMMANDS = {
    "compiled": (f"{_MATMUL} --engine compiled --vcd out/wave.vcd", 2.5),
    "pysim": (f"{_MATMUL} --engine pysim --vcd out/wave.vcd", 1.5),
    "golden": (f"{_MATMUL} --engine golden", 0.6),
    "model": (f"{_MATMUL} --engine model", 5.0),
    "icarus": (f"{_MATMUL} --engine icarus --vcd out/wave.vcd", 4.0),
    "verilator": (f"{_MATMUL} --engine verilator", 8.0),
    "verilog": ("verilog mxu --rows 3 --columns 3 -o out/mxu.v", 1.5),
    "wave": ("wave --rows 3 --columns 3 -o out/wave.svg", 2.5),
    "area": ("area --format e3f2 --target generic -o area", 5.0),
    "verify": ("verify --only converter", 8.0),
    "accuracy": ("accuracy --json out/accuracy.json", 8.0),
    "roofline": ("roofline --json out/roofline.json", 1.0),
    "bench": ("bench --quick --json out/speed.json", 10.0),
    "board": ("board build icebreaker -o board", 20.0),
    "demo": ("demo -o demo", 10.0),
    "list": ("list", 1.5),
}
"""Arguments, and the seconds within which the signal comes."""

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OLD = "what stood there before"
_LATE = 10.0
"""Most seconds to the end on a machine that does other things, too. On an idle one it takes one."""


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """End a command by a signal; sometimes multiply with its leftovers in the cache."""
    _hear_signals()
    random = Random(f"kills {seed}")
    names = [name for name in _COMMANDS if name not in ("icarus", "verilator") or find_simulator(name)]
    name, number = random.choice(names), random.choice(_SIGNALS)
    arguments, longest = _COMMANDS[name]
    seconds = random.random() * longest
    product = Product(random)
    outputs = {word for word in arguments.split() if word.startswith("out/")}
    work = _prepare(folder, product, outputs)
    ending = _end(folder, arguments.split(), seconds, number)
    text = f"{name}, {number.name} after {seconds:.2f} s: {ending}"
    fate = _judge(ending, work, outputs)
    if fate != SURVIVED:
        return fate, text
    if name in ("compiled", "pysim", "golden", "model", "icarus", "verilator") and random.random() < 0.5:
        after = _end(folder, [*arguments.split(), "--subnormals", product.mode], 300.0, signal.SIGKILL)
        if after.code != 0:
            return LOST, f"{text}, then {after}"
        if np.load(work / "out" / "C.npy").tobytes() != product.right:
            return WRONG, text
    return SURVIVED, text


def _hear_signals() -> None:
    """Restore signals that are ignored, as under nohup: the command would ignore them, too."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ignored) == signal.SIG_IGN:
            signal.signal(ignored, signal.SIG_DFL)


def _prepare(folder: Path, product: Product, outputs: set[str]) -> Path:
    """Make the folder that a command runs in, with its matrices, and old files in place of its outputs."""
    for name in ("tmp", "cache", "work/out"):
        (folder / name).mkdir(parents=True)
    work = folder / "work"
    np.save(work / "A.npy", product.a)
    np.save(work / "B.npy", product.b)
    for output in outputs:
        (work / output).write_text(_OLD)
    return work


def _end(folder: Path, arguments: list[str], seconds: float, number: signal.Signals) -> Ending:
    """Run a command and end it."""
    return end_at(
        seconds,
        number,
        [sys.executable, "-m", "openmxu", *arguments],
        marker=uuid.uuid4().hex,
        folder=folder / "tmp",
        environment=os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "YOWASP_CACHE_DIR": str(yowasp.folder())},
        directory=folder / "work",
    )


def _judge(ending: Ending, work: Path, outputs: set[str]) -> str:
    """Return the outcome of a command, by its leftovers, its end and its outputs."""
    if ending.left or {f"out/{path.name}" for path in (work / "out").iterdir()} != outputs:
        return LEFTOVER
    if ending.sent and ending.seconds > _LATE:
        return HANG
    if "Traceback" in ending.errors:
        return LOST
    if ending.sent and ending.code and any((work / output).read_bytes() == b"" for output in outputs):
        return LOST
    return SURVIVED
