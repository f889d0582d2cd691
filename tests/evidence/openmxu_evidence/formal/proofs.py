"""The proofs: for all operands and all states, arithmetic obeys the numerics contract.

The components are those of the catalog, found in its designs, each with its parameters. For a processing element three
properties are proven, which together say that ``o_psum(t + latency)`` is ``add(i_psum(t + latency - psum_latency),
multiply(i_activation(t), weight))``, with the weight that is active from the cycle after that activation on:

- ``sum``: the sum, for any value that the product can have (its wire is cut)
- ``product``: the product, as it is passed to the sum
- ``shift``: the movement of activations and weights

Elements of several terms have four: ``products``, ``window`` (all terms, aligned to the largest exponent), ``sum`` and
``shift``; see :mod:`openmxu_evidence.formal.several_terms`. Sums are proven in each form that has gates of its own for
them.

For the accumulator bank: the value that it adds sums to, the replacement of NaN included.

For arithmetic between streams: when it moves, in any state; its output while it moves; and that otherwise no register
changes. Any run is a run that moves in each cycle, with stalls inserted: so these properties together hold for any
pattern of stalls.

For a unit's status: the next value of each register, from any state.

For the registers on AXI4-Lite: the rules of the bus hold after a reset, and if they hold in one cycle they hold in the
next. Hence they always hold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from amaranth.hdl import Fragment

from openmxu.arith import Adder, Converter, Multiplier, Streamed
from openmxu.catalog import CATALOG
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP32
from openmxu.spec.forms import AREA, FPGA, SPEED
from openmxu.spec.stages import TERM_CUTS
from openmxu.unit.accumulator import AccumulatorColumn
from openmxu.unit.axi import Registers
from openmxu.unit.pe import ProcessingElement
from openmxu.unit.status import COUNTERS, Status
from openmxu_evidence.formal import several_terms
from openmxu_evidence.formal.bus import BROKEN, WatchedRegisters
from openmxu_evidence.formal.query import Control, Proof
from openmxu_evidence.formal.smt import REGISTERS, mutants
from openmxu_evidence.formal.solvers import SOLVERS
from openmxu_evidence.formal.specification import (
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


@cache
def proofs() -> Mapping[str, Proof]:
    """All proofs, by name."""
    by_name: dict[str, Proof] = {}
    for component in _shipped():
        for proof in about(component):
            if proof.name not in by_name:
                by_name |= {each.name: each for each in (proof, *_in_other_forms(proof))}
    return by_name


def _in_other_forms(proof: Proof) -> Iterator[Proof]:
    """The same of a sum in each form that has other gates for it; nothing but sums depends on the form."""
    forms: tuple[str, ...] = ()
    match proof.component:
        case Adder(stages=0 | 1) | ProcessingElement(terms=1, psum_latency=1):
            forms = (SPEED,)  # registers in the sum's midst leave it as for area
        case ProcessingElement(terms=2 | 4 | 8):
            forms = (SPEED, FPGA)
    if isinstance(proof.component, Adder) or proof.name.endswith("_sum"):
        # The element with gradual underflow takes bitwuzla twice as long as z3: six minutes.
        solvers = ("z3",) if proof.operation is ADD_PRODUCT["ieee"] else proof.solvers
        for form in forms:
            yield replace(proof, name=f"{proof.name}_{form}", form=form, solvers=solvers, quick=False)


def controls() -> list[Control]:
    """Wrong claims for every arithmetic operation: a cycle late, or with the other treatment of subnormals."""
    wrong = [
        Control(f"{proof.name}, a cycle late", late(proof))
        for proof in proofs().values()
        if proof.form == AREA and (proof.quick or getattr(proof.component, "terms", 1) > 1)
        if proof.operation is not ALWAYS
    ]  # a property that always holds also holds a cycle later
    for table in (ADD, MULTIPLY, CONVERT):
        for mode, other in (("flush", "ieee"), ("ieee", "flush")):
            proof = next(proof for proof in proofs().values() if proof.operation is table[mode])
            wrong.append(Control(f"{proof.name}, but {other}", replace(proof, operation=table[other])))
    return [*wrong, *_broken_buses()]


def _broken_buses() -> Iterator[Control]:
    """Wrong properties of the cycles after a reset: broken registers obey the rules; right ones never wait nor act."""
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
    """``count`` small faults in the component; see :func:`openmxu_evidence.formal.smt.mutants`.

    Some change nothing that is visible outside: for those, and only those, ``proof`` still holds.
    """
    watched = "registers" if isinstance(proof.component, WatchedRegisters) else ""
    return [
        Control(f"{proof.name}, {mutant}", proof, mutant)
        for mutant in mutants(proof.component, count, seed=seed, inside=watched)
    ]


def _shipped() -> Iterator[Any]:
    """All components in designs of the catalog, with arrays of one processing element."""
    for design in CATALOG.values():
        size = {"rows": design.domain["terms"], "columns": 1} if "rows" in design.domain else {}
        fragments = [Fragment.get(design.build(**size), None)]
        while fragments:
            fragment = fragments.pop()
            yield from fragment.origins or ()
            fragments += [inner for inner, *_ in fragment.subfragments]


def about(component: Any) -> Iterator[Proof]:
    """The proofs about a component, such as one of those in the catalog's designs."""
    match component:
        case Adder(fmt=fmt) if fmt == FP32:
            yield _arithmetic(component, ADD)
        case Multiplier(formats=formats, result=result) if (*formats, result) == (BF16, BF16, FP32):
            yield _arithmetic(component, MULTIPLY)
        case Converter(source=source, target=target) if (source, target) == (FP32, BF16):
            yield _arithmetic(component, CONVERT)
            yield _arithmetic(component, NEAREST)
        case ProcessingElement(formats=formats, terms=1) if formats == (BF16, BF16):
            yield from _cell(component)
        case ProcessingElement(formats=formats) if formats == (BF16, BF16):
            yield from _cell_of_several_terms(component)
        case Registers(config=config):
            yield from _bus(config)
        case Status(config=config):
            yield from _status(Status(replace(config, rows=3, depth=4)))
        case AccumulatorColumn(config=config):
            yield _replacement(AccumulatorColumn(replace(config, depth=2)))
        case Streamed(unit=unit):
            yield from (_streamed(component, proof) for proof in about(unit))
            yield from _handshake(component)


def _arithmetic(unit: Any, operations: Mapping[str, Operation]) -> Proof:
    """The function of an adder, multiplier or converter, its pipeline's latency included."""
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
        return ("bitwuzla",)  # z3 does not finish
    return SOLVERS


def _cell(cell: ProcessingElement) -> Iterator[Proof]:
    """The function of a processing element, in three parts that meet at wires."""
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
    yield _movement(
        cell, SHIFT[mode], "activation and marks move on; the shadow weight is loaded, and becomes active, under marks"
    )


def _cell_of_several_terms(cell: ProcessingElement) -> Iterator[Proof]:
    """The function of a processing element of several terms, in four parts that meet at wires."""
    name, terms = cell.module_name, cell.terms
    product, window, sum_latency = "multiply_add.product", "multiply_add.aligned", cell.psum_latency
    to_window = sum(cut in TERM_CUTS[sum_latency] for cut in ("ordered", "aligned"))
    latency = cell.latency - sum_latency
    parts: tuple[tuple[Any, ...], ...] = (
        ("products", several_terms.products(terms), (("i_activation", 0), ("active", 1)), ((product, latency),), None),
        ("window", several_terms.aligned(terms), (("i_psum", 0), (product, 0)), ((window, to_window),), product),
        ("sum", several_terms.rounded(terms), ((window, 0),), (("o_psum", sum_latency - to_window),), window),
    )
    for part, operation, operands, result, cut in parts:
        yield Proof(
            f"{name}_{part}",
            f"{part} of {terms} terms, as the contract says",
            cell,
            operation,
            operands,
            result,
            cut=cut,
            solvers=("bitwuzla",) if part == "sum" else SOLVERS,  # z3 does not finish
        )
    yield _movement(
        cell,
        several_terms.shift(terms),
        "activations and marks move on; shadow weights move down a chain, and become active, under marks",
    )


def _movement(cell: ProcessingElement, shift: Operation, claim: str) -> Proof:
    """The registers of a processing element that move activations, weights and marks."""
    outputs = ("o_activation", "o_swap", "o_load", "o_weight", "shadow", "active")
    return Proof(
        f"{cell.module_name}_shift",
        claim,
        cell,
        shift,
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


_BEHIND_ERRORS = ("missing", "inside", "count", "begun_with", "supplied")
_STATUS_REGISTERS = ("begun", "elapsed", *(f"o_{name}" for name in COUNTERS), *_BEHIND_ERRORS, "o_error")


def _status(component: Status) -> Iterator[Proof]:
    """The counters and the error code of a status; the numbers of rows and places make no difference."""
    Fragment.get(component, None)
    cleared, operation = status(component.config.rows, component.config.depth)
    inputs = [name for name in component.signature.members if name.startswith("i_")]
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
        tuple((name, 0) for name in (*inputs, *_STATUS_REGISTERS)),
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
    """The proof about arithmetic between streams, from the proof about the same arithmetic alone."""
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
    """Assumptions: the stream moves in each cycle from operands to result."""
    return tuple(("i__ready", cycle, 1) for cycle in range(streamed.latency))


def _handshake(streamed: Streamed) -> Iterator[Proof]:
    """The cycles in which arithmetic between streams takes operands and gives a result, for any values."""
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
