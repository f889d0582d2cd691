"""Boards: what is said about them, and what their platforms make of the design."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Fragment, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu_boards import Board, boards, find_board, own_board, with_options
from openmxu_boards.bitstream.flow import _plan
from openmxu_boards.devices.families import family_of

each_board = pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)


NAMES = [
    "icebreaker",
    "ulx3s-12f",
    "ulx3s-25f",
    "ulx3s-45f",
    "ulx3s-85f",
    "orangecrab",
    "colorlight-i5",
    "tang-nano-9k",
    "tang-nano-20k",
    "gatemate-a1-evb",
]


def test_boards() -> None:
    assert [board.name for board in boards()] == NAMES
    assert [board.name for board in boards() if board.quick] == ["icebreaker", "ulx3s-12f", "tang-nano-9k"]


def test_unknown_board() -> None:
    with pytest.raises(ValueError, match=rf"^board must be one of {', '.join(NAMES)}, not 'icebraker'$"):
        find_board("icebraker")


def test_a_board_of_several_variants() -> None:
    variants = "ulx3s-12f, ulx3s-25f, ulx3s-45f, ulx3s-85f"
    with pytest.raises(ValueError, match=rf"^board must be one of {variants}, not 'ulx3s'$"):
        find_board("ulx3s")


@each_board
def test_summary_is_one_line_that_names_the_device(board: Board) -> None:
    assert board.device in board.summary
    assert "\n" not in board.summary


def test_summary_says_what_runs_there() -> None:
    board = with_options(find_board("ulx3s-25f"), rows=4, columns=3, stages=7, clock=62.5)
    assert board.summary == "ULX3S (LFE5U-25F): 4x3 unit, bf16 in, stages=7, at 62.5 MHz"


@each_board
def test_the_clock_can_be_made(board: Board) -> None:
    """Exactly, as all boards' are by now; by the oscillator or by the PLL of the family."""
    platform = board.new_platform()
    assert board.clock(platform) == board.frequency
    pll = board.pll(platform)
    if pll is None:
        assert platform.default_clk_frequency == board.frequency
    else:
        assert isinstance(pll, family_of(platform).pll)
        assert pll.source == platform.default_clk_frequency
        Fragment.get(pll, platform)


@each_board
def test_lights_and_uart_are_pins_of_the_platform(board: Board) -> None:
    platform = board.new_platform()
    for name, number, *part in board.leds.values():
        resource = platform.lookup(name, number)
        assert not part or part[0] in {each.name for each in resource.ios}
    assert board.uart is not None
    directions = {each.name: each.ios[0].dir for each in platform.lookup(*board.uart).ios}
    assert (directions["rx"], directions["tx"]) == ("i", "o")


def test_missing_pin_tables() -> None:
    board = replace(find_board("icebreaker"), platform=("no_such_boards", "Platform"))
    with pytest.raises(OSError, match=r"^amaranth-boards is not .* pip install 'openmxu\[boards\]'$"):
        board.new_platform()


@pytest.mark.slow
@each_board
def test_plan_is_the_same_every_time(board: Board) -> None:
    assert _plan(board) == _plan(board)


PINS: dict[str, tuple[str, list[str]]] = {
    "icebreaker": (
        "selftest.pcf",
        ["set_io led_g_0__io 37", "set_io led_r_0__io 11", "set_io clk12_0__io 35", "set_frequency clk12_0__io 12.0"],
    ),
    "ulx3s-12f": (
        "selftest.lpf",
        [
            'LOCATE COMP "led_0__io" SITE "B2";',
            'LOCATE COMP "led_1__io" SITE "C2";',
            'LOCATE COMP "led_2__io" SITE "C1";',
            'LOCATE COMP "clk25_0__io" SITE "G2";',
            'FREQUENCY PORT "clk25_0__io" 25000000.0 HZ;',
        ],
    ),
    "orangecrab": ("selftest.lpf", ['LOCATE COMP "rgb_led_0__g__io" SITE "M3";', 'LOCATE COMP "clk_0__io" SITE "A9";']),
    "colorlight-i5": ("selftest.lpf", ['LOCATE COMP "led_0__io" SITE "U16";', 'LOCATE COMP "clk25_0__io" SITE "P3";']),
    "tang-nano-9k": ("selftest.cst", ['IO_LOC "led_0__io" 10;', 'IO_LOC "clk27_0__io" 52;']),
    "tang-nano-20k": ("selftest.cst", ['IO_LOC "led_0__io" 15;', 'IO_LOC "clk27_0__io" 4;']),
    "gatemate-a1-evb": (
        "selftest.ccf",
        ['Net "led_0__io" Loc = "IO_SB_B6";', 'Net "clk10_0__io" Loc = "IO_SB_A8" | SCHMITT_TRIGGER=true;'],
    ),
}


@pytest.mark.parametrize("name", PINS)
def test_pins_and_clock(name: str) -> None:
    file, lines = PINS[name]
    plan = _plan(find_board(name))
    text = plan.files[file]
    assert isinstance(text, str)
    assert set(lines) <= {line.strip() for line in text.splitlines()}
    wanted = plan.placement[plan.placement.index("--freq") + 1]
    assert float(wanted) * 1e6 == plan.frequency == find_board(name).frequency


@pytest.mark.parametrize(
    ("name", "part", "chip"),
    [("tang-nano-9k", "GW1NR-LV9QN88PC6/I5", "GW1N-9C"), ("tang-nano-20k", "GW2AR-LV18QN88C8/I7", "GW2A-18C")],
)
def test_gowin_calls_the_tools_of_today(name: str, part: str, chip: str) -> None:
    plan = _plan(find_board(name))
    assert plan.synthesis[0] == "yosys"
    assert plan.placement[0] == "nextpnr-himbaechel-gowin"
    assert plan.placement[plan.placement.index("--device") + 1] == part
    assert {f"family={chip}", "cst=selftest.cst"} <= set(plan.placement)
    [pack] = plan.packing
    assert pack[:3] == ["gowin_pack", "-d", chip]
    script = str(plan.files["selftest.ys"])
    assert script.rstrip().endswith("write_json selftest.syn.json")
    assert script.count("selftest.syn.json") == 1


def test_gatemate_on_its_oscillator() -> None:
    """In reset until configuration has ended."""
    plan = _plan(with_options(find_board("gatemate-a1-evb"), clock=10))
    text = str(plan.files["selftest.il"])
    assert "cell \\CC_USR_RSTN" in text
    assert "CC_PLL" not in text
    assert plan.packing == [["gmpack", "selftest.config", "selftest.bit"]]


class Echo(wiring.Component):
    """A design that has a UART."""

    rx: Value
    tx: Value

    def __init__(self) -> None:
        super().__init__({"rx": In(1), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.tx.eq(self.rx)
        return m


UARTS = {
    "icebreaker": ("set_io uart_0__rx__io 6", "set_io uart_0__tx__io 9"),
    "ulx3s-85f": ('LOCATE COMP "uart_0__rx__io" SITE "M1";', 'LOCATE COMP "uart_0__tx__io" SITE "L4";'),
    "orangecrab": ('LOCATE COMP "uart_0__rx__io" SITE "N17";', 'LOCATE COMP "uart_0__tx__io" SITE "M18";'),
    "colorlight-i5": ('LOCATE COMP "uart_0__rx__io" SITE "H18";', 'LOCATE COMP "uart_0__tx__io" SITE "J17";'),
    "tang-nano-9k": ('IO_LOC "uart_0__rx__io" 18;', 'IO_LOC "uart_0__tx__io" 17;'),
    "tang-nano-20k": ('IO_LOC "uart_0__rx__io" 70;', 'IO_LOC "uart_0__tx__io" 69;'),
    "gatemate-a1-evb": ('Net "uart_0__rx__io" Loc = "IO_SA_A6";', 'Net "uart_0__tx__io" Loc = "IO_SA_B6";'),
}


@pytest.mark.parametrize("name", UARTS)
def test_pins_of_the_uart(name: str) -> None:
    """And the frequency that the design gets is the clock's."""
    given: list[int] = []

    def make(config: MxuConfig, frequency: int) -> Echo:
        given.append(frequency)
        return Echo()

    board = with_options(find_board(name), clock=30.1)
    plan = _plan(board, make, "echo")
    lines = {line.strip() for each in plan.files.values() for line in str(each).splitlines()}
    assert set(UARTS[name]) <= lines
    assert given == [plan.frequency] == [board.clock(board.new_platform())]
    assert plan.frequency == pytest.approx(30.1e6, rel=0.02)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"rows": 0}, ValueError, "rows must be an integer from 1 to 65536, not 0"),
        ({"stages": 99}, ValueError, None),
        ({"clock": 0}, ValueError, "clock must be more than 0 and at most 1000 MHz, not 0"),
        ({"clock": float("nan")}, ValueError, "clock must be more than 0 and at most 1000 MHz, not nan"),
    ],
)
def test_options_that_are_wrong(options: dict[str, float], error: type[Exception], text: str | None) -> None:
    with pytest.raises(error) as caught:
        with_options(find_board("icebreaker"), **options)  # type: ignore[arg-type]
    assert text in (None, str(caught.value))


def test_another_unit_and_clock() -> None:
    board = with_options(find_board("ulx3s-85f"), rows=3, columns=5, stages=4, clock=33.3)
    assert (board.config.rows, board.config.columns, board.config.stages) == (3, 5, 4)
    assert board.frequency == 33_300_000
    assert with_options(board) == board


def test_a_slower_clock() -> None:
    """The highest that the design would meet."""
    board = find_board("icebreaker")
    assert board.slower(board.new_platform(), 30.3e6) == 30
    assert board.slower(board.new_platform(), 15.9e6) == 12, "below 16 MHz there is only the oscillator"
    assert board.slower(board.new_platform(), 11.9e6) is None


MINE = """
from amaranth.build import *
from amaranth.vendor import LatticeECP5Platform

class Mine(LatticeECP5Platform):
    device, package, speed, default_clk = "LFE5U-25F", "BG256", "6", "clk"
    resources = [
        Resource("clk", 0, Pins("P6", dir="i"), Clock(25e6), Attrs(IO_TYPE="LVCMOS33")),
        Resource("led", 0, PinsN("T6", dir="o"), Attrs(IO_TYPE="LVCMOS33")),
    ]
    connectors = []

class Clockless(Mine):
    default_clk = None
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "my_boards.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_boards:Mine"
    monkeypatch.delitem(__import__("sys").modules, "my_boards", raising=False)


def test_a_board_of_ones_own(mine: str) -> None:
    board = own_board(mine)
    assert (board.name, board.title, board.device, board.frequency) == (mine, "Mine", "LFE5U-25F", 25_000_000)
    assert (board.leds, board.uart) == ({"pass": ("led", 0)}, None)
    text = _plan(board).files["selftest.lpf"]
    assert 'LOCATE COMP "led_0__io" SITE "T6";' in str(text)


@pytest.mark.parametrize(
    ("platform", "leds", "uart"),
    [
        ("amaranth_boards.icestick:ICEStickPlatform", ["pass", "fail", "heartbeat"], True),
        ("amaranth_boards.orangecrab_r0_2:OrangeCrabR0_2Platform", ["pass", "fail", "heartbeat"], False),
        ("amaranth_boards.tang_nano_9k:TangNano9kPlatform", ["pass", "fail", "heartbeat"], True),
    ],
)
def test_boards_of_amaranth_boards(platform: str, leds: list[str], uart: bool) -> None:
    board = own_board(platform)
    assert list(board.leds) == leds
    assert (board.uart is not None) == uart
    family_of(board.new_platform())


@pytest.mark.parametrize(
    ("platform", "text"),
    [
        ("no_such:Mine", "platform must be MODULE:CLASS of a platform, not 'no_such:Mine': No module named 'no_such'"),
        ("nothing", "platform must be MODULE:CLASS of a platform, not 'nothing': No module named 'nothing'"),
        ("", "platform must be MODULE:CLASS of a platform, not '': Empty module name"),
        (
            "my_boards:Clockless",
            "platform must be MODULE:CLASS of a platform, not 'my_boards:Clockless': "
            "Platform 'Clockless' does not define a default clock",
        ),
        (
            "amaranth_boards.arty_a7:ArtyA7_35Platform",
            "platform must be for one of iCE40, ECP5, Gowin, GateMate, not ArtyA7_35Platform",
        ),
    ],
)
def test_no_board_of_ones_own(platform: str, text: str, mine: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below
        own_board(platform)
    assert str(caught.value) == text


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_the_netlist_after_routing_is_written_once(board: Board) -> None:
    """It is what drawings are made of."""
    plan = _plan(board)
    assert plan.placement.count("--write") == 1
    assert plan.routed in plan.placement
