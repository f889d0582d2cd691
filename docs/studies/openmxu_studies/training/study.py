"""All trials of a plan, on this machine or on a cluster."""

import datetime
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from itertools import groupby
from typing import Any

from openmxu import yosys
from openmxu.area.finding.elements import element_areas
from openmxu.area.run.cluster import connected
from openmxu.export.provenance import provenance
from openmxu.runtime import process
from openmxu.runtime.machine import cores, machine_name
from openmxu.runtime.native import compiler_version
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.passes import PASSES
from openmxu_studies.training import data
from openmxu_studies.training.passage import pass_all
from openmxu_studies.training.plan import STEPS, Case, Plan, Trial, name
from openmxu_studies.training.record import Outcome, Passage, Result, Study, trial_of
from openmxu_studies.training.trial import train_all

_LIMIT = 3 * 3600.0
"""Seconds after which trials of a case are stopped; the longest take a few minutes."""


def study(
    plan: Plan,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    note: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Train all networks of a plan, except for those whose outcomes an earlier run left in the cache."""
    data.digits(plan.source)  # once, before many processes ask for it
    trials = list(plan.trials())
    outcomes: dict[Trial, Outcome] = {}
    with ExitStack() as stack:
        far = stack.enter_context(connected(cluster)) if cluster is not None else None
        pool = stack.enter_context(process.threads(jobs or (far.jobs if far else cores())))
        run = partial(far.call, train_all) if far else _here
        waiting = [pool.submit(run, batch) for batch in _batches(trials, single=far is not None)]
        last = pool.submit(_passages, plan.source) if plan.terms == 1 else None
        for future in as_completed(waiting):
            outcomes |= {trial_of(trial): Outcome(**outcome) for trial, outcome in future.result()}
            if progress is not None:
                progress(len(outcomes), len(trials))
        through = last.result() if last is not None else ()
    return Study(
        datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine_name(),
        _tools(),
        plan.full,
        plan.source,
        dict(STEPS),
        tuple(Result(trial, outcomes[trial]) for trial in trials),
        through,
        _areas([trial.case for trial in trials], note or (lambda line: None)),
        sum(outcome.seconds for outcome in outcomes.values()),
    )


def _batches(trials: Sequence[Trial], *, single: bool) -> list[list[Trial]]:
    """Return the trials of each process, the longest first: all seeds of a case, or one trial where processes stay."""
    if single:
        batches = [[trial] for trial in trials]
    else:
        batches = [list(group) for _, group in groupby(trials, key=lambda trial: (trial.task, trial.case))]
    return sorted(batches, key=lambda batch: -len(batch) * _cost(batch[0]))


def _cost(trial: Trial) -> float:
    """Estimate the time of a trial, in arbitrary units."""
    case = trial.case
    products = 5.0 if case.accumulate != "fp32" else len(PASSES[case.precision])
    return trial.steps * (1.0 + (case.operand is not None) * products) * (4 if trial.task == "text" else 1)


def _here(trials: Sequence[Trial]) -> Any:
    """Run trials in a process of their own, which gives its memory back."""
    what = f"training with {name(trials[0].case)}"
    return process.call(train_all, trials, what=what, limit=_LIMIT, environment={**os.environ, **_ONE_THREAD})


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Variables for libraries that read them before they are told the number of threads."""


def _passages(source: str) -> tuple[Passage, ...]:
    rows = process.call(pass_all, source, what="the checkpoints", limit=_LIMIT)
    return tuple(Passage(**row) for row in rows)


def _tools() -> dict[str, str]:
    packages = ("torch", "numpy", "onnx", "onnxruntime", "safetensors")
    compiled = {"Python": platform.python_version(), "C compiler": compiler_version(), "Yosys": yosys.prepare(None)}
    return {**provenance(), **compiled, **{package: version(package) for package in packages}}


def _areas(cases: Sequence[Case], tell: Callable[[str], None]) -> dict[str, float]:
    """Return areas of processing elements for each format of operands, with products and sums in fp32."""
    kinds = list(dict.fromkeys((case.operand, case.subnormals) for case in cases if case.operand))
    units = [MxuConfig(operand=FloatFormat.parse(operand, "operand"), subnormals=mode) for operand, mode in kinds]
    return {" ".join(kind): area for kind, area in zip(kinds, element_areas(units, tell), strict=True)}
