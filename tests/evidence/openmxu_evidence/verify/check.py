"""A check: its claim, the source of the expected values, and its outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from openmxu.spec.config import MxuConfig
from openmxu_evidence.verify.agreement import Case, draw
from openmxu_evidence.verify.exhaustion import Tally

HOLDS, FAILED, OPEN, NOT_RUN = "holds", "failed", "open", "not run"


SURVIVED, WRONG, LOST, HANG, LEFTOVER = "survived", "wrong numbers", "lost results", "hangs", "leftovers"
OUTCOMES = (SURVIVED, WRONG, LOST, HANG, LEFTOVER)
"""Possible outcomes of a fault."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a check."""

    status: str
    """``"holds"``, ``"failed"``, ``"open"``: neither shown nor refuted, or ``"not run"``: its simulator is missing."""
    looked_at: str
    """Number of cases, states or operands."""
    detail: str = ""
    """The error or the open question, or a remark."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of faults by outcome."""


@dataclass(frozen=True)
class Check:
    """A row of the table."""

    group: str
    """The method of the check."""
    name: str
    """Claim of the check. Group and name together identify it."""
    against: str
    """Source of the expected values."""
    run: Callable[[], Outcome]
    """Function that runs the check."""
    thorough: bool = False
    """Whether only the thorough run has it."""
    seconds: int = 5
    """Rough time on one core: the longest checks start first."""


def of_tally(make: Callable[[], Tally], what: str) -> Outcome:
    tally = make()
    return Outcome(FAILED if tally.wrong else HOLDS, f"{tally.count:,} {what}", tally.first)


def small_unit(rows: int, columns: int, stages: int, depth: int, terms: int = 1) -> MxuConfig:
    return MxuConfig(rows=rows, columns=columns, stages=stages, depth=depth, terms=terms)


def description(config: MxuConfig, tile: int) -> str:
    """Describe a small unit and its longest tile, for the names of explorations."""
    size, stages = f"{config.rows}x{config.columns}", counted(config.stages, "stage")
    terms = f", {config.terms} terms" if config.terms > 1 else ""
    return f"{size}, {stages}{terms}, depth {config.depth}, tiles up to {counted(tile, 'beat')}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def drawn_case(count: int, sizes: range) -> list[Case]:
    return [draw(seed, sizes) for seed in range(count)]
