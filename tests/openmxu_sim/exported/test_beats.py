"""What an exported bench plays: everything a unit must cope with is among it, and most mistakes are found."""

import re
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import Part
from openmxu_sim.cosim.words import unpack
from openmxu_sim.exported import verilog
from openmxu_sim.exported.beats import Beats, make_beats
from openmxu_sim.exported.text import write_beats

from ...conftest import ran
from .bare import FASTER, SMALL, export, make, needs

_UNIT = MxuConfig(rows=2, columns=3, depth=4)


def _marks(beats: Beats) -> list[dict[str, int]]:
    above = [beat >> beats.config.rows * beats.config.source.width for beat in beats.activations]
    return [{mark: each >> bit & 1 for bit, mark in enumerate(MARKS)} for each in above]


def _sorts(words: Any) -> set[str]:
    exponent, fraction = words >> 23 & 0xFF, words & 0x7F_FFFF
    sorts = np.select(
        [exponent == 0xFF, exponent == 0], [np.where(fraction, "NaN", "inf"), np.where(fraction, "tiny", "0")], "normal"
    )
    return set(sorts.flat)


def test_beats_of_all_sorts() -> None:
    beats = make_beats(_UNIT)
    for stream, lanes in ((beats.weights, 3), (beats.activations, 2)):
        assert _sorts(unpack(stream, 32, lanes)) == {"NaN", "inf", "tiny", "0", "normal"}
    assert _sorts(unpack(beats.results, 32, 3)) == {"NaN", "inf", "0", "normal"}
    assert "tiny" in _sorts(unpack(make_beats(MxuConfig(rows=2, columns=3, subnormals="ieee")).results, 32, 3))
    # All marks, and more rows than the bank has.
    marks = _marks(beats)
    tiles = [tuple(each[mark] for mark in TILE_MARKS) for each in marks if each["first"]]
    assert len({*tiles}) >= 12
    lengths = np.diff([number for number, each in enumerate(marks) if each["first"]])
    assert {1, 2, 3, 4} == {*lengths.tolist()}
    # The rules of streams: one that the unit would report.
    assert not any(each["add"] for each in marks[:1])
    assert sum(each["first"] for each in marks) == sum(each["last"] for each in marks)
    assert len(beats.weights) == 2 * sum(each["first"] and not each["keep"] for each in marks)
    assert len(beats.results) == sum(each["emit"] for each in marks) > 100
    emitted = [each["last"] for each in marks if each["emit"]]
    assert [beat >> 96 for beat in beats.results] == emitted


@pytest.mark.parametrize("splitter", [False, True])
def test_several_passes(splitter: bool) -> None:
    """A unit with splitters is asked for each part; one without gets parts, whose low bits are zero."""
    beats = make_beats(MxuConfig(rows=2, columns=3, splitter=splitter))
    parts = {beat >> 2 * 32 + len(MARKS) for beat in beats.activations}
    assert parts == ({*Part} if splitter else {0})
    assert any(each["clear_nan"] and each["add"] for each in _marks(beats))


@pytest.mark.parametrize(("rows", "columns", "terms", "depth"), [(4, 4, 4, 16), (8, 3, 2, 2), (8, 1, 8, 4)])
def test_one_infinite_term(rows: int, columns: int, terms: int, depth: int) -> None:
    """Each term of an element is infinite alone, of both signs, by a weight and by an activation."""
    beats = make_beats(MxuConfig(rows=rows, columns=columns, terms=terms, depth=depth), share=0)
    weights = unpack(beats.weights, 32, columns).reshape(-1, rows, columns)[:, ::-1]
    activations, tile, seen = unpack(beats.activations, 32, rows), -1, set()
    for words, marks in zip(activations, _marks(beats), strict=True):
        tile += marks["first"] and not marks["keep"]
        a, b = words[:, np.newaxis], weights[tile]
        infinite = [side & 0x7FFF_FFFF == 0x7F80_0000 for side in (a, b)]
        finite = [abs((side >> 23 & 0xFF) - 127.0) < 63 for side in (a, b)]
        for element in range(0, rows, terms):
            here = slice(element, element + terms)
            for side, other in ((0, 1), (1, 0)):
                alone = infinite[side] & finite[other]
                rest = alone | finite[0] & finite[1]
                for column in np.flatnonzero((alone[here].sum(0) == 1) & rest[here].all(0)):
                    term = int(np.argmax(alone[here, column]))
                    seen.add((side, term, int((a ^ b)[element + term, column] >> 31)))
    assert len(seen) == 4 * terms


def test_the_same_for_the_same_seed() -> None:
    one, again, other = (make_beats(_UNIT, seed) for seed in (1, 1, 2))
    assert (one.weights, one.activations, one.results) == (again.weights, again.activations, again.results)
    assert one.weights != other.weights


def test_files_hold_the_beats() -> None:
    """Bytes are not what beats consist of: the digits are as many as the widest beat needs."""
    fmt = FloatFormat.parse("e4f2", "operand")
    beats = make_beats(MxuConfig(rows=1, columns=1, depth=2, operand=fmt, source=fmt, result=fmt))
    streams = ((beats.weights, 8), (beats.activations, 13), (beats.results, 8))
    for text, (stream, width) in zip(write_beats(beats), streams, strict=True):
        head, *lines = text.splitlines()
        assert head.startswith(f"// {len(stream)} beats of {width} bits: ")
        assert [int(line, 16) for line in lines] == stream
        assert {len(line) for line in lines} == {-(-width // 4)}
        assert max(stream) < 1 << width


# How many mistakes of a single character in a unit's Verilog its exported bench finds


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
    make(where, "obj_dir/mxu_tb", f"FLAGS={FASTER}")
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
