"""Properties of components, and queries that decide them: a component's RTLIL as SMT, with its specification."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from openmxu.runtime import process
from openmxu.spec.forms import AREA
from openmxu_evidence.formal.smt import transition_system
from openmxu_evidence.formal.solvers import SOLVERS, Answer, solve, version
from openmxu_evidence.formal.specification import Operation

TIME_LIMIT = 900.0
"""Seconds for a proof, or for each of its cases, by default."""


Read = tuple[str, int]
"""A wire and a cycle, counted from 0."""


@dataclass(frozen=True)
class Proof:
    """A property of a component: ``result = operation(*operands)`` in every run that satisfies ``given``."""

    name: str
    """Name of the proof."""
    claim: str
    """The property in words."""
    component: Any
    """The component."""
    operation: Operation
    """The operation that the component must compute."""
    operands: tuple[Read, ...]
    """Wires and cycles of the operands."""
    result: tuple[Read, ...]
    """Wires and cycles of the result; several wires are concatenated, the first one on top."""
    given: tuple[tuple[str, int, int], ...] = ()
    """Assumptions: wires that have a value in a cycle."""
    cut: str | None = None
    """A wire that may have any value: its driver is ignored."""
    form: str = AREA
    """The form of the component's arithmetic, one of :data:`~openmxu.spec.forms.FORMS`."""
    solvers: tuple[str, ...] = SOLVERS
    """Names of the solvers that can decide this proof."""
    quick: bool = False
    """Whether it belongs to the few that every test run repeats with one solver."""


@dataclass(frozen=True)
class Counterexample:
    """Operands for which the property does not hold. As text: all in hexadecimal."""

    operands: tuple[int, ...]
    got: int
    expected: int

    def __str__(self) -> str:
        operands = ", ".join(f"{operand:x}" for operand in self.operands)
        return f"{f'operands {operands}: ' if operands else ''}got {self.got:x}, expected {self.expected:x}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a proof."""

    proof: str
    """Name of the proof."""
    solver: str
    """Name and version of the solver."""
    holds: bool | None
    """``None``: the solver gave up, or exceeded the time limit."""
    seconds: float
    """Elapsed time."""
    cases: int
    """Number of cases; where there are several, the proof also shows that there is no other case."""
    counterexample: Counterexample | None = None
    """Operands that refute the property, if it does not hold."""


@dataclass(frozen=True)
class Control:
    """A wrong property that must be refuted; otherwise proofs mean nothing."""

    name: str
    """The mistake, in words."""
    proof: Proof
    """The wrong property."""
    change: str = ""
    """Script that changes the component, see :func:`openmxu_evidence.formal.smt.transition_system`."""


def prove(proof: Proof, solver: str = "z3", *, change: str = "", limit: float = TIME_LIMIT, jobs: int = 1) -> Verdict:
    """Ask a solver for operands and a run that contradict ``proof``."""
    tool = version(solver)
    start = time.monotonic()
    query = _Query(proof, change)
    wrong = f"(not {query.relation})"
    cases = proof.operation.cases.get(solver, ())
    questions = [f"(and {wrong} {case})" for case in cases] or [wrong]
    if cases:
        questions.append(f"(not (or {' '.join(cases)}))")
    with process.threads(jobs) as pool:
        answers = list(pool.map(lambda question: query.ask(question, solver, limit), questions))
    if cases and answers[-1].satisfiable:
        raise ValueError(f"cases must cover all operands, not {cases!r}")
    refuting = next((answer for answer in answers if answer.satisfiable), None)
    counterexample = query.counterexample(refuting.values, solver) if refuting else None
    given_up = any(answer.satisfiable is None for answer in answers)
    holds = False if refuting else None if given_up else True
    return Verdict(proof.name, tool, holds, time.monotonic() - start, max(1, len(cases)), counterexample)


def confirm(proof: Proof, solver: str = "z3", *, limit: float = TIME_LIMIT) -> bool | None:
    """Whether the assumptions of ``proof`` allow a run with the operation's worked example.

    Without such a run the proof would hold whatever the component does. For parameters see
    :func:`prove`; ``None``: the solver gave up.
    """
    query = _Query(proof)
    return query.ask(f"(and {query.relation} {query.example})", solver, limit).satisfiable


def is_ambiguous(proof: Proof, solver: str = "z3", *, limit: float = TIME_LIMIT) -> bool | None:
    """Whether the operation of ``proof`` accepts two results for the same operands.

    If so, it would be weaker than a function. For parameters see :func:`prove`; ``None``: the solver gave up.
    """
    return _Query(proof).ask_for_two(solver, limit).satisfiable


class _Query:
    """A proof as SMT-LIB text: operands are called ``x0``, ``x1``, ...; the result ``result``."""

    def __init__(self, proof: Proof, change: str = "") -> None:
        system = transition_system(proof.component, form=proof.form, cut=proof.cut, change=change)
        self._operation = proof.operation
        self._names = [f"x{index}" for index in range(len(proof.operands))]
        reads = [*proof.operands, *proof.result, *((wire, cycle) for wire, cycle, _ in proof.given)]
        self._widths = [system.width(wire) for wire, _ in proof.operands]
        self._width = sum(system.width(wire) for wire, _ in proof.result)
        result = reduce("(concat {} {})".format, (system.value(*read) for read in proof.result))
        values = zip(self._names, (system.value(*read) for read in proof.operands), strict=True)
        self._assertions = "".join(
            [
                system.run(max(cycle for _, cycle in reads)),
                *(f"(assert (= {name} {value}))\n" for name, value in values),
                f"(assert (= result {result}))\n",
                *(
                    f"(assert (= {system.value(wire, cycle)} {_constant(value, system.width(wire))}))\n"
                    for wire, cycle, value in proof.given
                ),
            ]
        )

    @property
    def relation(self) -> str:
        """The condition that the result is right."""
        return f"({self._operation.name} {' '.join(self._names)} result)"

    @property
    def example(self) -> str:
        """The condition that operands and result are those of the operation's example."""
        if not self._operation.example:
            return "true"
        operands, result = self._operation.example
        return f"(and {self._equal(operands)} (= result {_constant(result, self._width)}))"

    def ask(self, question: str, solver: str, limit: float) -> Answer:
        """Whether the question can be true in a run."""
        return self._solve(self._assertions, question, solver, limit)

    def ask_for_two(self, solver: str, limit: float) -> Answer:
        """Whether two results can both be right, whatever the component does."""
        other = f"({self._operation.name} {' '.join(self._names)} other)"
        means = self._operation.means
        meanings = f"({means} result) ({means} other)" if means else "result other"
        return self._solve(
            f"(declare-const other (_ BitVec {self._width}))\n",
            f"(and {self.relation} {other} (distinct {meanings}))",
            solver,
            limit,
        )

    def counterexample(self, values: Mapping[str, int], solver: str) -> Counterexample:
        """The operands and result that were found, with the operation's result for the same operands."""
        # Variables that a solver leaves out may have any value.
        operands = tuple(values.get(name, 0) for name in self._names)
        right = self._solve("", f"(and {self.relation} {self._equal(operands)})", solver, TIME_LIMIT)
        return Counterexample(operands, values.get("result", 0), right.values["result"])

    def _equal(self, operands: Sequence[int]) -> str:
        return " ".join(
            [
                "true",
                *(
                    f"(= {name} {_constant(value, width)})"
                    for name, value, width in zip(self._names, operands, self._widths, strict=True)
                ),
            ]
        )

    def _solve(self, assertions: str, question: str, solver: str, limit: float) -> Answer:
        declarations = "".join(
            f"(declare-const {name} (_ BitVec {width}))\n"
            for name, width in zip([*self._names, "result"], [*self._widths, self._width], strict=True)
        )
        operation = self._operation
        given = f"(assert {operation.given})\n"
        text = f"(set-logic QF_BVFP)\n{operation.text}{declarations}{given}{assertions}(assert {question})\n"
        return solve(text, solver, limit=limit)


def _constant(value: int, width: int) -> str:
    return f"(_ bv{value} {width})"
