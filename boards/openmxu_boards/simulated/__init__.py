"""Simulated boards: the demo system at the pins of its UART.

=======================  ==============================================================================
:func:`simulated_link`   a link to a simulated board, in its own time
:class:`Terminal`        a simulated board on a pseudo-terminal, which any program can open
=======================  ==============================================================================
"""

from collections.abc import Callable
from typing import NamedTuple

from openmxu.export.verilog import to_verilog
from openmxu_boards.families.circuit import PINS
from openmxu_boards.simulated.pin_link import Disturbance, PinLink
from openmxu_boards.simulated.pins import AmaranthPins, CircuitPins, Pins
from openmxu_boards.simulated.terminal import Terminal
from openmxu_boards.simulated.verilated import Program, compile_verilog, is_available
from openmxu_boards.soc.system import UartSoc

__all__ = ["Terminal", "new_pins", "new_program", "simulated_link"]

# Yosys writes the choice of a byte as a shift, and the assignment cuts the upper bits off.
_BYTES = "/* verilator lint_off WIDTHTRUNC */\n"

_TOP = f"""\
module top(input clk, input [{PINS - 1}:0] i, output [{PINS - 1}:0] o, output [{PINS - 1}:0] oe);
  system system_(.clk(clk), .rst(1'b0), .rx(i[0]), .tx(o[0]), .pass_(), .fail(), .heartbeat());
  assign o[{PINS - 1}:1] = 0;
  assign oe = 1;
endmodule
"""


class _Uart(NamedTuple):
    """The pins of a system."""

    inputs: tuple[str, ...] = ("rx",)
    outputs: tuple[str, ...] = ("tx",)


def new_program(system: UartSoc, tell: Callable[[str], None] = lambda _: None) -> Program[_Uart]:
    """A system, compiled by Verilator; for parameters see :func:`new_pins`."""
    texts = {"system.v": _BYTES + to_verilog(system, name="system"), "top.v": _TOP}
    return Program(_Uart(), compile_verilog(texts, progress=tell))


def new_pins(system: UartSoc, tell: Callable[[str], None] = lambda _: None) -> Pins:
    """A system at its pins: in Verilator, or in Amaranth's simulator where Verilator or a compiler is missing."""
    if is_available():
        return CircuitPins(new_program(system, tell).start())
    tell("simulating with Amaranth's simulator, as Verilator or a C++ compiler is missing: slow")
    return AmaranthPins(system)


def simulated_link(
    system: UartSoc, *, disturbance: Disturbance | None = None, tell: Callable[[str], None] = lambda _: None
) -> PinLink:
    """A link to a simulated system; for parameters see :func:`new_pins` and :class:`PinLink`."""
    identity = system.soc.identity
    return PinLink(new_pins(system, tell), clock=identity.clock, baud=identity.baud, disturbance=disturbance)
