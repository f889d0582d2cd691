"""How many mistakes of a single character in a unit's Verilog its exported bench finds."""

import re
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from openmxu_sim.exported import verilog
from openmxu_sim.exported.beats import make_beats

from ...conftest import ran
from .bare import FASTER, SMALL, export, make, needs

_WANTED, _LEAST = 44, 42
"""Mistakes that change anything, and how many of them must be found."""

_DRAWN = 70

_ASSIGNED = re.compile(r"^(  assign .* = |    (?:else )?.* <= )(.*);$", re.MULTILINE)
_OTHER = {"&": "|", "|": "&", "^": "|", "~": " ", "0": "1", "1": "0"}


def places(line: str) -> list[int]:
    """Where a character of an expression is an operator, or a digit of a constant, that may be another one."""
    digits = {place for found in re.finditer(r"'[bdh](\w+)", line) for place in range(*found.span(1))}
    return [place for place, each in enumerate(line) if each in "&|^~" or (each in "01" and place in digits)]


def change(text: str, count: int) -> str:
    """Verilog in which ``mxu_tb.mutant`` chooses one of so many mistakes, drawn from all lines, one a line; 0: none."""
    found = [(line.start(), place) for line in _ASSIGNED.finditer(text) for place in places(line[2])]
    Random(1).shuffle(found)
    first = dict(reversed(found))  # the first place of each line
    order = list(dict.fromkeys(start for start, _ in found))[:count]

    def write(line: re.Match[str]) -> str:
        if line.start() not in order:
            return line[0]
        right, place = line[2], first[line.start()]
        wrong = f"{right[:place]}{_OTHER[right[place]]}{right[place + 1 :]}"
        return f"{line[1]}(mxu_tb.mutant == {order.index(line.start()) + 1}) ? ({wrong}) : ({right});"

    return _ASSIGNED.sub(write, text)


def build(folder: Path) -> Path:
    """A program in which ``+mutant=NUMBER`` chooses a mistake of the unit, and 0 none."""
    where = export(folder, f"{SMALL} --status")
    design, bench = where / "mxu.v", where / "mxu_tb.v"
    design.write_text(change(design.read_text(), _DRAWN))
    declared = 'integer mutant;\n  initial if (!$value$plusargs("mutant=%d", mutant)) mutant = 0;\n  integer cycle = 0;'
    bench.write_text(bench.read_text().replace("integer cycle = 0;", declared))
    done = make(where, "obj_dir/mxu_tb", f"FLAGS={FASTER}")
    assert done.returncode == 0, done.stdout
    return where / "obj_dir" / "mxu_tb"


def finds(program: Path, mutant: int) -> bool:
    done = ran([program, f"+mutant={mutant}"], cwd=program.parents[1], timeout=60)
    [verdict] = re.findall(r"^(PASS|FAIL): ", done.stdout, re.MULTILINE)
    return bool(verdict == "FAIL")


@pytest.mark.slow
@pytest.mark.thorough
def test_mistakes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 44 that change anything, 42 at least: results in ten times as many beats, by another seed, say which do."""
    needs("verilator")
    program = build(tmp_path / "exported")
    monkeypatch.setattr(verilog, "make_beats", partial(make_beats, seed=7, share=10))
    judge = build(tmp_path / "judge")
    assert not finds(program, 0)
    assert not finds(judge, 0)
    found = ((mutant, finds(program, mutant)) for mutant in range(1, _DRAWN + 1))
    changes = list(islice((each for each in found if each[1] or finds(judge, each[0])), _WANTED))
    assert len(changes) == _WANTED
    assert sum(seen for _, seen in changes) >= _LEAST, changes
