"""Random faults of the bytes between host and board, at the level of the wire."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from openmxu_boards.simulated.pin_link import Disturbance
from openmxu_boards.simulated.pins import Levels, levels_of

_MOST_BYTES = 40
"""The most bytes that one fault touches."""

_ANSWER = 8000
"""The most cycles of an answer before noise: some answers are shorter, and stay sound."""


def _glitch(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """The line flips for less than three bits, somewhere."""
    levels = levels_of(data, divisor)
    start = int(generator.integers(len(levels)))
    levels[start : start + int(generator.integers(1, int(3 * divisor)))] ^= 1
    return levels


def _noise(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """A spell of random levels."""
    levels = levels_of(data, divisor)
    start, length = int(generator.integers(len(levels))), int(generator.integers(1, int(_MOST_BYTES * 10 * divisor)))
    spell = levels[start : start + length]
    spell[:] = np.repeat(generator.integers(0, 2, len(spell) // 3 + 1, dtype=np.uint8), 3)[: len(spell)]
    return levels


def _lose(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """Bytes are missing in the middle."""
    start = int(generator.integers(len(data)))
    return levels_of(data[:start] + data[start + int(generator.integers(1, _MOST_BYTES)) :], divisor)


def _truncate(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """The end is missing, within a bit perhaps."""
    levels = levels_of(data, divisor)
    levels[int(generator.integers(len(levels))) :] = 1
    return levels


def _change(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """A byte has another value."""
    changed = bytearray(data)
    changed[int(generator.integers(len(data)))] ^= int(generator.integers(1, 256))
    return levels_of(bytes(changed), divisor)


def _insert(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """Bytes that were not sent are inserted."""
    start = int(generator.integers(len(data) + 1))
    return levels_of(data[:start] + generator.bytes(int(generator.integers(1, _MOST_BYTES))) + data[start:], divisor)


def _repeat(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """All bytes come twice."""
    return levels_of(data + data, divisor)


def _rate(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """The baud rate is off by 3 % to a half."""
    return levels_of(data, divisor * float(1 + generator.uniform(0.03, 0.5) * generator.choice([-1, 1])))


def _break(data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """The line is low for a while, as where a cable is pulled."""
    levels = levels_of(data, divisor)
    start = int(generator.integers(len(levels)))
    levels[start : start + int(generator.integers(int(10 * divisor), int(_MOST_BYTES * 10 * divisor)))] = 0
    return levels


FAULTS: dict[str, Callable[[bytes, float, np.random.Generator], Levels]] = {
    "glitch": _glitch,
    "noise": _noise,
    "lost bytes": _lose,
    "cut short": _truncate,
    "changed byte": _change,
    "inserted bytes": _insert,
    "sent twice": _repeat,
    "wrong baud rate": _rate,
    "line low": _break,
}
"""Faults of a request, by name. :class:`Faults` makes two more: an earlier request that comes again, and noise on the
board's answer."""


class Faults(Disturbance):
    """A cable that damages a fraction of the requests and answers, and counts faults by kind."""

    def __init__(self, seed: int, share: float = 0.2) -> None:
        self._generator = np.random.default_rng(seed)
        self._share = share
        self._earlier = b""
        self._spoils_in = 0
        self.counts: Counter[str] = Counter()

    def sent(self, data: bytes, divisor: float) -> Levels:
        """See :class:`~openmxu_boards.simulated.pin_link.Disturbance`."""
        earlier = self._earlier
        if not earlier or self._generator.random() < 0.05:
            self._earlier = data
        if self._generator.random() < self._share:
            self._spoils_in = int(self._generator.integers(1, _ANSWER))
        if self._generator.random() >= self._share:
            return levels_of(data, divisor)
        kind = str(self._generator.choice([*FAULTS, "an earlier request"]))
        self.counts[kind] += 1
        if kind in FAULTS:
            return FAULTS[kind](data, divisor, self._generator)
        return levels_of(earlier + data, divisor)

    def answered(self, levels: Levels) -> Levels:
        """See :class:`~openmxu_boards.simulated.pin_link.Disturbance`."""
        if np.all(levels) or not self._spoils_in:
            return levels
        start, self._spoils_in = self._spoils_in, max(self._spoils_in - len(levels), 0)
        if start >= len(levels):
            return levels
        self.counts["noise on the answer"] += 1
        spoilt = levels.copy()
        length = min(int(self._generator.integers(1, 200)), len(levels) - start)
        spoilt[start : start + length] = self._generator.integers(0, 2, length)
        return spoilt
