"""Which processing element multiplies what when, in a real run of the unit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import Tile, cycles
from openmxu_sim import golden
from openmxu_sim.aliases import Progress, share_of
from openmxu_sim.engines.compiled import record
from openmxu_sim.engines.compiled.trace import STREAMS, Trace, Window, trace_bytes
from openmxu_sim.stimulus import Stalls, Stimulus, stimulus

__all__ = ["MOST_CELLS", "MOST_CYCLES", "Activity", "default_sizes", "observe", "product"]

MOST_CELLS = 256
"""Rows, and columns, of a picture."""

MOST_CYCLES = 4096
"""Cycles of a picture."""

_SNAPSHOTS = 6
_AT_ONCE = 1 << 29
"""Bytes of the trace from which the activity of some rows is taken; the unit runs once for each such part."""

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Activity:
    """Who multiplied what when. Cycles are counted from the end of the reset.

    Parameters
    ----------
    config
        The unit.
    tiles
        What it computed.
    stalls
        When the other sides of the streams waited.
    cycles
        From the first beat taken on either input stream to the last result beat given, both included.
    streams
        (cycles, signals): what stood on the streams, see :data:`openmxu_sim.engines.compiled.trace.STREAMS`.
    starts
        (tiles, rows, columns): when a processing element multiplies its tile's first activation.
    loads
        For some cycles, (rows, columns): whose weight a processing element's shadow register has taken over at the
        cycle's begin, as the tile's number; -1 where none.
    """

    config: MxuConfig
    tiles: tuple[Tile, ...]
    stalls: Stalls | None
    cycles: int
    streams: npt.NDArray[np.uint32]
    starts: Integers
    loads: dict[int, Integers]

    def _repr_html_(self) -> str:
        """What notebooks show: the picture."""
        from openmxu_sim.wave.picture import draw  # noqa: PLC0415  # it draws what is defined here

        return draw(self)

    def stream(self, name: str) -> Flags:
        """(cycles): whether a bit of a stream is high."""
        return self.streams[:, STREAMS.index(name)] != 0

    def taken(self, name: str) -> Flags:
        """(cycles): whether a beat of a stream is taken."""
        return self.stream(f"{name}__valid") & self.stream(f"{name}__ready")

    @property
    def beats(self) -> list[Integers]:
        """For each tile, when its beats are multiplied, in cycles after its first one: as they left admission."""
        return [beats - beats[0] for beats in _leaving(self.streams, self.tiles)]

    def tile_at(self, cycle: int) -> Integers:
        """(rows, columns): the tile that a processing element multiplies an activation of in a cycle; -1 if none."""
        result = np.full(self.starts.shape[1:], -1)
        for number, beats in enumerate(self.beats):
            result[np.isin(cycle - self.starts[number], beats)] = number
        return result

    @property
    def products(self) -> int:
        """Multiply-adds that were of use."""
        return sum(len(tile.activations) * len(tile.inner) * len(tile.columns) for tile in self.tiles)

    @property
    def utilisation(self) -> float:
        """The share of processing elements and cycles that they took."""
        return self.products / (self.config.rows * self.config.columns * self.cycles)


def default_sizes(config: MxuConfig) -> tuple[int, int, int]:
    """M, K and N of a product of four tiles, which follow one another without a bubble if the bank is deep enough."""
    return min(config.shortest_tile * 3 // 2, config.depth), 2 * config.rows, 2 * config.columns


def product(config: MxuConfig, m: int, k: int, n: int) -> Stimulus:
    """The product of two random matrices of such sizes."""
    for noun, value in (("m", m), ("k", k), ("n", n)):
        if value < 1:
            raise ValueError(f"{noun} must be an integer >= 1, not {value!r}")
    _check_cycles(m * -(-k // config.rows) * -(-n // config.columns), "at least ")  # a cycle for each beat
    generator = np.random.default_rng(0)
    a, b = (golden.to_bits(generator.standard_normal(shape, dtype=np.float32)) for shape in ((m, k), (k, n)))
    return stimulus(config, a, b)


def observe(
    given: Stimulus, *, stalls: Stalls | None = None, at: Sequence[int] | None = None, progress: Progress | None = None
) -> Activity:
    """Run a product on the compiled engine and watch all of its processing elements.

    Parameters
    ----------
    given
        The product.
    stalls
        When the other sides of the streams wait.
    at
        Cycles for which to see where weights are loaded; by default six, evenly spread over the time in which the
        array works.
    progress
        Called with the results done and all results, over all runs that a large unit needs.

    Raises
    ------
    ValueError
        The unit or the run is too large, or ``at`` is not within it.
    """
    config = given.config
    for noun in ("rows", "columns"):
        if getattr(config, noun) > MOST_CELLS:
            raise ValueError(f"{noun} must be at most {MOST_CELLS} for a picture, not {getattr(config, noun)}")
    _check_cycles(cycles(config, len(given.a), *given.b.shape))
    # How long the run is, and how long the last cell works.
    corner = Window(
        range(config.rows - 1, config.rows), range(config.columns - 1, config.columns), range(MOST_CYCLES + 1)
    )
    run, trace = record(given, corner, stalls=stalls)
    _check_cycles(trace.ran)
    leaving = _leaving(trace.streams, given.tiles)
    shown = _shown(at, trace, leaving)
    swapped = np.array([not tile.keep for tile in given.tiles])
    swapping = np.flatnonzero(swapped)
    swaps = np.zeros((len(swapping), config.rows, config.columns), dtype=np.int64)
    loads = {cycle: np.full((config.rows, config.columns), -1) for cycle in shown}
    parts = _parts(config, trace)
    for number, rows in enumerate(parts):
        _, part = record(
            given,
            Window(rows, range(config.columns), range(trace.ran)),
            stalls=stalls,
            progress=share_of(progress, number, len(parts)),
        )
        # Cell by cell, the n-th swap mark is that of the n-th tile that has weights of its own.
        when = np.nonzero(np.moveaxis(part.register("o_swap"), 0, -1))[-1]
        swaps[:, rows.start : rows.stop] = when.reshape(len(rows), config.columns, len(swapping)).transpose(2, 0, 1)
        load = part.register("o_load")
        beats = config.rows - np.array(rows)[:, None]  # that a tile moves through a row
        for cycle, tiles in loads.items():
            block = (load[: cycle + 1].sum(axis=0, dtype=np.int64) - 1) // beats
            tiles[rows.start : rows.stop] = np.where(load[cycle], swapping[block], -1)
    # All beats take as long from admission to a cell.
    leaves = np.array([beats[0] for beats in leaving])
    own = np.cumsum(swapped) - 1  # the block of weights that a tile is multiplied with
    starts = swaps[own] + (leaves - leaves[swapping[own]])[:, None, None]
    return Activity(config, given.tiles, stalls, run.cycles, trace.streams, starts, loads)


def _check_cycles(cycles: int, about: str = "") -> None:
    if cycles > MOST_CYCLES:
        raise ValueError(
            f"the product of m, k and n must take at most {MOST_CYCLES} cycles for a picture, not {about}{cycles}"
        )


def _shown(at: Sequence[int] | None, corner: Trace, leaving: Sequence[Integers]) -> list[int]:
    """The cycles to show, if need be from the trace of the last cell."""
    if at is None:
        begin, end = leaving[0][0], leaving[-1][-1]
        end += np.flatnonzero(corner.register("o_swap"))[0] - begin
        return np.linspace(begin, end, _SNAPSHOTS + 2).round().astype(int)[1:-1].tolist()
    for cycle in at:
        if not 0 <= cycle < corner.ran:
            raise ValueError(f"at must be cycles from 0 to {corner.ran - 1}, not {cycle}")
    return list(at)


def _leaving(streams: npt.NDArray[np.uint32], tiles: Sequence[Tile]) -> list[Integers]:
    """For each tile, the cycles in which its beats of activations leave admission."""
    go = np.flatnonzero(streams[:, STREAMS.index("admission.o_go")])
    return np.split(go, np.cumsum([len(tile.activations) for tile in tiles])[:-1])


def _parts(config: MxuConfig, trace: Trace) -> list[range]:
    """Rows whose trace is not too large."""
    size = trace_bytes(Window(range(1), range(config.columns), range(trace.ran)), trace.registers)
    step = max(1, _AT_ONCE // size)
    return [range(start, min(start + step, config.rows)) for start in range(0, config.rows, step)]
