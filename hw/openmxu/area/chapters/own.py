"""The first chapter of a report on a user's own designs: each beside ours, mapped by the same recipe."""

from openmxu.area.finding.findings import Report
from openmxu.area.run.measure import Result
from openmxu.area.subject.peers import PeerPoint
from openmxu.area.target.targets import Target
from openmxu.pages.tables import escaped, reason, table

OWN_WORDS = 2
"""Number of leading columns of :func:`own_table` that hold words."""


def own_designs(report: Report) -> list[str]:
    """Names of the user's designs."""
    return [point.name for point in report.points if isinstance(point, PeerPoint)]


def own_section(report: Report) -> list[str]:
    """Areas and delays of the user's designs, and their ratios to ours; empty if there are none."""
    headings, rows = own_table(report)
    if not rows:
        return []
    own = own_designs(report)
    failed = [
        f"- {escaped(f'{result.point.name} on {result.target.label}: {reason(result.error)}')}"
        for result in report.failed
        if result.point.name in own
    ]
    memories = " On gates, areas exclude memories." if "memory bits" in headings else ""
    return [
        table(headings, rows, words=OWN_WORDS),
        "All rows of a target are mapped by one recipe. The last columns give your design's area and delay relative to "
        f"the row's. Its function and its number of cycles were not checked.{memories}",
        *(["\n".join(failed)] if failed else []),
    ]


def own_table(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: on each target the user's designs, then ours; no rows if there are none."""
    own = own_designs(report)
    timed = any(result.delay for result in report.results)
    stored = any(result.area and result.area.memory_bits for result in report.results)
    headings = ["target", "design", "area", "flip-flops", *(["memory bits"] if stored else [])]
    headings += ["ns"] if timed else []
    headings += [f"{kind}, {name} / this" for name in own for kind in ("area", *(["ns"] if timed else []))]
    rows = []
    for target in report.targets if own else []:
        results = [result for result in report.results if result.target == target]
        ours = [result for result in results if result.point.name not in own]
        theirs = [result for result in results if result.point.name in own]
        rows += [_row(target, design, theirs, stored=stored, timed=timed) for design in (*theirs, *ours)]
    return headings, [row + [""] * (len(headings) - len(row)) for row in rows]


def _row(target: Target, result: Result, theirs: list[Result], *, stored: bool, timed: bool) -> list[str]:
    """A design, and the ratios of the user's designs to it."""
    area = result.area
    if area is None:
        return [target.label, result.point.name, "failed"]
    row = [target.label, result.point.name, f"{area.area:,.0f} {target.unit}", f"{area.flip_flops:,}"]
    row += [f"{area.memory_bits:,}"] if stored else []
    row += ["" if result.delay is None else f"{result.delay:.2f}"] if timed else []
    for own in theirs:
        row.append(f"{own.area.area / area.area:.2f}" if own.area and area.area and target.counts_all else "")
        row += [f"{own.delay / result.delay:.2f}" if own.delay and result.delay else ""] if timed else []
    return row
