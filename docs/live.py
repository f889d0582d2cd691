"""Writes the pages in which the netlists run: ``make live``; it needs the package ziglang.

``docs/live.html`` is the package's page once more: a link would be a file of one line in a zip archive of the project.
"""

from pathlib import Path

from openmxu.export.provenance import NETLIST, provenance
from openmxu.spec.stages import STAGES
from openmxu_sim.wave import live_page, random_run
from openmxu_sim.wave.page import shipped, watched
from openmxu_sim.wave.page.machine import fetch_text

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "sim/openmxu_sim/wave"


def live() -> str:
    """Return the package's page."""
    page = live_page(random_run(4, 4, 1, (6, 8, 8)), made_by=shipped.MADE_BY)
    texts = [fetch_text(stages, terms) for terms in (1, 4) for stages in STAGES]
    return shipped.stamped(page, shipped.stamp(provenance()[NETLIST], "live", *texts))


def accelerator() -> str:
    """Return the page of the accelerator, which only the documentation shows."""
    line = shipped.stamp(shipped.digest(watched.netlist(watched.CONFIG)), "watched", watched.machine_c()[0])
    return shipped.stamped(watched.accelerator_page(made_by="make live"), line)


def main() -> None:
    """Write all pages."""
    pages = {"live.html": live(), "accelerator.html": accelerator()}
    for name, page in pages.items():
        (DOCS / name).write_text(page, encoding="utf-8")
    (PACKAGE / "live.html").write_text(pages["live.html"], encoding="utf-8")


if __name__ == "__main__":
    main()
