"""Everything that is verified, one row each: what is claimed, against what, and what came of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from openmxu.catalog import CATALOG
from openmxu.formal.paths import combinational_paths
from openmxu.formal.proofs import Proof, confirm, controls, is_ambiguous, mutant_controls, proofs, prove
from openmxu.formal.solvers import SOLVERS
from openmxu.formal.specification import ALWAYS
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import SUBNORMALS
from openmxu.spec.passes import Part
from openmxu_sim.cosim.benches import Task, run_bench
from openmxu_sim.engines import compiled, load
from openmxu_sim.engines.compiled.wiring import WiringError, check_parts, check_wiring
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands.stimulus import Stalls, Stimulus
from openmxu_sim.verify.agreement import Agreement, Case, compare, compare_with_golden, draw
from openmxu_sim.verify.exhaustion import SWEEPS, Tally, additions, sweep
from openmxu_sim.verify.exploration import explore
from openmxu_sim.verify.exploration.bugs import SEEDED_BUGS, seeded
from openmxu_sim.verify.faults import CLASSES, FaultClass, try_class
from openmxu_sim.verify.mutants import SUBJECTS, grade
from openmxu_sim.verify.third_parties import OPERATIONS, products_by_jax, sample

__all__ = ["FAILED", "HOLDS", "NOT_RUN", "OPEN", "Check", "Outcome", "checks"]

HOLDS, FAILED, OPEN, NOT_RUN = "holds", "failed", "open", "not run"

_PROOF_LIMIT = 900.0  # seconds


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    Parameters
    ----------
    status
        ``"holds"``, ``"failed"``, ``"open"``: neither shown nor refuted, or ``"not run"``: its simulator is missing.
    looked_at
        Number of cases, states or operands.
    detail
        What is wrong or open, or a remark.
    counts
        Number of faults by outcome.
    """

    status: str
    looked_at: str
    detail: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A row of the table.

    Parameters
    ----------
    group
        The method of the check.
    name
        What is claimed. Group and name together identify the check.
    against
        Source of the expected values.
    run
        Runs the check.
    thorough
        Whether only the thorough run has it.
    seconds
        Rough time on one core: the longest checks start first.
    """

    group: str
    name: str
    against: str
    run: Callable[[], Outcome]
    thorough: bool = False
    seconds: int = 5


@cache
def checks(*, thorough: bool, faults: bool = False) -> Mapping[tuple[str, str], Check]:
    """The checks of a run, by group and name; the same on every machine.

    Parameters
    ----------
    thorough
        Include checks that take minutes, with larger samples.
    faults
        The checks of :mod:`~openmxu_sim.verify.faults` instead.
    """
    makers: tuple[Callable[[bool], Iterator[Check]], ...] = (
        _all_operands,
        _biased_sums,
        _proofs,
        _wrong_claims,
        _ports,
        _exploration,
        _seeded_bugs,
        _compiled_engine,
        _other_simulators,
        _mutants,
        _third_parties,
    )
    found: dict[tuple[str, str], Check] = {}
    for check in (check for maker in ((_faults,) if faults else makers) for check in maker(thorough)):
        if (check.group, check.name) in found:
            raise ValueError(f"name must be another one: {check.group} has two of {check.name!r}")
        found[check.group, check.name] = check
    return {name: check for name, check in found.items() if thorough or not check.thorough}


def _faults(_: bool) -> Iterator[Check]:
    for chosen in CLASSES:

        def run(chosen: FaultClass = chosen) -> Outcome:
            tally = try_class(chosen, count=chosen.long)
            return Outcome(
                HOLDS if tally.holds else FAILED, f"{tally.tried:,} faults", "; ".join(tally.shown), tally.counts
            )

        yield Check(
            "faults", chosen.name, "the golden model, or the same program left alone", run, seconds=int(chosen.limit)
        )


def _of_tally(make: Callable[[], Tally], what: str) -> Outcome:
    tally = make()
    return Outcome(FAILED if tally.wrong else HOLDS, f"{tally.count:,} {what}", tally.first)


def _all_operands(_: bool) -> Iterator[Check]:
    for name, chosen in SWEEPS.items():
        for mode in SUBNORMALS:
            yield Check(
                "all operands, on the synthesised gates",
                f"{name}, {mode}",
                "this processor's arithmetic",
                partial(_of_tally, partial(sweep, name, mode), "operands or pairs"),
                thorough=chosen.part != Part.WHOLE,
            )


def _biased_sums(thorough: bool) -> Iterator[Check]:
    count = 10**9 if thorough else 10**8
    for stages in (0, 1, 5):  # combinational, and as in processing elements of one stage and of six
        for mode in SUBNORMALS:
            yield Check(
                "biased operands, on the synthesised gates",
                f"fp32 + fp32, {mode}, {stages} stages",
                "this processor's arithmetic",
                partial(_of_tally, partial(additions, mode, stages, count), "sums"),
                seconds=20 if thorough else 3,
            )


def _proofs(_: bool) -> Iterator[Check]:
    for solver in SOLVERS:
        for proof in proofs().values():
            if solver in proof.solvers:
                thorough = solver != "z3" or not proof.quick
                yield Check(
                    f"proof for all operands and states, {solver}",
                    proof.name,
                    _reference(proof),
                    partial(_prove, proof, solver),
                    thorough=thorough,
                    seconds=200 if "ieee" in proof.name and thorough else 20,
                )


def _reference(proof: Proof) -> str:
    """Source of what a proof expects: only arithmetic has a theory of its own."""
    if proof.operation is ALWAYS:
        return "AXI4-Lite rules as watching hardware"
    is_arithmetic = "fp." in proof.operation.text
    return "SMT-LIB's floating-point theory" if is_arithmetic else "the reference as SMT-LIB"


def _prove(proof: Proof, solver: str) -> Outcome:
    possible = confirm(proof, solver, limit=_PROOF_LIMIT)
    if possible is False:
        return Outcome(FAILED, proof.claim, "no run satisfies the assumptions: the proof is vacuous")
    verdict = prove(proof, solver, limit=_PROOF_LIMIT)
    if None in (possible, verdict.holds):
        return Outcome(OPEN, proof.claim, f"{verdict.solver} gave up after {_PROOF_LIMIT:.0f} s")
    cases = f" ({verdict.cases} cases, and that they are all)" if verdict.cases > 1 else ""
    return Outcome(HOLDS if verdict.holds else FAILED, f"{proof.claim}{cases}", str(verdict.counterexample or ""))


def _wrong_claims(_: bool) -> Iterator[Check]:
    yield Check(
        "controls: what must fail", "wrong claims are refuted", "counterexamples", _refute_wrong_claims, seconds=30
    )
    yield Check(
        "controls: what must fail",
        "specifications have one result",
        "SMT-LIB",
        _look_for_ambiguity,
        thorough=True,
        seconds=60,
    )
    yield Check(
        "controls: what must fail",
        "mutants are refuted",
        "counterexamples, or a proof of equivalence",
        _refute_mutants,
        thorough=True,
        seconds=300,
    )


def _refute_wrong_claims() -> Outcome:
    wrong = controls()
    believed = [
        control.name
        for control in wrong
        if prove(control.proof, control.proof.solvers[0], limit=_PROOF_LIMIT).holds is not False
    ]
    return Outcome(
        FAILED if believed else HOLDS,
        f"{len(wrong)} claims a cycle late or of the other mode",
        f"not refuted: {', '.join(believed)}" if believed else "",
    )


def _look_for_ambiguity() -> Outcome:
    operations = {
        (proof.operation.name, proof.operation.text): proof for proof in proofs().values() if proof.operation.text
    }
    doubtful = [
        proof.name
        for proof in operations.values()
        if is_ambiguous(proof, proof.solvers[-1], limit=_PROOF_LIMIT) is not False
    ]
    return Outcome(FAILED if doubtful else HOLDS, f"{len(operations)} specifications", ", ".join(doubtful))


def _refute_mutants() -> Outcome:
    """Mutants of the arithmetic: all but those that still meet the specification, and few do."""
    names = (
        "adder_fp32_flush_s0",
        "adder_fp32_ieee_s0",
        "adder_fp32_flush_s5",
        "multiplier_bf16_fp32_flush_s0",
        "converter_fp32_bf16_flush_s0",
        "converter_fp32_bf16_ieee_s0",
    )
    mutants = [mutant for name in names for mutant in mutant_controls(proofs()[name], 8, seed=1)]
    verdicts = [prove(mutant.proof, change=mutant.change, limit=_PROOF_LIMIT).holds for mutant in mutants]
    refuted, equivalent, unknown = (verdicts.count(holds) for holds in (False, True, None))
    detail = f"{refuted} refuted, {equivalent} meet the specification, {unknown} open"
    # With more of them the proofs would be blind.
    status = FAILED if equivalent > len(mutants) // 5 else OPEN if unknown else HOLDS
    return Outcome(status, f"{len(mutants)} mutants", detail)


def _ports(_: bool) -> Iterator[Check]:
    units = [name for name, design in CATALOG.items() if design.family == "mxu"]
    yield Check(
        "ports",
        f"no output follows an input within the cycle: {', '.join(units)}, each as 2x2",
        "every path in the netlist",
        partial(_find_paths, units),
        thorough=True,
        seconds=30,
    )


def _find_paths(units: Sequence[str]) -> Outcome:
    paths = {name: combinational_paths(CATALOG[name].build(rows=2, columns=2)) for name in units}
    found = [
        f"{name}: {output} follows {', '.join(sorted(inputs))}"
        for name, outputs in paths.items()
        for output, inputs in outputs.items()
        if inputs
    ]
    return Outcome(FAILED if found else HOLDS, f"{sum(map(len, paths.values()))} outputs", "; ".join(found))


# Rows, columns, stages, depth, longest tile, longest sum, seconds.
_EXPLORED = (
    (2, 2, 1, 2, 1, 2, 15),
    (3, 2, 1, 2, 1, 1, 6),
    (2, 3, 1, 2, 1, 1, 10),
    (2, 2, 3, 2, 1, 1, 8),
    (1, 1, 1, 2, 2, 2, 8),
)
_EXPLORED_WHEN_THOROUGH = (
    (2, 1, 1, 2, 2, 2, 20),
    (2, 1, 2, 2, 2, 2, 300),
    (2, 2, 1, 2, 2, 2, 500),
    (2, 2, 1, 2, 1, 3, 60),
    (2, 2, 1, 4, 1, 1, 20),
    (2, 2, 2, 2, 1, 2, 30),
    (2, 2, 3, 2, 1, 2, 50),
    (2, 2, 4, 2, 1, 2, 60),
    (3, 2, 1, 2, 1, 2, 20),
    (3, 2, 3, 2, 1, 1, 60),
    (2, 3, 1, 2, 1, 2, 60),
    (2, 3, 3, 2, 1, 1, 60),
    (3, 3, 1, 2, 1, 1, 20),
)
# Rows, columns, stages, depth, longest tile, longest sum, mistakes, seconds.
_EXPLORED_WITH_MISTAKES = (
    (2, 1, 1, 2, 1, 1, 1, 15),
    (1, 1, 1, 2, 2, 1, 1, 60),
    (1, 1, 1, 2, 1, 1, 2, 120),
    (2, 2, 1, 2, 1, 1, 1, 60),
    (2, 1, 1, 2, 2, 1, 1, 150),
    (2, 1, 3, 2, 1, 1, 1, 100),
)
# Rows, columns, stages, depth, mistakes, seconds: tiles of a beat, which are not added.
_EXPLORED_WITH_WEIGHTS_KEPT = ((1, 1, 1, 2, 0, 10), (2, 1, 1, 2, 0, 60), (1, 1, 3, 2, 0, 130), (1, 1, 1, 2, 1, 150))
_QUICK_BUGS = (
    "weights are never kept",
    "swap marks are a cycle late",
    "columns of weights are reversed",
    "a beat that waits is overwritten",
    "places are never freed",
    "nothing is taken unless something leaves",
    "results go where their tile says",
    "a mistake is told when its beat enters the array",
)


def _exploration(_: bool) -> Iterator[Check]:
    for thorough, units in ((False, _EXPLORED), (True, _EXPLORED_WHEN_THOROUGH)):
        for *sizes, tile, tiles, seconds in units:
            config = _small(*sizes)
            yield Check(
                "every state of a small unit, any data, any stalls",
                f"{_described(config, tile)}, sums up to {tiles}",
                "terms in the contract's order",
                partial(_explore, config, longest_tile=tile, longest_sum=tiles),
                thorough=thorough,
                seconds=seconds,
            )
    for *sizes, mistakes, seconds in _EXPLORED_WITH_WEIGHTS_KEPT:
        config = _small(*sizes)
        wrong = f", {_count(mistakes, 'mistake')}" if mistakes else ""
        yield Check(
            "every state of a small unit, weights kept or not",
            f"{_described(config, 1)}{wrong}",
            "the reference of streams" if mistakes else "terms in the contract's order",
            partial(_explore, config, longest_tile=1, longest_sum=1, mistakes=mistakes, keeps=True),
            thorough=seconds > 15,
            seconds=seconds,
        )
    for *sizes, tile, tiles, mistakes, seconds in _EXPLORED_WITH_MISTAKES:
        config = _small(*sizes)
        yield Check(
            "every state of a small unit, whatever its senders do wrong",
            f"{_described(config, tile)}, {_count(mistakes, 'mistake')}",
            "the reference of streams",
            partial(_explore, config, longest_tile=tile, longest_sum=tiles, mistakes=mistakes),
            thorough=seconds > 15,
            seconds=seconds,
        )


def _small(rows: int, columns: int, stages: int, depth: int) -> MxuConfig:
    return MxuConfig(rows=rows, columns=columns, stages=stages, depth=depth)


def _described(config: MxuConfig, tile: int) -> str:
    """A small unit and its longest tile, in the names of explorations."""
    size, stages = f"{config.rows}x{config.columns}", _count(config.stages, "stage")
    return f"{size}, {stages}, depth {config.depth}, tiles up to {_count(tile, 'beat')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _seeded_bugs(thorough: bool) -> Iterator[Check]:
    for name in SEEDED_BUGS if thorough else _QUICK_BUGS:
        bug = SEEDED_BUGS[name]
        allowed = " with a mistake" if bug.mistakes else " with weights kept" if bug.keeps else ""
        against = f"the exploration of {bug.config.rows}x{bug.config.columns}{allowed}"
        yield Check("controls: what must fail", f"unit in which {name}", against, partial(_find_bug, name), seconds=6)


def _explore(config: MxuConfig, **bounds: Any) -> Outcome:
    found = explore(config, **bounds)
    looked_at = f"{found.states:,} states, {found.transitions:,} transitions"
    if found.failure is not None:
        return Outcome(FAILED, looked_at, found.failure)
    if found.missing:
        return Outcome(FAILED, looked_at, f"never happened: {', '.join(found.missing)}")
    return Outcome(HOLDS, looked_at)


def _find_bug(name: str) -> Outcome:
    bug = SEEDED_BUGS[name]
    found = explore(bug.config, **bug.bounds, unit=seeded(bug))
    looked_at = f"{found.control_states:,} states of control, {found.states:,} with data"
    if found.failure is None:
        return Outcome(FAILED, looked_at, "not found")
    symptom, *cycles = found.failure.splitlines()
    return Outcome(HOLDS, looked_at, f"found: {symptom} after {len(cycles)} cycles")


_COMPILED = "the compiled engine"


def _compiled_engine(thorough: bool) -> Iterator[Check]:
    for size in (16, 128):
        yield Check(
            _COMPILED,
            f"parts and wiring of {size}x{size}",
            "the netlist of the whole unit",
            partial(_check_wiring, MxuConfig(rows=size, columns=size)),
            thorough=size > 16,
            seconds=40 if size > 16 else 3,
        )
    yield Check(
        "controls: what must fail",
        "units whose parts or wiring have a bug",
        "the netlist of the whole unit",
        _find_wrong_units,
        thorough=True,
        seconds=15,
    )
    yield Check(
        _COMPILED,
        "bits and cycles of random units",
        "the golden model and the cycle formula",
        partial(_agree_with_golden, _drawn(200 if thorough else 8, range(1, 41))),
        seconds=300 if thorough else 20,
    )
    yield Check(
        _COMPILED,
        "bits and cycles of 128x128",
        "the golden model and the cycle formula",
        partial(_agree_with_golden, _drawn(5, range(128, 129))),
        thorough=True,
        seconds=40,
    )


def _other_simulators(thorough: bool) -> Iterator[Check]:
    # The tests of the simulators compare them with Amaranth's own; so that one is enough for a quick run.
    cases = [*_drawn(60, range(1, 7)), *_drawn(260, range(1, 4))[60:]] if thorough else _drawn(3, range(1, 4))
    yield Check(
        _COMPILED,
        "bits and cycles under stalls, as pysim has them",
        "another simulator of the RTL",
        partial(_agree, "pysim", cases),
        seconds=400 if thorough else 15,
    )
    for name in ("icarus", "verilator"):
        yield Check(
            _COMPILED,
            f"bits and cycles under stalls, as {name} has them",
            "another simulator of the RTL",
            partial(_agree, name, _drawn(20, range(1, 7))),
            thorough=True,
            seconds=200,
        )
        yield Check(
            "cycles",
            f"200 products of any shape and precision in {name}",
            "the formula and the unit's counters",
            partial(_count_cycles, name),
            thorough=True,
            seconds=100,
        )
    case = Case(0, MxuConfig(), m=70, k=200, n=150, kind="all")
    yield Check(
        _COMPILED,
        "bits and cycles of 128x128 under stalls, as Verilator has them row by row",
        "another simulator of the RTL",
        partial(_agree, "hierarchical", [case]),
        thorough=True,
        seconds=200,
    )


def _count_cycles(simulator: str) -> Outcome:
    passed = run_bench(Task("mxu_2x2_status", {"depth": 32, "splitter": True}), simulator=simulator)
    return Outcome(HOLDS if "cycles_of_products" in passed else FAILED, "200 products", "")


def _check_wiring(config: MxuConfig) -> Outcome:
    try:
        return Outcome(HOLDS, f"{check_wiring(config):,} connections, {check_parts(config)} sorts of parts")
    except WiringError as error:
        return Outcome(FAILED, "", str(error))


def _find_wrong_units() -> Outcome:
    """Seeded bugs are changes of the netlist: one check or the other must tell each from what is compiled."""
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


def _drawn(count: int, sizes: range) -> list[Case]:
    return [draw(seed, sizes) for seed in range(count)]


def _agree_with_golden(cases: Sequence[Case]) -> Outcome:
    return _of_agreement(compare_with_golden(cases, engine=_run_compiled))


def _run_compiled(stimulus: Stimulus, *, stalls: Stalls | None) -> Run:
    """By one thread, or with stalls by several: both are to be seen."""
    return compiled.run(stimulus, stalls=stalls, threads=1 if stalls is None else 3)


def _agree(engine: str, cases: Sequence[Case]) -> Outcome:
    return _of_agreement(compare(cases, load(engine)))


def _of_agreement(found: Agreement) -> Outcome:
    looked_at = f"{found.products:,} products, {found.cycles:,} cycles"
    return Outcome(FAILED if found.first else HOLDS, looked_at, found.first)


def _mutants(thorough: bool) -> Iterator[Check]:
    for name, subject in SUBJECTS.items():
        count = 100 if thorough else 10 if subject.is_quick else 3
        group = "mutants on the proofs" if subject.proofs else "mutants on the test benches"
        against = "the proofs" if subject.proofs else "the benches, or a proof of equivalence"
        yield Check(
            group,
            name,
            against,
            partial(_grade, name, count, thorough),
            seconds=(80 if subject.proofs else 20 if subject.is_quick else 900) if thorough else 20,
        )


def _grade(name: str, count: int, thorough: bool) -> Outcome:
    # Tests want so many that are no equivalents, whatever has to be drawn for it.
    found = grade(name, count, seed=0 if thorough else 1, spare=0 if thorough else count, jobs=1)
    unseen = [
        f"{mutant.fate}: {mutant.mistake}: {mutant.by}"
        for mutant in found.mutants
        if mutant.fate in ("killed late", "open")
    ]
    numbers = {fate: found.count(fate) for fate in ("killed", "killed late", "equivalent", "open")}
    fates = ", ".join(f"{number} {fate}" for fate, number in numbers.items() if number)
    detail = "; ".join(unseen)
    if len(found.mutants) < count or not numbers["killed"]:
        return Outcome(FAILED, f"{len(found.mutants)} mutants: {fates}", f"{count} mutants wanted, most of them killed")
    return Outcome(OPEN if numbers["open"] else HOLDS, f"{len(found.mutants)} mutants: {fates}", detail)


def _third_parties(thorough: bool) -> Iterator[Check]:
    for oracle, title, count in (("softfloat", "Berkeley SoftFloat", 4 * 10**6), ("mpfr", "MPFR", 10**6)):
        for subject, what in (("golden", "golden model"), ("gates", "synthesised gates")):
            names = [name for name, operation in OPERATIONS.items() if subject == "golden" or operation.unit]
            yield Check(
                "independent oracles",
                f"{what} against {title}: {', '.join(names)}; both modes",
                title,
                partial(_sample, subject, names, oracle, count if thorough else 10**5),
                seconds=60 if thorough else 10,
            )
    yield Check(
        "independent oracles",
        "golden model: matrix products, flush",
        "JAX, XLA's multiply and add on the CPU",
        partial(_of_tally, partial(products_by_jax, 2 * 10**6), "results"),
        thorough=True,
        seconds=15,
    )


def _sample(subject: str, names: Sequence[str], oracle: str, count: int) -> Outcome:
    tallies = {f"{name}, {mode}": sample(subject, name, mode, oracle, count) for name in names for mode in SUBNORMALS}
    wrong = [f"{what}: {tally.first}" for what, tally in tallies.items() if tally.wrong]
    total = sum(tally.count for tally in tallies.values())
    return Outcome(FAILED if wrong else HOLDS, f"{total:,} operands or pairs", "; ".join(wrong))
