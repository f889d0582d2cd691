# amaranth: UnusedElaboratable=no
# (what is refused goes unused)
"""What boards and their commands refuse, and what they say then."""

import gc
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.catalog import EXPORTED
from openmxu.runtime.extras import install
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu.unit.pe import ProcessingElement
from openmxu.yosys import yowasp
from openmxu_boards import Program, SelfTest, boards, build, find_board, own_board, with_options
from openmxu_boards.bitstream.report import read_clocks
from openmxu_boards.bitstream.route import route
from openmxu_boards.bitstream.top import Top
from openmxu_boards.families.ecp5.ecp5_pll import Ecp5Pll
from openmxu_boards.families.ecp5.ecp5_reader import read_circuit
from openmxu_boards.families.gatemate.gatemate_pll import GateMatePll
from openmxu_boards.families.ice40.bitmap import read_bitmap
from openmxu_boards.families.ice40.ice40_pll import Ice40Pll
from openmxu_boards.replay import CircuitError
from openmxu_boards.selftest import RomSource
from openmxu_boards.soc import Buffers, Soc
from openmxu_boards.soc.machine import Machine
from openmxu_boards.soc.network_machine import NetworkMachine
from openmxu_boards.soc.uart import UartReceiver, UartTransmitter, divisor_of
from openmxu_sim import simulate

from ..conftest import Said
from .bitstream.test_top import Echo

FOMU = "amaranth_boards.fomu_hacker:FomuHackerPlatform"
NAMES = ", ".join(board.name for board in boards())
BOARD = "BOARD must be given, or --platform in its place, and not both"
ROWS = "rows must be left out with the design network"
NOWHERE = "port /dev/nowhere cannot be opened: No such file or directory"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            f"build --platform {FOMU} --rows 1 --columns 1",
            f"board must have a UART for this design, and {FOMU} has none",
        ),
        ("build ulx3s", "board must be one of ulx3s-12f, ulx3s-25f, ulx3s-45f, ulx3s-85f, not 'ulx3s'"),
        ("build icebreaker --clock 13.5", "clock must be 16 to 275 MHz by SB_PLL40, not 13.5 MHz"),
        ("build icebreaker --seeds 0", "seeds must be from 1 to 100, not 0"),
        ("build icebreaker --design blinky", "design must be system, network or selftest, not 'blinky'"),
        ("build icebreaker --design network", "board must have an accelerator, and icebreaker has none"),
        ("build ulx3s-25f --design network --rows 8", f"{ROWS}, whose accelerator is the board's"),
        ("build icebreaker --rows 0", "rows must be an integer from 1 to 65536, not 0"),
        ("build", BOARD),
        ("build icebreaker --platform a:B", BOARD),
        ("route pe --device vax", "device must be one of ecp5-25f, ecp5-85f, up5k, not 'vax'"),
        ("route pe --seeds 0", "seeds must be from 1 to 100, not 0"),
        ("route car", f"DESIGN must be one of {', '.join(EXPORTED)}, not 'car'"),
        ("route pe --rows 2", "pe has no parameter 'rows'; it has operand, subnormals, stages, terms, weight"),
        ("check icebreaker . --rounds 0", "rounds must be 1 or more, not 0"),
        ("check arty .", f"board must be one of {NAMES}, not 'arty'"),
        ("info --simulate arty", f"board must be one of {NAMES}, not 'arty'"),
        ("info --port /dev/nowhere", NOWHERE),
        ("info --simulate icebreaker --port x", "port must be left out with --simulate, not 'x'"),
        ("selftest --products 0 --port x", "products must be >= 1, not 0"),
        ("selftest --faults 9", "faults require --simulate"),
        ("selftest --faults 0 --simulate icebreaker", "faults must be >= 1, not 0"),
        ("run a.npy a.npy --port /dev/nowhere", NOWHERE),
    ],
)
def test_commands(words: str, message: str, monkeypatch: pytest.MonkeyPatch, refused: Said) -> None:
    """One line, exit code 2, and no file; no tool has been run."""
    monkeypatch.setattr(yowasp, "run", lambda *_: pytest.fail("a tool is run"))
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: None)
    np.save("a.npy", np.ones((2, 2), np.float32))
    action, output = words.split(maxsplit=1)[0], {"build": " -o out", "route": " --json out", "run": " -o out"}
    assert refused(f"board {words}{output.get(action, '')}") == f"openmxu board {action}: {message}\n"
    gc.collect()  # now, while warnings of what was made and went unused are errors


MHZ = 10**6
BEATS = "beats must be one or more integers of 8 bits, not"
PLATFORM = "platform must be MODULE:CLASS of a platform, not"
CLOCK = "clock must be more than 0 and at most 1000 MHz, not"
PORTS = "port must be a name, or a name, @ and a baud rate of at most 12000000, not"
NO_PORTS = ("x@fast", "x@0", "x@00", "x@99999999999999", "@9600")
BITMAP = "the unpacked bitstream has a line that is not understood"
NETLIST = "the routed netlist was not written by nextpnr"
NO_FIELDS = [("type", 1), ("attributes", [1]), ("parameters", {"A": 1}), ("connections", {"A": [None]})]
ARTY = "amaranth_boards.arty_a7:ArtyA7_35Platform"
ICE = find_board("icebreaker")
NO_PINS = replace(ICE, platform=("no_such_boards", "Platform"))
NO_UART = replace(ICE, uart=None)
UNIT = MxuConfig(rows=2, columns=2, source=BF16)


def netlist(**fields: object) -> str:
    cell = {"type": "TRELLIS_FF", "attributes": {}, "parameters": {}, "connections": {}} | fields
    return json.dumps({"modules": {"top": {"cells": {"c": cell}}}})


unit = partial(replace, UNIT)
machine = partial(Machine, buffers=Buffers())
sizes = partial(AcceleratorConfig, size=2)
selftest: Any = partial(SelfTest, UNIT, Program((0,), (0,), (0,)))
multiply = partial(simulate, np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
on_board = partial(multiply, engine="board")

MISTAKES: dict[type[Exception], list[tuple[Callable[[], object], str]]] = {
    ValueError: [
        (lambda: RomSource(8, ()), f"{BEATS} ()"),
        (lambda: RomSource(8, (1, 256)), f"{BEATS} 0x100"),
        (lambda: RomSource(8, (-1,)), f"{BEATS} -0x1"),
        (lambda: selftest(blink=-1), "blink must be an integer >= 0, not -1"),
        (lambda: selftest(patience=0), "patience must be an integer >= 1, not 0"),
        (lambda: Buffers(weights=3), "weights must be a power of two from 2 to 65536, not 3"),
        (lambda: Soc(UNIT, frame=100), "frame must be a power of two from 64 to 65536, not 100"),
        (lambda: Soc(unit(columns=32), frame=64), "frame must be more than 75 for beats of 64 bytes, not 64"),
        (lambda: machine(unit(depth=512)), "depth must be at most 256, as a tile's count has one byte, not 512"),
        (lambda: machine(MxuConfig(splitter=True)), "config must have no splitter, as the host splits"),
        (lambda: NetworkMachine(sizes(program=65536)), "program must be at most 65534 on a board, not 65536"),
        (lambda: NetworkMachine(sizes(weights=100)), "weights must be a power of two from 2 to 65536, not 100"),
        (lambda: Top(Echo(), NO_UART), "board must have a UART for this design, and icebreaker has none"),
        (lambda: divisor_of(12 * MHZ, 4 * MHZ), "baud must be at most 3000000 at 12000000 Hz, not 4000000"),
        (
            lambda: divisor_of(12 * MHZ, 2_500_000),
            "baud must be within 2 % of 12000000 Hz over an integer, such as 2400000, not 2500000",
        ),
        (lambda: UartReceiver(3), "divisor must be >= 4, not 3"),
        (lambda: UartTransmitter(3), "divisor must be >= 4, not 3"),
        (lambda: build("icebreaker", "none", seeds=[]), "seeds must be one or more, not none"),
        (lambda: route(ProcessingElement(), "up5k", []), "seeds must be one or more, not none"),
        (lambda: with_options(ICE, stages=99), "stages must be an integer from 1 to 7, not 99"),
        (lambda: with_options(ICE, clock=0), f"{CLOCK} 0"),
        (lambda: with_options(ICE, clock=float("nan")), f"{CLOCK} nan"),
        (lambda: own_board("no_such:Mine"), f"{PLATFORM} 'no_such:Mine': No module named 'no_such'"),
        (lambda: own_board("nothing"), f"{PLATFORM} 'nothing': No module named 'nothing'"),
        (lambda: own_board(""), f"{PLATFORM} '': Empty module name"),
        (lambda: own_board(ARTY), "platform must be for one of iCE40, ECP5, Gowin, GateMate, not ArtyA7_35Platform"),
        (lambda: Ice40Pll.choose(5 * MHZ, MHZ), "SB_PLL40 needs an oscillator of 10 to 133 MHz, not of 5 MHz"),
        (lambda: Ice40Pll.choose(12 * MHZ, 0), "clock must be a positive integer of Hz, not 0"),
        (
            lambda: GateMatePll.choose(50 * MHZ, 287 * MHZ),
            "clock must be what CC_PLL makes of 50 MHz, not 287 MHz; the nearest is 275 MHz",
        ),
        (lambda: GateMatePll.choose(10 * MHZ, 400 * MHZ), "clock must be 1 to 312.5 MHz by CC_PLL, not 400 MHz"),
        (lambda: Ecp5Pll.choose(450 * MHZ, MHZ), "EHXPLLL needs an oscillator of 8 to 400 MHz, not of 450 MHz"),
        *((partial(on_board, port=port), f"{PORTS} '{port}'") for port in NO_PORTS),
        (lambda: multiply(port="x"), "port requires engine 'board', not 'auto'"),
        (lambda: on_board(units=2), "units must be 1 on engine 'board', not 2"),
        (lambda: on_board(accumulate="bf16"), "accumulate must be 'fp32' on engine 'board', not 'bf16'"),
        (lambda: on_board(stalls=1), "stalls must be None on engine 'board', not 1"),
        (lambda: on_board(vcd="x.vcd"), "vcd must be None on engine 'board', not 'x.vcd'"),
    ],
    TypeError: [
        (lambda: RomSource(8, ("1",)), f"{BEATS} ('1',)"),  # type: ignore[arg-type]
        (lambda: selftest(blink=0.5), "blink must be an integer >= 0, not 0.5"),
        (lambda: selftest(patience=None), "patience must be an integer >= 1, not None"),
        (lambda: Ice40Pll.choose(12e6, MHZ), "source must be a positive integer of Hz, not 12000000.0"),  # type: ignore[arg-type]
    ],
    CircuitError: [
        *(
            (partial(read_circuit, text, "G2"), NETLIST)
            for text in ("", "{}", '{"modules": {"a": {}, "b": {}}}', "[" * 9999)
        ),
        *((partial(read_circuit, netlist(**{field: value}), "G2"), NETLIST) for field, value in NO_FIELDS),
        (lambda: read_bitmap(""), "the unpacked bitstream has no device and no tiles"),
        (lambda: read_bitmap(".device 5k\n"), "the unpacked bitstream has no device and no tiles"),
        (lambda: read_bitmap(".ram_data 1 one\n00\n"), f"{BITMAP}: .ram_data 1 one"),
    ],
    OSError: [(NO_PINS.new_platform, "amaranth-boards is not installed; it comes with: PIP")],
    RuntimeError: [(lambda: read_clocks({"fmax": {}}), "nextpnr's report has no clock")],
}


@pytest.mark.parametrize(("error", "make", "text"), [(error, *row) for error, rows in MISTAKES.items() for row in rows])
def test_messages(
    error: type[Exception], make: Callable[[], object], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text.replace("PIP", install("boards"))  # now: the hint depends on the current folder
    assert not list(tmp_path.iterdir())
