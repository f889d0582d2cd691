"""The live page that the package carries as a file: it needs no compiler. ``make live`` writes it."""

import hashlib

from openmxu.export.provenance import NETLIST, provenance
from openmxu.runtime.native import resource
from openmxu_sim.wave.page.document import page_files

MADE_BY = "openmxu wave --rows 4 --columns 4 --stages 1 --m 6 --k 8 --n 8"
"""The command that gives the page: all of its defaults."""

_DOCTYPE = "<!doctype html>"


def digest(*texts: str) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def stamp(netlist: str, body: str, *modules: str) -> str:
    """Return a first line: digests of a page's netlist, of its sheets and scripts, and of the C text of its modules."""
    return f"{_DOCTYPE}<!-- netlist {netlist}, files {digest(*page_files(body))}, C {digest(*modules)} -->"


def stamped(page: str, line: str) -> str:
    """Return a page with its first line."""
    return page.replace(_DOCTYPE, line, 1)


def is_current(page: str, netlist: str, body: str) -> bool:
    """Whether a page has this netlist, and these sheets and scripts; a slow test compares its C text."""
    return page.startswith(stamp(netlist, body).partition(", C ")[0])


def find_shipped(made_by: str) -> str | None:
    """Return the page if it is what a command gives, and of the sources that run here."""
    if made_by != MADE_BY:
        return None
    page = resource("openmxu_sim.wave", "live.html")
    return page if is_current(page, provenance()[NETLIST], "live") else None
