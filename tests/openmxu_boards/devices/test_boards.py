"""Boards: what is said about them, and what their platforms make of the design."""

from unittest.mock import Mock

import pytest
from amaranth.hdl import Fragment
from amaranth_boards.tinyfpga_bx import TinyFPGABXPlatform

from openmxu_boards import Board, boards, find_board, own_board, with_options
from openmxu_boards.bitstream.plan import make_plan
from openmxu_boards.families import family_of

from ..bitstream.test_top import each_board, echo


def test_boards_and_another_unit_and_clock() -> None:
    assert [board.name for board in boards() if board.quick] == ["icebreaker", "ulx3s-12f", "tang-nano-9k"]
    board = with_options(find_board("ulx3s-25f"), rows=4, columns=3, stages=7, clock=62.5)
    assert (board.config.rows, board.config.columns, board.config.stages) == (4, 3, 7)
    assert board.frequency == 62_500_000
    assert with_options(board) == board
    assert board.summary == "ULX3S (LFE5U-25F): 4x3 unit, bf16 in, stages=7, at 62.5 MHz"


@each_board
def test_device_clock_lights_and_uart(board: Board) -> None:
    """A line names the device; lights and UART are pins of its platform, whose oscillator or PLL makes the clock."""
    assert board.device in board.summary
    assert "\n" not in board.summary
    platform = board.new_platform()
    family, source = family_of(platform), round(platform.default_clk_frequency)
    assert family.pll.made(source, board.frequency) == board.frequency
    if source != board.frequency:
        Fragment.get(family.pll(platform.request(platform.default_clk, dir="-"), source, board.frequency), platform)
    for name, number, *part in board.leds.values():
        resource = platform.lookup(name, number)
        assert not part or part[0] in {each.name for each in resource.ios}
    assert board.uart is not None
    directions = {each.name: each.ios[0].dir for each in platform.lookup(*board.uart).ios}
    assert (directions["rx"], directions["tx"]) == ("i", "o")


@pytest.mark.slow
@each_board
def test_plan_is_the_same_every_time(board: Board) -> None:
    assert make_plan(board) == make_plan(board)


LINES = {
    "pcf": "set_io {}__io {}",
    "lpf": 'LOCATE COMP "{}__io" SITE "{}";',
    "cst": 'IO_LOC "{}__io" {};',
    "ccf": 'Net "{}__io" Loc = "{}";',
}
"""What families call a pin in their files."""

PINS = {
    "icebreaker": ("pcf", "led_g_0=37 led_r_0=11 clk12_0=35", "6 9", "set_frequency clk12_0__io 12.0"),
    "ulx3s": ("lpf", "led_0=B2 led_1=C2 led_2=C1 clk25_0=G2", "M1 L4", 'FREQUENCY PORT "clk25_0__io" 25000000.0 HZ;'),
    "orangecrab": ("lpf", "rgb_led_0__g=M3 clk_0=A9", "N17 M18"),
    "colorlight": ("lpf", "led_0=U16 clk25_0=P3", "H18 J17"),
    "tang-nano-9k": ("cst", "led_0=10 clk27_0=52", "18 17"),
    "tang-nano-20k": ("cst", "led_0=15 clk27_0=4", "70 69"),
    "gatemate": (
        *("ccf", "led_0=IO_SB_B6", "IO_SA_A6 IO_SA_B6"),
        'Net "clk10_0__io" Loc = "IO_SB_A8" | SCHMITT_TRIGGER=true;',
    ),
}
"""The names of lights and clock, the two pins of the UART, and more lines; by how names of boards begin."""


@each_board
def test_pins_and_clock(board: Board) -> None:
    """The design gets the clock's frequency. The netlist after routing, of which drawings are made, is written once."""
    make = Mock(side_effect=echo)
    plan = make_plan(board, make, "echo")
    [(suffix, pins, uart, *more)] = [row for name, row in PINS.items() if board.name.startswith(name)]
    pins += " uart_0__rx={} uart_0__tx={}".format(*uart.split())
    lines = {line.strip() for line in str(plan.files[f"echo.{suffix}"]).splitlines()}
    assert {*more, *(LINES[suffix].format(*pin.split("=")) for pin in pins.split())} - lines == set()
    wanted = plan.placement[plan.placement.index("--freq") + 1]
    assert float(wanted) * 1e6 == plan.frequency == board.frequency
    assert plan.placement.count("--write") == 1
    assert plan.routed in plan.placement
    make.assert_called_once_with(board.config, plan.frequency)
    other = with_options(board, clock=30.1)
    plan = make_plan(other, make)
    make.assert_called_with(other.config, plan.frequency)
    assert plan.frequency == pytest.approx(30.1e6, rel=0.02)


@pytest.mark.parametrize(
    ("name", "part", "chip"),
    [("tang-nano-9k", "GW1NR-LV9QN88PC6/I5", "GW1N-9C"), ("tang-nano-20k", "GW2AR-LV18QN88C8/I7", "GW2A-18C")],
)
def test_gowin_calls_the_tools_of_today(name: str, part: str, chip: str) -> None:
    plan = make_plan(find_board(name), echo)
    assert (plan.synthesis[0], plan.placement[0]) == ("yosys", "nextpnr-himbaechel-gowin")
    assert plan.placement[plan.placement.index("--device") + 1] == part
    assert {f"family={chip}", "cst=selftest.cst"} <= set(plan.placement)
    assert [pack[:3] for pack in plan.packing] == [["gowin_pack", "-d", chip]]
    script = str(plan.files["selftest.ys"])
    assert script.rstrip().endswith("write_json selftest.syn.json")
    assert script.count("selftest.syn.json") == 1


def test_several_terms_are_added_in_pairs() -> None:
    """The form of the arithmetic that FPGAs take."""
    plan = make_plan(with_options(find_board("ulx3s-25f"), terms=4))
    assert any("\\pair_5_0" in str(text) for name, text in plan.files.items() if name.endswith(".il"))


def test_gatemate_on_its_oscillator() -> None:
    """In reset until configuration has ended."""
    plan = make_plan(with_options(find_board("gatemate-a1-evb"), clock=10))
    text = str(plan.files["selftest.il"])
    assert "cell \\CC_USR_RSTN" in text
    assert "CC_PLL" not in text
    assert plan.packing == [["gmpack", "selftest.config", "selftest.bit"]]


TINY = "amaranth_boards.tinyfpga_bx:TinyFPGABXPlatform"


def test_a_board_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one light, and without a UART; one without a clock is none."""
    board, title = own_board(TINY), "TinyFPGABXPlatform"
    assert (board.name, board.title, board.device, board.frequency) == (TINY, title, "iCE40LP8K", 16_000_000)
    assert (board.leds, board.uart) == ({"pass": ("led", 0)}, None)
    assert "set_io led_0__io B3" in str(make_plan(board).files["selftest.pcf"])
    monkeypatch.setattr(TinyFPGABXPlatform, "default_clk", None)
    text = f"not '{TINY}': Platform '{title}' does not define a default clock"
    with pytest.raises(ValueError, match=rf"^platform must be MODULE:CLASS of a platform, {text}$"):
        own_board(TINY)


@pytest.mark.parametrize(
    ("platform", "uart"),
    [
        ("amaranth_boards.icestick:ICEStickPlatform", True),
        ("amaranth_boards.orangecrab_r0_2:OrangeCrabR0_2Platform", False),
        ("amaranth_boards.tang_nano_9k:TangNano9kPlatform", True),
    ],
)
def test_boards_of_amaranth_boards(platform: str, uart: bool) -> None:
    board = own_board(platform)
    assert list(board.leds) == ["pass", "fail", "heartbeat"]
    assert (board.uart is not None) == uart
    family_of(board.new_platform())
