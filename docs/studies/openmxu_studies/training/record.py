"""The record of the study: what was trained, and what came of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from statistics import fmean, stdev
from typing import Any

from openmxu_studies.training.plan import Case, Trial


@dataclass(frozen=True)
class Outcome:
    """What came of a trial."""

    score: float
    """Of digits the accuracy, of text the loss in nats; not finite where training failed."""
    lost: float
    """The share of gradients of layers' results, none of them a zero, that conversion would make zero."""
    overflowed: float
    """Likewise infinite, or NaN."""
    cycles: int
    """Of a step of training on a 128x128 unit, by the formula; 0 without a unit."""
    seconds: float
    """What all of it took."""


@dataclass(frozen=True)
class Passage:
    """A network that went from one arithmetic to another."""

    trained: str
    file: str
    used: str
    """Where it was trained, what carried its parameters, and where it was used."""
    changed: int
    """How many of its parameters have other bits afterwards."""
    parameters: int
    """How many it has."""
    before: float
    after: float
    """Its accuracy where it was trained, and where it was used."""


@dataclass(frozen=True)
class Result:
    """A trial and what came of it."""

    trial: Trial
    outcome: Outcome


@dataclass(frozen=True)
class Study:
    """What was found."""

    date: str
    machine: str
    tools: Mapping[str, str]
    """When, on what, and with what: :func:`openmxu.export.provenance.provenance` first."""
    full: bool
    """Whether it is the long one."""
    source: str
    """Where digits come from."""
    steps: Mapping[str, int]
    """Of training, by task."""
    results: tuple[Result, ...]
    """All trials."""
    passages: tuple[Passage, ...]
    """Networks that went from one arithmetic to another."""
    areas: Mapping[str, float]
    """Of a processing element on generic gates, in GE, by its operands: format and subnormals."""
    seconds: float
    """What all trials took, each on one core."""

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> "Study":
        """What :meth:`to_json` wrote."""
        fields = json.loads(text)
        results = tuple(Result(trial_of(each["trial"]), Outcome(**each["outcome"])) for each in fields["results"])
        return cls(**fields | {"results": results, "passages": tuple(Passage(**each) for each in fields["passages"])})

    def scores(self, task: str, case: Case) -> list[float]:
        """Of all seeds, in their order."""
        return [outcome.score for outcome in self._outcomes(task, case)]

    def cases(self, task: str) -> list[Case]:
        """All cases of a task, in the order of the plan."""
        return list(dict.fromkeys(each.trial.case for each in self.results if each.trial.task == task))

    def mean(self, task: str, case: Case, what: str) -> float:
        """Of all seeds, of one field of :class:`~openmxu_studies.training.trial.Outcome`."""
        return fmean(getattr(outcome, what) for outcome in self._outcomes(task, case))

    def _outcomes(self, task: str, case: Case) -> list[Outcome]:
        return [each.outcome for each in self.results if (each.trial.task, each.trial.case) == (task, case)]

    def area(self, case: Case) -> float | None:
        """Of a processing element for a case, if the hardware has one, and it was measured."""
        return self.areas.get(f"{case.operand} {case.subnormals}") if case.accumulate == "fp32" else None

    def spread(self, task: str, case: Case) -> float:
        """Standard deviation of the scores; a NaN where training failed."""
        scores = self.scores(task, case)
        if not all(map(isfinite, scores)):
            return nan
        return stdev(scores) if len(scores) > 1 else 0.0


def trial_of(fields: Sequence[Any]) -> Trial:
    """A trial that was plain data."""
    task, case, *others = fields
    return Trial(task, Case(*case), *others)
