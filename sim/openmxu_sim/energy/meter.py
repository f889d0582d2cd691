"""Energies for results of an area report: the same netlist is made once more, played and checked, or looked up."""

import functools
import hashlib
import importlib.resources
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path

import numpy as np

from openmxu import yosys
from openmxu.area.run.energy import LAYER, NORMAL, RANDOM, Energy
from openmxu.area.run.job import NETLIST, pack, unpack
from openmxu.area.run.measure import Result
from openmxu.area.run.schedule import Left, Workers
from openmxu.area.subject.points import Point
from openmxu.cells.energies import NoPowerError, read_cells
from openmxu.runtime import cache, process
from openmxu.runtime.native import CompilationError, CompilerNotFoundError, find_compiler
from openmxu_sim.energy.events import Player
from openmxu_sim.energy.timed import TimedNetlist, UnsuitableError, read_timed
from openmxu_sim.energy.workloads import STRETCH, Layer, random_workload, read_layer, workload

STRETCHES, SEEDS = 256, 3
"""Stretches in a figure, and figures in a mean."""

_WRITE = f"write_verilog -noattr -simple-lhs /job/{NETLIST}\n"
_READ = f"""\
read_liberty -lib /lib/cells.lib
read_verilog /sources/{NETLIST}
hierarchy -top {{top}}
write_json /job/netlist.json
"""
"""Yosys scripts: to write a netlist where no delay was measured, and to read a netlist that was kept."""

_FIGURES = ("clock", "flip_flops", "logic", "at_once")


def measure(
    plan: Sequence[tuple[Result, str]], where: Workers, tell: Callable[[str], None], layer: Path | None = None
) -> list[Energy]:
    """A :data:`~openmxu.area.run.energy.Meter`. Netlists are played on this machine, even if a cluster maps others."""
    matrices = read_layer(layer) if layer is not None else None
    try:
        find_compiler()
    except CompilerNotFoundError as error:
        raise OSError(str(error)) from None
    left = Left(float(len(plan)))
    energies: dict[int, Energy] = {}
    start = time.monotonic()
    # Operands of a netlist are played one after the other: they share it.
    groups: dict[str, list[int]] = {}
    for index, (result, _) in enumerate(plan):
        groups.setdefault(result.key, []).append(index)

    def run(indices: Sequence[int]) -> None:
        result, _ = plan[indices[0]]
        player = functools.cache(lambda: Player(netlist_of(result, where.limit)))
        for index in indices:
            begin = time.monotonic()
            energy = energies[index] = _one(result, plan[index][1], player, matrices)
            seconds = time.monotonic() - begin
            left.finish(1.0, seconds, time.monotonic() - start)
            outcome = f"failed: {energy.error}" if energy.error else f"{energy.total:.1f} pJ a cycle"
            tell(
                f"[{len(energies)}/{len(plan)}{left}] {energy.result.target.label}: {energy.result.point.name}, "
                f"{energy.operands}: {outcome} ({seconds:.1f} s)"
            )

    with process.threads(min(where.jobs, 8)) as pool:
        for future in as_completed([pool.submit(run, indices) for indices in groups.values()]):
            future.result()
    return [energies[index] for index in range(len(plan))]


def measure_one(result: Result, operands: str, limit: float = yosys.TIME_LIMIT, layer: Layer | None = None) -> Energy:
    """Return the energy of a result, or the reason why there is none."""
    return _one(result, operands, lambda: Player(netlist_of(result, limit)), layer)


def mean_energy(netlist: TimedNetlist, point: Point) -> float:
    """Return the energy of a cycle of a part in pJ; each output is compared with the golden model's."""
    figures = _measured(Player(netlist), point, NORMAL, None)
    return figures["clock"] + figures["flip_flops"] + figures["logic"]


def _one(result: Result, operands: str, player: Callable[[], Player], layer: Layer | None) -> Energy:
    """As :func:`measure_one`; the netlist is made only if nobody has measured it yet."""
    energy, point = Energy(result, operands), result.point
    digest = layer.sha256 if layer and operands == LAYER else ""
    key = cache.key("energy", _sources(), result.key, operands, digest, f"{STRETCHES} {SEEDS}")
    try:
        kept = cache.fetch("areas", key, lambda: json.dumps(_measured(player(), point, operands, layer)).encode())
    except (NoPowerError, UnsuitableError, CompilationError, yosys.SynthesisError) as error:
        return replace(energy, error=str(error))
    return replace(energy, cycles=STRETCHES * STRETCH, seeds=SEEDS, **json.loads(kept))


def _sources() -> str:
    """Return a digest of the sources that energies depend on."""
    digest = hashlib.sha256()
    here, cells = (importlib.resources.files(package) for package in ("openmxu_sim.energy", "openmxu.cells"))
    names = ("events.c", "events.py", "settled.py", "timed.py", "workloads.py")
    for file in (cells.joinpath("energies.py"), *map(here.joinpath, names)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _measured(player: Player, point: Point, operands: str, layer: Layer | None) -> dict[str, float]:
    """Return means over the seeds."""
    runs = [_played(player, point, operands, seed, layer) for seed in range(SEEDS)]
    sums = [sum(run[:3]) for run in runs]
    means = dict(zip(_FIGURES, np.mean(runs, axis=0).tolist(), strict=True))
    return {**means, "spread": float(np.std(sums, ddof=1) / np.mean(sums))}


def _played(player: Player, point: Point, operands: str, seed: int, layer: Layer | None) -> list[float]:
    """Return the figures of one seed. All outputs are compared with the golden model's, or with those of the cells."""
    if operands == RANDOM:
        right = "its cells' without delays"
        load = random_workload(player.netlist, cycles=STRETCHES * STRETCH, seed=seed)
    else:
        right = "the golden model's"
        load = workload(point, operands, stretches=STRETCHES, seed=seed, layer=layer)
    activity = player.play(load.inputs)
    for name, wanted in load.outputs.items():
        wrong = np.flatnonzero((activity.outputs[name][load.since :] != wanted[load.since :]).any(axis=1))
        if len(wrong):
            raise UnsuitableError(f"{name} differs from {right} in {len(wrong)} cycles, first {wrong[0]}")
    clock, flip_flops, logic = activity.energies[load.counted].mean(axis=0)
    return [clock, flip_flops, logic, clock + activity.at_once[load.counted].mean()]


def netlist_of(result: Result, limit: float = yosys.TIME_LIMIT) -> TimedNetlist:
    """Return the netlist of a result, with the delays and energies of its library."""
    library = result.target.library
    assert library is not None
    cells = read_cells(library)

    def make() -> bytes:
        script = result.script if NETLIST in result.script else f"{result.script}setundef -zero\n{_WRITE}"
        text = result.point.rtlil(result.target.form)
        return pack(yosys.run(script, text, [NETLIST], libraries=libraries, limit=limit)[NETLIST])

    libraries = {"cells.lib": library.text}
    text = unpack(cache.fetch("netlists", result.netlist_key, make))
    with process.workspace() as folder:
        (folder / NETLIST).write_text(text)
        files = yosys.run(
            _READ.format(top=result.point.top), "", ["netlist.json"], libraries=libraries, sources=folder, limit=limit
        )
    return read_timed(files["netlist.json"], result.point.top, cells)
