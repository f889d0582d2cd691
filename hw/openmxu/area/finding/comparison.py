"""Foreign designs and our own parts, measured alike, in one run."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from openmxu import yosys
from openmxu.area.run.choice import TIME_LIMIT, check_options, choose
from openmxu.area.run.measure import Result
from openmxu.area.run.schedule import measure_all, workers
from openmxu.area.subject.foreign import ForeignPoint
from openmxu.area.subject.peers import Peer, read_peers
from openmxu.area.target.targets import Target
from openmxu.export.provenance import provenance
from openmxu.pages.tables import counted
from openmxu.runtime.files import folder as output_folder
from openmxu.runtime.files import reserve
from openmxu.runtime.machine import Record

COMPARISON_FILES = ("peers.json", "peers.md")
"""The files of a comparison."""


@dataclass(frozen=True)
class ComparedDesign:
    """A design that takes part."""

    name: str
    against: str = ""
    """Name of the part of ours that it is compared with; empty if it is ours."""
    url: str = ""
    licence: str = ""
    version: str = ""
    notes: str = ""
    """See :class:`openmxu.area.subject.peers.Peer`; empty for a part of ours."""
    sha256: str = ""
    error: str = ""
    """Digest of its RTLIL, or why Yosys cannot read it."""


@dataclass(frozen=True)
class ComparedTarget:
    """A target of the comparison."""

    name: str
    label: str
    recipe: str
    unit: str
    timing: str
    """See :class:`openmxu.area.target.targets.Target`."""
    sha256: str
    nand2_area: float
    """Its cell library: digest, and area of a NAND2 in the library's unit. Empty and 0 on FPGAs."""


@dataclass(frozen=True)
class Figures:
    """The figures of a design on a target."""

    design: str
    target: str
    """The design's name and the target's label."""
    combinational: float | None = None
    sequential: float | None = None
    """Parts of the area, in the target's unit; none if it failed."""
    flip_flops: int = 0
    memory_bits: int = 0
    dsps: int = 0
    """Numbers of flip-flops, of bits of memories, and of DSP blocks."""
    depth: int | None = None
    delay: float | None = None
    """Cells on the longest path; its delay in nanoseconds, none without timing."""
    error: str = ""
    note: str = ""
    figure: str = ""
    """Why there is no area; why there is no delay; digest of all that the figures depend on."""


@dataclass(frozen=True)
class Comparison(Record):
    """Designs of others beside our parts."""

    tools: dict[str, str]
    """The tools of the measurement: Yosys with its version, and the entries of
    :func:`openmxu.export.provenance.provenance`."""
    targets: tuple[ComparedTarget, ...]
    designs: tuple[ComparedDesign, ...]
    """Each of our parts, followed by the designs that are compared with it."""
    figures: tuple[Figures, ...]
    """One for each design and target, except for designs that cannot be read."""

    def find(self, design: str, target: str) -> Figures | None:
        """The figures of a design on a target."""
        return next((figures for figures in self.figures if (figures.design, figures.target) == (design, target)), None)

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Designs without an area: the name, with the target, and the reason."""
        unread = [(entry.name, entry.error) for entry in self.designs if entry.error]
        return unread + [(f"{entry.design} on {entry.target}", entry.error) for entry in self.figures if entry.error]

    def to_json(self) -> str:
        """JSON text. Nothing in it depends on the machine, the folder or the time."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def compare_peers(
    folder: Path,
    output: Path,
    to_markdown: Callable[[Comparison], str],
    *,
    targets: Sequence[str] | None = None,
    liberty: Sequence[Path] = (),
    recipes: Sequence[str] | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    limit: float = TIME_LIMIT,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Measure the designs that a folder describes, and our own parts beside them; write ``peers.json``, ``peers.md``.

    Our parts are exported as Verilog, in the form that a target chooses, and read like the others. One script then
    measures all. A design that Yosys cannot read or map is part of the result, which says why.
    """
    tell = progress or (lambda line: None)
    check_options("quick", None, jobs, limit)
    chosen, notes = choose("quick", [] if targets is None and liberty else targets, liberty, recipes)
    peers = read_peers(folder)
    paths = [output / name for name in COMPARISON_FILES]
    with output_folder(output), reserve(*paths) as outputs, workers(jobs, cluster, limit, tell) as where:
        tool = yosys.prepare(tell)
        for note in notes:
            tell(note)
        designs, points = _read(peers, limit, tell)
        plan = [(target, point) for target in chosen for point in points]
        tell(f"{counted(len(plan), 'measurement')} of {len(points)} designs with {tool}")
        figures = tuple(map(_figures, measure_all(plan, where, tell)))
        comparison = Comparison({"Yosys": tool, **provenance()}, tuple(map(_target, chosen)), tuple(designs), figures)
        for path, text in zip(paths, (comparison.to_json(), to_markdown(comparison)), strict=True):
            outputs.write_text(path, text)
    return comparison


def _read(
    peers: Sequence[Peer], limit: float, tell: Callable[[str], None]
) -> tuple[list[ComparedDesign], list[ForeignPoint]]:
    """All designs, each of ours once and before those that are compared with it."""
    readers: dict[ComparedDesign, Callable[[float], ForeignPoint]] = {}
    for name, ours in {peer.ours.name: peer.ours for peer in peers}.items():
        readers[ComparedDesign(name)] = ours.read
        for peer in (peer for peer in peers if peer.ours.name == name):
            about = (peer.url, peer.licence, peer.version, peer.notes)
            readers[ComparedDesign(peer.design.name, name, *about)] = peer.design.read
    designs: list[ComparedDesign] = []
    points: list[ForeignPoint] = []
    for design, read in readers.items():
        tell(f"reading {design.name}")
        try:
            points.append(read(limit))
            designs.append(replace(design, sha256=points[-1].sha256))
        except yosys.SynthesisError as error:
            designs.append(replace(design, error=str(error)))
    return designs, points


def _target(target: Target) -> ComparedTarget:
    library = target.library
    digest, nand2 = (library.sha256, library.nand2_area) if library else ("", 0.0)
    return ComparedTarget(target.name, target.label, target.recipe, target.unit, target.timing, digest, nand2)


def _figures(result: Result) -> Figures:
    """The figures of a measurement; no delay where the clock is not known."""
    area, point = result.area, result.point
    assert isinstance(point, ForeignPoint)
    figures = Figures(point.name, result.target.label, error=result.error, figure=result.figure)
    if area is None:
        return figures
    is_known = point.is_clocked or not (result.target.timing and area.flip_flops)
    return replace(
        figures,
        combinational=round(area.combinational, 4),
        sequential=round(area.sequential or 0.0, 4),
        flip_flops=area.flip_flops,
        memory_bits=area.memory_bits,
        dsps=area.dsps or 0,
        depth=result.depth,
        delay=result.delay if is_known else None,
        note=result.note if is_known else "it has flip-flops, and no port clk: clock must name it",
    )
