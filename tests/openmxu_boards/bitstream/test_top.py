# amaranth: UnusedElaboratable=no
# (designs that do not fit a board go unused)
"""What connects a design with a board's pins."""

from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Fragment, Module
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu_boards import Board, boards, find_board
from openmxu_boards.bitstream.top import Emitted, Top, blink_at

from ...clocked import clocked
from ..testbenches import Held

each_board = pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)


class Echo(wiring.Component):
    """A design that has a UART and no lights."""

    def __init__(self) -> None:
        super().__init__({"rx": In(1), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.tx.eq(~self.rx)
        return m


def echo(config: MxuConfig, frequency: int) -> Echo:
    """It in place of the self-test, whose unit takes most of the time of a plan."""
    return Echo()


class Pins:
    """In place of a platform: ports, by the names of their resources, on the board's own oscillator."""

    default_clk = "clk"

    def __init__(self, board: Board) -> None:
        self.default_clk_frequency = board.frequency
        self.groups = {(place[0], place[1]) for place in board.leds.values() if len(place) == 3}
        self.ports: dict[tuple[str | int, ...], io.SimulationPort] = {}

    def request(self, name: str, number: int, *, dir: str) -> Any:  # noqa: A002  # Amaranth's name
        assert dir == "-"
        parts = dict.fromkeys("rgb", "o") if (name, number) in self.groups else {}
        parts = {"rx": "i", "tx": "o"} if name == "uart" else parts
        ports = {part: io.SimulationPort(direction, 1) for part, direction in parts.items()}
        if ports:
            self.ports |= {(name, number, part): port for part, port in ports.items()}
            return SimpleNamespace(**ports)
        assert (name, number) not in self.ports, "each is requested once"
        return self.ports.setdefault((name, number), io.SimulationPort("o", 1))


def simulate(design: Any, board: Board, testbench: Any) -> Pins:
    pins = Pins(board)
    clocked(Fragment.get(Top(design, board), pins), partial(testbench, pins=pins))
    return pins


@each_board
def test_lights(board: Board) -> None:
    """Those of the self-test change a few times each second, as a round of a small unit takes some 400 cycles."""
    assert 1 <= board.frequency / (400 << blink_at(board.frequency)) <= 8
    test = Held({"pass_": Out(1), "fail": Out(1), "heartbeat": Out(1)})

    async def testbench(ctx: Any, pins: Pins) -> None:
        for pass_, fail, beat in product((0, 1), repeat=3):
            for output, value in ((test.pass_, pass_), (test.fail, fail), (test.heartbeat, beat)):
                ctx.set(output, value)
            await ctx.delay(1e-6)
            green = {1: pass_ & beat | fail, 2: pass_ & beat, 3: pass_}[len(board.leds)]
            expected = {"pass": green, "fail": fail, "heartbeat": beat}
            for light, place in board.leds.items():
                assert ctx.get(pins.ports[place].o) == expected[light], light

    simulate(test, board, testbench)


def test_a_uart() -> None:
    async def testbench(ctx: Any, pins: Pins) -> None:
        for level in (0, 1):
            ctx.set(pins.ports["uart", 0, "rx"].i, level)
            await ctx.delay(1e-6)
            assert ctx.get(pins.ports["uart", 0, "tx"].o) == 1 - level

    pins = simulate(Echo(), find_board("ulx3s-12f"), testbench)
    assert pins.ports.keys() >= {("led", 0), ("led", 1), ("led", 2)}, "lights that nothing sets are dark"


def test_an_emitted_design_has_the_ports_of_the_design() -> None:
    design = Emitted(Echo(), "module_elsewhere")
    m = Module()
    m.submodules.design = design
    text = rtlil.convert(m, ports=[design.rx, design.tx], emit_src=False)
    for line in (r"cell \module_elsewhere", r"connect \rx", r"connect \tx", r"connect \clk", r"connect \rst"):
        assert line in text
