"""Common parts of the engines that run the unit's Verilog in another simulator."""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from openmxu.export.verilog import to_verilog
from openmxu.runtime import process
from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import Part
from openmxu.spec.tiling import Tile
from openmxu.unit.mxu import Mxu
from openmxu_sim.cosim.build import is_built
from openmxu_sim.cosim.runner import simulate
from openmxu_sim.engines.known_answer import check_simulation, question
from openmxu_sim.engines.protocol import Counters, Run
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import Stalls, Stimulus

DIRECTORY = "OPENMXU_COSIMULATION"
"""Environment variable that names the folder of these files to the test bench."""

STIMULUS = "stimulus.npz"
PROGRESS = "progress"
RESULT = "result.npz"


def write_stimulus(file: Path, stimulus: Stimulus, stalls: Stalls | None) -> None:
    """Write a stimulus and its waits as arrays: reading them back makes numbers, and runs nothing."""
    tiles = [
        [
            *(end for part in (tile.activations, tile.inner, tile.columns) for end in (part.start, part.stop)),
            tile.add,
            tile.clear_nan,
            tile.emit,
            tile.keep,
            tile.activation_part,
            tile.weight_part,
        ]
        for tile in stimulus.tiles
    ]
    arrays = {
        "a": stimulus.a,
        "b": stimulus.b,
        "config": np.array(json.dumps(asdict(stimulus.config))),
        "tiles": np.array(tiles, dtype=np.int64),
    }
    if stalls is not None:
        arrays |= {"waits": stalls.pattern, "seed": np.array(stalls.seed)}
    np.savez(file, allow_pickle=False, **arrays)


def read_stimulus(file: Path) -> tuple[Stimulus, Stalls | None]:
    """Read the file that :func:`write_stimulus` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        config = MxuConfig.of_dict(json.loads(str(arrays["config"])))
        stimulus = Stimulus(config, arrays["a"], arrays["b"], tuple(map(_tile, arrays["tiles"].tolist())))
        if "waits" not in arrays:
            return stimulus, None
        stalls = Stalls(int(arrays["seed"]), period=arrays["waits"].shape[1])
        stalls.pattern[:] = arrays["waits"]
    return stimulus, stalls


def _tile(numbers: list[int]) -> Tile:
    first, second, third = (range(*numbers[start : start + 2]) for start in (0, 2, 4))
    add, clear_nan, emit, keep = map(bool, numbers[6:10])
    return Tile(first, second, third, add, clear_nan, emit, keep, *map(Part, numbers[10:]))


def run(
    simulator: str,
    stimulus: Stimulus,
    *,
    stalls: Stalls | None = None,
    vcd: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run the unit in ``simulator``; the other parameters as in :class:`~openmxu_sim.engines.protocol.Engine`."""
    config = stimulus.config
    verilog, top = _export(config)
    if not is_built(verilog, top, simulator=simulator, waves=vcd is not None):
        with process.workspace() as scratch:
            _simulate(
                simulator,
                question(config),
                None,
                None if vcd is None else scratch / "trial.vcd",
                None,
                partial(check_simulation, simulator, config),
            )
    return _simulate(simulator, stimulus, stalls, vcd, progress, lambda run: None)


def _simulate(
    simulator: str,
    stimulus: Stimulus,
    stalls: Stalls | None,
    vcd: Path | None,
    progress: Progress | None,
    check: Callable[[Run | None], None],
) -> Run:
    config = stimulus.config
    verilog, top = _export(config)

    def result() -> Run:
        with np.load(directory / RESULT) as arrays:
            counters = arrays["counters"].tolist()
            return Run(arrays["beats"], int(arrays["cycles"]), Counters(*counters) if counters else None)

    with process.workspace() as directory:
        write_stimulus(directory / STIMULUS, stimulus, stalls)
        simulate(
            verilog,
            top,
            "openmxu_sim.engines.cosimulation_bench",
            simulator=simulator,
            environment={DIRECTORY: str(directory)},
            vcd=vcd,
            timeout=None,  # a unit that hangs is noticed by its cycles, and a slow simulator may take hours
            tick=None if progress is None else _reporter(directory / PROGRESS, stimulus.results, progress),
            check=lambda: check(result() if (directory / RESULT).is_file() else None),
        )
        run = result()
    if progress is not None:
        progress(stimulus.results, stimulus.results)
    return run


@lru_cache(maxsize=16)
def _export(config: MxuConfig) -> tuple[str, str]:
    """Return the Verilog of a unit and the name of its top module; making it takes longer than many a product."""
    unit = Mxu(config)
    return to_verilog(unit), unit.module_name


def _reporter(file: Path, results: int, progress: Progress) -> Callable[[], None]:
    """Return a function that reports the progress that the test bench wrote into ``file``, if there is any new."""
    latest = 0

    def report() -> None:
        nonlocal latest
        text = file.read_text() if file.is_file() else ""
        if text.isdecimal() and int(text) > latest:
            latest = int(text)
            progress(latest, results)

    return report
