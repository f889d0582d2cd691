"""A command that is interrupted leaves nothing, shows no traceback, and says so by its exit code."""

import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu_studies.faults.leftovers import end_at

from .conftest import need

MATMUL = "matmul A.npy B.npy --rows 4 --columns 4 -o out/C.npy --stats out/stats.json"
COMMANDS = {
    **{each: f"{MATMUL} --engine {each} --vcd out/wave.vcd" for each in ("pysim", "icarus", "verilator", "compiled")},
    "model": f"{MATMUL} --engine model",
    "verilog": "verilog mxu --rows 8 --columns 8 -o out/mxu.v",
    "area": "area --quick -o area",
    "verify": "verify --only converter",
    "board": "board build icebreaker -o board",
    "bench": "bench --quick --json out/speed.json",
    "demo": "demo -o demo",
    "help": "--help",
}
ENDINGS = {
    signal.SIGINT: (130, "interrupted\n"),
    signal.SIGTERM: (143, "terminated\n"),
    signal.SIGHUP: (129, "hung up\n"),
    signal.SIGKILL: (-9, ""),
}
OUTPUTS = {"C.npy", "stats.json", "wave.vcd", "mxu.v", "speed.json"}
OLD = b"what stood there before"


def check(name: str, number: signal.Signals, seconds: float, folder: Path, again: float | None = None) -> None:
    """Run a command with folders of its own, end it after so many seconds of its work, and look at what is left."""
    for each in ("tmp", "cache", "work/out"):
        (folder / each).mkdir(parents=True)
    work = folder / "work"
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "YoWASP"
    if kept.is_dir():  # compiled once, not in each test
        (folder / "cache" / "YoWASP").symlink_to(kept)
    for matrix, seed in (("A", 0), ("B", 1)):
        np.save(work / f"{matrix}.npy", np.random.default_rng(seed).standard_normal((64, 64), dtype=np.float32))
    for file in OUTPUTS:
        (work / "out" / file).write_bytes(OLD)
    command = [sys.executable, "-m", "openmxu", *COMMANDS[name].split()]
    how: dict[str, Any] = {"marker": uuid.uuid4().hex, "folder": folder / "tmp", "directory": work, "again": again}
    variables = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    ending = end_at(seconds, number, command, environment=variables, awake=True, **how)
    shown = f"{name}, {number.name} after {seconds} s: {ending}"
    assert "Traceback" not in ending.errors, shown
    killed = number == signal.SIGKILL and ending.sent  # then folders and hidden files may stay
    assert killed or ending.left == (), shown
    files = [path for path in (work / "out").iterdir() if not (killed and path.name.startswith(".openmxu-"))]
    assert {path.name for path in files} == OUTPUTS, shown
    if ending.sent and ending.code != 0:
        assert ending.seconds < 5, shown  # one, on a machine with nothing else to do
        code, word = ENDINGS[number]
        assert ending.code == code, shown
        assert ending.errors.endswith(word), shown
        for path in files:
            content, end = path.read_bytes(), {".npy": b"", ".json": b"}\n", ".vcd": b"\n", ".v": b"*/\n"}[path.suffix]
            finished = len(content) > 100 and content.endswith(end)
            assert content == OLD or finished, f"{path.name}: {shown}"


@pytest.mark.parametrize(
    ("name", "number", "seconds", "again"),
    [
        *(("help", signal.SIGINT, 0.02, None), ("pysim", signal.SIGTERM, 1.5, None)),
        *(("verilog", signal.SIGKILL, 1.2, None), ("pysim", signal.SIGINT, 1.0, 0.005)),
    ],
)
def test_quick(name: str, number: signal.Signals, seconds: float, again: float | None, tmp_path: Path) -> None:
    check(name, number, seconds, tmp_path, again)


@pytest.mark.slow
@pytest.mark.parametrize("number", list(ENDINGS), ids=lambda number: number.name)
@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_command(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """Early and late, each signal at another moment; ``make faults`` draws more."""
    if name in ("icarus", "verilator"):
        need(name)
    moments = (0.3, 1.0, 2.0, 4.0)
    check(name, number, moments[([*COMMANDS].index(name) + [*ENDINGS].index(number)) % len(moments)], tmp_path)
