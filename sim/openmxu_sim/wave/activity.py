"""The tile that each processing element multiplies in each cycle of a real run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import Tile
from openmxu_sim.engines.compiled.trace import STREAMS
from openmxu_sim.operands.stimulus import Stalls

MOST_CELLS = 256
"""Most rows, and columns, of a picture."""

MOST_CYCLES = 4096
"""Most cycles of a picture."""

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Activity:
    """The tile that each processing element multiplied in each cycle. Cycles are counted from the end of the reset."""

    config: MxuConfig
    """The unit."""
    tiles: tuple[Tile, ...]
    """The computed tiles."""
    stalls: Stalls | None
    """Waits of the other sides of the streams."""
    cycles: int
    """Cycles from the first beat taken on either input stream to the last result beat given, both included."""
    streams: npt.NDArray[np.uint32]
    """Signals of the streams, (cycles, signals); see :data:`openmxu_sim.engines.compiled.trace.STREAMS`."""
    starts: Integers
    """Cycle in which a processing element multiplies its tile's first activation, (tiles, rows, columns).
    Rows are those of processing elements, ``config.element_rows``."""
    loads: dict[int, Integers]
    """For some cycles, (rows, columns): the number of the tile whose weight a processing element's shadow register has
    taken over at the cycle's begin; -1 where none."""

    def stream(self, name: str) -> Flags:
        """(cycles): whether a bit of a stream is high."""
        return self.streams[:, STREAMS.index(name)] != 0

    def taken(self, name: str) -> Flags:
        """(cycles): whether a beat of a stream is taken."""
        return self.stream(f"{name}__valid") & self.stream(f"{name}__ready")

    @property
    def beats(self) -> list[Integers]:
        """For each tile, the cycles after its first beat in which its beats are multiplied: as they left admission."""
        return [beats - beats[0] for beats in leaving(self.streams, self.tiles)]

    def tile_at(self, cycle: int) -> Integers:
        """Return (rows, columns): the tile whose activation a processing element multiplies in a cycle; -1 if none."""
        result = np.full(self.starts.shape[1:], -1)
        for number, beats in enumerate(self.beats):
            result[np.isin(cycle - self.starts[number], beats)] = number
        return result

    def useful(self, number: int) -> npt.NDArray[np.float64]:
        """(rows of elements): the share of an element's products that are no padding, in a tile's columns."""
        own = len(self.tiles[number].inner) / self.config.terms
        return np.clip(own - np.arange(self.config.element_rows), 0, 1)

    @property
    def products(self) -> int:
        """Multiply-adds that were useful."""
        return sum(len(tile.activations) * len(tile.inner) * len(tile.columns) for tile in self.tiles)

    @property
    def utilisation(self) -> float:
        """Share of all processing elements and cycles that the products took."""
        return self.products / (self.config.rows * self.config.columns * self.cycles)


def leaving(streams: npt.NDArray[np.uint32], tiles: Sequence[Tile]) -> list[Integers]:
    """Return, for each tile, the cycles in which its beats of activations leave admission."""
    go = np.flatnonzero(streams[:, STREAMS.index("admission.o_go")])
    return np.split(go, np.cumsum([len(tile.activations) for tile in tiles])[:-1])
