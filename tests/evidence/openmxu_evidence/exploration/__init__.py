"""Exploration of every state of a small unit, for any data, whatever its streams do and whenever they stall.

:func:`explore` visits each state that a unit can come to after a reset, at whatever moment and in whatever
state the reset came. In each it lets every stream do all that it may do in one cycle: offer a beat or not, any
legal beat, take a result or not. It checks that

- each result shown is, term by term, what the numerics contract asks for: for every column the products of
  rows 0, 1, 2 ... added in this order to +0, with several terms as many at once; tiles added to earlier ones in the
  order of the tiles; with the sender's ``last``; in the order in which the activations were sent;
- a result that is refused stays;
- if the tile that is underway is ended and given its weights, all results come out: nothing is lost;
- if both senders always offer and the receiver always takes, results come for ever: nothing hangs. Both follow
  from the finite graph of states, without a bound on cycles;
- ``ready`` does not wait for ``valid``, and no handshake depends on what was never defined.

With ``mistakes`` the senders may go wrong, each time with any marks, in whatever state. Then it checks further that

- ``status__error`` is the first mistake in each cycle: so no mistake leads to a silent wait;
- each beat with ``emit`` is a result, in order, and those whose sums the reference of streams still promises are right:
  all before the mistake, and those after it. Only what is added to sums that a tile has left behind may be anything.

Why this holds for all data. Multiplier, adder, converter and the replacement of NaN are uninterpreted functions:
a word is a term. The reader of the netlist (:mod:`~openmxu_evidence.exploration.word_netlist`) refuses control that
is computed from data and data that are not moved as whole words. A sequence of choices therefore fixes, for every
result, one term over the words that were sent, and the contract fixes another. Two such terms are equal if they are
equal whenever one sent word is replaced by ``TAGGED`` and all others by ``PLAIN``: their shapes agree, and if they had
different words x and y at the same place, replacing x would show it. So each sequence is followed with each choice of
at most one tagged word; when no trace of it is left, another may be tagged. Words that were not sent (refused, between
beats, never written, read from memory at the moment of a write) are ``POISON``, as is every function of them, and must
not reach a result.

One law is used: -0 + s = s, where s is itself a sum. That is how the accumulator bank takes a first tile. It
holds for the adder in either mode, as its results are never subnormal in the mode that flushes, and its NaN is
the canonical one.

Reducing the states loses nothing: undefined bits are carried as such (three-valued logic), and
words that cannot reach a result any more, as the graph of control shows, are replaced by ``POISON``, which can
only make the exploration fail.

Bounded are the unit's size, beats of a tile, tiles of a sum, mistakes, whether tiles keep weights; with mistakes,
as they make many states, only activations of row 0 are tagged, and the status sees ``clear_nan`` low. Assumed
are that arithmetic of N stages is its function N cycles later, which is proven elsewhere, and Yosys's translation
into gates.
"""

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from openmxu.spec.config import MxuConfig
from openmxu.unit.mxu import Mxu
from openmxu.unit.status import Error
from openmxu_evidence.exploration.program import program
from openmxu_evidence.exploration.word_netlist import WordNetlist, read_unit
from openmxu_sim.netlist.native import compile_c

__all__ = ["COVERS", "Exploration", "ExplorationError", "explore"]

COVERS = (
    "weights refused",
    "activations refused",
    "result refused",
    "result taken",
    "weights taken during a tile",
    "activations taken before their weights",
    "pause in a tile",
    "pause between tiles",
    "take",
    "add",
    "add to an added sum",
    "store",
    "emit",
    "keep",
    "longest tile",
    "tile shorter than the sum",
    "bank full",
    "beats on all streams at once",
    "tagged result",
    "plain result",
    "wait for weights after a mistake",
    *(f"after {error.name}" for error in Error if error),
)
"""Events that must have happened at least once, as far as the bounds allow it."""

_FAILURES = (
    None,
    "a handshake depends on what is undefined",
    "a result is wrong",
    "a result comes that nobody waits for",
    "a result is withdrawn",
    "more is taken than there is room for",
    "results are lost",
    "the unit hangs",
    "the error is wrong",
)
_GIVEN_UP = ("more terms than there is room for", "more states than there is room for", "more memory than there is")

_TRACE = 4096


class ExplorationError(RuntimeError):
    """The exploration was given up; the text says why."""


@dataclass(frozen=True)
class Exploration:
    """Result of an exploration."""

    config: MxuConfig
    longest_tile: int
    longest_sum: int
    mistakes: int
    keeps: bool
    """The explored unit and the bounds."""
    control_states: int
    states: int
    transitions: int
    """States without data, states with data, and steps between the latter."""
    seconds: float
    """Seconds of the search, after compilation."""
    covers: Mapping[str, int]
    """Number of times that each of :data:`COVERS` happened."""
    failure: str | None
    """``None``: everything holds. Else the failure, and the cycles that lead there."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The covers that never happened though the bounds allow them; a proof with any is worth nothing."""
        impossible = set[str]()
        if self.longest_tile == 1:
            impossible |= {"weights taken during a tile", "pause in a tile", "tile shorter than the sum"}
        if self.longest_sum == 1:
            impossible |= {"add", "tile shorter than the sum"}
        if self.longest_sum < 3:
            impossible.add("add to an added sum")
        if not self.keeps:
            impossible |= {"keep", f"after {Error.WEIGHTS_NONE.name}"}
        if not self.mistakes:
            impossible |= {name for name in COVERS if "after" in name}
        if self.config.rows == 1:
            impossible.add("after WEIGHTS_SHORT")
        # Each beat after the bound is a mistake, and the end of such a tile may be one more.
        if self.longest_tile == 1 and self.mistakes == 1:
            impossible |= {"after TILE_CUT", "after MARKS_CHANGED"}
        if self.longest_tile + self.mistakes <= self.config.depth:
            impossible.add("after TILE_LONG")
        return tuple(name for name, times in self.covers.items() if not times and name not in impossible)


class _Choice(ctypes.Structure):
    """Layout as in ``search.c``."""

    _fields_ = [
        (name, ctypes.c_uint8)
        for name in (
            "ready",
            "weights",
            "activations",
            "weights_last",
            "weights_tag",
            "activations_tag",
            "first",
            "last",
            "add",
            "emit",
            "keep",
        )
    ]


class _Report(ctypes.Structure):
    """Layout as in ``search.c``."""

    _fields_ = [
        ("control_states", ctypes.c_uint64),
        ("states", ctypes.c_uint64),
        ("transitions", ctypes.c_uint64),
        ("covers", ctypes.c_uint64 * len(COVERS)),
        ("failure", ctypes.c_int32),
        ("steps", ctypes.c_int32),
        ("trace", _Choice * _TRACE),
    ]


def explore(
    config: MxuConfig,
    *,
    longest_tile: int = 2,
    longest_sum: int = 2,
    mistakes: int = 0,
    keeps: bool = False,
    most_states: int = 100_000_000,
    unit: Callable[[MxuConfig], Any] = Mxu,
    progress: Callable[[int, int], object] | None = None,
) -> Exploration:
    """Visit every state of a unit."""
    for noun, value, least, most in (
        ("longest tile", longest_tile, 1, config.depth),
        ("longest sum", longest_sum, 1, 255),
        ("mistakes", mistakes, 0, 255),
    ):
        if not least <= value <= most:
            raise ValueError(f"{noun} must be from {least} to {most}, not {value!r}")
    if mistakes:
        config = replace(config, status=True)  # which shows them
    words = WordNetlist(read_unit(unit, config), config)
    library = compile_c(
        program(words, config, longest_tile=longest_tile, longest_sum=longest_sum, mistakes=mistakes, keeps=keeps)
    )
    report = _Report()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)(progress or (lambda done, known: None))
    start = time.monotonic()
    library.explore(ctypes.c_uint64(most_states), callback, ctypes.byref(report))
    seconds = time.monotonic() - start
    if report.failure >= len(_FAILURES):
        raise ExplorationError(
            f"{_GIVEN_UP[report.failure - len(_FAILURES)]}, after {report.control_states} states "
            f"of control and {report.states} of data"
        )
    failure = _FAILURES[report.failure]
    return Exploration(
        config,
        longest_tile,
        longest_sum,
        mistakes,
        keeps,
        report.control_states,
        report.states,
        report.transitions,
        seconds,
        dict(zip(COVERS, report.covers, strict=True)),
        failure and "\n".join([failure, *_describe(report)]),
    )


def _describe(report: _Report) -> list[str]:
    """Describe the cycles of a trace, a line each."""
    lines = []
    for cycle, choice in enumerate(report.trace[: report.steps]):
        marks = [name for name in ("first", "last", "add", "emit", "keep") if getattr(choice, name)]
        parts = []
        for stream, tag in (("weights", choice.weights_tag), ("activations", choice.activations_tag)):
            happens = ("absent", "refused", "taken")[getattr(choice, stream)]
            if happens == "taken":
                flags = marks if stream == "activations" else ["last"] * choice.weights_last
                happens += "".join(f" {mark}" for mark in flags)
                happens += f" (word {tag - 1} tagged)" if tag else ""
            parts.append(f"{stream} {happens}")
        lines.append(f"cycle {cycle}: {', '.join(parts)}, results {'ready' if choice.ready else 'not ready'}")
    return lines
