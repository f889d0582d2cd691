"""Simulation of a bitstream before it is loaded: its circuit is read back, and simulated at its pins.

=================================  ==================================================================================
:func:`check`                      the self-test of a build, watched at its lights
:func:`simulate_bitstream`         any build as a program with the board's pins
:class:`Simulation`                a circuit at its pins: drive, read, let cycles pass
=================================  ==================================================================================

::

    iCE40   .bin ─▶ iceunpack ─▶ bits ─┬─▶ Circuit ─▶ Verilog ─▶ Verilator, C++ compiler ─▶ Program ─▶ Simulation
                   chip database ──────┘     ▲
    ECP5, Gowin, GateMate                    │            models of the cells: cells/*.v
            netlist after routing ───────────┘
"""

from openmxu_boards.families.circuit import Cell, Circuit, CircuitError, Clock
from openmxu_boards.replay.folder import Pin, find_pin
from openmxu_boards.replay.simulator import compile_circuit
from openmxu_boards.replay.verdict import Checked, Verdict, check, simulate_bitstream, watch
from openmxu_boards.simulated.verilated import Program, Simulation

__all__ = [
    "Cell",
    "Checked",
    "Circuit",
    "CircuitError",
    "Clock",
    "Pin",
    "Program",
    "Simulation",
    "Verdict",
    "check",
    "compile_circuit",
    "find_pin",
    "simulate_bitstream",
    "watch",
]
