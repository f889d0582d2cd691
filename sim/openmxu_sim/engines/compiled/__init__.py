"""Engine ``compiled``: the unit's netlist as vector code, many processing elements at a time."""

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.runtime.machine import cores
from openmxu.spec.marks import MARKS
from openmxu.spec.passes import Part
from openmxu_sim.engines.compiled.model import Model, load_model
from openmxu_sim.engines.compiled.trace import Trace, Window, small_window
from openmxu_sim.engines.protocol import Counters, Run
from openmxu_sim.operands.aliases import Progress, Words
from openmxu_sim.operands.parts import part_of
from openmxu_sim.operands.stimulus import Stalls, Stimulus

__all__ = ["Trace", "Window", "default_threads", "record", "run", "run_model"]

_WORTH_A_THREAD = 2048
"""Processing elements for each thread: with fewer, a further thread saves no time."""

_CALL = 0.05
"""Seconds, roughly, after which the machine code returns, to report progress and to be interrupted."""


def default_threads(cells: int) -> int:
    """Return the number of threads for a unit with so many processing elements."""
    return max(1, min(cores(), cells // _WORTH_A_THREAD))


def run(
    stimulus: Stimulus,
    *,
    stalls: Stalls | None = None,
    vcd: Path | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    window: Window | None = None,
) -> Run:
    """Run the unit as machine code; see :class:`~openmxu_sim.engines.protocol.Engine`."""
    config = stimulus.config
    if vcd is None:
        return run_model(load_model(config), stimulus, stalls, progress, threads)
    window = window or small_window(config)
    # Modules that only a waveform needs are imported only for one.
    from openmxu_sim.engines.compiled.vcd import write_vcd  # noqa: PLC0415

    result, trace = record(stimulus, window, stalls=stalls, progress=progress)
    write_vcd(trace, config, vcd)
    return result


def record(
    stimulus: Stimulus, window: Window, *, stalls: Stalls | None = None, progress: Progress | None = None
) -> tuple[Run, Trace]:
    """Run as :func:`run` does, and trace a part of the unit."""
    window.check(stimulus.config)
    model = load_model(stimulus.config)
    trace = Trace(window, model.registers, stimulus.config.terms)
    return run_model(model, stimulus, stalls, progress, trace=trace), trace


def run_model(
    model: Model,
    stimulus: Stimulus,
    stalls: Stalls | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    trace: Trace | None = None,
) -> Run:
    """Run as :func:`run` does, on a model of the unit that is already loaded."""
    config = stimulus.config
    a, rows = _parts(stimulus.a, [tile.activation_part for tile in stimulus.tiles], split=not config.splitter)
    b, weight_rows = _parts(stimulus.b, [tile.weight_part for tile in stimulus.tiles], split=not config.splitter)
    tiles = _tiles(stimulus, rows, weight_rows)
    waits = None if stalls is None else np.ascontiguousarray(stalls.pattern, dtype=np.uint8)
    period = 1 if waits is None else waits.shape[1]
    results = stimulus.results
    beats = np.empty((results, config.columns), dtype=np.uint32)
    unit = model.new(
        _address(a),
        _address(b),
        a.shape[1],
        b.shape[1],
        _address(tiles),
        len(tiles),
        results,
        _address(waits),
        period,
        stimulus.patience + (0 if waits is None else period),
        _address(beats),
        threads or default_threads(config.element_rows * config.columns),
        None if trace is None else ctypes.byref(trace.structure()),
    )
    if unit is None:
        raise MemoryError(f"too little memory for a unit of {config.rows}x{config.columns}")
    try:
        state = _advance(model, unit, results, progress)
        if trace is not None:
            trace.end(state[1])
        counters = Counters(*state[4:]) if config.status else None
        return Run(beats, state[2], counters)
    finally:
        model.delete(unit)


def _tiles(stimulus: Stimulus, rows: list[int], weight_rows: list[int]) -> npt.NDArray[np.int64]:
    """Return each tile as ``struct tile`` of ``unit.c``; ``rows``: where its parts of the matrices begin."""
    splitter = stimulus.config.splitter
    return np.array(
        [
            (
                row + tile.activations.start,
                len(tile.activations),
                tile.inner.start,
                len(tile.inner),
                weight_row + tile.inner.start,
                tile.columns.start,
                len(tile.columns),
                sum(getattr(tile, mark) << bit for bit, mark in enumerate(MARKS) if mark not in ("first", "last"))
                | splitter * tile.activation_part << len(MARKS),
                splitter * tile.weight_part << 1,
            )
            for tile, row, weight_row in zip(stimulus.tiles, rows, weight_rows, strict=True)
        ],
        dtype=np.int64,
    )


def _advance(model: Model, unit: int, results: int, progress: Progress | None) -> Any:
    """Run a unit until all results are there; returns its state."""
    blocks = 16
    state = model.progress(unit).contents
    while state[0] == 0:
        start = time.perf_counter()
        model.run(unit, blocks)
        if time.perf_counter() - start < _CALL / 2:
            blocks *= 2
        if progress is not None:
            progress(state[3], results)
    if state[0] != 1:
        raise RuntimeError(
            f"the unit hangs: nothing moved up to cycle {state[1]}, {state[3]} of {results} results are there"
        )
    return state


def _parts(matrix: Words, parts: list[Part], *, split: bool) -> tuple[Words, list[int]]:
    """Return a matrix's parts on top of each other, and the row at which the part of each tile begins."""
    if not split:
        return np.ascontiguousarray(matrix, dtype=np.uint32), [0] * len(parts)
    wanted = sorted(set(parts))
    stacked = np.concatenate([part_of(matrix, part) for part in wanted])
    return np.ascontiguousarray(stacked, dtype=np.uint32), [wanted.index(part) * len(matrix) for part in parts]


def _address(array: npt.NDArray[Any] | None) -> ctypes.c_void_p | None:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)
