"""A stimulus as requests: which beats go where into the board's buffers, and which tiles run when."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from openmxu.config import MxuConfig
from openmxu.marks import MARKS, TILE_MARKS
from openmxu_boards.protocol import Identity, TileJob
from openmxu_sim import golden
from openmxu_sim.aliases import Words
from openmxu_sim.stimulus import Block, Stimulus

__all__ = ["Load", "Run", "beat_size", "program"]

_BYTES = {8: "<u1", 16: "<u2", 32: "<u4"}
"""Widths of words that numpy has a type for."""


class Load(NamedTuple):
    """Beats for a buffer.

    Parameters
    ----------
    weights
        Whether they are weights; else activations.
    address
        Where the first one goes.
    beats
        All of them, each in whole bytes.
    size
        Bytes of a beat.
    """

    weights: bool
    address: int
    beats: bytes
    size: int

    @property
    def end(self) -> int:
        """The address behind the last beat."""
        return self.address + len(self.beats) // self.size


class Run(NamedTuple):
    """Tiles that run one after the other, and how many results they give."""

    tiles: tuple[TileJob, ...]
    results: int


def beat_size(width: int, words: int) -> int:
    """Bytes of a beat of this many words of ``width`` bits."""
    return -(-width * words // 8)


def program(identity: Identity, stimulus: Stimulus) -> Iterator[Load | Run]:
    """What to ask of a board, in order; results of all runs one behind the other are the stimulus' results.

    Beats that are in a buffer already are not sent again: weights meet all blocks of activations, and activations all
    columns of weights. Where there is no room, what is needed again last goes; what a tile needs that has not run yet
    stays.

    Parameters
    ----------
    identity
        The board, with buffers of at least one tile each.
    stimulus
        For a unit as the board's, or for one that takes fp32 and converts it, as this does then instead.
    """
    config = identity.config
    steps = [_Step.of(block, stimulus.config, config) for block in stimulus.blocks()]
    weights = _Slots(identity.weights // config.rows, config.rows, [step.weights for step in steps])
    activations = _Slots(identity.activations // config.depth, config.depth, [step.activations for step in steps])
    most = (identity.frame - 16) // len(TileJob(0, 0, 1, *[False] * 4).to_bytes())
    pending: list[TileJob] = []
    loads: list[Load] = []
    results = address = 0
    for step in steps:
        emitted = step.beats * step.marks["emit"]
        full = len(pending) == most or results + emitted > identity.results
        if full or not (weights.has_room(step.weights) and activations.has_room(step.activations)):
            yield from _joined(loads)
            yield Run(tuple(pending), results)
            pending, loads, results = [], [], 0
            weights.release()
            activations.release()
        if step.weights:  # else the tile keeps those of the one before
            address, new = weights.place(step.weights)
            if new:
                loads.append(Load(True, address, step.weights, len(step.weights) // config.rows))
        place, new = activations.place(step.activations)
        if new:
            loads.append(Load(False, place, step.activations, len(step.activations) // step.beats))
        pending.append(TileJob(address, place, step.beats, **step.marks))
        results += emitted
    yield from _joined(loads)
    yield Run(tuple(pending), results)


def _joined(loads: list[Load]) -> Iterator[Load]:
    """Loads of neighbouring addresses as one."""
    joined: list[Load] = []
    for load in sorted(loads):
        if joined and joined[-1].weights == load.weights and joined[-1].end == load.address:
            joined[-1] = joined[-1]._replace(beats=joined[-1].beats + load.beats)
        else:
            joined.append(load)
    return iter(joined)


class _Step(NamedTuple):
    """A tile with the bytes of its beats."""

    weights: bytes
    activations: bytes
    beats: int
    marks: dict[str, bool]

    @classmethod
    def of(cls, block: Block, given: MxuConfig, config: MxuConfig) -> "_Step":
        """A block of a stimulus for the unit ``given``, for the unit ``config``."""
        marks = {name: bool(block.marks[0, MARKS.index(name)]) for name in TILE_MARKS}
        weights, activations = (_beats(given, config, words) for words in (block.weights, block.activations))
        return cls(weights, activations, len(block.activations), marks)


class _Slots:
    """What a buffer holds, by content.

    Parameters
    ----------
    number
        Tiles that it has room for.
    size
        Beats of each.
    uses
        What is placed, in order; empty beats are not.
    """

    def __init__(self, number: int, size: int, uses: Sequence[bytes]) -> None:
        self._size = size
        self._free = list(reversed(range(number)))
        self._held: dict[bytes, int] = {}
        self._pending: set[bytes] = set()
        self._next: dict[bytes, deque[int]] = {}
        for time, beats in enumerate(uses):
            self._next.setdefault(beats, deque()).append(time)

    def has_room(self, beats: bytes) -> bool:
        """Whether these are here, or can be without what tiles that have not run yet need."""
        return not beats or beats in self._held or bool(self._free) or len(self._pending) < len(self._held)

    def place(self, beats: bytes) -> tuple[int, bool]:
        """The address for these beats, and whether they have to be sent there."""
        new = beats not in self._held
        if new:
            self._held[beats] = self._free.pop() if self._free else self._held.pop(self._last_needed())
        self._next[beats].popleft()
        self._pending.add(beats)
        return self._held[beats] * self._size, new

    def _last_needed(self) -> bytes:
        """What can go best."""
        can_go = (beats for beats in self._held if beats not in self._pending)
        return max(can_go, key=lambda beats: self._next[beats][0] if self._next[beats] else sys.maxsize)

    def release(self) -> None:
        """All tiles have run."""
        self._pending.clear()


def _beats(given: MxuConfig, config: MxuConfig, words: Words) -> bytes:
    """Rows of words as the board takes them: converted if need be, and each in whole bytes."""
    if given.source != config.source:
        words = golden.convert(words, given.source.name, config.source.name, subnormals=config.subnormals)
    width = config.source.width
    if width in _BYTES:
        return np.ascontiguousarray(words).astype(_BYTES[width]).tobytes()
    size = beat_size(width, words.shape[1])
    rows = (sum(int(word) << lane * width for lane, word in enumerate(row)) for row in words)
    return b"".join(row.to_bytes(size, "little") for row in rows)
