"""Checks of the engines: against the definition, against each other, against simulators."""

from collections.abc import Iterator, Sequence
from functools import partial

from openmxu.runtime.extras import study
from openmxu.spec.config import MxuConfig
from openmxu_evidence.benches import Task, run_bench
from openmxu_evidence.exploration.bugs import SEEDED_BUGS, seeded
from openmxu_evidence.verify.agreement import Agreement, Case, compare, compare_with_golden
from openmxu_evidence.verify.check import FAILED, HOLDS, Check, Outcome, drawn_case
from openmxu_sim.engines import compiled, load
from openmxu_sim.engines.compiled.wiring import WiringError, check_parts, check_wiring
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands.stimulus import Stalls, Stimulus

_COMPILED = "the compiled engine"
_NETLIST, _RTL = "the netlist of the whole unit", "another simulator of the RTL"
_FORMULA = "the golden model and the cycle formula"


def compiled_checks(thorough: bool) -> Iterator[Check]:
    for size, seconds in ((16, 3), (128, 15)):
        check = partial(_check_wiring, MxuConfig(rows=size, columns=size))
        name = f"parts and wiring of {size}x{size}"
        yield Check(_COMPILED, name, _NETLIST, check, thorough=size > 16, seconds=seconds)
    name = "units whose parts or wiring have a bug"
    yield Check("controls: what must fail", name, _NETLIST, _find_wrong_units, thorough=True, seconds=15)
    agree = partial(_agree_with_golden, drawn_case(200 if thorough else 8, range(1, 41)))
    yield Check(_COMPILED, "bits and cycles of random units", _FORMULA, agree, seconds=300 if thorough else 20)
    agree = partial(_agree_with_golden, drawn_case(5, range(128, 129)))
    yield Check(_COMPILED, "bits and cycles of 128x128", _FORMULA, agree, thorough=True, seconds=40)


def simulator_checks(thorough: bool) -> Iterator[Check]:
    stalled = "bits and cycles under stalls, as {} has them"
    # The tests of the simulators compare them with Amaranth's own; so that one is enough for a quick run.
    cases = (
        [*drawn_case(60, range(1, 7)), *drawn_case(260, range(1, 4))[60:]] if thorough else drawn_case(3, range(1, 4))
    )
    agree = partial(_agree, "pysim", cases)
    yield Check(_COMPILED, stalled.format("pysim"), _RTL, agree, seconds=2850 if thorough else 15)
    for name in ("icarus", "verilator"):
        agree = partial(_agree, name, drawn_case(20, range(1, 7)))
        yield Check(_COMPILED, stalled.format(name), _RTL, agree, thorough=True, seconds=200)
        products = f"200 products of any shape and precision in {name}"
        counters = "the formula and the unit's counters"
        yield Check("cycles", products, counters, partial(_count_cycles, name), thorough=True, seconds=100)
    agree = partial(_agree_row_by_row, [Case(0, MxuConfig(), m=70, k=200, n=150, kind="all")])
    row_by_row = "bits and cycles of 128x128 under stalls, as Verilator has them row by row"
    yield Check(_COMPILED, row_by_row, _RTL, agree, thorough=True, seconds=330)


def _count_cycles(simulator: str) -> Outcome:
    passed = run_bench(Task("mxu_2x2_status", {"depth": 32, "splitter": True}), simulator=simulator)
    return Outcome(HOLDS if "cycles_of_products" in passed else FAILED, "200 products", "")


def _check_wiring(config: MxuConfig) -> Outcome:
    try:
        return Outcome(HOLDS, f"{check_wiring(config):,} connections, {check_parts(config)} sorts of parts")
    except WiringError as error:
        return Outcome(FAILED, "", str(error))


def _find_wrong_units() -> Outcome:
    """Check that wiring or parts tell units with seeded bugs, which change the netlist, from the compiled unit."""
    config = MxuConfig(rows=2, columns=2, depth=2, stages=2, status=True)
    missed = []
    for name, bug in SEEDED_BUGS.items():
        unit = seeded(bug)
        try:
            check_wiring(config, unit)
            check_parts(config, unit)
        except WiringError:
            continue
        missed.append(name)
    return Outcome(FAILED if missed else HOLDS, f"{len(SEEDED_BUGS)} bugs", ", ".join(missed))


def _agree_with_golden(cases: Sequence[Case]) -> Outcome:
    return _of_agreement(compare_with_golden(cases, engine=_run_compiled))


def _run_compiled(stimulus: Stimulus, *, stalls: Stalls | None) -> Run:
    """Run on one thread, or with stalls on several: both are checked."""
    return compiled.run(stimulus, stalls=stalls, threads=1 if stalls is None else 3)


def _agree(engine: str, cases: Sequence[Case]) -> Outcome:
    return _of_agreement(compare(cases, load(engine)))


def _agree_row_by_row(cases: Sequence[Case]) -> Outcome:
    return _of_agreement(compare(cases, study("speed.hierarchical", "verify --thorough").run))


def _of_agreement(agreement: Agreement) -> Outcome:
    looked_at = f"{agreement.products:,} products, {agreement.cycles:,} cycles"
    return Outcome(FAILED if agreement.first else HOLDS, looked_at, agreement.first)
