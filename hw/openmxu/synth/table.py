"""Area reports on the terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openmxu.synth.results import CLAIMS, Report

__all__ = ["to_table"]


def to_table(report: Report) -> RenderableType:
    """The report's figures, to be printed by a :class:`rich.console.Console`."""
    areas = Table(title="Area (measured)", title_justify="left")
    areas.add_column("design")
    for target in report.targets:
        areas.add_column(f"{target.label}\n{target.unit}", justify="right", overflow="fold")
    for name, results in report.by_point.items():
        areas.add_row(name, *[f"{result.area.area:.0f}" if result.area else "failed" for result in results])
    claims = ", ".join(f"{name} {claim:.0f}" for name, claim in CLAIMS.items())
    ratios = Table(title=f"Area in that of bf16 (claims: {claims})", title_justify="left")
    for heading in ("target", "part"):
        ratios.add_column(heading, overflow="fold")
    for name in CLAIMS:
        ratios.add_column(name, justify="right")
    for ratio in report.ratios:
        values = [f"{ratio.others[name]:.2f}" if name in ratio.others else "-" for name in CLAIMS]
        ratios.add_row(ratio.target.label, ratio.part, *values)
    # As Text, for rich would take the brackets in a log for markup.
    failures = [Text(f"failed: {result.point.name} on {result.target.label}\n{result.error}", style="red")
                for result in report.failed]
    return Group(areas, *([ratios] if report.ratios else []), *failures)
