"""The options of a report: their domains, and the targets that they choose."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from openmxu.area.subject.points import Point
from openmxu.area.target.targets import DEFAULT_TARGETS, RECIPES, TARGETS, TIMED_RECIPES, Target, choose_targets
from openmxu.cells.doubts import are_scaled
from openmxu.cells.liberty import Library, read_library
from openmxu.cells.libraries import found_libraries, named_libraries

EXTENTS = ("quick", "default", "full")
"""The extents of a report."""

TIME_LIMIT = 600.0
"""Seconds after which a measurement is given up and reported as failed."""

_MOST_ORDERS = 1000

_MOST_JOBS = 1024
"""The most Yosys processes at a time, also on a cluster."""

_LONGEST = 1e6
"""The longest time limit of a run, in seconds."""


def check_options(
    extent: str, points: Sequence[Point] | None, jobs: int | None, limit: float, orders: int | None = None
) -> None:
    """Raise a :exc:`ValueError` for an option of :func:`report` that is outside its domain."""
    if extent not in EXTENTS:
        raise ValueError(f"extent must be one of {', '.join(EXTENTS)}, not {extent!r}")
    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise ValueError(f"jobs must be an integer from 1 to {_MOST_JOBS}, not {jobs!r}")
    if not 0 < limit <= _LONGEST:
        raise ValueError(f"timeout must be a number of seconds > 0 and <= {_LONGEST:.0f}, not {limit!r}")
    if orders is not None and not 0 <= orders <= _MOST_ORDERS:
        raise ValueError(f"orders must be an integer from 0 to {_MOST_ORDERS}, not {orders!r}")
    if points is not None and not points:
        raise ValueError("points must be at least one design, not none")


def choose(
    extent: str, targets: Sequence[str] | None, liberty: Sequence[Path], recipes: Sequence[str] | None
) -> tuple[list[Target], list[str]]:
    """The targets, and notes about libraries, each of which counts once."""
    libraries = list({lib.text_sha256: lib for lib in map(read_library, [*liberty, *named_libraries()])}.values())
    notes: list[str] = []
    if targets is None:
        libraries += _discover(libraries, extent, notes.append)
        targets = {"quick": ["generic"], "default": DEFAULT_TARGETS, "full": list(TARGETS)}[extent]
    libraries = _families(libraries)
    notes += [f"{lib.name} is measured, but no statement is about it: {lib.doubt}" for lib in libraries if lib.doubt]
    chosen = choose_targets(targets, libraries, recipes or (list(RECIPES) if extent == "full" else ["area"]))
    asked = [recipe for recipe in recipes or () if recipe in TIMED_RECIPES]
    for library in libraries if asked else ():
        if not library.timed:
            notes.append(f"{library.name} has no timing: not measured with the recipe {' or '.join(asked)}")
    return chosen, notes


def _families(libraries: Sequence[Library]) -> list[Library]:
    """The libraries, with a doubt about each whose areas are those of an earlier one times a factor."""
    known: list[Library] = []
    for library in libraries:
        factors = {earlier.name: are_scaled(library.areas, earlier.areas) for earlier in known}
        same = [f"all areas are those of {name} times {factor:g}" for name, factor in factors.items() if factor]
        known.append(replace(library, doubt=library.doubt or "".join(same[:1])))
    return known


def _discover(known: Sequence[Library], extent: str, tell: Callable[[str], None]) -> list[Library]:
    """Libraries that were found on this machine and are not known yet; for a full report. Tells what was found."""
    new: list[Library] = []
    there = found_libraries()
    if extent != "full":
        if there and extent == "default":
            tell(f"found {', '.join(path.stem for path, _ in there)}: measured with --full, or --liberty FILE")
        return new
    for path, source in there:
        try:
            library = read_library(path)
        except (OSError, ValueError) as error:
            tell(f"found {path} ({source}), of no use: {error}")
            continue
        if library.name in {other.name for other in [*known, *new]}:
            tell(f"found {path} ({source}): given already")
        else:
            tell(f"found {path} ({source})")
            new.append(library)
    return new
