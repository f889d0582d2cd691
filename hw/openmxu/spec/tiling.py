"""Tiling: a matrix product as tiles in the order in which a unit takes them, and the cycles that it takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES, Part, check_precision


@dataclass(frozen=True)
class Tile:
    """A block of weights and the rows of activations that are multiplied with it."""

    activations: range
    """Rows of the left matrix."""
    inner: range
    """The cut through the inner dimension: columns of the left, rows of the right matrix. At most R."""
    columns: range
    """Columns of the right matrix. At most C."""
    add: bool
    clear_nan: bool
    emit: bool
    keep: bool = False
    """The marks of the tile on the activation stream."""
    activation_part: Part = Part.WHOLE
    weight_part: Part = Part.WHOLE
    """The parts of activations and weights that are multiplied."""


def tiles(config: MxuConfig, m: int, k: int, n: int, precision: str = "default") -> Iterator[Tile]:
    """The tiles of an (m, k) x (k, n) product, in the order in which a unit takes them.

    Outermost loop first: columns of the result, blocks of at most ``depth`` rows, passes, the inner dimension.
    Where a block is one tile, the next one keeps its weights. An empty matrix has no tiles.
    """
    passes = PASSES[check_precision(precision)]
    if 0 in (m, k, n):
        return
    inner, one_tile = _cut(k, config.rows), _is_one_tile(config, k, precision)
    for columns in _cut(n, config.columns):
        for rows in _cut(m, config.depth):
            for number, (activation_part, weight_part) in enumerate(passes):
                for part in inner:
                    first, last = part is inner[0], number == len(passes) - 1
                    yield Tile(
                        rows,
                        part,
                        columns,
                        add=not first or number > 0,
                        clear_nan=first and last and number > 0,
                        emit=last and part is inner[-1],
                        keep=one_tile and rows.start > 0,
                        activation_part=activation_part,
                        weight_part=weight_part,
                    )


def shares(config: MxuConfig, n: int, units: int) -> list[range]:
    """The columns of a result that each of several units computes: whole tiles, divided as evenly as possible.

    Units without work are left out. The numbers of tiles differ by one at most.
    """
    cut = _cut(n, config.columns)
    share, more = divmod(len(cut), units)
    ends = [0]
    for unit in range(min(units, len(cut))):
        ends.append(ends[-1] + share + (unit < more))
    return [range(cut[start].start, cut[stop - 1].stop) for start, stop in pairwise(ends)]


class StreamBytes(NamedTuple):
    """Bytes that go over the streams of a unit."""

    weights: int
    activations: int
    results: int


def stream_bytes(config: MxuConfig, m: int, k: int, n: int, precision: str = "default") -> StreamBytes:
    """Bytes of the words that go over a unit's streams for a product, marks left out, padding included."""
    if 0 in (m, k, n):
        return StreamBytes(0, 0, 0)
    passes = len(PASSES[check_precision(precision)])
    inner, columns = len(_cut(k, config.rows)), len(_cut(n, config.columns))
    blocks = 1 if _is_one_tile(config, k, precision) else len(_cut(m, config.depth))
    word, result = config.source.width / 8, config.result.width / 8
    return StreamBytes(
        weights=int(passes * blocks * inner * columns * config.rows * config.columns * word),
        activations=int(passes * inner * columns * m * config.rows * word),
        results=int(columns * m * config.columns * result),
    )


def _is_one_tile(config: MxuConfig, k: int, precision: str) -> bool:
    """Whether a block of rows needs one tile for each C columns only: then the next block reuses its weights."""
    return k <= config.rows and len(PASSES[precision]) == 1


def _cut(length: int, most: int) -> list[range]:
    """``range(length)`` in pieces of at most ``most``."""
    return [range(start, min(start + most, length)) for start in range(0, length, most)]


def cycles(config: MxuConfig, m: int, k: int, n: int, precision: str = "default", units: int = 1) -> int:
    """Cycles that a unit takes for an (m, k) x (k, n) product, if no sender or receiver stalls.

    For several units, which begin at the same time: the cycles of the unit with the most tiles, see :func:`shares`.

    Counted from the first beat taken to the last result beat given, both included; 0 if there is
    nothing to do. The m rows are cut into blocks of at most ``depth``. For a block of c rows, a tile starts so many
    cycles after the tile before it::

        max(c, weights_step, row_latency)    cycles later, if it is added to the same rows,
        max(c, weights_step)                 cycles later, if new sums begin;

    and ``rows - 1 + last block's c + latency`` cycles are for the first weights and the last results. Blocks that keep
    their weights count as one. This is exact if no tile waits for a place in the accumulator bank: if the bank holds
    all results, or if ``depth`` is at least ``latency``. Otherwise (a shallow bank, deep pipelines) the tiles are
    followed one by one.
    """
    check_precision(precision)
    if 0 in (m, k, n):
        return 0
    if units > 1:
        return max((cycles(config, m, k, len(share), precision) for share in shares(config, n, units)), default=0)
    counts = [m] if _is_one_tile(config, k, precision) else [len(rows) for rows in _cut(m, config.depth)]
    sums = len(_cut(n, config.columns))
    added = len(PASSES[precision]) * len(_cut(k, config.rows))
    if m * sums > config.depth and config.depth < config.latency:
        return _follow(config, m, k, n, precision)
    begin = [max(count, config.weights_step) for count in counts]
    add = [max(count, config.shortest_tile) for count in counts]
    steps = sums * (sum(begin) + (added - 1) * sum(add))
    return config.rows - 1 + steps - begin[-1] + counts[-1] + config.latency


def _follow(config: MxuConfig, m: int, k: int, n: int, precision: str) -> int:
    """The result of :func:`cycles` for banks too shallow for the formula: by the rules of admission, tile by tile.

    A row of weights is loaded when the swap mark has passed the row, a tile starts when its weights are complete, a
    sum is added to when it is written, and a place in the accumulator bank is used again when its result has left.
    """
    # Cycle 0 takes the first beat of weights; a beat of activations waits from cycle 1 on. It enters the array two
    # cycles after it leaves admission.
    to_write = 2 + config.array_latency + config.columns - 1 + config.write_latency
    weights_complete = 0  # when the last row of a tile's weights moves into the array
    swap = None  # when the first beat of a tile that takes weights leaves admission
    last_go = 0
    given = np.full(config.depth, -config.row_latency)  # when each place in the bank was last given
    fetched = np.empty(0, dtype=np.int64)  # when each result was read from the bank
    base = 0
    for tile in tiles(config, m, k, n, precision):
        count = len(tile.activations)
        if not tile.keep:
            weights_complete += config.rows
            if swap is not None:
                weights_complete = max(weights_complete, swap + config.weights_step)
        row = np.arange(count)
        place = (base + row) % config.depth
        earliest = np.full(count, max(last_go + 1, weights_complete))
        if tile.add:
            earliest = np.maximum(earliest, given[place] + config.row_latency)
        # The result that must have left before: ``depth`` places before this one.
        leaving = len(fetched) + row - config.depth
        waits = leaving >= 0
        earliest[waits] = np.maximum(earliest[waits], fetched[leaving[waits]] + 2)
        go = np.maximum.accumulate(earliest - row) + row
        given[place] = go
        swap, last_go = swap if tile.keep else int(go[0]), int(go[-1])
        if tile.emit:
            written = go + to_write
            previous = fetched[-1] if len(fetched) else 0
            fetched = np.concatenate(
                [fetched, np.maximum(np.maximum.accumulate(written + 1 - row), previous + 1) + row]
            )
            base = (base + count) % config.depth
    return int(fetched[-1]) + 2 if len(fetched) else 0
