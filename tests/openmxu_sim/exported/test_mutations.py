"""How many mistakes of a single character in a unit's Verilog its exported bench finds."""

import re
import subprocess
from functools import partial
from pathlib import Path
from random import Random

import pytest

from openmxu_sim.exported import verilog
from openmxu_sim.exported.beats import make_beats

from .bare import FASTER, SMALL, export, make, needs

_WANTED, _LEAST = 44, 42
"""Mistakes that change anything, and how many of them must be found."""

_DRAWN = 70
_MORE = 10
"""How many times as many products are tried to see whether a mistake changes anything."""

_ASSIGNED = re.compile(r"^(  assign .* = |    (?:else )?.* <= )(.*);$", re.MULTILINE)
_OTHER = {"&": "|", "|": "&", "^": "|", "~": " ", "0": "1", "1": "0"}


def places(line: str) -> list[int]:
    """Where a character of an expression is an operator, or a digit of a constant, that may be another one."""
    digits = {place for found in re.finditer(r"'[bdh](\w+)", line) for place in range(*found.span(1))}
    return [place for place, each in enumerate(line) if each in "&|^~" or (each in "01" and place in digits)]


def change(text: str, count: int) -> str:
    """Verilog in which ``mxu_tb.mutant`` chooses one of so many mistakes, drawn from all lines, one a line; 0: none."""
    found = [(line, place) for line in _ASSIGNED.finditer(text) for place in places(line[2])]
    generator = Random(1)
    generator.shuffle(found)
    chosen: dict[int, int] = {}
    for line, place in found:
        if len(chosen) < count:
            chosen.setdefault(line.start(), place)
    numbers = {start: number for number, start in enumerate(chosen, start=1)}

    def write(line: re.Match[str]) -> str:
        if line.start() not in chosen:
            return line[0]
        right, place = line[2], chosen[line.start()]
        wrong = f"{right[:place]}{_OTHER[right[place]]}{right[place + 1 :]}"
        return f"{line[1]}(mxu_tb.mutant == {numbers[line.start()]}) ? ({wrong}) : ({right});"

    return _ASSIGNED.sub(write, text)


def build(where: Path) -> Path:
    """A program in which ``+mutant=NUMBER`` chooses a mistake of the unit, and 0 none."""
    export(where, f"{SMALL} --status")
    design, bench = where / "mxu.v", where / "mxu_tb.v"
    design.write_text(change(design.read_text(), _DRAWN))
    declared = 'integer mutant;\n  initial if (!$value$plusargs("mutant=%d", mutant)) mutant = 0;\n  integer cycle = 0;'
    bench.write_text(bench.read_text().replace("integer cycle = 0;", declared))
    done = make(where, "obj_dir/mxu_tb", f"FLAGS={FASTER}")
    assert done.returncode == 0, done.stdout
    return where / "obj_dir" / "mxu_tb"


def finds(program: Path, mutant: int) -> bool:
    """Whether the bench finds a mistake."""
    done = subprocess.run(
        [program, f"+mutant={mutant}"], cwd=program.parents[1], capture_output=True, text=True, check=False, timeout=60
    )
    [verdict] = re.findall(r"^(PASS|FAIL): ", done.stdout, re.MULTILINE)
    return bool(verdict == "FAIL")


def test_mistakes_are_made() -> None:
    """Of operators and constants, one a line, the same each time."""
    text = "  assign a = b & ~c;\n  assign d = 4'h10;\n  wire x;\n    e <= f[1] ^ 1'h0;\n"
    changed = change(text, 3)
    assert changed == change(text, 3)
    assert changed.count("mxu_tb.mutant") == 3
    wrongs = {*re.findall(r"\? \((.*?)\) :", changed)}
    assert wrongs <= {"b | ~c", "b &  c", "4'h00", "4'h11", "f[1] | 1'h0", "f[1] ^ 1'h1"}
    assert len(wrongs) == 3
    assert "wire x;" in changed


@pytest.mark.slow
@pytest.mark.thorough
def test_mistakes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 44 that change anything, 42 at least: results in ten times as many beats, by another seed, say which do."""
    needs("verilator")
    program = build(tmp_path / "exported")
    monkeypatch.setattr(verilog, "make_beats", partial(make_beats, seed=7, share=_MORE))
    judge = build(tmp_path / "judge")
    assert not finds(program, 0)
    assert not finds(judge, 0)
    missed: list[int] = []
    changes = 0
    for mutant in range(1, _DRAWN + 1):
        found = finds(program, mutant)
        if found or finds(judge, mutant):
            changes += 1
            missed += [] if found else [mutant]
        if changes == _WANTED:
            break
    assert changes == _WANTED
    assert len(missed) <= _WANTED - _LEAST, missed
