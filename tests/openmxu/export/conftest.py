"""Helpers for tests of exported files."""

import json
from collections import Counter
from pathlib import Path

from openmxu import yosys

from ...conftest import ran
from ...linters import lint

SMALL = {"rows": 2, "columns": 1, "depth": 4}


def lint_text(text: str, top: str, folder: Path) -> None:
    """No tool has anything to say of the text as a file."""
    path = folder / f"{top}.v"
    path.write_text(text)
    lint(path, top)


def cells(verilog: str, script: str, *, read: str = "read_verilog /job/design.il") -> Counter[str]:
    """How many cells of each type Yosys has after a script."""
    said = yosys.produce(f"{read}\n{script}\ntee -q -o /job/result stat -json", verilog)
    return Counter(json.loads(said)["design"]["num_cells_by_type"])


def analyse(vhdl: str, folder: Path) -> str:
    """What GHDL says of the text, which it takes as VHDL-93."""
    (folder / "it.vhd").write_text(vhdl)
    done = ran(["ghdl", "-a", "--std=93", "it.vhd"], cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
