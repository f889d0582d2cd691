"""The top level of a design on a board: clock and reset, lights, and a UART if the design has one."""

from collections.abc import Callable
from functools import cache
from typing import Any

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, ResetSignal, Value
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In

from openmxu.spec.config import MxuConfig
from openmxu_boards.devices.boards import Board
from openmxu_boards.families.pll import Pll, add_clock
from openmxu_boards.selftest import SelfTest

Design = Callable[[MxuConfig, int], Any]
"""A function that makes a design: a component, from a unit and the clock's frequency in Hz.

These members of the component are connected, as far as it has them: ``pass_``, ``fail`` and ``heartbeat``, Out(1), to
lights; ``rx``, In(1), and ``tx``, Out(1), to the board's UART. It has no others, and one clock domain, ``sync``.
"""


def selftest(config: MxuConfig, frequency: int) -> SelfTest:
    """The design that fits every board: see :class:`~openmxu_boards.selftest.SelfTest`."""
    return SelfTest(config, blink=blink_at(frequency))


def blink_at(frequency: int) -> int:
    """The ``blink`` for a light that changes about twice a second: a self-test's round takes a 2x2 unit 400 cycles."""
    return (frequency // 400 // 2).bit_length() - 1


def check_uart(design: Any, board: Board) -> None:
    """Raise :exc:`ValueError` if a design has a UART and the board has none."""
    if {"rx", "tx"} & set(design.signature.members) and board.uart is None:
        raise ValueError(f"board must have a UART for this design, and {board.name} has none")


class Top(Elaboratable):
    """A design between the pins of a board; it is elaborated for that board's platform.

    ::

        oscillator ─▶ [PLL] ─▶ sync ─▶ design ─▶ pass_, fail, heartbeat ─▶ lights
                                       │    ▲
                              tx pin ◀─┘    └── rx pin

    Where the clock is the oscillator's, clock and power-on reset are the platform's.
    """

    def __init__(self, design: Any, board: Board, pll: type[Pll] = Pll) -> None:
        self.design, self.board, self.pll = design, board, pll
        check_uart(design, board)

    def elaborate(self, platform: Any) -> Module:
        """Ports of one resource are requested together."""
        m = Module()
        source = round(platform.default_clk_frequency)
        if source != self.board.frequency:
            add_clock(m, self.pll(platform.request(platform.default_clk, dir="-"), source, self.board.frequency))
        m.submodules.design = self.design

        @cache
        def request(name: str, number: int) -> Any:
            return platform.request(name, number, dir="-")

        def find(name: str, number: int, part: str | None = None) -> Any:
            return request(name, number) if part is None else getattr(request(name, number), part)

        lights = _lights(self.design, set(self.board.leds))
        for name, place in self.board.leds.items():
            m.submodules[f"led_{name}"] = led = io.Buffer("o", find(*place))
            m.d.comb += led.o.eq(lights[name])
        if self.board.uart is not None:
            members = self.design.signature.members
            if "rx" in members:
                m.submodules.rx = rx = io.Buffer("i", find(*self.board.uart, "rx"))
                m.d.comb += self.design.rx.eq(rx.i)
            if "tx" in members:
                m.submodules.tx = tx = io.Buffer("o", find(*self.board.uart, "tx"))
                m.d.comb += tx.o.eq(self.design.tx)
        return m


def _lights(design: Any, names: set[str]) -> dict[str, Value]:
    """The signals for the lights of a board.

    Without a light for ``heartbeat``, that for ``pass`` blinks instead; a single light stays on after an error.
    """
    has = design.signature.members
    passed, failed, beat = (
        getattr(design, name) if name in has else Const(0) for name in ("pass_", "fail", "heartbeat")
    )
    if "heartbeat" not in names:
        passed = passed & beat if "pass_" in has else beat
        if "fail" not in names:
            passed = passed | failed
    return {"pass": passed, "fail": failed, "heartbeat": beat}


class Emitted(wiring.Component):
    """An instance of a design's module, in place of the design itself: with clock and reset if it is ``clocked``."""

    def __init__(self, design: Any, module: str, *, clocked: bool = True) -> None:
        self._module = module
        self._clocked = clocked
        super().__init__(design.signature)

    def elaborate(self, platform: object) -> Instance:
        """The module with its clock and reset."""
        ports: dict[str, Value] = {}
        if self._clocked:
            ports |= {"i_clk": ClockSignal(), "i_rst": ResetSignal(allow_reset_less=True)}
        for path, member, value in self.signature.flatten(self):
            ports[("i_" if member.flow == In else "o_") + "__".join(map(str, path))] = Value.cast(value)
        return Instance(self._module, **ports)
