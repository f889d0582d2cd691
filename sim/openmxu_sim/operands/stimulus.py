"""A matrix product as beats on a unit's streams, and the results put together again."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import PASSES, Part
from openmxu.spec.tiling import Tile, tiles
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.parts import part_of

_MOST_TILES = 1 << 22
"""Most tiles of a product; each takes half a kilobyte."""

_MOST_WORDS = 1 << 31
"""Most words of result beats, surplus columns included: 8 GB."""

_BYTES = {8: "<u1", 16: "<u2", 32: "<u4"}
"""Types of numpy for words, by width in bits."""


def read_words(payload: int, width: int, count: int) -> Words:
    """Return the words in the lower bits of a payload, the lowest first."""
    if width in _BYTES:
        size = count * width // 8
        data = (payload & (1 << 8 * size) - 1).to_bytes(size, "little")
        return np.frombuffer(data, dtype=_BYTES[width]).astype(np.uint32)
    return np.array([payload >> lane * width & (1 << width) - 1 for lane in range(count)], dtype=np.uint32)


class Block(NamedTuple):
    """The beats of a tile."""

    weights: Words
    """(rows of the unit, its columns) words, row R-1 first; no rows if the tile keeps those before it."""
    activations: Words
    """(beats, rows of the unit) words."""
    marks: npt.NDArray[np.uint8]
    """Zeros and ones of shape (beats, 6), in the order of :data:`MARKS`."""
    weight_part: Part
    activation_part: Part
    """The part that the unit's splitters make; :attr:`~openmxu.spec.passes.Part.WHOLE` if it has none."""


@dataclass(frozen=True)
class Stimulus:
    """The operands of a unit, and the tiles in which they go in. Beats are made when they are needed."""

    config: MxuConfig
    """The unit."""
    a: Words
    b: Words
    """(M, K) and (K, N) bit patterns in ``config.source``, none of them empty."""
    tiles: tuple[Tile, ...]
    """Their tiles, in the order in which they go in."""

    @property
    def results(self) -> int:
        """Beats that the unit will give."""
        return sum(len(tile.activations) for tile in self.tiles if tile.emit)

    @property
    def patience(self) -> int:
        """Cycles without a transfer after which a unit without stalls is taken to hang."""
        return self.config.latency + self.config.rows * self.config.row_step + self.config.row_latency

    def blocks(self) -> Iterator[Block]:
        """The beats, tile by tile."""
        config = self.config
        for tile in self.tiles:
            rows, inner, columns = (slice(r.start, r.stop) for r in (tile.activations, tile.inner, tile.columns))
            whole, parts = (Part.WHOLE, Part.WHOLE), (tile.weight_part, tile.activation_part)
            told, sent = (parts, whole) if config.splitter else (whole, parts)
            # Missing rows of the array multiply +0 with -0, which changes no sum; surplus columns are dropped.
            weights = np.full((config.rows, config.columns), 1 << (config.source.width - 1), dtype=np.uint32)
            weights[: len(tile.inner), : len(tile.columns)] = part_of(self.b[inner, columns], sent[0])
            activations = np.zeros((len(tile.activations), config.rows), dtype=np.uint32)
            activations[:, : len(tile.inner)] = part_of(self.a[rows, inner], sent[1])
            marks = np.zeros((len(activations), len(MARKS)), dtype=np.uint8)
            marks[0, MARKS.index("first")] = marks[-1, MARKS.index("last")] = 1
            for name in TILE_MARKS:
                marks[:, MARKS.index(name)] = getattr(tile, name)
            yield Block(weights[:0] if tile.keep else weights[::-1], activations, marks, *told)

    def weight_payloads(self) -> Iterator[int]:
        """The beats of the weight stream, each as one integer."""
        for block in self.blocks():
            for row, words in enumerate(block.weights):
                yield self._pack(words, [row + 1 == self.config.rows], block.weight_part)

    def activation_payloads(self) -> Iterator[int]:
        """The beats of the activation stream, each as one integer."""
        for block in self.blocks():
            for words, marks in zip(block.activations, block.marks.tolist(), strict=True):
                yield self._pack(words, marks, block.activation_part)

    def _pack(self, words: Words, marks: list[int] | list[bool], part: Part) -> int:
        width = self.config.source.width
        if width in _BYTES:
            data = int.from_bytes(words.astype(_BYTES[width]).tobytes(), "little")
        else:
            data = sum(int(word) << (lane * width) for lane, word in enumerate(words))
        above = sum(bool(mark) << bit for bit, mark in enumerate(marks)) | part << len(marks)
        return data | above << len(words) * width


def stimulus(config: MxuConfig, a: Words, b: Words, precision: str = "default") -> Stimulus:
    """Return the beats of the product of two matrices of bit patterns in ``config.source``.

    Parameters
    ----------
    config
        The unit.
    a, b
        (M, K) and (K, N), none of them empty.
    precision
        One of :data:`~openmxu.spec.passes.PASSES`.

    Raises
    ------
    ValueError
        The unit cannot multiply with this precision, or the product would not fit in memory.
    """
    if precision != "default" and not config.has_passes:
        raise ValueError(
            f"precision must be 'default' unless fp32 is converted into bf16, not {precision!r} with "
            f"{config.source} into {config.operands}"
        )
    (m, k), n = a.shape, b.shape[1]
    _check_size(config, m, k, n, len(PASSES[precision]))
    return Stimulus(config, a, b, tuple(tiles(config, m, k, n, precision)))


def _check_size(config: MxuConfig, m: int, k: int, n: int, passes: int) -> None:
    """Refuse a product whose tiles or result beats would not fit in memory."""
    columns = -(-n // config.columns)
    parts = passes * -(-m // config.depth) * -(-k // config.rows) * columns
    words = m * columns * config.columns
    for count, most, what in ((parts, _MOST_TILES, "tiles"), (words, _MOST_WORDS, "words of results")):
        if count > most:
            raise ValueError(
                f"the product must have at most {most} {what} on a clocked engine, not {count}: {m}x{k}x{n} on "
                f"{config.rows}x{config.columns}"
            )


def collect(config: MxuConfig, beats: Words, m: int, k: int, n: int) -> Words:
    """Return the (m, n) result in the unit's result beats."""
    result = np.empty((m, n), dtype=np.uint32)
    start = 0
    for tile in tiles(config, m, k, n):
        if tile.emit:
            rows, columns = tile.activations, tile.columns
            result[rows.start : rows.stop, columns.start : columns.stop] = beats[
                start : start + len(rows), : len(columns)
            ]
            start += len(rows)
    return result


@dataclass(frozen=True)
class Stalls:
    """A seeded pattern of cycles in which the other side of a stream waits; the same on every engine.

    A source that waits offers no new beat, but never takes back one that it offers; a sink that waits is
    not ready. Each stream alternates between busy and slow spells.

    Attributes
    ----------
    pattern
        (3, period): whether weights, activations and results wait in a cycle.
    """

    seed: int
    """Any non-negative integer."""
    period: int = 4096
    """Cycles after which the pattern repeats."""
    pattern: npt.NDArray[np.bool_] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if operator.index(self.seed) < 0:
            raise ValueError(f"stalls must be an integer >= 0, not {self.seed!r}")
        generator = np.random.default_rng(self.seed)
        spells = generator.choice([0.0, 0.05, 0.3, 0.9], size=(3, self.period // 32 + 1))
        share = np.repeat(spells, 32, axis=1)
        waits = generator.random((3, self.period)) < share[:, : self.period]
        waits[:, -1] = False  # no stream waits for ever
        object.__setattr__(self, "pattern", waits)

    def waits(self, stream: int, cycle: int) -> bool:
        """Whether stream 0 (weights), 1 (activations) or 2 (results) waits in ``cycle``."""
        return bool(self.pattern[stream, cycle % self.period])


class Traffic:
    """Both ends of a unit's streams, cycle by cycle, for simulators that are driven from Python.

    Each cycle: set the unit's inputs to :attr:`weights`, :attr:`activations` (payloads, or ``None`` where
    nothing is offered) and :attr:`ready`; when they have settled, before the clock edge, call
    :meth:`advance` with what the unit shows.

    Parameters
    ----------
    stimulus
        The beats that go in.
    stalls
        Pattern of waits; ``None``: no waits.
    """

    def __init__(self, stimulus: Stimulus, stalls: Stalls | None = None) -> None:
        self._stimulus = stimulus
        self._stalls = stalls
        self._sources: list[Iterator[int]] = [stimulus.weight_payloads(), stimulus.activation_payloads()]
        self._offered: list[int | None] = [None, None]
        self._exhausted = [False, False]
        self._cycle = 0
        self._start: int | None = None
        self._idle = 0
        self.results: list[int] = []
        self.cycles = 0
        self._offer()

    @property
    def weights(self) -> int | None:
        """Payload on the weight stream."""
        return self._offered[0]

    @property
    def activations(self) -> int | None:
        """Payload on the activation stream."""
        return self._offered[1]

    @property
    def ready(self) -> bool:
        """Whether the other side takes a result in this cycle."""
        return self._stalls is None or not self._stalls.waits(2, self._cycle)

    @property
    def done(self) -> bool:
        """Whether every result is there."""
        return len(self.results) == self._stimulus.results

    def advance(self, weights_ready: bool, activations_ready: bool, result: int | None) -> None:
        """Take notice of a cycle: which inputs the unit takes, and its result, if it shows a valid one.

        Raises
        ------
        RuntimeError
            Nothing has moved for so long that the unit is taken to hang.
        """
        moved = False
        for index, ready in enumerate((weights_ready, activations_ready)):
            if ready and self._offered[index] is not None:
                self._offered[index] = None
                moved = True
                if self._start is None:
                    self._start = self._cycle
        if result is not None and self.ready:
            self.results.append(result)
            moved = True
            self.cycles = self._cycle + 1 - (self._start or 0)
        self._idle = 0 if moved else self._idle + 1
        patience = self._stimulus.patience
        if self._stalls is not None:
            patience += self._stalls.period
        if self._idle > patience:
            raise RuntimeError(
                f"the unit hangs: nothing moved for {self._idle} cycles up to cycle {self._cycle}, "
                f"{len(self.results)} of {self._stimulus.results} results are there"
            )
        self._cycle += 1
        self._offer()

    def _offer(self) -> None:
        for index, source in enumerate(self._sources):
            waits = self._stalls is not None and self._stalls.waits(index, self._cycle)
            if self._offered[index] is None and not self._exhausted[index] and not waits:
                self._offered[index] = next(source, None)
                self._exhausted[index] = self._offered[index] is None

    def beats(self) -> Words:
        """The result beats as (beats, columns) words."""
        config = self._stimulus.config
        beats = [read_words(result, config.result.width, config.columns) for result in self.results]
        return np.array(beats, dtype=np.uint32).reshape(-1, config.columns)
