"""The record of the study: trials and their outcomes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from statistics import fmean, stdev
from typing import Any

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
class Study:
    """Results of a study."""

    date: str
    machine: str
    tools: Mapping[str, str]
    """Date, machine, and tools: :func:`openmxu.export.provenance.provenance` first."""
    full: bool
    """Whether the study was the long one."""
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

    def to_json(self) -> str:
        """Return the study as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> "Study":
        """Return the study that :meth:`to_json` wrote."""
        fields = json.loads(text)
        results = tuple(Result(trial_of(entry["trial"]), Outcome(**entry["outcome"])) for entry in fields["results"])
        return cls(**fields | {"results": results, "passages": tuple(Passage(**entry) for entry in fields["passages"])})

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


def trial_of(fields: Sequence[Any]) -> Trial:
    """Return a trial from plain data."""
    task, case, *others = fields
    return Trial(task, Case(*case), *others)
