"""Comparison bit for bit, and what is said about a difference."""

import itertools
from typing import Any

import numpy as np
import pytest

from openmxu_sim.cosim.scoreboard import Scoreboard, check
from openmxu_sim.cosim.words import pack, unpack

MINUS = r"got 80000000 \(-0.0\), expected 00000000 \(0.0\)"
ROWS = np.array([[0x3F80, 0x8000], [0x7FC0, 1]], dtype=np.uint32)


def test_words() -> None:
    assert pack(ROWS, 16) == [0x80003F80, 0x00017FC0]
    np.testing.assert_array_equal(unpack([0x780003F80, 0x17FC0], 16, 2), ROWS)
    assert unpack([], 16, 2).shape == (0, 2)


def scoreboard() -> Scoreboard:
    board = Scoreboard("results", "fp32", lanes=2, operand="bf16", seed=7)
    board.expect(1 << 64 | 0x3F800000 << 32, [[0x3F80], [0x7FC0, 0x0001]])
    return board


@pytest.mark.parametrize(
    ("beat", "message"),
    [
        (1 << 64 | 0x3F800000_80000000, rf"^results: beat 0, lane 0: {MINUS}, operands 3F80 \(1.0\), cycle 5, seed 7$"),
        (1 << 64 | 0x3F800001 << 32, r"lane 1: got 3F800001 .*operands 7FC0 \(nan\), 0001 \(9.18"),
        (0x3F800000 << 32, "marks 0, expected 1, cycle 5, seed 7"),
    ],
    ids=["minus zero is not zero", "lane", "marks"],
)
def test_differences(beat: int, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        scoreboard().receive(beat, 5)


def test_equal_beats_pass_and_others_are_not_expected() -> None:
    board, forgetful = scoreboard(), scoreboard()
    board.receive(1 << 64 | 0x3F800000 << 32, 5)
    assert (board.pending, board.received) == (0, 1)
    forgetful.forget()
    for each in (board, forgetful):
        with pytest.raises(AssertionError, match="0x7b came and nothing was expected, cycle 5, seed 7"):
            each.receive(123, 5)


def test_check() -> None:
    words = np.arange(4, dtype=np.uint32)
    details: dict[str, Any] = {"fmt": "fp16", "operands": [words + 16], "operand": "", "seed": 3}
    check("o", words, words, cycles=range(4), **details)
    text = r"got 0000 \(0.0\), expected 0001 \(5.9\S+\), operands 11, cycle 101, seed 3"
    with pytest.raises(AssertionError, match=f"^o: 2 of 4 differ, first number 1: {text}$"):
        check("o", np.array([0, 0, 2, 2], dtype=np.uint32), words, cycles=range(100, 104), **details)
    with pytest.raises(ValueError, match="must have one dimension"):
        check("o", words, words[:3], cycles=range(4), **details)


def test_pauses_repeat_and_vary() -> None:
    stream = pytest.importorskip("openmxu_sim.cosim.stream")  # needs cocotb
    first, again, other = (list(itertools.islice(stream.random_pauses(seed), 2000)) for seed in (1, 1, 2))
    assert first == again != other
    assert 0.1 < sum(first) / 2000 < 0.7
    assert not any(itertools.islice(stream.no_pauses(), 100))
