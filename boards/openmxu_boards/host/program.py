"""A stimulus as requests: the addresses of beats in the board's buffers, and the order of the tiles."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.marks import TILE_MARKS
from openmxu_boards.protocol import LOAD, Identity, TileJob
from openmxu_sim import golden
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.stimulus import Stimulus

_BYTES = {8: "<u1", 16: "<u2", 32: "<u4"}
"""numpy's types by the width of a word."""

TILE = 6
"""Bytes of a tile in a request."""

_FRAME = 26
"""Bytes of a request and its reply without beats, tiles or data."""


class Load(NamedTuple):
    """Beats for a buffer."""

    weights: bool
    """Whether they are weights; else activations."""
    address: int
    beats: bytes
    size: int

    @property
    def cost(self) -> int:
        """Bytes to the board and back, about."""
        return len(self.beats) + _FRAME

    @property
    def end(self) -> int:
        return self.address + len(self.beats) // self.size


class Run(NamedTuple):
    """Tiles that run one after the other, and the number of their results."""

    tiles: tuple[TileJob, ...]
    results: int

    @property
    def cost(self) -> int:
        """Bytes to the board and back, about, without the results."""
        return len(self.tiles) * TILE + _FRAME


class Program(NamedTuple):
    """The requests for a stimulus."""

    steps: Sequence[Load | Run]
    order: Sequence[int]
    """Numbers of the sums in the stimulus, in the order in which results come."""


def beat_size(width: int, words: int) -> int:
    """Bytes of a beat of this many words of ``width`` bits."""
    return -(-width * words // 8)


def program(identity: Identity, stimulus: Stimulus) -> Program:
    """The requests that a board needs for a stimulus.

    Beats that are in a buffer already are not sent again. Without room, the beats that are needed last are replaced;
    beats for tiles that have not run yet stay. Sums are built in the order of the stimulus, where weights meet all rows
    of activations before the next ones come, or the other way round: in the order that sends less.
    """
    sums, rows = _sums(identity.config, stimulus)
    orders = [list(range(len(sums))), sorted(range(len(sums)), key=rows.__getitem__)]
    plans = [
        Program(list(_steps(identity, [step for number in order for step in sums[number]])), order) for order in orders
    ]
    return min(plans, key=lambda plan: sum(step.cost for step in plan.steps))


def _sums(config: MxuConfig, stimulus: Stimulus) -> tuple[list[list["_Step"]], list[int]]:
    """The tiles of each sum, and the row of the result that it begins with."""
    sums: list[list[_Step]] = [[]]
    rows = []
    weights = b""
    for tile, block in zip(stimulus.tiles, stimulus.blocks(), strict=True):
        # A tile that keeps the weights of the one before may follow another tile here.
        weights = _beats(stimulus.config, config, block.weights) or weights
        marks = {name: getattr(tile, name) for name in TILE_MARKS if name != "keep"}
        activations = _beats(stimulus.config, config, block.activations)
        sums[-1].append(_Step(weights, activations, len(block.activations), marks))
        if tile.emit:
            rows.append(tile.activations.start)
            sums.append([])
    return sums[:-1], rows


def _steps(identity: Identity, steps: Sequence["_Step"]) -> Iterator[Load | Run]:
    """Requests for tiles in this order."""
    config = identity.config
    kept = [number > 0 and step.weights == steps[number - 1].weights for number, step in enumerate(steps)]
    needed = [b"" if keep else step.weights for step, keep in zip(steps, kept, strict=True)]
    weights = _Slots(identity.weights // config.rows, config.rows, needed)
    activations = _Slots(identity.activations // config.depth, config.depth, [step.activations for step in steps])
    most = (identity.frame - LOAD) // TILE
    pending: list[TileJob] = []
    loads: list[Load] = []
    results = address = 0
    for step, keep, own in zip(steps, kept, needed, strict=True):
        emitted = step.beats * step.marks["emit"]
        full = len(pending) == most or results + emitted > identity.results
        if full or not (weights.has_room(own) and activations.has_room(step.activations)):
            yield from _joined(loads)
            yield Run(tuple(pending), results)
            pending, loads, results = [], [], 0
            weights.release()
            activations.release()
        if own:
            address, new = weights.place(own)
            if new:
                loads.append(Load(True, address, own, len(own) // config.rows))
        start, new = activations.place(step.activations)
        if new:
            loads.append(Load(False, start, step.activations, len(step.activations) // step.beats))
        pending.append(TileJob(address, start, step.beats, keep=keep, **step.marks))
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
    """A tile with the bytes of its beats, and its marks except ``keep``."""

    weights: bytes
    activations: bytes
    beats: int
    marks: dict[str, bool]


class _Slots:
    """The contents of a buffer, and their places."""

    def __init__(self, number: int, size: int, uses: Sequence[bytes]) -> None:
        self._size = size
        self._free = list(reversed(range(number)))
        self._held: dict[bytes, int] = {}
        self._pending: set[bytes] = set()
        self._next: dict[bytes, deque[int]] = {}
        for time, beats in enumerate(uses):
            self._next.setdefault(beats, deque()).append(time)

    def has_room(self, beats: bytes) -> bool:
        """Whether these beats are in the buffer, or can replace beats that no waiting tile needs."""
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
        """The beats to replace: those that are needed again last."""
        can_go = (beats for beats in self._held if beats not in self._pending)
        return max(can_go, key=lambda beats: self._next[beats][0] if self._next[beats] else sys.maxsize)

    def release(self) -> None:
        """Note that all tiles have run: none needs its beats any more."""
        self._pending.clear()


def _beats(unit: MxuConfig, config: MxuConfig, words: Words) -> bytes:
    """Rows of words in the board's form: converted to its format if necessary, each in whole bytes."""
    if unit.source != config.source:
        words = golden.convert(words, unit.source.name, config.source.name, subnormals=config.subnormals)
    width = config.source.width
    if width in _BYTES:
        return np.ascontiguousarray(words).astype(_BYTES[width]).tobytes()
    size = beat_size(width, words.shape[1])
    rows = (sum(int(word) << lane * width for lane, word in enumerate(row)) for row in words)
    return b"".join(row.to_bytes(size, "little") for row in rows)
