"""Boards without a board: the demo system simulated at the pins of its UART.

=======================  ==============================================================================
:func:`simulated_link`   a link to a simulated board, in its own time
:class:`Terminal`        the same on a pseudo-terminal, which any program can open
=======================  ==============================================================================
"""

from collections.abc import Callable

from openmxu.verilog import to_verilog
from openmxu_boards.simulated.link import Disturbance, PinLink
from openmxu_boards.simulated.pins import AmaranthPins, Pins
from openmxu_boards.simulated.terminal import Terminal
from openmxu_boards.simulated.verilated import VerilatedPins, is_available
from openmxu_boards.soc.system import UartSoc

__all__ = ["Terminal", "new_pins", "simulated_link"]


def new_pins(system: UartSoc, tell: Callable[[str], None] = lambda _: None) -> Pins:
    """A system at its pins: in Verilator, or in Amaranth's simulator where Verilator or a compiler is missing.

    Parameters
    ----------
    system
        It can be simulated once.
    tell
        Called with a line about what takes long.
    """
    if is_available():
        return VerilatedPins(to_verilog(system, name="top"), tell)
    tell("simulating with Amaranth's simulator, as Verilator or a C++ compiler is missing: slow")
    return AmaranthPins(system)


def simulated_link(
    system: UartSoc, *, disturbance: Disturbance | None = None, tell: Callable[[str], None] = lambda _: None
) -> PinLink:
    """A link to a simulated system; parameters as of :func:`new_pins` and :class:`PinLink`."""
    identity = system.soc.identity
    pins = new_pins(system, tell)
    return PinLink(pins, clock=identity.clock, baud=identity.baud, disturbance=disturbance)
