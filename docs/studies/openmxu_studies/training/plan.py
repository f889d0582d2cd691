"""The plan of training: cases, seeds, steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

TASKS = ("digits", "text")
"""Names of the tasks."""


class Case(NamedTuple):
    """The arithmetic that a network is trained with."""

    operand: str | None
    """As in :func:`openmxu_sim.simulate`; ``None``: PyTorch's own fp32, no unit."""
    precision: str = "default"
    accumulate: str = "fp32"
    subnormals: str = "flush"
    """As in :func:`openmxu_sim.simulate`."""
    scaling: bool = False
    """Whether PyTorch's ``GradScaler`` multiplies the loss by as much as gradients can bear."""
    weight: int = 0
    """The loss is multiplied by 2 to this power, and the gradients are divided by it before they are used. With real
    numbers nothing would change."""
    terms: int = 1
    """Terms of an element."""


class Trial(NamedTuple):
    """A task, a case, a seed and the number of steps; digits come from ``source``."""

    task: str
    case: Case
    seed: int
    steps: int
    source: str = "mnist"


PLAIN = Case(None)
"""The case of PyTorch without a unit."""

REFERENCE = Case("fp32")
"""The case that others are compared with: fp32 operands on a unit."""

CASES = (
    PLAIN,
    REFERENCE,
    Case("tf32"),
    Case("bf16"),
    Case("bf16", precision="high"),
    Case("bf16", precision="highest"),
    Case("bf16", accumulate="bf16"),
    Case("fp16"),
    Case("fp16", scaling=True),
    Case("fp16", subnormals="ieee"),
    Case("fp16", subnormals="ieee", scaling=True),
    Case("fp8_e4m3"),
    Case("fp8_e4m3", scaling=True),
    Case("fp8_e5m2"),
    Case("fp8_e5m2", scaling=True),
)
"""All cases."""

SWEPT = (Case("bf16"), Case("fp16"), Case("fp16", subnormals="ieee"), Case("fp16", scaling=True))
"""Cases that are trained with losses of other weights."""

STEPS = {"digits": 250, "text": 200}
"""Steps of training, by task."""

_SHORT = (PLAIN, REFERENCE, Case("bf16"), Case("fp16"), Case("fp16", scaling=True), Case("fp8_e4m3"), Case("fp8_e5m2"))
_WEIGHTS = (-8, -12, -16, -20)
_SEEDS, _SWEPT_SEEDS, _SHORT_SEEDS = 5, 3, 2


@dataclass(frozen=True)
class Plan:
    """The extent of a study."""

    full: bool = False
    """Whether it has all cases with five seeds, and losses of four weights with three, or a few cases and two
    weights with two seeds."""
    seeds: int | None = None
    """Most seeds; ``None``: as above."""
    source: str = "mnist"
    """Source of digits."""
    terms: int = 1
    """Unless 1: these terms and one are compared, with bf16 and ordinary losses alone."""

    def trials(self) -> Iterator[Trial]:
        """Yield all trials: those of a task and a case follow each other."""
        weights, swept = (_WEIGHTS, SWEPT) if self.full else (_WEIGHTS[::2], SWEPT[:2])
        ordinary, others = (_SEEDS, _SWEPT_SEEDS) if self.full else (_SHORT_SEEDS, _SHORT_SEEDS)
        several = (REFERENCE, Case("bf16"), Case("bf16", terms=self.terms))
        for task in TASKS:
            for case in several if self.terms > 1 else CASES if self.full else _SHORT:
                yield from self._seeds(task, case, ordinary)
            for case, weight in product(swept if self.terms == 1 else (), weights):
                yield from self._seeds(task, case._replace(weight=weight), others)

    def _seeds(self, task: str, case: Case, seeds: int) -> Iterator[Trial]:
        for seed in range(min(seeds, self.seeds or seeds)):
            yield Trial(task, case, seed, STEPS[task], self.source)


def name(case: Case) -> str:
    """Return the name of a case, without the weight of its loss."""
    if case.operand is None:
        return "PyTorch's fp32"
    words = [case.operand]
    words += [f"{case.precision} precision"] * (case.precision != "default")
    words += [f"sums in {case.accumulate}"] * (case.accumulate != "fp32")
    words += [f"{case.terms} terms"] * (case.terms != 1)
    words += ["subnormals"] * (case.subnormals != "flush")
    words += ["loss scaled"] * case.scaling
    return ", ".join(words)
