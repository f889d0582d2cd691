"""Area reports on the terminal."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openmxu.area.findings import CLAIMS, Report
from openmxu.area.pages.conclusion import conclusion

__all__ = ["catalog_table", "to_table"]


_TARGETS = 5
"""Most targets that a terminal has columns for."""

CATALOG_WORDS = 2
"""Columns of :func:`catalog_table` that are no numbers; they come first."""


def catalog_table(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table of the catalog's designs; flip-flops are those on the first target.

    PEs are processing elements.
    """
    rows = []
    labels: list[str] = []
    for name, entries in report.by_design.items():
        first = entries[0]
        labels = [f"{entry.target.label} ({entry.target.unit})" for entry in entries]
        counted = [f"{first.area.flip_flops:,}", f"{first.area.memory_bits:,}"] if first.area else ["failed"] * 2
        rows.append(
            [
                name,
                "derived" if first.derived else "measured",
                f"{first.design.cells:,}",
                *[f"{entry.area.area:,.0f}" if entry.area else "failed" for entry in entries],
                *counted,
            ]
        )
    return ["design", "area is", "PEs", *labels, "flip-flops", "memory bits"], rows


def to_table(report: Report) -> RenderableType:
    """The report's figures, to be printed by a :class:`rich.console.Console`."""
    areas = Table(title="Area (measured)", title_justify="left")
    areas.add_column("design", no_wrap=True)
    for target in report.targets:
        areas.add_column(f"{target.label}\n{target.unit}", justify="right", overflow="fold")
    for point in report.points:
        found = [report.result(point.name, target) for target in report.targets]
        areas.add_row(
            point.name,
            *["" if result is None else f"{result.area.area:.0f}" if result.area else "failed" for result in found],
        )
    claims = ", ".join(f"{name} {claim:.0f}" for name, claim in CLAIMS.items())
    ratios = Table(title=f"Area relative to bf16 (claims: {claims})", title_justify="left")
    for heading in ("target", "part"):
        ratios.add_column(heading, overflow="fold")
    for name in CLAIMS:
        ratios.add_column(name, justify="right")
    for ratio in report.ratios:
        values = [f"{ratio.others[name]:.2f}" if name in ratio.others else "-" for name in CLAIMS]
        ratios.add_row(ratio.target.label, ratio.part, *values)
    catalog = Table(title="The catalog's designs (memories are not in the area)", title_justify="left", box=box.SIMPLE)
    headings, rows = catalog_table(report)
    for index, heading in enumerate(headings):
        # Headings may be broken on a narrow terminal; the cells below them must not.
        width = max((len(row[index]) for row in rows), default=0)
        catalog.add_column(
            heading, justify="left" if index < CATALOG_WORDS else "right", overflow="fold", min_width=width
        )
    for row in rows:
        catalog.add_row(*row)
    # As Text, for rich would take the brackets in a log for markup.
    failures = [
        Text(f"failed: {result.point.name} on {result.target.label}\n{result.error}", style="red")
        for result in report.failed
    ]
    sentences = Text("\n".join(f"- {sentence}" for sentence in conclusion(report)))
    tables = [table for table, found in ((ratios, report.ratios), (catalog, report.catalog)) if found]
    if len(report.targets) > _TARGETS:  # the rest is for the files, where there is room
        return Group(*failures, sentences)
    return Group(areas, *tables, *failures, sentences)
