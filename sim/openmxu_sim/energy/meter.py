"""Energies of results of an area report: the same netlist once more, played and checked, or looked up."""

import functools
import hashlib
import importlib.resources
import json
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import replace

import numpy as np

from openmxu import cache, process, yosys
from openmxu.area.energy import RANDOM, Energy
from openmxu.area.measure import Result
from openmxu.area.schedule import Left, Workers
from openmxu_sim.energy.cells import NoPowerError, read_cells
from openmxu_sim.energy.events import Player
from openmxu_sim.energy.timed import TimedNetlist, UnsuitableError, read_timed
from openmxu_sim.energy.workloads import STRETCH, Workload, random_workload, workload
from openmxu_sim.netlist.native import CompilationError, CompilerNotFoundError, find_compiler

__all__ = ["SEEDS", "STRETCHES", "measure", "measure_one", "netlist_of"]

STRETCHES, SEEDS = 256, 3
"""Stretches of a figure, and figures of a mean."""

_FIGURES = ("clock", "flip_flops", "logic", "at_once")


def measure(plan: Sequence[tuple[Result, str]], where: Workers, tell: Callable[[str], None]) -> list[Energy]:
    """A :data:`~openmxu.area.energy.Meter`. Netlists are played on this machine, also where a cluster maps others.

    Raises
    ------
    OSError
        There is no C compiler.
    """
    try:
        find_compiler()
    except CompilerNotFoundError as error:
        raise OSError(str(error)) from None
    left = Left(float(len(plan)))
    found: dict[int, Energy] = {}
    start = time.monotonic()
    # Operands of a netlist one after the other: they share it.
    groups: dict[str, list[int]] = {}
    for index, (result, _) in enumerate(plan):
        groups.setdefault(result.key, []).append(index)

    def run(indices: Sequence[int]) -> None:
        result, _ = plan[indices[0]]
        player = functools.cache(lambda: Player(netlist_of(result, where.limit)))
        for index in indices:
            begin = time.monotonic()
            energy = found[index] = _one(result, plan[index][1], player)
            seconds = time.monotonic() - begin
            left.finish(1.0, seconds, time.monotonic() - start)
            outcome = f"failed: {energy.error}" if energy.error else f"{energy.total:.1f} pJ a cycle"
            tell(
                f"[{len(found)}/{len(plan)}{left}] {energy.result.target.label}: {energy.result.point.name}, "
                f"{energy.operands}: {outcome} ({seconds:.1f} s)"
            )

    with process.threads(min(where.jobs, 8)) as pool:
        for future in as_completed([pool.submit(run, indices) for indices in groups.values()]):
            future.result()
    return [found[index] for index in range(len(plan))]


def measure_one(result: Result, operands: str, limit: float = yosys.TIME_LIMIT) -> Energy:
    """The energy of a result, or why there is none.

    Parameters
    ----------
    result
        A measured one on a cell library.
    operands
        A key of :data:`openmxu.area.energy.OPERANDS`, or :data:`openmxu.area.energy.RANDOM`.
    limit
        Seconds that Yosys may take.
    """
    return _one(result, operands, lambda: Player(netlist_of(result, limit)))


def _one(result: Result, operands: str, player: Callable[[], Player]) -> Energy:
    """As :func:`measure_one`; the netlist is made only if nobody has measured it yet."""
    energy = Energy(result, operands)
    key = cache.key("energy", _sources(), result.key, operands, f"{STRETCHES} {SEEDS}")
    try:
        kept = cache.fetch("areas", key, lambda: json.dumps(_measured(player(), result, operands)).encode())
    except (NoPowerError, UnsuitableError, CompilationError, yosys.SynthesisError) as error:
        return replace(energy, error=str(error))
    return replace(energy, cycles=STRETCHES * STRETCH, seeds=SEEDS, **json.loads(kept))


def _sources() -> str:
    """A digest of what measures."""
    found = hashlib.sha256()
    for name in ("cells.py", "events.c", "events.py", "settled.py", "timed.py", "workloads.py"):
        found.update(importlib.resources.files("openmxu_sim.energy").joinpath(name).read_bytes())
    return found.hexdigest()


def _measured(player: Player, result: Result, operands: str) -> dict[str, float]:
    """Means over the seeds."""
    runs = [_played(player, result, operands, seed) for seed in range(SEEDS)]
    sums = [sum(run[:3]) for run in runs]
    means = dict(zip(_FIGURES, np.mean(runs, axis=0).tolist(), strict=True))
    return {**means, "spread": float(np.std(sums, ddof=1) / np.mean(sums))}


def _played(player: Player, result: Result, operands: str, seed: int) -> list[float]:
    """The figures of one seed. All outputs are compared with the golden model's, or with what cells say."""
    load, right = _workload(player.netlist, result, operands, seed)
    activity = player.play(load.inputs)
    for name, wanted in load.outputs.items():
        wrong = np.flatnonzero((activity.outputs[name][load.since :] != wanted[load.since :]).any(axis=1))
        if len(wrong):
            raise UnsuitableError(f"{name} differs from {right} in {len(wrong)} cycles, first {wrong[0]}")
    clock, flip_flops, logic = activity.energies[load.counted].mean(axis=0)
    return [clock, flip_flops, logic, clock + activity.at_once[load.counted].mean()]


def _workload(netlist: TimedNetlist, result: Result, operands: str, seed: int) -> tuple[Workload, str]:
    """What a netlist is given, and whose answers are right."""
    if operands == RANDOM:
        return random_workload(netlist, cycles=STRETCHES * STRETCH, seed=seed), "its cells' without delays"
    return workload(result.point, operands, stretches=STRETCHES, seed=seed), "the golden model's"


def netlist_of(result: Result, limit: float = yosys.TIME_LIMIT) -> TimedNetlist:
    """The netlist of a result, with the delays and energies of its library.

    Raises
    ------
    NoPowerError, UnsuitableError
        The library, or the netlist, cannot be used.
    openmxu.yosys.SynthesisError
        Yosys failed.
    """
    library = result.target.library
    assert library is not None
    cells = read_cells(library)

    def make() -> bytes:
        script = f"{result.script}write_json /job/netlist.json\n"
        found = yosys.run(
            script, result.point.rtlil(), ["netlist.json"], libraries={"cells.lib": library.text}, limit=limit
        )
        return zlib.compress(found["netlist.json"].encode(), 6)

    text = cache.fetch("netlists", cache.key("mapped", result.key), make)
    return read_timed(zlib.decompress(text).decode(), result.point.top, cells)
