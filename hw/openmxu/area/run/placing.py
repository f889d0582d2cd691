"""Cores placed and routed, where Debian's qflow, graywolf and qrouter are installed: the area that wires add to cells.

::

    point ─▶ Yosys, recipe area ─▶ cells and nets ─▶ BLIF ─▶ blif2cel ─▶ graywolf ─▶ place2def ─▶ qrouter ─▶ DEF
                                        │                                                                    │
                                        └──────────▶ openmxu.area.run.layout: is it this netlist? ◀──────────────┘

A core has rows of cells without gaps, six layers of metal over them, and ports around. It has no power grid, no clock
tree and no filler cells, and nothing is known of its timing.
"""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from openmxu import yosys
from openmxu.area.run import layout
from openmxu.area.run.job import pack, unpack
from openmxu.area.run.layout import Layout, LayoutError
from openmxu.area.run.measure import Result
from openmxu.area.run.schedule import Workers, measure_all
from openmxu.area.subject.points import ADDER, MULTIPLIER, PROCESSING_ELEMENT, Point, point
from openmxu.area.target.liberty import read_library
from openmxu.area.target.targets import choose_targets
from openmxu.runtime import cache, process
from openmxu.spec.formats import BF16, FP16, FP32

PACKAGES = "qflow graywolf qrouter qflow-tech-osu018"
"""Debian packages to install."""

SEEDS, TRIES = 3, 6
"""Layouts that figures are means over, and the most seeds of the placer tried for them: qrouter sometimes crashes."""

_MOST_OPEN = 0.005
"""The largest fraction of nets that may be open: qrouter sometimes omits a via, which changes no figure by as much."""

_LIMIT = 1800.0
"""Seconds that a tool may take for one core."""

_TECHNOLOGY = Path("/usr/share/qflow/tech/osu018")
_SCRIPTS = Path("/usr/lib/qflow/scripts")
_LAYERS = 6

_ROUTE = """\
verbose 1
read_lef cells.lef
catch {{layers {layers}}}
via stack 1
vdd vdd
gnd gnd
{obstructions}
read_def core.def
qrouter::standard_route routed.def false
quit
"""


@dataclass(frozen=True)
class Tools:
    """The tools that place and route."""

    programs: Mapping[str, str]
    """Paths of the programs, by name."""
    files: Mapping[str, str]
    """Texts of the technology and of the scripts, by name."""
    version: str
    """Version of the router, the only tool that reports one; and a digest of all tools."""


@dataclass(frozen=True)
class Core:
    """A design, placed and routed."""

    result: Result
    """The mapped design."""
    cells: int = 0
    """Number of its cells."""
    cell_area: float = 0.0
    """Their area by the LEF, in µm²."""
    area: float = 0.0
    """Area of the rectangle that encloses them, in µm²: the mean over the seeds."""
    wire: float = 0.0
    """Length of all wires, in mm."""
    vias: float = 0.0
    """Number of vias: the mean over the seeds."""
    spread: float = 0.0
    """Standard deviation of the seeds' lengths of wire, as a fraction of their mean."""
    seeds: int = 0
    tries: int = 0
    """Seeds of the placer: the number that gave a layout, and the number that were tried."""
    open_nets: int = 0
    """Nets of all layouts that the router reports as routed and that do not reach all of their pins."""
    nets: int = 0
    """Number of nets of all layouts."""
    error: str = ""
    """Why there are no figures; empty if there are."""
    drawing: Mapping[str, Any] | None = None
    """Places and wires of the first layout."""


def find_tools() -> Tools | None:
    """The installed tools; none if one of them is missing."""
    programs = {name: shutil.which(name) for name in ("graywolf", "qrouter", "tclsh")}
    paths = [
        *(_TECHNOLOGY / f"osu018{name}" for name in ("_stdcells.lef", "_stdcells.lib", ".par")),
        *(_SCRIPTS / name for name in ("blif2cel.tcl", "place2def.tcl")),
    ]
    tools = {name: path for name, path in programs.items() if path}
    if len(tools) < len(programs) or not all(path.is_file() for path in paths):
        return None
    files = {path.name: path.read_text("latin-1") for path in paths}
    digest = hashlib.sha256("".join(files.values()).encode())
    for program in [*map(Path, tools.values()), *sorted(Path("/usr/lib/graywolf/bin").glob("TimberWolf?C"))]:
        digest.update(program.read_bytes())
    lines = process.run([tools["qrouter"], "-v", "0", "-h"], what="qrouter, asked for its version,", limit=60).last(1)
    version = re.search(r"\d+\.\d+[\w.]*", "".join(lines))
    return Tools(tools, files, f"graywolf, qrouter {version[0] if version else '?'}, {digest.hexdigest()[:12]}")


def core_points() -> list[Point]:
    """The designs to place: those by which formats are compared."""
    formats = (BF16, FP16, FP32)
    return [
        *(point(MULTIPLIER, fmt) for fmt in formats),
        point(ADDER, FP32),
        *(point(PROCESSING_ELEMENT, fmt) for fmt in formats),
    ]


def place_all(points: Sequence[Point], tools: Tools, where: Workers, tell: Callable[[str], None]) -> list[Core]:
    """Map, place and route designs, or look them up."""
    library = read_library(_TECHNOLOGY / "osu018_stdcells.lib")
    [target] = choose_targets([], [library], ["area"])
    results = measure_all([(target, each) for each in points], where, tell)
    tries: list[list[_Seed]] = [[] for _ in results]

    def run(index: int, seed: int) -> None:
        begin = time.monotonic()
        each = _placed(results[index], tools, where.limit, seed)
        tries[index].append(each)
        outcome = each.error or f"{each.area:,.0f} µm², {each.wire:.1f} mm of wire"
        tell(f"placed: {results[index].point.name}, seed {seed}: {outcome} ({time.monotonic() - begin:.1f} s)")

    areas = [result.area.area if result.area else 0.0 for result in results]
    largest_first = sorted(range(len(results)), key=areas.__getitem__, reverse=True)
    with process.threads(min(where.jobs, 8)) as pool:
        tasks = [(index, seed) for index in largest_first for seed in range(1, SEEDS + 1)]
        for future in as_completed([pool.submit(run, *task) for task in tasks if results[task[0]].area]):
            future.result()
    for index, seeds in enumerate(tries):  # others in place of those that failed
        while results[index].area and len(seeds) < TRIES and sum(not each.error for each in seeds) < SEEDS:
            run(index, len(seeds) + 1)
    return [_core(result, seeds) for result, seeds in zip(results, tries, strict=True)]


@dataclass(frozen=True)
class _Seed:
    """A design, placed and routed with one seed; parameters are those of :class:`Core`."""

    seed: int
    cells: int = 0
    cell_area: float = 0.0
    area: float = 0.0
    wire: float = 0.0
    vias: int = 0
    open_nets: int = 0
    nets: int = 0
    error: str = ""
    drawing: Mapping[str, Any] | None = None


def _core(result: Result, seeds: Sequence[_Seed]) -> Core:
    """Means over the first :data:`SEEDS` seeds that have figures."""
    good = sorted((seed for seed in seeds if not seed.error), key=lambda seed: seed.seed)[:SEEDS]
    if not good:
        return Core(result, error=result.error or seeds[-1].error)
    wires = [seed.wire for seed in good]
    return Core(
        result,
        cells=good[0].cells,
        cell_area=good[0].cell_area,
        area=mean(seed.area for seed in good),
        wire=mean(wires),
        vias=mean(seed.vias for seed in good),
        spread=stdev(wires) / mean(wires) if len(wires) > 1 else 0.0,
        seeds=len(good),
        tries=len(seeds),
        open_nets=sum(seed.open_nets for seed in good),
        nets=sum(seed.nets for seed in good),
        drawing=good[0].drawing,
    )


def _placed(result: Result, tools: Tools, limit: float, seed: int) -> _Seed:
    """One seed, from the cache or now; a failure is a result, too, but is not cached."""
    key = cache.key("core", result.key, tools.version, _ROUTE, f"{_LAYERS} {_MOST_OPEN} {seed}", _sources())
    try:
        kept = cache.fetch("areas", key, lambda: json.dumps(_figures(result, tools, limit, seed)).encode())
    except (LayoutError, process.TimeLimitError, yosys.SynthesisError) as error:
        return _Seed(seed, error=str(error))
    return _Seed(seed, **json.loads(kept))


def _sources() -> str:
    """A digest of the code that reads and checks layouts."""
    return hashlib.sha256(Path(layout.__file__).read_bytes()).hexdigest()


def _figures(result: Result, tools: Tools, limit: float, seed: int) -> dict[str, Any]:
    """The figures of one seed, from a layout that passed our own checks."""
    lef = layout.read_lef(tools.files["osu018_stdcells.lef"])
    design = _Netlist.of(result, limit)
    drawn = layout.read_def(_routed(design, tools, seed), lef)
    open_nets = layout.check(drawn, lef, design.instances, design.nets)
    if len(open_nets) > _MOST_OPEN * len(design.nets):
        raise LayoutError(f"{len(open_nets)} of {len(design.nets)} nets are open, first {open_nets[0]}")
    left, bottom, right, top = drawn.box(lef)
    return {
        "cells": len(design.instances),
        "cell_area": sum(lef.cells[kind].area for kind in design.instances.values()),
        "area": (right - left) * (top - bottom),
        "wire": drawn.length,
        "vias": drawn.vias,
        "open_nets": len(open_nets),
        "nets": len(design.nets),
        "drawing": _drawing(drawn, lef),
    }


def _drawing(drawn: Layout, lef: layout.Library) -> dict[str, Any]:
    """Cells (left, bottom, width, height) and wires (left, bottom, right, top) by layer, in tenths of a µm."""
    unit = drawn.scale / 10
    left, bottom, *_ = (round(10 * side) for side in drawn.box(lef))
    cells = []
    for place in drawn.cells.values():
        body = drawn.shape(place, lef)
        sides = body.left, body.bottom, body.right - body.left, body.top - body.bottom
        x, y, width, height = (round(side / unit) for side in sides)
        cells.append([x - left, y - bottom, width, height])
    wires: dict[str, list[list[int]]] = {}
    for route in drawn.routes.values():
        for piece in route:
            for wire in piece:
                if wire.length:
                    ends = [round(end / unit) for end in wire[1:]]
                    wires.setdefault(wire.layer, []).append(
                        [ends[0] - left, ends[1] - bottom, ends[2] - left, ends[3] - bottom]
                    )
    return {"cells": cells, "wires": wires}


@dataclass(frozen=True)
class _Netlist:
    """A mapped design."""

    instances: dict[str, str]
    """Kinds of cells, by instance."""
    nets: dict[str, list[tuple[str, str]]]
    """Pins by net: instance and pin."""
    inputs: list[str]
    outputs: list[str]
    """Nets that have ports."""

    @classmethod
    def of(cls, result: Result, limit: float) -> "_Netlist":
        """Map a design once more, and keep its cells and their connections."""
        library = result.target.library
        assert library is not None
        script = f"{result.script}setundef -zero\nwrite_json /job/netlist.json\n"
        libraries = {"cells.lib": library.text}

        def make() -> bytes:
            rtlil = result.point.in_form(result.target.form)
            return pack(yosys.run(script, rtlil, ["netlist.json"], libraries=libraries, limit=limit)["netlist.json"])

        text = unpack(cache.fetch("netlists", cache.key("netlist.json", result.key), make))
        return cls.parse(json.loads(text)["modules"][result.point.top])

    @classmethod
    def parse(cls, module: Mapping[str, Any]) -> "_Netlist":
        """The netlist of a module in Yosys's JSON: instances have blif2cel's names, nets are numbered."""
        numbers: dict[str, Iterator[int]] = {}
        instances: dict[str, str] = {}
        nets: dict[str, list[tuple[str, str]]] = {}
        for cell in module["cells"].values():
            kind = cell["type"]
            name = f"{kind}_{next(numbers.setdefault(kind, count(1)))}"
            instances[name] = kind
            for pin, bits in cell["connections"].items():
                for bit in bits:
                    if isinstance(bit, str):
                        raise LayoutError(f"pin {pin} of a {kind} is held at {bit}, for which there is no cell")
                    nets.setdefault(f"n{bit}", []).append((name, pin))
        ports: dict[str, str] = {}
        for port in module["ports"].values():
            for net in (f"n{bit}" for bit in port["bits"]):
                if net in nets:
                    ports.setdefault(net, port["direction"])  # one for each net, whatever the ports are called
        inputs, outputs = ([net for net, direction in ports.items() if direction == way] for way in ("input", "output"))
        return cls(instances, nets, inputs, outputs)

    @property
    def blif(self) -> str:
        """BLIF text for blif2cel, which numbers the cells of a kind in their order."""
        pins: dict[str, list[str]] = {name: [] for name in self.instances}
        for net, terminals in self.nets.items():
            for name, pin in terminals:
                pins[name].append(f"{pin}={net}")
        return "\n".join(
            [
                ".model core",
                f".inputs {' '.join(self.inputs)}",
                f".outputs {' '.join(self.outputs)}",
                *(f".gate {kind} {' '.join(pins[name])}" for name, kind in self.instances.items()),
                ".end\n",
            ]
        )


def _routed(design: _Netlist, tools: Tools, seed: int) -> str:
    """The routed DEF. A tool that leaves no file has failed, whatever it returns."""
    programs, files = tools.programs, tools.files
    with process.workspace() as work:
        (work / "core.blif").write_text(design.blif)
        (work / "cells.lef").write_text(files["osu018_stdcells.lef"], "latin-1")
        (work / "core.par").write_text(re.sub(r"(random\.seed\s*:).*", rf"\1 {seed}", files["osu018.par"]), "latin-1")
        (work / "info.cfg").write_text("read_lef cells.lef\n")
        for name in ("blif2cel.tcl", "place2def.tcl"):
            (work / name).write_text(files[name], "latin-1")
        _run([programs["qrouter"], "-i", "core.info", "-c", "info.cfg"], work, "core.info")
        to_cells = ["blif2cel.tcl", "--blif", "core.blif", "--lef", "cells.lef", "--cel", "core.cel"]
        _run([programs["tclsh"], *to_cells], work, "core.cel")
        _run([programs["graywolf"], "-n", "core"], work, "core.pl1")
        _run([programs["tclsh"], "place2def.tcl", "core", "FILL", str(_LAYERS)], work, "core.def")
        (work / "core.cfg").write_text(
            _ROUTE.format(layers=_LAYERS, obstructions=(work / "core.obs").read_text().strip())
        )
        _run([programs["qrouter"], "-nog", "-s", "core.cfg"], work, "routed.def")
        return (work / "routed.def").read_text()


def _run(command: Sequence[str], work: Path, leaves: str) -> None:
    name = Path(command[1] if command[0].endswith("tclsh") else command[0]).name
    done = process.run(command, what=name, limit=_LIMIT, directory=work)
    if not (work / leaves).is_file():
        raise LayoutError(f"{name} left no {leaves}, exit code {done.code}")
