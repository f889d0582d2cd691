"""Boards: what is said about them, and what their platforms make of the design."""

from dataclasses import replace
from typing import Any

import pytest

from openmxu_boards import Board, boards, find_board
from openmxu_boards.flow import _plan

each_board = pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)


def test_boards() -> None:
    assert [board.name for board in boards()] == ["icebreaker", "ulx3s-12f"]


def test_unknown_board() -> None:
    with pytest.raises(ValueError, match=r"^board must be one of icebreaker, ulx3s-12f, not 'icebraker'$"):
        find_board("icebraker")


@each_board
def test_summary_is_one_line_that_names_the_device(board: Board) -> None:
    assert board.device in board.summary
    assert "\n" not in board.summary


@each_board
def test_frequency_is_that_of_the_platform(board: Board) -> None:
    assert board.new_platform().default_clk_frequency == board.frequency


def test_missing_pin_tables() -> None:
    board = replace(find_board("icebreaker"), platform=("no_such_boards", "Platform"))
    with pytest.raises(OSError, match=r"^amaranth-boards is not .* pip install -e '\.\[boards\]'$"):
        board.new_platform()


@each_board
def test_plan_is_the_same_every_time(board: Board) -> None:
    assert _plan(board) == _plan(board)


@pytest.mark.parametrize(
    ("name", "file", "lines"),
    [
        (
            "icebreaker",
            "selftest.pcf",
            [
                "set_io led_g_0__io 37",
                "set_io led_r_0__io 11",
                "set_io clk12_0__io 35",
                "set_frequency clk12_0__io 12.0",
            ],
        ),
        (
            "ulx3s-12f",
            "selftest.lpf",
            [
                'LOCATE COMP "led_0__io" SITE "B2";',
                'LOCATE COMP "led_1__io" SITE "C2";',
                'LOCATE COMP "led_2__io" SITE "C1";',
                'LOCATE COMP "clk25_0__io" SITE "G2";',
                'FREQUENCY PORT "clk25_0__io" 25000000.0 HZ;',
            ],
        ),
    ],
)
def test_pins_and_clock(name: str, file: str, lines: list[str]) -> None:
    text: Any = _plan(find_board(name))[file]
    assert set(lines) <= set(text.splitlines())
