"""Area reports: measure design points on targets, write what was found."""

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from openmxu.catalog import CATALOG, Design
from openmxu.files import write_bytes
from openmxu.synth import yosys
from openmxu.synth.designs import Part, is_measured, parts, whole
from openmxu.synth.export import to_csv, to_json
from openmxu.synth.markdown import to_markdown
from openmxu.synth.points import Point, default_points, quick_points
from openmxu.synth.results import Entry, Report, Result, Term, fits, measure, ratios
from openmxu.synth.targets import TARGETS, Target, choose_targets

__all__ = ["measure_catalog", "report"]


def report(output: Path, *, quick: bool = False, targets: Sequence[str] | None = None,
           liberty: Sequence[Path] = (), recipes: Sequence[str] = ("area",),
           points: Sequence[Point] | None = None, jobs: int | None = None,
           progress: Callable[[str], None] | None = None) -> Report:
    """Measure areas and write ``area.json``, ``area.csv``, ``report.md``, ``area.png`` and ``area.svg``.

    A point that fails is reported as failed; the others still come.

    Parameters
    ----------
    output
        Directory for the files; made if it is not there.
    quick
        Few points, none of the catalog's designs, and generic gates only unless ``targets`` says otherwise.
    targets
        Names from :data:`openmxu.synth.TARGETS`; all by default. May be empty where ``liberty`` is not.
    liberty
        Liberty files, plain or compressed with gzip; each is one more target.
    recipes
        Names from :data:`openmxu.synth.RECIPES`: ways to map to gates.
    points
        The designs; by default those of :func:`quick_points`, or those of :func:`default_points` and, on
        gates, all of the catalog.
    jobs
        Yosys processes at a time; by default one for each core, but at most 8.
    progress
        Told in a line what is going on.

    Raises
    ------
    OSError
        ``output`` cannot be written, a Liberty file cannot be read, or Yosys or matplotlib is missing.
    ValueError
        An unknown target or recipe, a Liberty file of no use, no points, or no jobs.
    """
    tell = progress or (lambda line: None)
    if targets is None:
        targets = ["generic"] if quick else list(TARGETS)
    chosen = choose_targets(targets, liberty, recipes)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be an integer >= 1, not {jobs!r}")
    if points is not None and not points:
        raise ValueError("points must be at least one design, not none")
    _check_output(output)
    to_images = _find_plot()
    tool = yosys.prepare(tell)
    jobs = jobs or min(os.cpu_count() or 1, 8)
    designs = list(CATALOG.values()) if points is None and not quick else []
    if points is None:
        points = quick_points() if quick else default_points()
    tell(f"{len(points)} designs on {len(chosen)} target{'s' * (len(chosen) > 1)} with {tool}")
    results = _measure_all(points, chosen, jobs, tell)
    gates = [target for target in chosen if target.library]
    if designs and gates:
        tell(f"the catalog's {len(designs)} designs on gates")
        catalog = measure_catalog(designs, gates, jobs, tell)
    else:
        catalog = []
    found = Report(tool, results, fits(results), ratios(results), catalog)
    # The one for people last, so that what it refers to is there.
    contents = {"area.json": to_json(found).encode(), "area.csv": to_csv(found).encode(), **to_images(found),
                "report.md": to_markdown(found).encode()}
    for name, content in contents.items():
        write_bytes(output / name, content)
    return replace(found, files=[output / name for name in contents])


def measure_catalog(designs: Sequence[Design], targets: Sequence[Target], jobs: int,
                    tell: Callable[[str], None]) -> list[Entry]:
    """Areas of designs, those that are too large to be measured put together from their parts.

    Parameters
    ----------
    designs
        Designs of the catalog.
    targets
        Gates: on an FPGA one module cannot be mapped by itself and counted many times.
    jobs, tell
        As for :func:`report`.
    """
    plans = [(design, [Part(1, whole(design))] if is_measured(design) else parts(design)) for design in designs]
    # Parts with the same top module are the same, and measured once.
    points = {part.point.top: part.point for _, plan in plans for part in plan}
    results = {(result.target, result.point.top): result
               for result in _measure_all(list(points.values()), targets, jobs, tell)}
    return [
        Entry(design, target, not is_measured(design),
              tuple(Term(part.count, results[target, part.point.top]) for part in plan))
        for target in targets for design, plan in plans
    ]


def _check_output(output: Path) -> None:
    """Find out before minutes of work whether their results can be written."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"output must be a directory that can be written, not {str(output)!r}: {reason}") from None


def _find_plot() -> Callable[[Report], dict[str, bytes]]:
    """The plot's module: loaded only here, as it alone needs matplotlib, which is an extra."""
    try:
        module = importlib.import_module("openmxu.synth.plot")
    except ModuleNotFoundError as error:
        raise OSError(f"area reports need openmxu[area] to be installed: {error.name} cannot be found") from None
    to_images: Callable[[Report], dict[str, bytes]] = module.to_images
    return to_images


def _measure_all(points: Sequence[Point], targets: Sequence[Target], jobs: int,
                 tell: Callable[[str], None]) -> list[Result]:
    """Each point on each target, several at a time; in the order of targets, then points."""
    designs = [(point, point.rtlil()) for point in points]
    work = [(target, point, rtlil) for target in targets for point, rtlil in designs]
    # The largest first, as far as one can tell: none should be left to run alone at the end.
    order = sorted(range(len(work)), key=lambda i: (work[i][1].width, len(work[i][2])), reverse=True)
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="openmxu-") as directory:
        (Path(directory) / "lib").mkdir()
        for target in targets:
            if target.library:
                (Path(directory) / "lib" / f"{target.name}.lib").write_bytes(target.library.text)

        def run(index: int) -> tuple[int, Result, float]:
            target, point, rtlil = work[index]
            start = time.monotonic()
            return index, measure(point, rtlil, target, Path(directory)), time.monotonic() - start

        executor = ThreadPoolExecutor(jobs)
        try:
            futures: list[Future[tuple[int, Result, float]]] = [executor.submit(run, index) for index in order]
            for future in as_completed(futures):
                index, result, seconds = future.result()
                results[index] = result
                outcome = f"{result.area.area:.0f} {result.target.unit}" if result.area else "failed"
                tell(f"[{len(results)}/{len(work)}] {result.target.label}: {result.point.name}: {outcome} "
                     f"({seconds:.1f} s)")
        finally:
            # After Ctrl-C: start nothing more.
            executor.shutdown(cancel_futures=True)
    return [results[index] for index in range(len(work))]
