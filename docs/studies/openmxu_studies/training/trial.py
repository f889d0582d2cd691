"""One network trained once: its arithmetic, and its outcome."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from openmxu.runtime.machine import of_plain
from openmxu_sim import torch as mxu
from openmxu_sim.networks.costs import Losses, losses
from openmxu_studies.spread import kept
from openmxu_studies.training.plan import Case, Trial
from openmxu_studies.training.record import Outcome
from openmxu_studies.training.tasks import DigitsTask, Task, TextTask

_RATE = 1e-3
"""Adam's learning rate."""

_SAMPLED = 10
"""Steps among which one has its gradients looked at."""

_SCALE, _GROWTH = 2.0**16, 50
"""PyTorch's first factor of the loss, and the steps without overflow after which it doubles: by default 2000."""


_Context = AbstractContextManager[Any]


def task(trial: Trial) -> Task:
    """Return the network of a trial, before training."""
    return DigitsTask(trial.seed, trial.source) if trial.task == "digits" else TextTask(trial.seed)


def unit(case: Case, **options: Any) -> _Context:
    """Return the unit of a case."""
    if case.operand is None:
        return nullcontext()
    numerics = {name: getattr(case, name) for name in ("operand", "precision", "accumulate", "subnormals", "terms")}
    return mxu.unit(**numerics, threads=1, **options)


def train(trial: Trial) -> Outcome:
    """Train a network, on one thread."""
    began = time.perf_counter()
    torch.set_num_threads(1)
    learned, where = task(trial), unit(trial.case)
    lost = learn(learned, trial.case, trial.steps, where)
    cycles = where.report().cycles // trial.steps if isinstance(where, mxu.Unit) else 0
    with where, torch.no_grad():
        score = learned.score()
    gradients = max(lost.operands, 1)
    return Outcome(score, lost.flushed / gradients, lost.overflowed / gradients, cycles, time.perf_counter() - began)


def learn(learned: Task, case: Case, steps: int, where: _Context) -> Losses:
    """Train for some steps; returns the losses of gradients in conversion."""
    parameters = list(learned.model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=_RATE)
    scaler = torch.amp.GradScaler("cpu", init_scale=_SCALE, growth_interval=_GROWTH, enabled=case.scaling)
    lost = Losses()
    for number in range(steps):
        batch = learned.batch()
        if number % _SAMPLED == 0:
            lost += _lost(learned, batch, case, scaler.get_scale())
        optimizer.zero_grad()
        with where:
            scaler.scale(learned.loss(batch) * 2.0**case.weight).backward()
        scaler.unscale_(optimizer)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad *= 2.0**-case.weight
        scaler.step(optimizer)
        scaler.update()
    return lost


def _lost(learned: Task, batch: Any, case: Case, scale: float) -> Losses:
    """Count the gradients of layers' results that a case cannot hold, computed in fp32, without a unit.

    On the unit, losses in one layer would hide losses in the layers before it.
    """
    if case.operand is None:
        return Losses()
    results: list[torch.Tensor] = []
    layers = [layer for layer in learned.model.modules() if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d))]
    hooks = [layer.register_forward_hook(lambda *arguments: results.append(arguments[-1])) for layer in layers]
    loss = learned.loss(batch) * 2.0**case.weight * scale
    for hook in hooks:
        hook.remove()
    gradients = torch.autograd.grad(loss, results)
    counts = (losses(np.ascontiguousarray(gradient.numpy()), case.operand, case.subnormals) for gradient in gradients)
    return sum(counts, Losses())


def train_all(trials: Sequence[Any]) -> list[tuple[Trial, dict[str, Any]]]:
    """Train each trial, unless the cache has its outcome on such a machine."""
    return kept(map(partial(of_plain, Trial), trials), lambda trial: asdict(train(trial)))
