"""Area reports on the terminal."""

from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table as Drawn
from rich.text import Text

from openmxu.area.chapters import design_tables, quantities
from openmxu.area.finding.findings import Report
from openmxu.pages.tables import Table

_TARGETS = 5
"""Most targets that a terminal has columns for."""

NOT_MEASURED = "Not measured: wires, clock trees, memories and leakage."


def to_table(report: Report) -> RenderableType:
    """The report's figures, to be printed by a :class:`rich.console.Console`."""
    is_narrow = len(report.targets) <= _TARGETS  # else these tables are for the files, where there is room
    tables = {
        "Your design beside ours (measured)": design_tables.own(report),
        "Area (measured)": is_narrow and not design_tables.own_designs(report) and design_tables.areas(report),
        "Cost relative to bf16": quantities.in_short(report),
        "The catalog's designs (memories are not in the area)": is_narrow and design_tables.catalog(report),
    }
    # As Text, for rich would take the brackets in a log for markup.
    failures = [
        Text(f"failed: {result.point.name} on {result.target.label}\n{result.error}", style="red")
        for result in report.failed
    ]
    drawn = [_drawn(title, table) for title, table in tables.items() if table]
    return Group(*drawn, *failures, Text(NOT_MEASURED))


def _drawn(title: str, table: Table) -> Drawn:
    drawn = Drawn(title=title, title_justify="left", box=box.SIMPLE)
    for index, heading in enumerate(table.headings):
        # Headings may be broken on a narrow terminal; the cells below them must not.
        width = max(len(row[index]) for row in table.rows)
        justify: JustifyMethod = "left" if index < table.words else "right"
        drawn.add_column(Text(heading), justify=justify, overflow="fold", min_width=width)
    for row in table.rows:
        drawn.add_row(*map(Text, row))  # as Text, for a name may have brackets
    return drawn
