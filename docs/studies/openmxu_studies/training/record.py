"""The record of the study: trials and their outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean, stdev

from openmxu_studies.spread import Studied
from openmxu_studies.training.plan import Case, Trial


@dataclass(frozen=True)
class Outcome:
    """Outcome of a trial."""

    score: float
    """Accuracy on digits, loss on text in nats; not finite where training failed."""
    lost: float
    """Share of the gradients of layers' results other than zeros that conversion would make zero."""
    overflowed: float
    """Share of these gradients that it would make infinite, or NaN."""
    cycles: int
    """Cycles of a step of training on a 128x128 unit, by the formula; 0 without a unit."""
    seconds: float
    """Seconds of the whole trial."""


@dataclass(frozen=True)
class Passage:
    """A network that went from one arithmetic to another."""

    trained: str
    file: str
    used: str
    """Arithmetic of its training, kind of file of its parameters, and arithmetic of its use."""
    changed: int
    """Number of its parameters that have other bits afterwards."""
    parameters: int
    """Number of its parameters."""
    before: float
    after: float
    """Its accuracy where it was trained, and where it was used."""


@dataclass(frozen=True)
class Result:
    """A trial and its outcome."""

    trial: Trial
    outcome: Outcome


@dataclass(frozen=True)
class Study(Studied):
    """Results of a study."""

    source: str
    """Source of digits."""
    steps: Mapping[str, int]
    """Steps of training, by task."""
    results: tuple[Result, ...]
    """All trials."""
    passages: tuple[Passage, ...]
    """Networks that went from one arithmetic to another."""
    areas: Mapping[str, float]
    """Area of a processing element on generic gates, in GE, by its operands: format and subnormals."""
    seconds: float
    """Seconds of all trials, each on one core."""

    def scores(self, task: str, case: Case) -> list[float]:
        """Return the scores of all seeds, in their order."""
        return [outcome.score for outcome in self._outcomes(task, case)]

    def cases(self, task: str) -> list[Case]:
        """Return all cases of a task, in the order of the plan."""
        return list(dict.fromkeys(result.trial.case for result in self.results if result.trial.task == task))

    def mean(self, task: str, case: Case, what: str) -> float:
        """Return the mean over all seeds of one field of :class:`Outcome`."""
        return fmean(getattr(outcome, what) for outcome in self._outcomes(task, case))

    def _outcomes(self, task: str, case: Case) -> list[Outcome]:
        return [result.outcome for result in self.results if (result.trial.task, result.trial.case) == (task, case)]

    def area(self, case: Case) -> float | None:
        """Return the area of a processing element for a case, if the hardware has one and it was measured."""
        is_one = (case.accumulate, case.terms) == ("fp32", 1)
        return self.areas.get(f"{case.operand} {case.subnormals}") if is_one else None

    def spread(self, task: str, case: Case) -> float:
        """Return the standard deviation of the scores; a NaN where training failed."""
        scores = self.scores(task, case)
        if not all(map(isfinite, scores)):
            return nan
        return stdev(scores) if len(scores) > 1 else 0.0
