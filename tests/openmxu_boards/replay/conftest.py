"""What tests of circuits share."""

from collections.abc import Callable
from functools import partial

import pytest

from openmxu_boards.replay.chip import find_chip
from openmxu_boards.simulated.verilated import _find_compiler, _find_verilator


def _needs(*finders: Callable[[], object]) -> pytest.MarkDecorator:
    """The mark of tests that are skipped where one of these is not there."""
    try:
        for find in finders:
            find()
    except OSError as error:
        return pytest.mark.skipif(True, reason=str(error))
    return pytest.mark.skipif(False, reason="")


needs_simulator = _needs(_find_verilator, _find_compiler)
"""Mark: the test simulates."""

needs_chip = _needs(partial(find_chip, "5k"))
"""Mark: the test reads a bitstream for iCE40."""
