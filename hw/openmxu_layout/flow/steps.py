"""The steps from RTL to masks and checks of them.

::

    RTLIL ──▶ cells ──▶ places ──▶ wires ──▶ delays ──▶ masks of the best seed
      ╎         ╎  ╎       ╎  └── for each seed ──┘       ╎
      ╎ proof   ╎  ╎ comp. ╎                              ╎
      └╌╌╌╌╌╌╌╌╌┘  └╌╌╌╌╌╌╌┴╌╌╌╌╌╌╌╌ LVS ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┴╌╌ DRC

What a step gives is kept in the cache, under all that it depends on: a second run goes on where the first one ended.
"""

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from openmxu import yosys
from openmxu.area.target.timing import find_sta, sta_identity
from openmxu.cells.lef import LefCell, read_cells
from openmxu.cells.liberty import Library, read_library
from openmxu.runtime import cache, process
from openmxu_layout import SOURCES
from openmxu_layout.check.decks import Circuit, Violations, check_circuit, check_rules, find_klayout, klayout_identity
from openmxu_layout.check.equality import UnlikeError, is_equal
from openmxu_layout.check.netlists import differences, misdrawn, to_spice
from openmxu_layout.check.rails import broken_supplies
from openmxu_layout.drawing.exchange import write_netlist
from openmxu_layout.drawing.gds import write_gds
from openmxu_layout.extract.arrivals import Timing, arrivals
from openmxu_layout.extract.spef import write_spef
from openmxu_layout.flow.kept import pack, unpack
from openmxu_layout.kit import Kit, copy_files
from openmxu_layout.pins import find_access, unreachable
from openmxu_layout.place.placement import check_utilisation, place
from openmxu_layout.place.synthesis import Mapped, synthesise
from openmxu_layout.placed import Placed
from openmxu_layout.route.routing import Route, Wired, core_access, route
from openmxu_layout.route.supplies import plan_straps, stack_metal
from openmxu_layout.technology import Technology, technology

CHECKS = ("minimal", "all", "none")
"""The foundry's smaller deck of design rules, both decks, or no check at all."""

_JOBS = 2
"""Checks at a time: each takes one processor and, of a 2x2 unit, 0.6 GB."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Source:
    """A design that is to be laid out."""

    name: str
    """In words: the design and its parameters."""
    top: str
    rtlil: str


@dataclass(frozen=True)
class Foundry:
    """A technology, and what was read from the files of its kit."""

    name: str
    technology: Technology
    files: Mapping[str, Path]
    cells: Mapping[str, LefCell]
    liberty: Library


@dataclass(frozen=True)
class Request:
    """How a design is to be laid out."""

    utilisation: float = 0.7
    seeds: int = 1
    """Number of seeds of the placement, from 1."""
    checks: str = "minimal"
    """One of :data:`CHECKS`."""
    period: float | None = None
    """Period of the clock in ns, for the slack."""

    def check(self) -> None:
        """Raise a :exc:`ValueError` for an invalid field."""
        check_utilisation(self.utilisation)
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, not {self.seeds}")
        if self.checks not in CHECKS:
            raise ValueError(f"checks must be one of {', '.join(CHECKS)}, not {self.checks!r}")
        if self.period is not None and not 0 < self.period < math.inf:
            raise ValueError(f"period must be more than 0 ns and finite, not {self.period:g}")


@dataclass(frozen=True)
class Layout(Wired):
    """A design, placed and routed with one seed."""

    seed: int
    spef: str
    timing: Timing
    bare: Timing
    """Delays without wires."""


@dataclass(frozen=True)
class Checked:
    """What the checks found; nothing where all is well."""

    rules: Mapping[str, Violations]
    """By deck."""
    circuit: Sequence[str]
    """Differences of the transistors in the masks from the placed netlist, in words."""
    netlist: Sequence[str]
    """Differences of the placed netlist from the synthesised one, in words."""
    proof: str
    """Why the synthesised netlist is not proven equal to the design; empty if it is."""
    supplies: Sequence[str] = field(default_factory=list)
    """Where rails, straps or stacks of vias are not whole in the masks, in words."""

    @property
    def passed(self) -> bool:
        """Whether nothing was found, densities apart."""
        wrong = self.circuit or self.netlist or self.proof or self.supplies
        return not (wrong or any(each.counts for each in self.rules.values()))


@dataclass(frozen=True)
class Outcome:
    """A layout with its masks."""

    source: Source
    request: Request
    mapped: Mapped
    layouts: Sequence[Layout]
    """Those of all seeds."""
    best: Layout
    """The one with the shortest longest path; of several, that of the least seed."""
    masks: bytes
    """GDS."""
    checked: Checked | None
    tools: Sequence[str]
    clocks: Sequence[str] = ()
    """Ports; delays take them for one."""


def find_foundry(name: str, roots: Sequence[Path], work: Path, *, checks: bool) -> Foundry:
    """Copy a technology's files into a folder that stays as long as they are used, and read them.

    A :exc:`ValueError` if one or a tool is missing.
    """
    its = technology(name)
    files = copy_files(roots, {**its.kit.files, **(its.kit.decks if checks else {})}, work)
    for tool, there in (("OpenSTA", find_sta()), ("KLayout", not checks or find_klayout())):
        if not there:
            raise ValueError(f"{tool} is not installed (Debian and Ubuntu: apt install {tool.lower()})")
    cells = read_cells(files["cells"].read_text())
    return Foundry(name, its, files, cells, read_library(files["timing"]))


def lay_out(source: Source, foundry: Foundry, request: Request, tell: Callable[[str], None]) -> Outcome:
    """Lay a design out, and check it; a :exc:`ValueError` if the request is invalid, or there is no room."""
    request.check()
    flow = _Flow(source, foundry, tell)
    mapped = flow.synthesise()
    clocks = _clocks(mapped, foundry.technology.kit)
    layouts = [flow.lay(mapped, clocks, request.utilisation, seed) for seed in range(1, request.seeds + 1)]
    best = min(layouts, key=lambda layout: (layout.timing.arrival, layout.seed))
    with process.workspace() as work:
        path = work / "layout.gds"
        write_gds(path, best, foundry.technology, foundry.files["masks"])
        decks = {"minimal": ["minimal"], "all": ["minimal", "maximal"], "none": []}[request.checks]
        checked = flow.check(path, mapped, best, decks) if decks else None
        masks = path.read_bytes()
    tools = [yosys.package(), f"coloquinte {version('coloquinte')}", find_sta(), *([find_klayout()] if decks else [])]
    return Outcome(source, request, mapped, layouts, best, masks, checked, tools, clocks)


class _Flow:
    """The steps of one design."""

    def __init__(self, source: Source, foundry: Foundry, tell: Callable[[str], None]) -> None:
        self._source, self._foundry, self._tell = source, foundry, tell
        # The technology's kit has the digests of all files.
        self._basis = ("layout", repr(foundry.technology), source.top, source.rtlil)

    def _step(self, words: str, its: type[_T], make: Callable[[], _T], *what: str, kind: str = "netlists") -> _T:
        """What a step gives, from the cache or made now."""
        self._tell(words)
        start = time.monotonic()
        packed = cache.fetch_result(SOURCES, lambda: pack(make()), *self._basis, *what, kind=kind)
        if (seconds := time.monotonic() - start) >= 1:
            self._tell(f"{words}: {seconds:.0f} s")
        return unpack(its, packed)

    def synthesise(self) -> Mapped:
        """The netlist of cells."""
        source, foundry = self._source, self._foundry
        closed = unreachable(foundry.cells, foundry.technology)
        supplies = foundry.technology.straps["supplies"]
        make = partial(synthesise, source.rtlil, source.top, foundry.liberty, foundry.technology.kit, closed, supplies)
        return self._step(f"synthesising {source.name}", Mapped, make, "synthesis", yosys.package())

    def lay(self, mapped: Mapped, clocks: Sequence[str], utilisation: float, seed: int) -> Layout:
        """The placed and routed design, with its delays."""
        its, foundry, directions = self._foundry.technology, self._foundry, mapped.ports
        what = (yosys.package(), version("coloquinte"), str(utilisation), str(seed))
        put = partial(place, mapped, foundry.cells, its, utilisation=utilisation, seed=seed)
        placed = self._step(f"placing {len(mapped.instances)} cells, seed {seed}", Placed, put, "places", *what)
        pads = core_access(placed, {name: find_access(cell, its) for name, cell in foundry.cells.items()}, its)
        straps = plan_straps(placed, pads, its)
        stacks = [metal for strap in straps for at in strap.stacks for metal in stack_metal(*at, its)]
        join = partial(route, placed, pads, its, blocked=stacks, tell=self._tell)
        routes = self._step(f"routing {len(placed.nets)} nets, seed {seed}", dict[str, Route], join, "wires", *what)
        netlist = write_netlist(placed.name, directions, placed.nets, placed.masters)
        spefs = [write_spef(placed, routes, its, directions, scale) for scale in (1, 0)]
        timings = [
            self._step(
                f"delays with {name}, seed {seed}",
                Timing,
                partial(arrivals, netlist, spef, placed.name, clocks, foundry.liberty.text),
                *("delays", spef, find_sta(), sta_identity(), *what),
            )
            for name, spef in zip(("wires", "gates alone"), spefs, strict=True)
        ]
        return Layout(placed, routes, straps, seed, spefs[0], *timings)

    def check(self, masks: Path, mapped: Mapped, wired: Wired, decks: Sequence[str]) -> Checked:
        """What the checks of masks and netlists find."""
        foundry, files, placed = self._foundry, self._foundry.files, wired.placed
        what = (find_klayout(), klayout_identity(), hashlib.sha256(masks.read_bytes()).hexdigest())
        spice = to_spice(placed, files["transistors"].read_text(), foundry.technology.straps["supplies"])
        with process.threads(_JOBS) as pool:
            step = partial(pool.submit, partial(self._step, kind="checks"))
            prove = partial(_unproven, self._source, mapped, foundry.liberty)
            proof = step("proof that the netlist is the design's", str, prove, "proof", yosys.package())
            compare = partial(check_circuit, masks, spice, placed.name, files["lvs"])
            circuit = step("circuit of the masks", Circuit, compare, "circuit", spice, *what)
            rules = {}
            for deck in decks:
                check = partial(
                    check_rules, masks, placed.name, files[deck], foundry.technology.kit.decks[deck]["rules"]
                )
                rules[deck] = step(f"rules, {deck} deck", Violations, check, deck, *what)
            broken = {deck: found.result() for deck, found in rules.items()}
            drawn = misdrawn(circuit.result(), placed, foundry.technology)
            differing = differences(placed, mapped, foundry.cells, foundry.technology.kit)
            supplies = broken_supplies(masks, wired, foundry.technology)
            return Checked(broken, drawn, differing, proof.result(), supplies)


def _clocks(mapped: Mapped, its: Kit) -> list[str]:
    """The ports that are clocks."""
    clocked = [net for net, ends in mapped.nets.items() if any(pin == its.clock_pin for _, pin in ends)]
    for net in clocked:
        if mapped.ports.get(net) != "input":
            raise ValueError(f"clocks must come from input ports, without gates, not from {net}")
    return clocked


def _unproven(source: Source, mapped: Mapped, liberty: Library) -> str:
    try:
        return "" if is_equal(source.rtlil, mapped, liberty) else "it differs, or no proof was found"
    except (UnlikeError, yosys.SynthesisError) as error:
        return str(error)
