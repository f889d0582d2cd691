"""Trains networks by recipes, here or on a cluster."""

import datetime
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any

import torch

from openmxu.export.provenance import provenance
from openmxu.runtime.machine import machine_name
from openmxu.runtime.native import compiler_version
from openmxu_sim import torch as mxu
from openmxu_studies.recipes.learners import LEARNERS
from openmxu_studies.recipes.recipe_plan import RECIPES, Plan, Trial
from openmxu_studies.recipes.recipe_report import Recipes, Result
from openmxu_studies.spread import crew, kept
from openmxu_studies.training import data

_RATES, _WARMUP = {"resnet": 1e-2, "vit": 3e-3, "text": 1e-3}, 20
"""Adam's learning rates, and the steps over which they grow to these; over the second half they fall to nothing."""

_DRAWS = 65537
"""What a unit's seed, which a rounding at random draws from, has beyond the network's."""


def train(trial: Trial) -> dict[str, float]:
    """Train a network on one thread; returns its score and the seconds."""
    began = time.perf_counter()
    torch.set_num_threads(1)
    task, options = LEARNERS[trial.network](trial.seed), RECIPES[trial.recipe]
    where: Any = nullcontext() if options is None else mxu.unit(**options, seed=trial.seed + _DRAWS, threads=1)
    optimizer = torch.optim.Adam(task.model.parameters(), lr=0.0)
    for step in range(trial.steps):
        for group in optimizer.param_groups:
            group["lr"] = _RATES[trial.network] * min(1, (step + 1) / _WARMUP, 2 - 2 * step / trial.steps)
        batch = task.batch()
        optimizer.zero_grad()
        with where:
            task.loss(batch).backward()
        optimizer.step()
    with where, torch.no_grad():
        score = task.score()
    return {"score": score, "seconds": time.perf_counter() - began}


def train_all(trials: Sequence[Any]) -> list[tuple[Trial, dict[str, float]]]:
    """Train each trial, unless the cache has its outcome on such a machine."""
    named = [Trial(*fields) for fields in trials]
    return [pair for trial in named for pair in kept([trial], train, repr(RECIPES[trial.recipe]))]


def recipes(
    plan: Plan,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Recipes:
    """Train all networks of a plan, except for those whose outcomes an earlier run left in the cache."""
    data.digits("mnist")  # once, before many processes ask for it
    trials = list(plan.trials())
    with crew(jobs, cluster) as those:
        trained = those.outcomes(
            train_all,
            trials,
            kind=lambda trial: (trial.network, trial.recipe),
            cost=lambda trial: 100.0 if trial.network == "text" else 1.0,
            what=lambda trial: f"training by {trial.recipe}",
            progress=progress,
        )
        outcomes = {Trial(*trial): outcome for trial, outcome in trained}
    tools = {**provenance(), "Python": platform.python_version(), "C compiler": compiler_version()}
    return Recipes(
        datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine_name(),
        tools | {"torch": version("torch")},
        plan.full,
        tuple(Result(*trial, outcomes[trial]["score"], outcomes[trial]["seconds"]) for trial in trials),
    )
