"""Tables of designs: a user's own beside ours, all that were measured, and the catalog's."""

from collections.abc import Callable, Sequence

from openmxu.area.chapters.derived import dsps
from openmxu.area.finding.findings import Report
from openmxu.area.run.measure import Result
from openmxu.area.subject.foreign import ForeignPoint
from openmxu.area.target.targets import RECIPES, Target
from openmxu.pages.tables import Table, reason


def own_designs(report: Report) -> list[str]:
    """Names of the user's designs."""
    return [point.name for point in report.points if isinstance(point, ForeignPoint)]


def own(report: Report) -> Table:
    """On each target the user's designs, then ours; no rows if there are none."""
    names = own_designs(report)
    timed = any(result.delay for result in report.results)
    stored = any(result.area and result.area.memory_bits for result in report.results)
    headings = ["target", "design", "area", "flip-flops", *(["memory bits"] if stored else [])]
    headings += ["ns"] if timed else []
    headings += [f"{kind}, {name} / this" for name in names for kind in ("area", *(["ns"] if timed else []))]
    rows = []
    for target in report.targets if names else []:
        results = [result for result in report.results if result.target == target]
        theirs = [result for result in results if result.point.name in names]
        ours = [result for result in results if result.point.name not in names]
        rows += [_beside(design, theirs, stored=stored, timed=timed) for design in (*theirs, *ours)]
    return Table(headings, [row + [""] * (len(headings) - len(row)) for row in rows], words=2)


def _beside(result: Result, theirs: list[Result], *, stored: bool, timed: bool) -> list[str]:
    """A design, and the ratios of the user's designs to it."""
    area, target = result.area, result.target
    if area is None:
        return [target.label, result.point.name, f"failed: {reason(result.error)}"]
    row = [target.label, result.point.name, f"{area.area:,.0f} {target.unit}", f"{area.flip_flops:,}"]
    row += [f"{area.memory_bits:,}"] if stored else []
    row += ["" if result.delay is None else f"{result.delay:.2f}"] if timed else []
    for each in theirs:
        row.append(f"{each.area.area / area.area:.2f}" if each.area and area.area and target.counts_all else "")
        row += [f"{each.delay / result.delay:.2f}" if each.delay and result.delay else ""] if timed else []
    return row


def areas(report: Report) -> Table:
    """All areas in comparable units."""
    headings = [f"{target.label} ({target.unit})" for target in report.targets]
    return _by_target(report, report.targets, headings, _area)


def _area(result: Result) -> str:
    return f"{result.area.area:,.0f}{dsps(result.area)}" if result.area else "failed"


def library_areas(report: Report) -> Table:
    """Areas on real libraries in the library's own unit."""
    real = [target for target in report.targets if target.library and target.library.nand2_area != 1]
    headings = [f"{target.label} (own unit, in most µm²)" for target in real]
    return _by_target(
        report, real, headings, lambda each: f"{each.area.cell_area or 0:,.0f}" if each.area else "failed"
    )


def depths(report: Report) -> Table:
    """Cells on the longest path."""
    headings = [f"{target.label} (cells)" for target in report.targets]
    return _by_target(
        report, report.targets, headings, lambda each: "failed" if each.depth is None else str(each.depth)
    )


def delays(report: Report) -> Table:
    """Delays of the longest path before placing; where OpenSTA failed, why."""
    timed = [target for target in report.targets if target.timing]

    def words(result: Result) -> str:
        return f"{result.delay:.2f}" if result.delay is not None else result.note and result.note.splitlines()[-1]

    return _by_target(report, timed, [f"{target.label} (ns)" for target in timed], words)


def _by_target(
    report: Report, targets: Sequence[Target], headings: Sequence[str], value: Callable[[Result], str]
) -> Table:
    """A row for each point, a column for each target; empty where a point was not measured."""
    rows = [
        [point.name, *[value(result) if (result := report.result(point.name, target)) else "" for target in targets]]
        for point in report.points
    ]
    return Table(["design", *headings], [row for row in rows if any(row[1:])])


def catalog(report: Report) -> Table:
    """The catalog's designs; flip-flops are those on the first target. PEs are processing elements."""
    rows = []
    labels: list[str] = []
    for name, entries in report.by_design.items():
        first = entries[0]
        labels = [f"{entry.target.label} ({entry.target.unit})" for entry in entries]
        counted = [f"{first.area.flip_flops:,}", f"{first.area.memory_bits:,}"] if first.area else ["failed"] * 2
        figures = [f"{entry.area.area:,.0f}" if entry.area else "failed" for entry in entries]
        kind = "derived" if first.derived else "measured"
        rows.append([name, kind, f"{first.design.cells:,}", *figures, *counted])
    return Table(["design", "area is", "PEs", *labels, "flip-flops", "memory bits"], rows, words=2)


def derivations(report: Report) -> Table:
    """The parts of each derived design, on the first target."""
    rows = []
    entries = [entry for entry in report.catalog if entry.derived and entry.target == report.catalog[0].target]
    for entry in entries:
        for term in entry.terms:
            area = term.result.area
            figures = [f"{area.area:,.1f}", f"{area.flip_flops:,}", f"{area.memory_bits:,}"] if area else ["failed"] * 3
            rows.append([entry.design.name, term.result.point.part, f"{term.count:,}", *figures])
    unit = f"area of one ({entries[0].target.label}, {entries[0].target.unit})" if entries else ""
    return Table(["design", "part", "number", unit, "flip-flops of one", "memory bits of one"], rows, words=2)


def conditions(report: Report) -> Table:
    """The targets, and everything that a figure on them depends on."""
    rows = []
    for target in report.targets:
        library = target.library
        gates = [f"{library.nand2}, {library.nand2_area:g}", library.sha256, library.doubt] if library else [""] * 3
        rows.append([target.label, target.title, RECIPES.get(target.recipe, ""), target.timing, *gates])
    headings = ["target", "gates", "recipe", "delays by", "1 GE: the library's NAND2", "its SHA-256", "not ranked, as"]
    return Table(headings, rows, words=7)
