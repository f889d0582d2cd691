"""Area reports: measure design points on targets, write what was found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openmxu import yosys
from openmxu.area.finding.findings import Entry, Report, Term
from openmxu.area.pages.export import to_csv, to_json
from openmxu.area.pages.markdown import to_markdown, to_summary
from openmxu.area.run.choice import TIME_LIMIT, check_options, choose
from openmxu.area.run.energy import Energy, Meter, find_meter, is_metered, planned
from openmxu.area.run.measure import Result
from openmxu.area.run.schedule import Workers, measure_all, workers
from openmxu.area.subject.ablation import ablation_points
from openmxu.area.subject.block_elements import other_points
from openmxu.area.subject.designs import Part, is_measured, parts, whole
from openmxu.area.subject.points import (
    PROCESSING_ELEMENT,
    Point,
    default_points,
    energy_points,
    full_points,
    is_headline,
    once,
    quick_points,
    reordered,
)
from openmxu.area.target.targets import Target
from openmxu.catalog import CATALOG, Design
from openmxu.export.provenance import provenance
from openmxu.pages.tables import counted
from openmxu.runtime.extras import install
from openmxu.runtime.files import folder, reserve

FILES = (
    "area.json",
    "area.csv",
    "area.png",
    "area.svg",
    "headline.svg",
    "costs.svg",
    "clock.svg",
    "energy.svg",
    "summary.md",
    "report.md",
    "report.html",
)
"""The files of a report. Pages for people come last, so that the files to which they refer exist."""

ORDERS = 5
"""Number of other orders in a full report."""


def report(
    output: Path,
    *,
    extent: str = "default",
    targets: Sequence[str] | None = None,
    liberty: Sequence[Path] = (),
    recipes: Sequence[str] | None = None,
    points: Sequence[Point] | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    limit: float = TIME_LIMIT,
    energy: bool = False,
    layer: Path | None = None,
    orders: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Measure areas and write ``report.html``, ``report.md``, ``summary.md``, ``area.json``, ``area.csv`` and plots.

    A point that fails is reported as failed; the others still come. Measurements are cached, so that a report that
    was interrupted continues where it stopped.

    Parameters
    ----------
    output
        Directory for the files; made if it is not there.
    extent
        One of :data:`EXTENTS`. ``"quick"``: few points, none of the catalog's designs, and generic gates only unless
        ``targets`` or ``liberty`` say otherwise. ``"full"``: every format, width, part and option, and, unless said
        otherwise, all targets, recipes, and libraries of :func:`openmxu.cells.libraries.found_libraries`.
    targets
        Names from :data:`openmxu.area.TARGETS`. May be empty where ``liberty`` is not.
    liberty
        Liberty files, plain or compressed with gzip; each is one more target. Those that the variable
        ``OPENMXU_LIBERTY`` names are added.
    recipes
        Names from :data:`openmxu.area.RECIPES`: ways to map to gates; ``"area"`` by default.
    points
        The designs, in place of those of the extent and of the catalog.
    jobs
        Yosys processes at a time; by default one for each core, but at most 8.
    cluster
        Address of a Dask scheduler, to which the same jobs are given; see :func:`openmxu.area.run.schedule.workers`.
    limit
        Seconds that Yosys may take for one design.
    energy
        Play netlists on cell libraries, and report their energies; full reports do so anyway where a library has any.
    layer
        A ``.npz`` file with ``activations``, a sample a row, and ``weights``, a column for each output, of a layer of a
        network: operands of elements beside those of :data:`openmxu.area.run.energy.OPERANDS`. Asks for energies.
    orders
        Number of other orders in which ABC maps ``points``, or else the designs behind statements about formats, to see
        how far areas on gates move; by default :data:`ORDERS` in full reports, else none.
    progress
        Called with one line of progress.

    Raises
    ------
    OSError
        ``output`` cannot be written, a Liberty file cannot be read, there is no such cluster, or Yosys or another
        package of the extra ``area`` is missing.
    ValueError
        An unknown extent, target or recipe, a Liberty file of no use, no points, no jobs, or no number of orders.
    openmxu.runtime.files.NotStoredError
        A file can no longer be written.
    """
    tell = progress or (lambda line: None)
    check_options(extent, points, jobs, limit, orders)
    chosen, notes = choose(extent, targets, liberty, recipes)
    if orders and not any(target.has_orders for target in chosen):
        raise ValueError("orders must be 0 without a target whose gates ABC maps by a script of ours, such as generic")
    _check_extras()
    energy = energy or layer is not None
    player = _find_player(chosen, layer, required=energy) if energy or extent == "full" else None
    designs = list(CATALOG.values()) if points is None and extent != "quick" else []
    every = points is not None
    plan = _plan(chosen, points or once([*_points(extent), *(energy_points() if energy else [])]), every=every)
    plan += _reordered(plan, ORDERS if orders is None and extent == "full" else orders or 0, every=every)
    with (
        folder(output),
        reserve(*(output / name for name in FILES)) as outputs,
        workers(jobs, cluster, limit, tell) as where,
    ):
        if player:
            player.measure([], where, lambda line: None)  # reports a bad layer or a missing compiler before the work
        tool = yosys.prepare(tell)
        for note in notes:  # only now: a mistake is reported alone
            tell(note)
        areas = replace(
            _measured(plan, designs, where, tell, tool=tool, player=player),
            made_by=provenance()["OpenMXU"],
            layer=layer.name if layer else "",
        )
        contents = _contents(areas)
        files = [output / name for name in FILES if name in contents]
        for path in files:
            outputs.write_bytes(path, contents[path.name])
    return replace(areas, files=files)


def _measured(
    plan: Sequence[tuple[Target, Point]],
    designs: Sequence[Design],
    where: Workers,
    tell: Callable[[str], None],
    *,
    tool: str,
    player: "_Player | None",
) -> Report:
    """Areas and delays, those of the catalog's designs, and energies."""
    targets = list(dict.fromkeys(target for target, _ in plan))
    tell(f"{counted(len(plan), 'measurement')} on {counted(len(targets), 'target')} with {tool}")
    measured = measure_all(plan, where, tell, *([is_metered] if player else []))
    results = [result for result in measured if not result.point.order]
    gates = [target for target in targets if target.recipe == "area"]
    catalog = []
    if designs and gates:
        tell(f"the catalog's {len(designs)} designs on gates")
        catalog = measure_catalog(designs, gates, where, tell)
    return Report(
        tool,
        results,
        catalog,
        energies=player.measure(results, where, tell) if player else [],
        reordered=[result for result in measured if result.point.order],
    )


def _plan(targets: Sequence[Target], points: Sequence[Point], *, every: bool) -> list[tuple[Target, Point]]:
    """Pairs of target and design to measure. Reports of an extent have only elements by the recipe ``sized``."""
    return [
        (target, point)
        for target in targets
        for point in points
        if point.is_for(target.recipe) and (every or target.recipe != "sized" or point.kind == PROCESSING_ELEMENT)
    ]


def _reordered(plan: Sequence[tuple[Target, Point]], count: int, *, every: bool) -> list[tuple[Target, Point]]:
    """Pairs of target and design in other orders: for every design, or for those behind headlines."""
    return [
        (target, other)
        for target, point in plan
        if target.has_orders and (every or _is_reordered(target, point))
        for other in reordered([point], count)
    ]


def _is_reordered(target: Target, point: Point) -> bool:
    """Headlines are about areas by the recipe for areas, and about delays of elements by the one for speed."""
    wanted = target.is_ranked or (target.recipe == "speed" and point.kind == PROCESSING_ELEMENT)
    is_doubtful = target.library is not None and target.library.doubt != ""
    return is_headline(point) and wanted and not is_doubtful


@dataclass(frozen=True)
class _Player:
    """Measures the energies of results, also with the operands of a layer."""

    meter: Meter
    layer: Path | None

    def measure(self, results: Sequence[Result], where: Workers, tell: Callable[[str], None]) -> list[Energy]:
        plan = planned(results, layer=self.layer is not None)
        tell(f"{len(plan)} energies")
        return self.meter(plan, where, tell, self.layer)


def _find_player(targets: Sequence[Target], layer: Path | None, *, required: bool) -> _Player | None:
    """The player, if there is a library to measure energies with."""
    if not any(target.library is not None and target.name != "generic" for target in targets):
        if required:
            raise ValueError("--energy needs a cell library that has energies: --liberty FILE")
        return None
    if layer is not None and not layer.is_file():
        raise ValueError(f"--layer must be a file, and {str(layer)!r} is none")
    return _Player(find_meter(), layer)


def _check_extras() -> None:
    """Refuse to measure what could not be shown."""
    try:
        import scipy.special  # noqa: F401, PLC0415  # for the curves' intervals

        from openmxu.area.pages import html, plot  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise OSError(f"area reports need {error.name}, which is not installed: {install('area')}") from None


def _contents(areas: Report) -> dict[str, bytes]:
    """The files of a report, by name."""
    from openmxu.area.pages.html import to_html  # noqa: PLC0415  # an extra, as above
    from openmxu.area.pages.plot import to_images  # noqa: PLC0415  # the same

    images = to_images(areas)
    return {
        "area.json": to_json(areas).encode(),
        "area.csv": to_csv(areas).encode(),
        **images,
        "summary.md": to_summary(areas, images).encode(),
        "report.md": to_markdown(areas, images).encode(),
        "report.html": to_html(areas, images).encode(),
    }


def measure_catalog(
    designs: Sequence[Design], targets: Sequence[Target], where: Workers, tell: Callable[[str], None]
) -> list[Entry]:
    """Areas of designs; for those that are too large to be measured, sums over their parts.

    Parameters
    ----------
    designs
        Designs of the catalog.
    targets
        Gates: on an FPGA one module cannot be mapped by itself and counted many times.
    where, tell
        See :func:`openmxu.area.run.schedule.measure_all`.
    """
    plans = [(design, [Part(1, whole(design))] if is_measured(design) else parts(design)) for design in designs]
    # Parts with the same top module are equal, and measured once.
    points = {part.point.top: part.point for _, plan in plans for part in plan}
    results = {
        (result.target, result.point.top): result
        for result in measure_all([(target, point) for target in targets for point in points.values()], where, tell)
    }
    return [
        Entry(
            design,
            target,
            not is_measured(design),
            tuple(Term(part.count, results[target, part.point.top]) for part in plan),
        )
        for target in targets
        for design, plan in plans
    ]


def _points(extent: str) -> list[Point]:
    """The designs of an extent, each once."""
    if extent == "quick":
        return quick_points()
    points = [*full_points(), *other_points()] if extent == "full" else default_points()
    return once([*points, *ablation_points()])
