"""What stops an accelerator."""

from enum import IntEnum


class Stop(IntEnum):
    """Why a program stopped; the lower code, if several are found in one cycle. A command that runs is found first."""

    NONE = 0
    COMMAND = 1
    """A command has a reserved bit, an unknown opcode, no trips, or flags that exclude one another."""
    ENGINE = 2
    """A ``load`` or ``store``: there is no bus."""
    SUMS = 3
    """Sums are added to that are not there or have other rows, or sums are left behind."""
    TILE = 4
    """A tile has more rows than the accumulator bank."""
    READ = 5
    """A row is read outside of the scratchpad."""
    WRITE = 6
    """A row would be written outside of the scratchpad."""
    WEIGHTS = 7
    """Weights are read outside of their memory."""
