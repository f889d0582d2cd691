"""Random faults of the bytes between host and board, at the level of the wire."""

from collections import Counter

import numpy as np

from openmxu_boards.simulated.pin_link import Disturbance
from openmxu_boards.simulated.pins import Levels, levels_of

_MOST_BYTES = 40
"""The most bytes that one fault touches."""

_ANSWER = 8000
"""The most cycles of an answer before noise: some answers are shorter, and stay sound."""


FAULTS = (
    *("glitch", "noise", "lost bytes", "cut short", "changed byte", "inserted bytes", "sent twice", "wrong baud rate"),
    "line low",
)
"""Faults of a request. :class:`Faults` makes two more: an earlier request that comes again, and noise on the board's
answer."""


def _changed(kind: str, data: bytes, generator: np.random.Generator) -> bytes:
    """A request with other bytes, fewer or more."""
    if kind == "sent twice":
        return data + data
    start = int(generator.integers(len(data) + (kind == "inserted bytes")))
    if kind == "changed byte":
        return data[:start] + bytes([data[start] ^ int(generator.integers(1, 256))]) + data[start + 1 :]
    count = int(generator.integers(1, _MOST_BYTES))
    if kind == "lost bytes":
        return data[:start] + data[start + count :]
    return data[:start] + generator.bytes(count) + data[start:]


def _damaged(kind: str, data: bytes, divisor: float, generator: np.random.Generator) -> Levels:
    """The levels of a request with a fault."""
    if kind == "wrong baud rate":  # by 3 % to a half
        return levels_of(data, divisor * float(1 + generator.uniform(0.03, 0.5) * generator.choice([-1, 1])))
    if kind in ("lost bytes", "changed byte", "inserted bytes", "sent twice"):
        return levels_of(_changed(kind, data, generator), divisor)
    levels, most = levels_of(data, divisor), int(_MOST_BYTES * 10 * divisor)
    start = int(generator.integers(len(levels)))
    if kind == "glitch":  # for less than three bits
        levels[start : start + int(generator.integers(1, int(3 * divisor)))] ^= 1
    elif kind == "noise":
        spell = levels[start : start + int(generator.integers(1, most))]
        spell[:] = np.repeat(generator.integers(0, 2, len(spell) // 3 + 1, dtype=np.uint8), 3)[: len(spell)]
    elif kind == "cut short":  # within a bit perhaps
        levels[start:] = 1
    else:  # as where a cable is pulled
        levels[start : start + int(generator.integers(int(10 * divisor), most))] = 0
    return levels


class Faults(Disturbance):
    """A cable that damages a fraction of the requests and answers, and counts faults by kind."""

    def __init__(self, seed: int, share: float = 0.2) -> None:
        self._generator = np.random.default_rng(seed)
        self._share = share
        self._earlier = b""
        self._spoils_in = 0
        self.counts: Counter[str] = Counter()

    def sent(self, data: bytes, divisor: float) -> Levels:
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
            return _damaged(kind, data, divisor, self._generator)
        return levels_of(earlier + data, divisor)

    def answered(self, levels: Levels) -> Levels:
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
