"""A link to a design at its pins, in the design's own time."""

import numpy as np

from openmxu_boards.simulated.pins import Levels, Pins, UartReader, levels_of

_CHUNK = 2048
"""Cycles that are simulated at a time."""


class Disturbance:
    """The levels between host and board; subclasses change them, as a cable with faults does."""

    def sent(self, data: bytes, divisor: float) -> Levels:
        """The levels that arrive at the board when the host sends bytes."""
        return levels_of(data, divisor)

    def answered(self, levels: Levels) -> Levels:
        """The levels that arrive at the host."""
        return levels


class PinLink:
    """A :class:`~openmxu_boards.host.link.Link` to a simulated board.

    Time is the design's: it stands still unless somebody waits, so that nothing depends on the speed of this machine.
    """

    def __init__(self, pins: Pins, *, clock: int, baud: int, disturbance: Disturbance | None = None) -> None:
        self.name, self.baud = "the simulated pins", baud
        self.pins, self._clock = pins, clock
        self._divisor = clock / baud
        self._disturbance = disturbance or Disturbance()
        self._queue: Levels = np.empty(0, dtype=np.uint8)
        self._reader = UartReader(self._divisor)
        self.cycles = self.sent = self.received = 0
        """Cycles until now, and bytes that the host has sent and received."""

    def send(self, data: bytes) -> None:
        self.sent += len(data)
        self._queue = np.concatenate([self._queue, self._disturbance.sent(data, self._divisor)])

    def receive(self, seconds: float) -> bytes:
        end = self.cycles + max(int(seconds * self._clock), _CHUNK)
        while self.cycles < end:
            levels, self._queue = self._queue[:_CHUNK], self._queue[_CHUNK:]
            rest = np.ones(_CHUNK - len(levels), dtype=np.uint8)
            heard = self._disturbance.answered(self.pins.play(np.concatenate([levels, rest])))
            self.cycles += _CHUNK
            if data := self._reader.feed(heard):
                self.received += len(data)
                return data
        return b""

    def now(self) -> float:
        """Seconds in the design's time."""
        return self.cycles / self._clock

    @property
    def idle(self) -> bool:
        """Whether no bytes are on the line in either direction."""
        return not len(self._queue) and self._reader.idle

    def close(self) -> None:
        """See :class:`~openmxu_boards.host.link.Link`."""
