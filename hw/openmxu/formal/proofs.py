"""The proofs: for all operands and all states, arithmetic does what the numerics contract says.

The components are those of the catalog, found in its designs, each with its parameters. For a processing element three
properties are proven, which together say that ``o_psum(t + latency)`` is ``add(i_psum(t + latency - psum_latency),
multiply(i_activation(t), weight))``, with the weight that is active from the cycle after that activation on:

- ``sum``: the sum, whatever product comes (its wire is cut) that the ``product`` can be
- ``product``: what the product is, as it is handed to the sum
- ``shift``: how activations and weights move

For the accumulator bank: the value that it adds sums to, the replacement of NaN included.

For arithmetic between streams: when it moves, in any state; its output while it moves; and that otherwise no register
changes. Any run is a run that moves in each cycle, with stalls inserted: so these properties together hold for any
pattern of stalls.

For a unit's status: the next value of each register, from any state.

For the registers on AXI4-Lite: the rules of the bus hold after a reset, and if they hold in one cycle they hold in the
next. Hence they always hold.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any

from amaranth.hdl import Fragment

from openmxu.arith import Adder, Converter, Multiplier, Streamed
from openmxu.catalog import CATALOG
from openmxu.formal.bus import BROKEN, WatchedRegisters
from openmxu.formal.smt import REGISTERS, mutants, transition_system
from openmxu.formal.solvers import SOLVERS, Answer, solve, version
from openmxu.formal.specification import (
    ACCEPT,
    ADD,
    ADD_PRODUCT,
    ALWAYS,
    CONVERT,
    MULTIPLY,
    NEAREST,
    NEVER,
    PRODUCT,
    READY,
    REPLACE,
    SAME,
    SHIFT,
    Operation,
    status,
)
from openmxu.runtime import process
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP32
from openmxu.spec.marks import MARKS
from openmxu.unit.accumulator import AccumulatorColumn
from openmxu.unit.axi import Registers
from openmxu.unit.pe import ProcessingElement
from openmxu.unit.status import COUNTERS, Status

__all__ = [
    "Control",
    "Counterexample",
    "Proof",
    "Verdict",
    "confirm",
    "controls",
    "is_ambiguous",
    "late",
    "mutant_controls",
    "proofs",
    "prove",
]

TIME_LIMIT = 900.0
"""Seconds for a proof, or for each of its cases, by default."""

Read = tuple[str, int]
"""A wire and a cycle, the first being 0."""


@dataclass(frozen=True)
class Proof:
    """A property of a component: ``result = operation(*operands)`` in every run that satisfies ``given``.

    Parameters
    ----------
    name
        Name of the proof.
    claim
        The property in words.
    component
        The component.
    operation
        What the component must compute.
    operands
        Wires and cycles of the operands.
    result
        Wires and cycles of the result; several wires are concatenated, the first one on top.
    given
        Assumptions: wires that have a value in a cycle.
    cut
        A wire that may have any value, whatever drives it.
    solvers
        Names of the solvers that can decide this proof.
    quick
        Whether it belongs to the few that every test run repeats with one solver.
    """

    name: str
    claim: str
    component: Any
    operation: Operation
    operands: tuple[Read, ...]
    result: tuple[Read, ...]
    given: tuple[tuple[str, int, int], ...] = ()
    cut: str | None = None
    solvers: tuple[str, ...] = SOLVERS
    quick: bool = False


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
    """What became of a proof.

    Parameters
    ----------
    proof
        Its name.
    solver
        Name and version.
    holds
        ``None``: the solver gave up, or the time limit did.
    seconds
        On the clock.
    cases
        How many cases it was cut into; where there are several, it is proven too that there is no other case.
    counterexample
        If it does not hold.
    """

    proof: str
    solver: str
    holds: bool | None
    seconds: float
    cases: int
    counterexample: Counterexample | None = None


@dataclass(frozen=True)
class Control:
    """A wrong property; if it is not refuted, proofs mean nothing.

    Parameters
    ----------
    name
        What is wrong.
    proof
        The claim.
    change
        What is done to the component, see :func:`openmxu.formal.smt.transition_system`.
    """

    name: str
    proof: Proof
    change: str = ""


def prove(proof: Proof, solver: str = "z3", *, change: str = "", limit: float = TIME_LIMIT, jobs: int = 1) -> Verdict:
    """Ask a solver for operands and a run that contradict ``proof``.

    Parameters
    ----------
    proof
        From :func:`proofs`, or of one's own.
    solver
        One of :data:`openmxu.formal.solvers.SOLVERS`.
    change
        Lines of a Yosys script that change the component.
    limit
        Seconds for the proof, or for each of its cases.
    jobs
        Cases at a time.

    Raises
    ------
    ValueError
        There is no such solver.
    openmxu.formal.solvers.SolverError, openmxu.yosys.SynthesisError
        A tool is missing, or failed.
    """
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

    Without such a run the proof would hold whatever the component does. Parameters as for
    :func:`prove`; ``None``: the solver gave up.
    """
    query = _Query(proof)
    return query.ask(f"(and {query.relation} {query.example})", solver, limit).satisfiable


def is_ambiguous(proof: Proof, solver: str = "z3", *, limit: float = TIME_LIMIT) -> bool | None:
    """Whether the operation of ``proof`` accepts two results for the same operands.

    If so, it would say less than a function does. Parameters as for :func:`prove`; ``None``: the solver gave up.
    """
    return _Query(proof).ask_for_two(solver, limit).satisfiable


class _Query:
    """A proof as SMT-LIB text: operands are called ``x0``, ``x1``, ...; the result ``result``."""

    def __init__(self, proof: Proof, change: str = "") -> None:
        system = transition_system(proof.component, cut=proof.cut, change=change)
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
        """That the result is right."""
        return f"({self._operation.name} {' '.join(self._names)} result)"

    @property
    def example(self) -> str:
        """That operands and result are those of the operation's example."""
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

    def counterexample(self, found: Mapping[str, int], solver: str) -> Counterexample:
        """What was found, beside what the operation gives for the same operands."""
        # What a solver leaves out may have any value.
        operands = tuple(found.get(name, 0) for name in self._names)
        right = self._solve("", f"(and {self.relation} {self._equal(operands)})", solver, TIME_LIMIT)
        return Counterexample(operands, found.get("result", 0), right.values["result"])

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


@cache
def proofs() -> Mapping[str, Proof]:
    """All proofs, by name."""
    found: dict[str, Proof] = {}
    for component in _shipped():
        for proof in _about(component):
            found.setdefault(proof.name, proof)
    return found


def controls() -> list[Control]:
    """Claims that are wrong in time, or about the other treatment of subnormals, for every arithmetic operation."""
    wrong = [
        Control(f"{proof.name}, a cycle late", late(proof))
        for proof in proofs().values()
        if proof.quick and proof.operation is not ALWAYS
    ]  # what always holds does so a cycle later
    for table in (ADD, MULTIPLY, CONVERT):
        for mode, other in (("flush", "ieee"), ("ieee", "flush")):
            proof = next(proof for proof in proofs().values() if proof.operation is table[mode])
            wrong.append(Control(f"{proof.name}, but {other}", replace(proof, operation=table[other])))
    return [*wrong, *_broken_buses()]


def _broken_buses() -> Iterator[Control]:
    """Wrong properties of some cycles after a reset: broken registers obey the rules; right ones never wait nor act."""
    cycles = 8
    given = (("rst", 0, 1), *(("rst", cycle, 0) for cycle in range(1, cycles)))
    proof = replace(proofs()["registers_kept"], given=given)
    for what, broken in BROKEN.items():
        watched = _watch(broken(proof.component.registers.config))
        yield Control(f"registers that {what}", replace(proof, component=watched, result=(("o_kept", cycles),)))
    yield Control("registers that never wait nor act", replace(proof, operation=NEVER, result=(("o_covered", cycles),)))


def late(proof: Proof) -> Proof:
    """The wrong property that the result comes a cycle later than it does."""
    return replace(proof, result=tuple((wire, cycle + 1) for wire, cycle in proof.result))


def mutant_controls(proof: Proof, count: int, *, seed: int) -> list[Control]:
    """``count`` small faults in the component; see :func:`openmxu.formal.smt.mutants`.

    Some change nothing that can be seen outside: for those, and only those, ``proof`` still holds.
    """
    watched = "registers" if isinstance(proof.component, WatchedRegisters) else ""
    return [
        Control(f"{proof.name}, {mutant}", proof, mutant)
        for mutant in mutants(proof.component, count, seed=seed, inside=watched)
    ]


def _shipped() -> Iterator[Any]:
    """Everything that designs of the catalog are made of, arrays being cut down to one processing element."""
    for design in CATALOG.values():
        size = {name: 1 for name in ("rows", "columns") if name in design.domain}
        fragments = [Fragment.get(design.build(**size), None)]
        while fragments:
            fragment = fragments.pop()
            yield from fragment.origins or ()
            fragments += [inner for inner, *_ in fragment.subfragments]


def _about(component: Any) -> Iterator[Proof]:
    """The proofs about a component that the catalog holds."""
    match component:
        case Adder(fmt=fmt) if fmt == FP32:
            yield _arithmetic(component, ADD)
        case Multiplier(operand=operand, result=result) if (operand, result) == (BF16, FP32):
            yield _arithmetic(component, MULTIPLY)
        case Converter(source=source, target=target) if (source, target) == (FP32, BF16):
            yield _arithmetic(component, CONVERT)
            yield _arithmetic(component, NEAREST)
        case ProcessingElement(operand=operand) if operand == BF16:
            yield from _cell(component)
        case Registers(config=config):
            yield from _bus(config)
        case Status(config=config):
            yield from _status(Status(replace(config, rows=3, depth=4)))
        case AccumulatorColumn(config=config):
            yield _replacement(AccumulatorColumn(replace(config, depth=2)))
        case Streamed(unit=unit):
            yield from (_streamed(component, proof) for proof in _about(unit))
            yield from _handshake(component)


def _arithmetic(unit: Any, operations: Mapping[str, Operation]) -> Proof:
    """What an adder, multiplier or converter computes, its pipeline's latency included."""
    operation = operations[unit.subnormals]
    inputs = [name for name in unit.signature.members if name != "o"]
    latency = unit.latency
    return Proof(
        unit.module_name + ("_nearest" if operations is NEAREST else ""),
        f"o(t + {latency}) = {operation.name}({', '.join(f'{port}(t)' for port in inputs)}), {unit.subnormals}",
        unit,
        operation,
        tuple((port, 0) for port in inputs),
        (("o", latency),),
        solvers=_solvers(operation),
        quick=operations is CONVERT and not latency,
    )


def _solvers(operation: Operation) -> tuple[str, ...]:
    if operation in CONVERT.values():
        return ("z3",)  # bitwuzla has no numbers of bf16's widths
    if operation in (MULTIPLY["ieee"], PRODUCT["ieee"]):
        return ("bitwuzla",)  # z3 does not come to an end
    return SOLVERS


def _cell(cell: ProcessingElement) -> Iterator[Proof]:
    """What a processing element computes, in three parts that meet at wires."""
    name, mode = cell.module_name, cell.subnormals
    # A quick run has each mode and each number of stages once.
    quick = (mode == "flush") == (cell.stages > 1)
    product = "multiply_add.product"
    latency = cell.psum_latency
    yield Proof(
        f"{name}_sum",
        f"o_psum(t + {latency}) = add(i_psum(t), product(t)), {mode}",
        cell,
        ADD_PRODUCT[mode],
        (("i_psum", 0), (product, 0)),
        (("o_psum", latency),),
        cut=product,
        quick=quick,
    )
    latency = cell.latency - cell.psum_latency
    yield Proof(
        f"{name}_product",
        f"product(t + {latency}) = multiply(i_activation(t), active(t + 1)), {mode}",
        cell,
        PRODUCT[mode],
        (("i_activation", 0), ("active", 1)),
        ((product, latency),),
        solvers=_solvers(PRODUCT[mode]),
        quick=quick and mode == "flush",
    )
    outputs = ("o_activation", "o_swap", "o_load", "o_weight", "shadow", "active")
    yield Proof(
        f"{name}_shift",
        "activation and marks move on; the shadow weight is loaded, and becomes active, under marks",
        cell,
        SHIFT,
        tuple((wire, 0) for wire in ("i_activation", "i_swap", "i_load", "i_weight", "shadow", "active")),
        tuple((wire, 1) for wire in outputs),
        given=(("rst", 0, 0),),
        quick=True,
    )


def _replacement(column: AccumulatorColumn) -> Proof:
    """The value that an accumulator column adds sums to; the number of its places makes no difference."""
    Fragment.get(column, None)
    operands = (("old__data", 0), ("o_control.add", 0), ("o_control.clear_nan", 0))
    return Proof(
        f"{column.module_name}_replace",
        "a sum is added to the old one, NaN replaced if asked for, or to -0, a cycle later",
        column,
        REPLACE,
        operands,
        (("i_a", 1),),
        quick=True,
    )


_STATUS_INPUTS = (
    *(f"i_{stream}_{wire}" for stream in ("weights", "activations", "results") for wire in ("valid", "ready")),
    "i_weights_last",
    *(f"i_{mark}" for mark in MARKS),
    "i_go",
    "i_waits_input",
    "i_waits_output",
    "i_clear",
)
_STATUS_REGISTERS = (
    "begun",
    "elapsed",
    *(f"o_{name}" for name in COUNTERS),
    "missing",
    "inside",
    "count",
    "begun_with",
    "supplied",
    "o_error",
)


def _status(component: Status) -> Iterator[Proof]:
    """The counters and the error code of a status; the numbers of rows and places make no difference."""
    Fragment.get(component, None)
    cleared, operation = status(component.config.rows, component.config.depth)
    result = tuple((name, 1) for name in _STATUS_REGISTERS)
    yield Proof(
        "status_begin",
        "a reset clears counters and error code, and the registers behind them",
        component,
        cleared,
        (),
        result,
        given=(("rst", 0, 1),),
        quick=True,
    )
    yield Proof(
        "status_next",
        "counters and error code, and the registers behind them, a cycle later",
        component,
        operation,
        tuple((name, 0) for name in (*_STATUS_INPUTS, *_STATUS_REGISTERS)),
        result,
        given=(("rst", 0, 0),),
        quick=True,
    )


def _bus(config: MxuConfig) -> Iterator[Proof]:
    """Registers obey the rules of AXI4-Lite, by induction."""
    watched = _watch(Registers(config))
    for name, claim, given in (
        ("begin", "the rules of AXI4-Lite hold after a reset, whatever was before", (("rst", 0, 1),)),
        ("kept", "if the rules of AXI4-Lite hold, they hold a cycle later", (("rst", 0, 0), ("o_kept", 0, 1))),
    ):
        yield Proof(f"registers_{name}", claim, watched, ALWAYS, (), (("o_kept", 1),), given=given, quick=True)


def _watch(registers: Registers) -> WatchedRegisters:
    watched = WatchedRegisters(registers)
    Fragment.get(watched, None)  # Amaranth warns of components that nobody elaborates
    return watched


def _streamed(streamed: Streamed, proof: Proof) -> Proof:
    """What arithmetic does between streams, given what the same arithmetic does alone."""
    ((output, _),) = proof.result
    assert output == "o"
    low = 0
    operands = []
    for port, _ in proof.operands:
        width = streamed.unit.signature.members[port].shape
        operands.append((f"i__payload[{low + width - 1}:{low}]", 0))
        low += width
    return replace(
        proof,
        name=f"streamed_{proof.name}",
        claim=f"while it moves: {proof.claim}",
        component=streamed,
        operands=tuple(operands),
        result=(("o__payload", streamed.latency),),
        given=_moving(streamed),
        quick=False,
    )


def _moving(streamed: Streamed) -> tuple[tuple[str, int, int], ...]:
    """Given: it moves in each cycle from operands to result."""
    return tuple(("i__ready", cycle, 1) for cycle in range(streamed.latency))


def _handshake(streamed: Streamed) -> Iterator[Proof]:
    """When arithmetic between streams takes operands and gives a result, whatever they are."""
    name, latency = streamed.module_name, streamed.latency
    awake = tuple(("rst", cycle, 0) for cycle in range(latency))
    yield Proof(
        f"{name}_accept",
        f"while it moves: what is offered at t is accepted, and its result valid at t + {latency}",
        streamed,
        ACCEPT,
        (("i__valid", 0),),
        (("i__ready", 0), ("o__valid", latency)),
        given=_moving(streamed) + awake,
    )
    yield Proof(
        f"{name}_ready",
        "it moves, and accepts, exactly if no result waits: i_ready = o_ready or not o_valid",
        streamed,
        READY,
        (("o__ready", 0), ("o__valid", 0)),
        (("i__ready", 0),),
    )
    yield Proof(
        f"{name}_hold",
        "it does not move: every register stays what it is",
        streamed,
        SAME,
        ((REGISTERS, 0),),
        ((REGISTERS, 1),),
        given=(("rst", 0, 0), ("i__ready", 0, 0)),
    )
