"""All trials of a plan, on this machine or on a cluster."""

import datetime
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version

from openmxu import yosys
from openmxu.area.finding.elements import element_areas
from openmxu.export.provenance import provenance
from openmxu.runtime import process
from openmxu.runtime.machine import machine_name, of_plain
from openmxu.runtime.native import compiler_version
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.passes import PASSES
from openmxu_studies.spread import crew
from openmxu_studies.training import data
from openmxu_studies.training.passage import pass_all
from openmxu_studies.training.plan import STEPS, Case, Plan, Trial, name
from openmxu_studies.training.record import Outcome, Passage, Result, Study
from openmxu_studies.training.trial import train_all

_LIMIT = 3 * 3600.0
"""Seconds after which the checkpoints are stopped; they take a few minutes."""


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
    with crew(jobs, cluster) as those:
        last = those.pool.submit(_passages, plan.source) if plan.terms == 1 else None
        trained = those.outcomes(
            train_all,
            trials,
            kind=lambda trial: (trial.task, trial.case),
            cost=_cost,
            what=lambda trial: f"training with {name(trial.case)}",
            progress=progress,
        )
        outcomes = {of_plain(Trial, trial): Outcome(**outcome) for trial, outcome in trained}
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


def _cost(trial: Trial) -> float:
    """Estimate the time of a trial, in arbitrary units."""
    case = trial.case
    products = 5.0 if case.accumulate != "fp32" else len(PASSES[case.precision])
    return trial.steps * (1.0 + (case.operand is not None) * products) * (4 if trial.task == "text" else 1)


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
