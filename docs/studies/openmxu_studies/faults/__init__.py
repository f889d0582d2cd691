"""Faults on purpose, beside those of ``make torture``: what is around the arithmetic is damaged, killed or misled.

A class of faults is a function from a seed to the outcome of one fault. Faults of a class run in batches, each in a
process of its own with a folder of its own. Expected bits come from the golden model.
A fault is survived if the result is right, or if an error of one line says why there is none.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openmxu.runtime import process
from openmxu_evidence.verify.check import HANG, LEFTOVER, LOST, OUTCOMES, SURVIVED, WRONG

__all__ = ["CLASSES", "HANG", "LEFTOVER", "LOST", "OUTCOMES", "SURVIVED", "WRONG", "run_batch", "try_class"]

_SHOWN = 3
"""Number of wrong faults in a batch whose seed and outcome are stored."""


@dataclass(frozen=True)
class FaultClass:
    """A kind of fault."""

    name: str
    module: str
    """Module in this package whose function ``trial`` makes the fault: from a seed and an empty folder it gives one of
    :data:`OUTCOMES` and a description."""
    short: int
    long: int
    """Number of faults that the tests try, and that a campaign tries."""
    batch: int
    """Number of faults that run in one process."""
    limit: float
    """Seconds for a batch; after that it hangs."""


CLASSES: tuple[FaultClass, ...] = (
    FaultClass("cache entries damaged, or something else in their place", "damage", 100, 3000, 500, 300),
    FaultClass("floating-point settings changed by the caller", "settings", 8, 1500, 250, 600),
    FaultClass("C compilers that lie, fail, crash or hang", "compilers", 1, 100, 5, 600),
    FaultClass("signals at random moments of a command", "kills", 1, 200, 10, 1200),
)
"""All classes of faults."""


@dataclass(frozen=True)
class Tally:
    """Outcomes of the faults of a class: their numbers, and some that went wrong."""

    counts: Mapping[str, int]
    shown: tuple[str, ...]

    @property
    def tried(self) -> int:
        """Number of faults tried."""
        return sum(self.counts.values())

    @property
    def holds(self) -> bool:
        """Whether all faults were survived."""
        return self.counts[SURVIVED] == self.tried


def try_class(chosen: FaultClass, *, count: int, first: int = 0) -> Tally:
    """Try faults of a class, batch by batch."""
    counts, shown = Counter(dict.fromkeys(OUTCOMES, 0)), list[str]()
    for start in range(first, first + count, chosen.batch):
        stop = min(start + chosen.batch, first + count)
        what = f"the batch of faults {start} to {stop - 1}, {chosen.module},"
        try:
            with process.workspace() as folder:
                report = process.call(run_batch, chosen.module, start, stop, str(folder), what=what, limit=chosen.limit)
        except process.TimeLimitError as error:  # which of them it was is not known: all count
            report = {"counts": {HANG: stop - start}, "shown": [str(error)]}
        except RuntimeError as error:
            report = {"counts": {LOST: stop - start}, "shown": [str(error)]}
        counts.update(report["counts"])
        shown += report["shown"]
    return Tally(dict(counts), tuple(shown))


def run_batch(module: str, start: int, stop: int, folder: str) -> dict[str, object]:
    """Try the faults of some seeds in this process; returns data for JSON."""
    from importlib import import_module  # noqa: PLC0415  # a class needs only its own module

    trial: Callable[[int, Path], tuple[str, str]] = import_module(f"{__name__}.{module}").trial
    counts, shown = Counter[str](), list[str]()
    before = logging.root.manager.disable
    logging.disable()  # thousands of notes
    try:
        for seed in range(start, stop):
            path = Path(folder, str(seed))
            path.mkdir()
            outcome, text = trial(seed, path)
            counts[outcome] += 1
            if outcome != SURVIVED and len(shown) < _SHOWN:
                shown.append(f"seed {seed}: {outcome}: {text}")
    finally:
        logging.disable(before)
    return {"counts": dict(counts), "shown": shown}
