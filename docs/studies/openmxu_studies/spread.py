"""Trials of studies, over processes of this machine or the workers of a cluster, and their results."""

import json
import os
import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import groupby
from typing import Any

from openmxu.area.run.cluster import Cluster, connected
from openmxu.cli.frame import tell
from openmxu.runtime import cache, process
from openmxu.runtime.machine import Record, cores, machine_name, tool_version
from openmxu.runtime.native import compiler_version
from openmxu_studies import SOURCES

_LIMIT = 3 * 3600.0
"""Seconds after which trials of a process are stopped; the longest take minutes."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Variables for libraries that read them before they are told the number of threads."""


@dataclass(frozen=True)
class Measured(Record):
    """Measurements of a study, with machine and tools."""

    date: str
    machine: str
    tools: Mapping[str, str]
    """Date, machine, and tools: :func:`openmxu.export.provenance.provenance` first."""

    def opening(self, command: str, about: str = "") -> list[str]:
        """Return the first lines of a page: the command, where it ran, and the tools."""
        tools = (f"- {tool_version(tool, version)}" for tool, version in self.tools.items())
        return [f"`openmxu study {command}`, {self.date}, {self.machine}{about}.", "", *tools]


@dataclass(frozen=True)
class Studied(Measured):
    """The same, of a study that is short or long."""

    full: bool
    """Whether it was the long one."""

    def opening(self, command: str, about: str = "", *, terms: int = 1) -> list[str]:
        """Return the first lines of a page, the options with the command."""
        return super().opening(f"{command}{' --full' * self.full}{f' --terms {terms}' * (terms > 1)}", about)


def kept(trials: Iterable[Any], train: Callable[[Any], Mapping[str, Any]], *about: str) -> list[tuple[Any, Any]]:
    """Train each trial, unless the cache has its outcome on such a machine; ``about``: what else outcomes depend on."""
    conditions = (*about, version("torch"), platform.python_version(), compiler_version(), machine_name())

    def make(trial: Any) -> bytes:
        return json.dumps(train(trial)).encode()

    return [
        (trial, json.loads(cache.fetch_result(SOURCES, partial(make, trial), repr(trial), *conditions, kind="studies")))
        for trial in trials
    ]


@dataclass(frozen=True)
class Crew:
    """Those that train."""

    pool: Executor
    """Threads that wait for processes or workers, and do what else there is."""
    far: Cluster | None
    """A cluster, if there is one."""

    def outcomes(
        self,
        train_all: Callable[[Sequence[Any]], list[tuple[Any, Any]]],
        trials: Sequence[Any],
        *,
        kind: Callable[[Any], Hashable],
        cost: Callable[[Any], float],
        what: Callable[[Any], str],
        progress: Callable[[int, int], None] | None,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield each trial, as plain data, and its outcome, as they come.

        A process here trains all trials of a kind that follow each other, and gives its memory back; a worker stays,
        and trains one at a time. The costliest come first.
        """

        def here(batch: Sequence[Any]) -> Any:
            environment = {**os.environ, **_ONE_THREAD}
            return process.call(train_all, batch, what=what(batch[0]), limit=_LIMIT, environment=environment)

        run = here if self.far is None else partial(self.far.call, train_all)
        batches = [[one] for one in trials] if self.far else [list(group) for _, group in groupby(trials, key=kind)]
        batches.sort(key=lambda batch: -len(batch) * cost(batch[0]))
        done = 0
        for future in as_completed([self.pool.submit(run, batch) for batch in batches]):
            yield from future.result()
            done += len(future.result())
            if progress is not None:
                progress(done, len(trials))


@contextmanager
def crew(jobs: int | None, cluster: str | None) -> Iterator[Crew]:
    """Have so many processes at a time, one for each core by default, or as many as a cluster has workers for."""
    with ExitStack() as stack:
        far = None if cluster is None else stack.enter_context(connected(cluster, tell))
        yield Crew(stack.enter_context(process.threads(jobs or (far.jobs if far else cores()))), far)
