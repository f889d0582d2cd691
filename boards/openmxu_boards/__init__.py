"""FPGA boards: a self-test of a small unit, built to a bitstream with open tools from PyPI.

=====================  ==============================================================================
:func:`boards`         the boards, for lists
:func:`own_board`      a board of one's own, from its platform
:func:`with_options`   a board with another unit or clock
:func:`build`          a board's bitstream, with nextpnr's report of timing and utilisation
:class:`SelfTest`      the design: a unit that is fed from memories and checks its own results
:func:`program`        its operands and its expected results
=====================  ==============================================================================
"""

import openmxu_boards.sources  # noqa: F401  # first: it takes down the state of the files of what follows
from openmxu_boards.bitstream.flow import build
from openmxu_boards.bitstream.report import BuildReport, Clock, Usage
from openmxu_boards.devices.boards import Board, boards, find_board, own_board, with_options
from openmxu_boards.selftest import Program, SelfTest, program

__all__ = [
    "Board",
    "BuildReport",
    "Clock",
    "Program",
    "SelfTest",
    "Usage",
    "boards",
    "build",
    "find_board",
    "own_board",
    "program",
    "with_options",
]
