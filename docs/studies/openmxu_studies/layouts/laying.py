"""Each design laid out with several seeds, as densely as wires allow, checked and measured."""

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

from openmxu import yosys
from openmxu.area.subject.peers import read_peers
from openmxu.area.subject.points import MULTIPLIER, PROCESSING_ELEMENT, Point, point
from openmxu.cells.energies import read_cells
from openmxu.export.provenance import provenance
from openmxu.runtime.machine import machine_name
from openmxu.runtime.process import workspace
from openmxu.spec.formats import BF16, FP8_E4M3, FP16, FP32, TF32
from openmxu.spec.forms import AREA
from openmxu_layout.flow.outcome import to_record
from openmxu_layout.flow.steps import Foundry, Layout, Outcome, Request, Source, find_foundry, lay_out
from openmxu_sim.energy.meter import mean_energy
from openmxu_studies.layouts.formats import Cost, Layouts
from openmxu_studies.layouts.wired import timed

Tell = Callable[[str], None]

TECHNOLOGY = "ihp_sg13g2"

SEEDS = 3

UTILISATIONS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Those that are tried, until the wires of all seeds have room."""


def points() -> list[Point]:
    """The designs that are compared."""
    return [
        *(point(MULTIPLIER, fmt) for fmt in (BF16, FP16, FP32)),
        *(
            point(PROCESSING_ELEMENT, fmt, stages=stages)
            for stages in (1, 6)
            for fmt in (BF16, FP16, FP32, TF32, FP8_E4M3)
        ),
        *(point(PROCESSING_ELEMENT, fmt, terms=4) for fmt in (BF16, FP16, FP32)),
    ]


def layouts(roots: Sequence[Path], peers: Path | None, only: Sequence[str], tell: Tell) -> Layouts:
    """Lay all designs out, or those named in ``only``; ``peers``: others' elements, as for ``openmxu area --peers``."""
    chosen = [*points(), *_peers(peers)]
    names = [each.name for each in chosen]
    if unknown := {*only} - {*names}:
        raise ValueError(f"only must be one of {'; '.join(names)}, not {min(unknown)!r}")
    with workspace() as work:
        foundry = find_foundry(TECHNOLOGY, roots, work, checks=True)
        found = [_cost(each, foundry, tell) for each in chosen if not only or each.name in only]
    tools = {tool: release for _, outcome in found for tool, release in (each.split() for each in outcome.tools)}
    costs = tuple(cost for cost, _ in found)
    return Layouts(datetime.date.today().isoformat(), machine_name(), provenance() | tools, costs)


def _peers(folder: Path | None) -> list[Point]:
    """Elements of others."""
    if folder is None:
        return []
    return [peer.design.read(yosys.TIME_LIMIT) for peer in read_peers(folder) if peer.ours.design == "pe"]


def _cost(design: Point, foundry: Foundry, tell: Tell) -> tuple[Cost, Outcome]:
    """Cost of a design, and its layouts."""
    source = Source(design.name, design.top, design.rtlil(AREA))
    outcome = _densest(source, foundry, tell)
    bare, wired = [], []
    if design.format:  # a peer's operands are not known
        tell(f"energies of {design.name}")
        bare = [_energy(design, outcome, outcome.best, foundry, wires=False)]
        wired = [_energy(design, outcome, each, foundry, wires=True) for each in outcome.layouts]
    record = to_record(outcome, foundry)
    return (
        Cost(
            name=design.name,
            part=", ".join(filter(None, [design.kind, design.variant])),
            format=str(design.format or ""),
            cells=record["cells"],
            buffers=record["buffers"],
            core_um2=record["core_um2"],
            seeds=tuple(record["seeds"]),
            bare_pj=tuple(bare),
            wired_pj=tuple(wired),
            utilisation=record["utilisation"],
            passed=record["checks"]["passed"],
        ),
        outcome,
    )


def _energy(design: Point, outcome: Outcome, layout: Layout, foundry: Foundry, *, wires: bool) -> float:
    """PJ of a cycle."""
    routes = layout.routes.items() if wires else ()
    farads = {net: foundry.technology.farads(route.lengths()) for net, route in routes}
    cells = read_cells(foundry.liberty)
    return mean_energy(timed(layout.placed, outcome.mapped.ports, farads, foundry.technology.kit, cells), design)


def _densest(source: Source, foundry: Foundry, tell: Tell) -> Outcome:
    """The layouts of all seeds at the highest utilisation at which each has room for its wires."""
    *higher, lowest = UTILISATIONS
    for utilisation in higher:
        try:
            return lay_out(source, foundry, Request(utilisation, SEEDS, "all"), tell)
        except ValueError as error:  # no room: for cells in rows, or for wires
            tell(f"{source.name}, {utilisation:.0%}: {error}")
    return lay_out(source, foundry, Request(lowest, SEEDS, "all"), tell)
