"""Many measurements at once, on this machine or on a Dask cluster."""

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import dataclass

from openmxu.area.run.cluster import LostError, connected
from openmxu.area.run.job import Job, execute
from openmxu.area.run.measure import Executor, Result, measure
from openmxu.area.subject.points import Point
from openmxu.area.target.targets import Target
from openmxu.runtime import process
from openmxu.runtime.machine import cores
from openmxu.yosys import SynthesisError


@dataclass(frozen=True)
class Workers:
    """The workers that execute jobs."""

    execute: Executor
    """Executes a job."""
    jobs: int
    """Number of jobs at a time."""
    limit: float
    """Seconds that each may take."""


@contextmanager
def workers(
    jobs: int | None, cluster: str | None, limit: float, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Workers]:
    """The cores of this machine, or a cluster."""
    if cluster is None:
        yield Workers(execute, jobs or min(cores(), 8), limit)
        return
    with connected(cluster, tell) as scheduler:
        packed: dict[bytes, bytes] = {}

        def send(job: Job, library: bytes | None) -> bytes:
            if library is not None and library not in packed:
                packed[library] = zlib.compress(library)
            try:
                result: bytes = scheduler.call(_execute_packed, job, packed[library] if library else None)
            except LostError as error:
                raise SynthesisError(str(error)) from None
            return result

        yield Workers(send, jobs or scheduler.jobs, limit)


def _execute_packed(job: Job, library: bytes | None) -> bytes:
    """Execute a job with a compressed library."""
    return execute(job, None if library is None else zlib.decompress(library))


def measure_all(
    plan: Sequence[tuple[Target, Point]],
    where: Workers,
    tell: Callable[[str], None],
    keeps: Callable[[Target, Point], bool] = lambda target, point: False,
) -> list[Result]:
    """Each point on its target, several at a time; in the order of the plan."""
    points = {(point.top, target.form): point for target, point in plan}
    texts = {(top, form): point.rtlil(form) for (top, form), point in points.items()}
    costs = [_cost(target, point, texts[point.top, target.form]) for target, point in plan]
    # The largest first, by an estimate: none should be left to run alone at the end.
    order = sorted(range(len(plan)), key=lambda index: costs[index], reverse=True)
    results: dict[int, Result] = {}
    start = time.monotonic()

    def run(index: int) -> tuple[int, Result, float]:
        target, point = plan[index]
        begin = time.monotonic()
        keep = keeps(target, point)
        result = measure(point, texts[point.top, target.form], target, where.execute, where.limit, keep=keep)
        return index, result, time.monotonic() - begin

    left = Left(sum(costs))
    # After Ctrl-C: start nothing more. The results so far are in the cache.
    with process.threads(where.jobs) as executor:
        for future in as_completed([executor.submit(run, index) for index in order]):
            index, result, seconds = future.result()
            results[index] = result
            left.finish(costs[index], seconds, time.monotonic() - start)
            outcome = f"{result.area.area:,.0f} {result.target.unit}" if result.area else "failed"
            tell(
                f"[{len(results)}/{len(plan)}{left}] {result.target.label}: {result.point.name}: {outcome} "
                f"({seconds:.1f} s)"
            )
    return [results[index] for index in range(len(plan))]


class Left:
    """Estimate of the remaining time from the finished work, in words for a line of progress."""

    _AT_ONCE = 0.05
    """Seconds within which a result counts as cached."""

    def __init__(self, cost: float) -> None:
        self._cost = cost
        self._done = 0.0
        self._elapsed = 0.0

    def finish(self, cost: float, seconds: float, elapsed: float) -> None:
        """Count a finished measurement."""
        self._cost -= cost
        if seconds > self._AT_ONCE:
            self._done += cost
            self._elapsed = elapsed

    def __str__(self) -> str:
        if not self._done or self._cost < 1e-6:  # rounding
            return ""
        seconds = self._elapsed / self._done * self._cost
        return f", {seconds / 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"


def _cost(target: Target, point: Point, rtlil: str) -> float:
    """Estimated time of a measurement, in arbitrary units: a start, the library, and terms that grow with a design."""
    library = len(target.library.text) if target.library else 0
    return 1 + library / 1e7 + len(rtlil) / 1e5 + point.width**2 / 200
