"""Which tile when: a matrix product as commands for a unit, and the cycles that it takes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from openmxu.config import MxuConfig

__all__ = ["Tile", "cycles", "tiles"]


@dataclass(frozen=True)
class Tile:
    """A block of weights and the rows of activations that are multiplied with it.

    Parameters
    ----------
    activations
        Rows of the left matrix.
    inner
        The cut through the inner dimension: columns of the left, rows of the right matrix. At most R.
    columns
        Columns of the right matrix. At most C.
    add, clear_nan, emit
        As on the activation stream.
    """

    activations: range
    inner: range
    columns: range
    add: bool
    clear_nan: bool
    emit: bool


def tiles(config: MxuConfig, m: int, k: int, n: int) -> Iterator[Tile]:
    """The tiles of an (m, k) x (k, n) product, in the order in which a unit takes them.

    Outermost loop first: columns of the result, blocks of at most ``depth`` rows, the inner dimension.
    An empty matrix has no tiles.
    """
    inner = _cut(k, config.rows)
    for columns in _cut(n, config.columns):
        for rows in _cut(m, config.depth):
            for part in inner:
                yield Tile(rows, part, columns, add=part is not inner[0], clear_nan=False,
                           emit=part is inner[-1])


def _cut(length: int, most: int) -> list[range]:
    """``range(length)`` in pieces of at most ``most``."""
    return [range(start, min(start + most, length)) for start in range(0, length, most)]


def cycles(config: MxuConfig, m: int, k: int, n: int) -> int:
    """Cycles that a unit takes for an (m, k) x (k, n) product, if no stream ever waits for its other side.

    Counted from the first weight beat taken to the last result beat given, both included; 0 if there is
    nothing to do. The rules are those of the admission control: a row of weights is loaded when the swap
    mark has passed the row, a tile starts when its weights are complete, a sum is added to when it is
    written, and a place in the accumulator bank is given anew when its result has left.
    """
    # Cycle 0 takes the first weight beat into the edge; a beat of activations waits there from cycle 1 on.
    to_write = 1 + config.array_latency + config.columns - 1 + config.write_latency
    weights_complete = 0  # when the last row of a tile's weights moves into the array
    tile_start = None  # when the first beat of a tile leaves the edge
    last_go = 0
    given = np.full(config.depth, -config.row_latency)  # when each place in the bank was last given
    fetched = np.empty(0, dtype=np.int64)  # when each result was read from the bank
    base = 0
    for tile in tiles(config, m, k, n):
        count = len(tile.activations)
        weights_complete += config.rows
        if tile_start is not None:
            weights_complete = max(weights_complete, tile_start + 1 + (config.rows - 1) * config.row_step)
        row = np.arange(count)
        place = (base + row) % config.depth
        earliest = np.full(count, max(last_go + 1, weights_complete))
        if tile.add:
            earliest = np.maximum(earliest, given[place] + config.row_latency)
        # The result that must have left before: ``depth`` places before this one.
        leaving = len(fetched) + row - config.depth
        waits = leaving >= 0
        earliest[waits] = np.maximum(earliest[waits], fetched[leaving[waits]] + 1)
        go = np.maximum.accumulate(earliest - row) + row
        given[place] = go
        tile_start, last_go = int(go[0]), int(go[-1])
        if tile.emit:
            written = go + to_write
            previous = fetched[-1] if len(fetched) else 0
            fetched = np.concatenate([
                fetched, np.maximum(np.maximum.accumulate(written + 1 - row), previous + 1) + row
            ])
            base = (base + count) % config.depth
    return int(fetched[-1]) + 2 if len(fetched) else 0
