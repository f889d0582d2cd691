"""The test benches graded: designs with one change each, and which of them the benches find.

Mistakes in the arithmetic are looked for with the very operands of the benches, on the mutants' gates; if these
find nothing, with all operands. Mistakes in the processing element, the array and the unit are looked for by the
cocotb benches on Verilator. A mutant that passes is either proven to do what the design does, or open: a hole in
the bench, unless somebody can say why not.

The status and the registers have counters of 32 bits, which no bench lets run for long enough. There the proofs are
graded: one that holds of a mutant, too, shows that the mutant keeps to all that is claimed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from openmxu.runtime import process
from openmxu.runtime.machine import cores
from openmxu_evidence.benches.operations import OPERATIONS
from openmxu_evidence.benches.task import Task, run_bench
from openmxu_evidence.formal.proofs import mutant_controls, proofs
from openmxu_evidence.formal.query import prove
from openmxu_evidence.verify.exhaustion import Tally, additions, parts, sweep
from openmxu_evidence.verify.mutation import PLUSARG, Mutants, mutants
from openmxu_sim.cosim.process import BenchFailedError, SimulationError
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands.aliases import Progress

_SUMS = 10**8
_TIMEOUT = 120.0  # seconds; the designs themselves take two to five


@dataclass(frozen=True)
class Subject:
    """A design whose mutants a bench must find."""

    name: str
    """Name of the subject."""
    task: Task | None
    """The design and its bench; ``None`` where a proof is graded."""
    without: tuple[str, ...] = ()
    """Modules that are not changed, because they are subjects of their own."""
    everything: Callable[..., Tally] | None = None
    """Arithmetic: tries all possible operands on the RTLIL with ``change``."""
    proofs: tuple[str, ...] = ()
    """The proofs that are graded together, all about one component."""

    @property
    def is_quick(self) -> bool:
        """Whether a mutant takes less than a second or two."""
        return self.task is None or self.task.family in OPERATIONS


def _subjects() -> Iterator[Subject]:
    for mode in ("flush", "ieee"):
        for family, everything in (
            ("converter", partial(sweep, "fp32 -> bf16", mode)),
            ("multiplier", partial(sweep, "bf16 x bf16 -> fp32", mode)),
            ("adder", partial(additions, mode, 0, _SUMS)),
            ("splitter", partial(parts, mode)),
        ):
            yield Subject(f"{family}, {mode}", Task(family, {"subnormals": mode}), everything=everything)
    arithmetic = ("*.adder", "*.multiply_add*", "converter_*")
    yield Subject("processing element", Task("pe"))
    yield Subject("processing element of four terms", Task("pe_4_terms"))
    yield Subject("array", Task("array_4x4", {"rows": 3, "columns": 2, "stages": 3}), arithmetic)
    # Three columns: a mistake is in each of them, and an inversion that is made twice is none.
    unit = {"columns": 3, "stages": 3, "depth": 16, "subnormals": "ieee"}
    yield Subject("matrix unit", Task("mxu_2x2", unit), arithmetic)
    yield Subject("status", None, proofs=("status_begin", "status_next"))
    yield Subject("registers on AXI4-Lite", None, proofs=("registers_begin", "registers_kept"))


SUBJECTS = {subject.name: subject for subject in _subjects()}


@dataclass(frozen=True)
class Mutant:
    """A mutant and its fate."""

    number: int
    """Number of the mutant, see :class:`~openmxu_evidence.verify.mutation.Mutants`."""
    mistake: str
    """Description of its mistake."""
    fate: str
    """``"killed"``, ``"killed late"`` (not by the bench, but by all operands), ``"equivalent"`` (proven, or shown
    with all operands) or ``"open"``."""
    by: str
    """The complaint that killed it, or what was tried."""


@dataclass(frozen=True)
class Grade:
    """The mutants of a subject."""

    subject: str
    mutants: tuple[Mutant, ...]

    def count(self, fate: str) -> int:
        """Return the number of mutants with this fate."""
        return sum(mutant.fate == fate for mutant in self.mutants)


def grade(
    name: str, count: int, *, seed: int = 0, spare: int = 0, jobs: int | None = None, progress: Progress | None = None
) -> Grade:
    """Try mutants of a subject on its bench or its proof."""
    subject = SUBJECTS[name]
    tries = _tries(subject, count + spare, seed) if subject.task else _proof_tries(subject, count + spare, seed)
    with process.threads(jobs or cores()) as pool:
        fates = pool.map(lambda try_: try_(), tries)
        try:
            tried = tuple(islice(_wanted(fates, count, spare, progress), count))
        finally:
            pool.shutdown(cancel_futures=True)
    return Grade(name, tried)


def _tries(subject: Subject, count: int, seed: int) -> list[Callable[[], Mutant]]:
    """Return functions that try mutants on a bench, one each."""
    task = subject.task
    assert task is not None, "else a proof is graded"
    component = task.component()
    drawn = mutants(component, count, seed, flat=task.family in OPERATIONS, without=subject.without)
    kills = _by_operands(task, component, drawn) if task.family in OPERATIONS else _by_simulation(task, drawn)
    refusal = kills(0)
    if refusal:
        raise RuntimeError(f"{subject.name}: the bench refuses the design itself: {refusal}")

    def try_(number: int) -> Mutant:
        made = Mutant(number, drawn.describe(number), "killed", "")
        try:
            complaint = kills(number)
        except SimulationError as error:  # a crash, or no end: it shows, but to no test
            return replace(made, fate="open", by=str(error).partition("\n")[0])
        if complaint:
            return replace(made, by=complaint)
        if drawn.is_equivalent(number):
            return replace(made, fate="equivalent", by="SAT sweeping")
        if subject.everything is None:
            return replace(made, fate="open", by="the bench does not see it, and it is not proven equivalent")
        tally = subject.everything(change=lambda _: drawn.one(number))
        if tally.wrong:
            return replace(made, fate="killed late", by=tally.first)
        if tally.count >= 1 << 32:
            return replace(made, fate="equivalent", by="all operands")
        return replace(made, fate="open", by=f"{tally.count} operands do not see it")

    return [partial(try_, number) for number in range(1, len(drawn.mistakes) + 1)]


def _proof_tries(subject: Subject, count: int, seed: int) -> list[Callable[[], Mutant]]:
    """Return functions that try mutants on proofs, one each."""
    graded = [proofs()[name] for name in subject.proofs]
    if not all(prove(proof).holds for proof in graded):
        raise RuntimeError(f"{subject.name}: the design itself is refuted")

    def try_(number: int, change: str) -> Mutant:
        made = Mutant(number, change.removeprefix("mutate "), "equivalent", ", ".join(subject.proofs))
        for proof in graded:
            verdict = prove(proof, change=change)
            if not verdict.holds:
                fate = "open" if verdict.holds is None else "killed"
                return replace(made, fate=fate, by=f"{proof.name}: {verdict.counterexample or 'no answer'}")
        return made

    controls = mutant_controls(graded[0], 2 * count, seed=seed)[:count]  # those of clocks are left out
    return [partial(try_, number, control.change) for number, control in enumerate(controls, start=1)]


def _wanted(fates: Iterator[Mutant], count: int, spare: int, progress: Progress | None) -> Iterator[Mutant]:
    for done, mutant in enumerate(fates, start=1):
        if progress is not None:
            progress(done, count + spare)
        if not spare or mutant.fate != "equivalent":
            yield mutant


def _by_operands(task: Task, component: Any, drawn: Mutants) -> Callable[[int], str]:
    """Return a function that gives the complaint of an arithmetic bench about mutant ``number``, or an empty text."""
    operation = OPERATIONS[task.family](component)
    operands = operation.operands(task)
    expected = operation.expected(*operands)
    gates = Gates(drawn.gates(), [*operation.inputs, "mutant"])

    def kills(number: int) -> str:
        wrong = np.flatnonzero(gates(*operands, number) != expected)
        return f"{len(wrong)} of {len(expected)} operands of the bench" if len(wrong) else ""

    return kills


def _by_simulation(task: Task, drawn: Mutants) -> Callable[[int], str]:
    """Return such a function for a bench on Verilator."""
    verilog = drawn.verilog()

    def kills(number: int) -> str:
        try:
            run_bench(task, mutate=lambda _: verilog, plusargs=[f"+{PLUSARG}={number}"], timeout=_TIMEOUT)
        except BenchFailedError as error:
            lines = str(error).splitlines()
            return next((line.strip() for line in lines if "Error: " in line), lines[0])
        return ""

    return kills
