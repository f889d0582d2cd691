"""Trains networks by recipes, here or on a cluster."""

import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack, nullcontext
from functools import partial
from importlib.metadata import version
from itertools import groupby
from typing import Any

import torch

from openmxu.area.run.cluster import connected
from openmxu.export.provenance import provenance
from openmxu.runtime import cache, process
from openmxu.runtime.machine import cores, machine_name
from openmxu.runtime.native import compiler_version
from openmxu_sim import torch as mxu
from openmxu_studies import SOURCES
from openmxu_studies.recipes.learners import LEARNERS
from openmxu_studies.recipes.recipe_plan import RECIPES, Plan, Trial
from openmxu_studies.recipes.recipe_report import Recipes, Result
from openmxu_studies.training import data

_RATES, _WARMUP = {"resnet": 1e-2, "vit": 3e-3, "text": 1e-3}, 20
"""Adam's learning rates, and the steps over which they grow to these; over the second half they fall to nothing."""

_LIMIT = 3 * 3600.0
"""Seconds after which trials of a recipe are stopped."""


def train(trial: Trial) -> dict[str, float]:
    """Train a network on one thread; returns its score and the seconds."""
    began = time.perf_counter()
    torch.set_num_threads(1)
    task, options = LEARNERS[trial.network](trial.seed), RECIPES[trial.recipe]
    where: Any = nullcontext() if options is None else mxu.unit(**options, seed=trial.seed, threads=1)
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
    conditions = (version("torch"), platform.python_version(), compiler_version(), machine_name())
    results = []
    for trial in (Trial(*fields) for fields in trials):
        make = partial(_bytes, trial)
        recipe = repr(RECIPES[trial.recipe])
        kept = cache.fetch_result(SOURCES, make, repr(trial), recipe, *conditions, kind="studies")
        results.append((trial, json.loads(kept)))
    return results


def _bytes(trial: Trial) -> bytes:
    return json.dumps(train(trial)).encode()


def recipes(
    plan: Plan,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Recipes:
    """Train all networks of a plan, except for those whose outcomes an earlier run left in the cache."""
    data.digits("mnist")  # once, before many processes ask for it
    trials, outcomes = list(plan.trials()), dict[Trial, dict[str, float]]()
    with ExitStack() as stack:
        far = stack.enter_context(connected(cluster)) if cluster is not None else None
        pool = stack.enter_context(process.threads(jobs or (far.jobs if far else cores())))
        run = partial(far.call, train_all) if far else _here
        batches = [list(group) for _, group in groupby(trials, key=lambda trial: (trial.network, trial.recipe))]
        batches.sort(key=lambda batch: batch[0].network != "text")  # the longest first
        waiting = [pool.submit(run, batch) for batch in batches]
        for future in as_completed(waiting):
            outcomes |= {Trial(*trial): outcome for trial, outcome in future.result()}
            if progress is not None:
                progress(len(outcomes), len(trials))
    tools = {**provenance(), "Python": platform.python_version(), "C compiler": compiler_version()}
    return Recipes(
        datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine_name(),
        tools | {"torch": version("torch")},
        plan.full,
        tuple(Result(*trial, outcomes[trial]["score"], outcomes[trial]["seconds"]) for trial in trials),
    )


def _here(trials: Sequence[Trial]) -> Any:
    """Run trials in a process of their own, which gives its memory back."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return process.call(
        train_all, trials, what=f"training by {trials[0].recipe}", limit=_LIMIT, environment=environment
    )
