"""Reasons why an accelerator stops."""

from enum import IntEnum


class Stop(IntEnum):
    """Why a program stopped; the lower code, if several are found in one cycle. A command that runs is found first."""

    NONE = 0
    COMMAND = 1
    """A command has a reserved bit, an unknown opcode, no trips, or flags that exclude one another, or the memory of
    commands ends within or before it."""
    ENGINE = 2
    """A ``load`` or ``store``, but there is no bus."""
    SUMS = 3
    """Sums are added to that are not there or have other rows, or sums are left behind."""
    TILE = 4
    """A tile has more rows than the accumulator bank."""
    READ = 5
    """A row is read outside of the scratchpad."""
    WRITE = 6
    """A row would be written outside of its memory."""
    WEIGHTS = 7
    """Weights are read outside of their memory."""
    WINDOW = 8
    """A word is outside of the bus's window."""
    BUS = 9
    """The bus answered with an error, what nobody had asked for, a burst before its last beat, or with a wrong
    ``RLAST``."""
    TIME = 10
    """Nothing moved for 65,536 cycles."""
    HOST = 11
    """The host stopped it, or resets it."""
