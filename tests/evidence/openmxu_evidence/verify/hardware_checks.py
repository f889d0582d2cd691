"""Checks of the hardware: all operands, proofs, paths, explorations, mutants."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from openmxu.catalog import CATALOG
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import SUBNORMALS
from openmxu.spec.forms import AREA, FORMS
from openmxu.spec.passes import Part
from openmxu_evidence.exploration import explore
from openmxu_evidence.exploration.bugs import SEEDED_BUGS, seeded
from openmxu_evidence.formal.paths import combinational_paths
from openmxu_evidence.formal.proofs import controls, mutant_controls, proofs
from openmxu_evidence.formal.query import Proof, confirm, is_ambiguous, prove
from openmxu_evidence.formal.solvers import SOLVERS
from openmxu_evidence.formal.specification import ALWAYS
from openmxu_evidence.verify.check import (
    FAILED,
    HOLDS,
    OPEN,
    Check,
    Outcome,
    counted,
    description,
    of_tally,
    small_unit,
)
from openmxu_evidence.verify.exhaustion import (
    SWEEPS,
    additions,
    biased_products,
    dot_products,
    products_in_pairs,
    sweep,
)
from openmxu_evidence.verify.mutants import SUBJECTS, grade

_PROOF_LIMIT = 900.0  # seconds


def operand_checks(_: bool) -> Iterator[Check]:
    for name, chosen in SWEEPS.items():
        for mode in SUBNORMALS:
            yield Check(
                "all operands, on the synthesised gates",
                f"{name}, {mode}",
                "this processor's arithmetic",
                partial(of_tally, partial(sweep, name, mode), "operands or pairs"),
                thorough=chosen.part != Part.WHOLE,
            )
    name = "e2f1 x e2f1, twice, + e4f3, 16 sums"
    run = partial(of_tally, partial(dot_products, "e2f1", "e4f3", products_in_pairs), "operands")
    yield Check("all operands, on the synthesised gates", name, "integers of Python", run, thorough=True, seconds=25)


def sum_checks(thorough: bool) -> Iterator[Check]:
    count = 10**9 if thorough else 10**8
    for stages in (0, 1, 5):  # combinational, and as in processing elements of one stage and of six
        for mode in SUBNORMALS:
            yield Check(
                "biased operands, on the synthesised gates",
                f"fp32 + fp32, {mode}, {stages} stages",
                "this processor's arithmetic",
                partial(of_tally, partial(additions, mode, stages, count), "sums"),
                seconds=20 if thorough else 3,
            )
    for form in FORMS:
        name = f"bf16 x bf16, four times, + fp32, form for {form}"
        operands = partial(biased_products, 10**5 if thorough else 10**4)
        run = partial(of_tally, partial(dot_products, "bf16", "fp32", operands, form=form), "sums")
        group = "biased operands, on the synthesised gates"
        yield Check(group, name, "integers of Python", run, thorough=form != AREA, seconds=30)


def proof_checks(_: bool) -> Iterator[Check]:
    for solver in SOLVERS:
        for proof in proofs().values():
            if solver in proof.solvers:
                thorough = solver != "z3" or not proof.quick
                is_hard = any(part in proof.name for part in ("_sum", "_window", "adder_fp32_ieee"))
                yield Check(
                    f"proof for all operands and states, {solver}",
                    proof.name,
                    _reference(proof),
                    partial(_prove, proof, solver),
                    thorough=thorough,
                    seconds=150 if is_hard and thorough else 20,
                )


def _reference(proof: Proof) -> str:
    """Return the source of a proof's expectations: only arithmetic has a theory of its own."""
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


def claim_checks(_: bool) -> Iterator[Check]:
    for name, against, run, seconds in (
        ("wrong claims are refuted", "counterexamples", _refute_wrong_claims, 30),
        ("specifications have one result", "SMT-LIB", _look_for_ambiguity, 60),
        ("mutants are refuted", "counterexamples, or a proof of equivalence", _refute_mutants, 40),
    ):
        yield Check("controls: what must fail", name, against, run, thorough=seconds > 30, seconds=seconds)


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
    """Refute mutants of the arithmetic: all but those that still meet the specification, which are few."""
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
    # If there were more of them, the proofs would be blind.
    status = FAILED if equivalent > len(mutants) // 5 else OPEN if unknown else HOLDS
    return Outcome(status, f"{len(mutants)} mutants", detail)


def path_checks(_: bool) -> Iterator[Check]:
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
    faults = [
        f"{name}: {output} follows {', '.join(sorted(inputs))}"
        for name, outputs in paths.items()
        for output, inputs in outputs.items()
        if inputs
    ]
    return Outcome(FAILED if faults else HOLDS, f"{sum(map(len, paths.values()))} outputs", "; ".join(faults))


class ExplorationCase(NamedTuple):
    """A small unit that is explored, and the bounds."""

    rows: int
    columns: int
    stages: int
    depth: int
    longest_tile: int
    longest_sum: int
    seconds: int
    terms: int = 1
    mistakes: int = 0
    keeps: bool = False

    def check(self, group: str, bound: str, *, thorough: bool) -> Check:
        """Return the check that explores it."""
        config = small_unit(self.rows, self.columns, self.stages, self.depth, self.terms)
        wrong = f", {counted(self.mistakes, 'mistake')}" if self.mistakes else ""
        names = ("longest_tile", "longest_sum", "mistakes", "keeps")
        return Check(
            f"every state of a small unit, {group}",
            f"{description(config, self.longest_tile)}{bound}{wrong}",
            "the reference of streams" if self.mistakes else "terms in the contract's order",
            partial(_explore, config, **{name: getattr(self, name) for name in names}),
            thorough=thorough,
            seconds=self.seconds,
        )


_EXPLORED = (
    ExplorationCase(2, 2, 1, 2, 1, 2, 40),
    ExplorationCase(3, 2, 1, 2, 1, 1, 6),
    ExplorationCase(2, 3, 1, 2, 1, 1, 25),
    ExplorationCase(2, 2, 3, 2, 1, 1, 20),
    ExplorationCase(1, 1, 1, 2, 2, 2, 50),
    ExplorationCase(4, 1, 1, 2, 1, 1, 3, terms=2),
)

_EXPLORED_WHEN_THOROUGH = (
    ExplorationCase(2, 1, 1, 2, 2, 2, 85),
    ExplorationCase(2, 1, 2, 2, 2, 2, 200),
    ExplorationCase(2, 2, 1, 2, 2, 2, 500),
    ExplorationCase(2, 2, 1, 2, 1, 3, 110),
    ExplorationCase(2, 2, 1, 4, 1, 1, 50),
    ExplorationCase(2, 2, 2, 2, 1, 2, 70),
    ExplorationCase(2, 2, 3, 2, 1, 2, 120),
    ExplorationCase(2, 2, 4, 2, 1, 2, 180),
    ExplorationCase(3, 2, 1, 2, 1, 2, 60),
    ExplorationCase(3, 2, 3, 2, 1, 1, 20),
    ExplorationCase(2, 3, 1, 2, 1, 2, 150),
    ExplorationCase(2, 3, 3, 2, 1, 1, 60),
    ExplorationCase(3, 3, 1, 2, 1, 1, 30),
    ExplorationCase(2, 1, 1, 2, 1, 2, 15, terms=2),
    ExplorationCase(4, 1, 1, 2, 1, 2, 30, terms=2),
    ExplorationCase(4, 2, 1, 2, 1, 1, 15, terms=2),
)

_EXPLORED_WITH_MISTAKES = (
    ExplorationCase(2, 1, 1, 2, 1, 1, 15, mistakes=1),
    ExplorationCase(1, 1, 1, 2, 2, 1, 200, mistakes=1),
    ExplorationCase(1, 1, 1, 2, 1, 1, 300, mistakes=2),
    ExplorationCase(2, 2, 1, 2, 1, 1, 150, mistakes=1),
    ExplorationCase(2, 1, 1, 2, 2, 1, 330, mistakes=1),
    ExplorationCase(2, 1, 3, 2, 1, 1, 215, mistakes=1),
)

_EXPLORED_WITH_WEIGHTS_KEPT = (  # tiles of a beat, which are not added
    ExplorationCase(1, 1, 1, 2, 1, 1, 10, keeps=True),
    ExplorationCase(2, 1, 1, 2, 1, 1, 80, keeps=True),
    ExplorationCase(1, 1, 3, 2, 1, 1, 145, keeps=True),
    ExplorationCase(1, 1, 1, 2, 1, 1, 190, mistakes=1, keeps=True),
)


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


def exploration_checks(_: bool) -> Iterator[Check]:
    for thorough, explorations in ((False, _EXPLORED), (True, _EXPLORED_WHEN_THOROUGH)):
        for each in explorations:
            yield each.check("any data, any stalls", f", sums up to {each.longest_sum}", thorough=thorough)
    for each in _EXPLORED_WITH_WEIGHTS_KEPT:
        yield each.check("weights kept or not", "", thorough=each.seconds > 15)
    for each in _EXPLORED_WITH_MISTAKES:
        yield each.check("whatever its senders do wrong", "", thorough=each.seconds > 15)


def bug_checks(thorough: bool) -> Iterator[Check]:
    for name in SEEDED_BUGS if thorough else _QUICK_BUGS:
        bug = SEEDED_BUGS[name]
        allowed = " with a mistake" if bug.mistakes else " with weights kept" if bug.keeps else ""
        against = f"the exploration of {bug.config.rows}x{bug.config.columns}{allowed}"
        seconds = 60 if thorough else 6  # nearly all take less; one takes 150
        claim = f"unit in which {name}"
        yield Check("controls: what must fail", claim, against, partial(_find_bug, name), seconds=seconds)


def _explore(config: MxuConfig, **bounds: Any) -> Outcome:
    result = explore(config, **bounds)
    looked_at = f"{result.states:,} states, {result.transitions:,} transitions"
    if result.failure is not None:
        return Outcome(FAILED, looked_at, result.failure)
    if result.missing:
        return Outcome(FAILED, looked_at, f"never happened: {', '.join(result.missing)}")
    return Outcome(HOLDS, looked_at)


def _find_bug(name: str) -> Outcome:
    bug = SEEDED_BUGS[name]
    result = explore(bug.config, **bug.bounds, unit=seeded(bug))
    looked_at = f"{result.control_states:,} states of control, {result.states:,} with data"
    if result.failure is None:
        return Outcome(FAILED, looked_at, "not found")
    symptom, *cycles = result.failure.splitlines()
    return Outcome(HOLDS, looked_at, f"found: {symptom} after {len(cycles)} cycles")


def mutant_checks(thorough: bool) -> Iterator[Check]:
    for name, subject in SUBJECTS.items():
        count = 100 if thorough else 10 if subject.is_quick else 3
        group = "mutants on the proofs" if subject.proofs else "mutants on the test benches"
        against = "the proofs" if subject.proofs else "the benches, or a proof of equivalence"
        yield Check(
            group,
            name,
            against,
            partial(_grade, name, count, thorough),
            seconds=(80 if subject.proofs else 20 if subject.is_quick else 500) if thorough else 20,
        )


def _grade(name: str, count: int, thorough: bool) -> Outcome:
    # Tests want so many that are not equivalent, however many have to be drawn for it.
    score = grade(name, count, seed=0 if thorough else 1, spare=0 if thorough else count, jobs=1)
    unseen = [
        f"{mutant.fate}: {mutant.mistake}: {mutant.by}"
        for mutant in score.mutants
        if mutant.fate in ("killed late", "open")
    ]
    numbers = {fate: score.count(fate) for fate in ("killed", "killed late", "equivalent", "open")}
    fates = ", ".join(f"{number} {fate}" for fate, number in numbers.items() if number)
    detail = "; ".join(unseen)
    if len(score.mutants) < count or not numbers["killed"]:
        return Outcome(FAILED, f"{len(score.mutants)} mutants: {fates}", f"{count} mutants wanted, most of them killed")
    return Outcome(OPEN if numbers["open"] else HOLDS, f"{len(score.mutants)} mutants: {fates}", detail)
