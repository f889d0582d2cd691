"""A check: what is claimed, against what, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from openmxu.spec.config import MxuConfig
from openmxu_sim.verify.agreement import Case, draw
from openmxu_sim.verify.exhaustion import Tally

HOLDS, FAILED, OPEN, NOT_RUN = "holds", "failed", "open", "not run"


SURVIVED, WRONG, LOST, HANG, LEFTOVER = "survived", "wrong numbers", "lost results", "hangs", "leftovers"
OUTCOMES = (SURVIVED, WRONG, LOST, HANG, LEFTOVER)
"""What may come of a fault."""


@dataclass(frozen=True)
class Outcome:
    """What came of a check."""

    status: str
    """``"holds"``, ``"failed"``, ``"open"``: neither shown nor refuted, or ``"not run"``: its simulator is missing."""
    looked_at: str
    """Number of cases, states or operands."""
    detail: str = ""
    """What is wrong or open, or a remark."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of faults by outcome."""


@dataclass(frozen=True)
class Check:
    """A row of the table."""

    group: str
    """The method of the check."""
    name: str
    """What is claimed. Group and name together identify the check."""
    against: str
    """Source of the expected values."""
    run: Callable[[], Outcome]
    """Runs the check."""
    thorough: bool = False
    """Whether only the thorough run has it."""
    seconds: int = 5
    """Rough time on one core: the longest checks start first."""


def of_tally(make: Callable[[], Tally], what: str) -> Outcome:
    tally = make()
    return Outcome(FAILED if tally.wrong else HOLDS, f"{tally.count:,} {what}", tally.first)


def small_unit(rows: int, columns: int, stages: int, depth: int) -> MxuConfig:
    return MxuConfig(rows=rows, columns=columns, stages=stages, depth=depth)


def description(config: MxuConfig, tile: int) -> str:
    """A small unit and its longest tile, in the names of explorations."""
    size, stages = f"{config.rows}x{config.columns}", counted(config.stages, "stage")
    return f"{size}, {stages}, depth {config.depth}, tiles up to {counted(tile, 'beat')}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def drawn_case(count: int, sizes: range) -> list[Case]:
    return [draw(seed, sizes) for seed in range(count)]
