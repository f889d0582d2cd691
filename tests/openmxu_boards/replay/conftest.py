"""What tests of circuits share."""

import pytest

from openmxu_boards.replay.chip import find_chip
from openmxu_boards.simulated.verilated import _find_compiler, _find_verilator


def _missing() -> str:
    try:
        _find_verilator()
        _find_compiler()
    except OSError as error:
        return str(error)
    return ""


needs_simulator = pytest.mark.skipif(bool(_missing()), reason=_missing())
"""Mark: the test simulates."""


def _no_chip() -> str:
    try:
        find_chip("5k")
    except OSError as error:
        return str(error)
    return ""


needs_chip = pytest.mark.skipif(bool(_no_chip()), reason=_no_chip())
"""Mark: the test reads a bitstream for iCE40."""
