"""Boards: what is said about them, and what their platforms make of the design."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from amaranth.hdl import Fragment, Module, Value
from amaranth.lib import io, wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from openmxu.config import MxuConfig
from openmxu_boards import Board, boards, find_board, targets
from openmxu_boards.flow import _plan
from openmxu_boards.targets import SelfTestTop

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


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("icebreaker", ": 2x2 unit, bf16 in, stages=5, at 12 MHz"),
        ("ulx3s-12f", ": 2x2 unit, fp32 in, stages=6, at 25 MHz"),
    ],
)
def test_summary_says_what_runs_there(name: str, end: str) -> None:
    assert find_board(name).summary.endswith(end)


@each_board
def test_frequency_is_that_of_the_platform(board: Board) -> None:
    assert board.new_platform().default_clk_frequency == board.frequency


def test_missing_pin_tables() -> None:
    board = replace(find_board("icebreaker"), platform=("no_such_boards", "Platform"))
    with pytest.raises(OSError, match=r"^amaranth-boards is not .* pip install -e '\.\[boards\]'$"):
        board.new_platform()


@pytest.mark.slow
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


class Outputs(wiring.Component):
    """Those of a self-test, to be set."""

    pass_: Value
    fail: Value
    heartbeat: Value

    def __init__(self) -> None:
        super().__init__({"pass_": Out(1), "fail": Out(1), "heartbeat": Out(1)})

    def elaborate(self, platform: object) -> Module:
        return Module()


class Pins:
    """In place of a platform: ports, by the names of their resources."""

    def __init__(self) -> None:
        self.ports: dict[tuple[str, int], io.SimulationPort] = {}

    def request(self, name: str, number: int, *, dir: str) -> io.SimulationPort:  # noqa: A002  # Amaranth's name
        return self.ports.setdefault((name, number), io.SimulationPort("o", 1))


@pytest.mark.parametrize(
    ("name", "passed", "failed", "heartbeat"),
    [("icebreaker", ("led_g", 0), ("led_r", 0), None), ("ulx3s-12f", ("led", 0), ("led", 1), ("led", 2))],
)
def test_lights(
    name: str,
    passed: tuple[str, int],
    failed: tuple[str, int],
    heartbeat: tuple[str, int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What ``lights`` says of them; and they change a few times each second, as a round takes some 400 cycles."""
    board, pins, test = find_board(name), Pins(), Outputs()
    blinks: list[int] = []

    def selftest(config: MxuConfig, *, blink: int) -> Outputs:
        blinks.append(blink)
        return test

    monkeypatch.setattr(targets, "SelfTest", selftest)

    async def testbench(ctx: Any) -> None:
        for pass_, fail, beat in product((0, 1), repeat=3):
            for output, value in ((test.pass_, pass_), (test.fail, fail), (test.heartbeat, beat)):
                ctx.set(output, value)
            await ctx.delay(1e-6)
            expected = {passed: pass_ & beat if heartbeat is None else pass_, failed: fail}
            expected |= {} if heartbeat is None else {heartbeat: beat}
            assert {place: ctx.get(port.o) for place, port in pins.ports.items()} == expected

    simulator = Simulator(Fragment.get(SelfTestTop(board), pins))
    simulator.add_testbench(testbench)
    simulator.run()
    [blink] = blinks
    assert 1 <= board.frequency / (400 << blink) <= 8
