"""Area reports on the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from openmxu.area.chapters.conclusion import conclusion
from openmxu.area.chapters.headline import headline
from openmxu.area.chapters.own import OWN_WORDS, own_designs, own_table
from openmxu.area.finding.findings import Report
from openmxu.area.run.measure import Result

_TARGETS = 5
"""Most targets that a terminal has columns for."""

_CATALOG = "The catalog's designs (memories are not in the area)"

CATALOG_WORDS = 2
"""Number of leading columns of :func:`catalog_table` that hold words."""


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
    areas = (
        ["design", *[f"{target.label}\n{target.unit}" for target in report.targets]],
        [
            [point.name, *[_area(report.result(point.name, target)) for target in report.targets]]
            for point in report.points
        ],
    )
    is_narrow = len(report.targets) <= _TARGETS  # else these tables are for the files, where there is room
    tables = [
        _drawn("Your design beside ours (measured)", *own_table(report), words=OWN_WORDS),
        *([_drawn("Area (measured)", *areas)] if is_narrow and not own_designs(report) else []),
        _drawn("Cost relative to bf16", *headline(report)),
        *([_drawn(_CATALOG, *catalog_table(report), words=CATALOG_WORDS)] if is_narrow else []),
    ]
    # As Text, for rich would take the brackets in a log for markup.
    failures = [
        Text(f"failed: {result.point.name} on {result.target.label}\n{result.error}", style="red")
        for result in report.failed
    ]
    sentences = Text("\n".join(f"- {sentence}" for sentence in conclusion(report)))
    return Group(*[table for table in tables if table.row_count], *failures, sentences)


def _area(result: Result | None) -> str:
    return "" if result is None else f"{result.area.area:,.0f}" if result.area else "failed"


def _drawn(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> Table:
    """A table whose first ``words`` columns hold words, the others numbers."""
    drawn = Table(title=title, title_justify="left", box=box.SIMPLE)
    for index, heading in enumerate(headings):
        # Headings may be broken on a narrow terminal; the cells below them must not.
        width = max((len(row[index]) for row in rows), default=0)
        justify: JustifyMethod = "left" if index < words else "right"
        drawn.add_column(Text(heading), justify=justify, overflow="fold", min_width=width)
    for row in rows:
        drawn.add_row(*map(Text, row))  # as Text, for a name may have brackets
    return drawn
