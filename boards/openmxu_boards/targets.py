"""The boards, and what connects a design with their pins."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import io

from openmxu.config import MxuConfig
from openmxu.formats import BF16
from openmxu_boards.selftest import SelfTest
from openmxu_boards.soc.machine import Buffers
from openmxu_boards.soc.system import UartSoc
from openmxu_boards.tools import missing

__all__ = ["BOARDS", "Board", "SelfTestTop", "boards", "find_board"]


@dataclass(frozen=True)
class Board:
    """A board, and the unit that fits its device.

    Parameters
    ----------
    name
        What commands call it.
    title, device
        What its maker calls it, and the device on it.
    frequency
        Frequency of the design's clock in Hz: the board's oscillator.
    config
        The unit.
    platform
        Module and class of its pin table in amaranth-boards.
    leds
        Pin resources of the lights ``pass``, ``fail`` and ``heartbeat``. Where there is none for the
        heartbeat, ``pass`` blinks instead.
    lights
        What these show, for people.
    bitstream
        Extension of the file that is loaded.
    programmer
        The command that loads it, without the file.
    overrides
        Options of the platform's tools.
    buffers, counters, baud
        Of the system that answers a host: sizes of its buffers, whether the unit's counters fit, and the bits per
        second of its UART.
    """

    name: str
    title: str
    device: str
    frequency: int
    config: MxuConfig
    platform: tuple[str, str]
    leds: Mapping[str, tuple[str, int]]
    lights: str
    bitstream: str
    programmer: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    buffers: Buffers = field(default_factory=Buffers)
    counters: bool = True
    baud: int = 1_000_000

    @property
    def summary(self) -> str:
        """One line for people."""
        config = self.config
        return (
            f"{self.title} ({self.device}): {config.rows}x{config.columns} unit, {config.source} in, "
            f"stages={config.stages}, at {self.frequency / 1e6:g} MHz"
        )

    def new_system(self) -> UartSoc:
        """What answers a host on this board; one build or simulation uses it up."""
        return UartSoc(self.config, self.buffers, clock=self.frequency, baud=self.baud, counters=self.counters)

    def new_platform(self) -> Any:
        """A new platform object; one build uses it up.

        Raises
        ------
        OSError
            amaranth-boards is not installed.
        """
        module, name = self.platform
        try:
            return getattr(importlib.import_module(module), name)()
        except ModuleNotFoundError:
            raise missing("amaranth-boards") from None


BOARDS: dict[str, Board] = {
    board.name: board
    for board in (
        # Operands come as bf16: that leaves a fifth of the device free.
        Board(
            "icebreaker",
            "iCEBreaker",
            "iCE40UP5K",
            12_000_000,
            MxuConfig(rows=2, columns=2, stages=5, source=BF16, depth=16),
            platform=("amaranth_boards.icebreaker", "ICEBreakerPlatform"),
            leds={"pass": ("led_g", 0), "fail": ("led_r", 0)},
            lights="green blinks while all results are right, red stays on after a wrong one",
            bitstream="bin",
            programmer="iceprog",
            overrides={
                "synth_opts": "-dsp -device u",
                # The unit never reads a place of its accumulator bank in the cycle in which it is written (that
                # is what config.row_latency is for), but Amaranth has no way to say so: without this, Yosys adds
                # bypasses of 75 LUTs and 206 flip-flops.
                "script_after_read": "setparam -set COLLISION_X_MASK 1'1 */r:TRANSPARENCY_MASK=1'0",
            },
            buffers=Buffers(weights=256, activations=1024, results=256),
            counters=False,  # they do not fit beside the rest
        ),
        Board(
            "ulx3s-12f",
            "ULX3S",
            "LFE5U-12F",
            25_000_000,
            MxuConfig(rows=2, columns=2, stages=6, depth=16),
            platform=("amaranth_boards.ulx3s", "ULX3S_12F_Platform"),
            leds={"pass": ("led", 0), "fail": ("led", 1), "heartbeat": ("led", 2)},
            lights="LED 0 is on while all results are right, 1 stays on after a wrong one, 2 blinks",
            bitstream="bit",
            programmer="openFPGALoader --board ulx3s",
            buffers=Buffers(weights=1024, activations=4096, results=1024),
        ),
    )
}
"""The boards by name."""


def boards() -> tuple[Board, ...]:
    """All boards."""
    return tuple(BOARDS.values())


def find_board(name: str) -> Board:
    """The board called ``name``.

    Raises
    ------
    ValueError
        There is none.
    """
    if name not in BOARDS:
        raise ValueError(f"board must be one of {', '.join(BOARDS)}, not {name!r}")
    return BOARDS[name]


class SelfTestTop(Elaboratable):
    """The self-test with a board's lights on its outputs.

    Parameters
    ----------
    board
        Where it will run; it is elaborated for that board's platform.
    """

    def __init__(self, board: Board) -> None:
        self.board = board

    def elaborate(self, platform: Any) -> Module:
        """Clock and power-on reset are the platform's."""
        m = Module()
        # A round takes some 400 cycles; this makes the light change about twice a second.
        blink = (self.board.frequency // 400 // 2).bit_length() - 1
        m.submodules.selftest = test = SelfTest(self.board.config, blink=blink)
        lights = {"pass": test.pass_, "fail": test.fail, "heartbeat": test.heartbeat}
        if "heartbeat" not in self.board.leds:
            lights["pass"] = test.pass_ & test.heartbeat
        for name, (resource, number) in self.board.leds.items():
            pin = io.Buffer("o", platform.request(resource, number, dir="-"))
            m.submodules[f"led_{name}"] = pin
            m.d.comb += pin.o.eq(lights[name])
        return m
