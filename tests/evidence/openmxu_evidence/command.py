"""The command ``verify``; its options are those of :mod:`openmxu_sim.commands.run_checks`."""

import argparse
import sys

from rich.table import Table
from rich.text import Text

from openmxu.cli.frame import Console, bar, tell
from openmxu.runtime.files import reserve
from openmxu_evidence.verify.check import FAILED, HOLDS, NOT_RUN, OPEN
from openmxu_evidence.verify.evidence import MOST_JOBS, Evidence, verify


def run(options: argparse.Namespace) -> int:
    """Run the checks, write and print what they gave; the exit code is 1 if one failed or is open."""
    if options.jobs is not None and not 1 <= options.jobs <= MOST_JOBS:
        raise ValueError(f"jobs must be an integer from 1 to {MOST_JOBS}, not {options.jobs}")
    with reserve(options.json) as outputs:
        with bar("checks") as progress:
            how = {name: getattr(options, name) for name in ("thorough", "faults", "only", "jobs", "resume")}
            evidence = verify(**how, note=tell, progress=progress)
        outputs.write_text(options.json, evidence.to_json())
        _print_evidence(evidence)
    return 1 if evidence.count(FAILED) + evidence.count(OPEN) else 0


def _print_evidence(evidence: Evidence) -> None:
    table = Table(box=None)
    for column in ("", "result", "looked at", "s"):
        table.add_column(column, justify="right" if column == "s" else "left")
    group = ""
    for row in evidence.rows:
        if row.group != group:
            group = row.group
            table.add_row(f"[bold]{group}[/bold]")
        status = row.status if row.status == HOLDS else f"[bold]{row.status}[/bold]"
        ends = "".join(f", {count:,} {name}" for name, count in row.counts.items())
        table.add_row(f"  {row.name}", status, f"{row.looked_at}{ends}", f"{row.seconds:.1f}")
        if row.detail:
            table.add_row("", "", Text(row.detail))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(table)
    absent = evidence.count(NOT_RUN)
    wrong = len(evidence.rows) - evidence.count(HOLDS) - absent
    console.print(
        f"\n{len(evidence.rows)} checks in {evidence.seconds:.0f} s: "
        f"{f'{wrong} do not hold' if wrong else 'the others hold' if absent else 'all hold'}"
        f"{f', {absent} not run' if absent else ''}"
    )
