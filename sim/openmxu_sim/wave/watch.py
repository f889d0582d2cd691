"""Run a product and watch which tile each processing element multiplies in each cycle."""

from collections.abc import Sequence

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.engines.compiled import record
from openmxu_sim.engines.compiled.trace import Trace, Window, trace_bytes
from openmxu_sim.operands.aliases import Progress, share_of
from openmxu_sim.operands.stimulus import Stalls, Stimulus, stimulus
from openmxu_sim.wave.activity import MOST_CELLS, MOST_CYCLES, Activity, Integers, leaving
from openmxu_sim.wave.picture import draw

_SNAPSHOTS = 6
_AT_ONCE = 1 << 29
"""Bytes of the trace from which the activity of some rows is taken; the unit runs once for each such part."""


class _Watched(Activity):
    """An activity that notebooks show."""

    def _repr_html_(self) -> str:
        """Return the picture."""
        return draw(self)


def default_sizes(config: MxuConfig) -> tuple[int, int, int]:
    """Return M, K and N of a product of four tiles, without a bubble between them if the bank is deep enough."""
    return min(config.shortest_tile * 3 // 2, config.depth), 2 * config.rows, 2 * config.columns


def product(config: MxuConfig, m: int, k: int, n: int) -> Stimulus:
    """Return the product of two random matrices of such sizes."""
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
        Waits of the other sides of the streams.
    at
        Cycles for which to see where weights are loaded; by default six, evenly spread over the time in which the
        array works.
    progress
        Called with the results so far and all results, over all runs that a large unit needs.

    Raises
    ------
    ValueError
        The unit or the run is too large, or ``at`` is not within it.
    """
    config = given.config
    for noun in ("rows", "columns"):
        if getattr(config, noun) > MOST_CELLS:
            raise ValueError(f"{noun} must be at most {MOST_CELLS} for an image, not {getattr(config, noun)}")
    _check_cycles(cycles(config, len(given.a), *given.b.shape))
    # A first run shows how long it takes, and how long the last cell works.
    height, width = config.element_rows, config.columns
    corner = Window(range(height - 1, height), range(width - 1, width), range(MOST_CYCLES + 1))
    run, trace = record(given, corner, stalls=stalls)
    _check_cycles(trace.ran)
    left = leaving(trace.streams, given.tiles)
    shown = _shown(at, trace, left)
    swapped = np.array([not tile.keep for tile in given.tiles])
    swapping = np.flatnonzero(swapped)
    swaps = np.zeros((len(swapping), height, width), dtype=np.int64)
    loads = {cycle: np.full((height, width), -1) for cycle in shown}
    parts = _parts(config, trace)
    for number, rows in enumerate(parts):
        _, part = record(
            given,
            Window(rows, range(width), range(trace.ran)),
            stalls=stalls,
            progress=share_of(progress, number, len(parts)),
        )
        # Cell by cell, the n-th swap mark is that of the n-th tile that has weights of its own.
        when = np.nonzero(np.moveaxis(part.register("o_swap"), 0, -1))[-1]
        swaps[:, rows.start : rows.stop] = when.reshape(len(rows), width, len(swapping)).transpose(2, 0, 1)
        load = part.register("o_load")
        beats = config.rows - config.terms * np.array(rows)[:, None]  # that a tile moves through a row
        for cycle, tiles in loads.items():
            block = (load[: cycle + 1].sum(axis=0, dtype=np.int64) - 1) // beats
            tiles[rows.start : rows.stop] = np.where(load[cycle], swapping[block], -1)
    # All beats take as long from admission to a cell.
    leaves = np.array([beats[0] for beats in left])
    own = np.cumsum(swapped) - 1  # the block of weights that a tile is multiplied with
    starts = swaps[own] + (leaves - leaves[swapping[own]])[:, None, None]
    return _Watched(config, given.tiles, stalls, run.cycles, trace.streams, starts, loads)


def _check_cycles(cycles: int, about: str = "") -> None:
    if cycles > MOST_CYCLES:
        raise ValueError(
            f"the product of m, k and n must take at most {MOST_CYCLES} cycles for an image, not {about}{cycles}"
        )


def _shown(at: Sequence[int] | None, corner: Trace, left: Sequence[Integers]) -> list[int]:
    """Return the cycles to show, by default six from the trace of the last cell."""
    if at is None:
        begin, end = left[0][0], left[-1][-1]
        end += np.flatnonzero(corner.register("o_swap"))[0] - begin
        return np.linspace(begin, end, _SNAPSHOTS + 2).round().astype(int)[1:-1].tolist()
    for cycle in at:
        if not 0 <= cycle < corner.ran:
            raise ValueError(f"at must be cycles from 0 to {corner.ran - 1}, not {cycle}")
    return list(at)


def _parts(config: MxuConfig, trace: Trace) -> list[range]:
    """Return ranges of rows whose trace is not too large."""
    size = trace_bytes(Window(range(1), range(config.columns), range(trace.ran)), trace.registers)
    step = max(1, _AT_ONCE // size)
    return [range(start, min(start + step, config.element_rows)) for start in range(0, config.element_rows, step)]
