"""What an exported bench plays: everything that a unit must cope with is among it."""

from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import Part
from openmxu_sim.cosim.words import unpack
from openmxu_sim.exported.beats import Beats, make_beats
from openmxu_sim.exported.text import write_beats

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


def test_operands_and_results_of_all_sorts() -> None:
    beats = make_beats(_UNIT)
    for stream, lanes in ((beats.weights, 3), (beats.activations, 2)):
        assert _sorts(unpack(stream, 32, lanes)) == {"NaN", "inf", "tiny", "0", "normal"}
    assert _sorts(unpack(beats.results, 32, 3)) == {"NaN", "inf", "0", "normal"}
    assert "tiny" in _sorts(unpack(make_beats(MxuConfig(rows=2, columns=3, subnormals="ieee")).results, 32, 3))


def test_all_marks_and_more_rows_than_the_bank_has() -> None:
    beats = make_beats(_UNIT)
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
