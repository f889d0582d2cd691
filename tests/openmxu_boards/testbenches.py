"""Designs for tests, and marks of tests that need other tools."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu_boards.families.ice40.chip import find_chip
from openmxu_boards.simulated.verilated import is_available
from openmxu_boards.soc import Buffers, UartSoc

verilated = pytest.mark.skipif(not is_available(), reason="Verilator or a C++ compiler is missing")


def _chip_is_there() -> bool:
    try:
        find_chip("5k")
    except OSError:
        return False
    return True


needs_chip = pytest.mark.skipif(not _chip_is_there(), reason="Project IceStorm's database of chips is missing")
"""Mark: the test reads a bitstream for iCE40."""


def small_system() -> UartSoc:
    config = MxuConfig(rows=2, columns=2, stages=1, source=BF16, depth=4)
    return UartSoc(config, Buffers(8, 16, 16), clock=1_000_000, baud=250_000)


class Held(wiring.Component):
    """A component whose outputs a test sets."""

    def elaborate(self, platform: object) -> Module:
        return Module()
