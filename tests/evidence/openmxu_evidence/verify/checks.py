"""All checks, one row each: the claim, the source of the expected values, and the outcome."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from openmxu.runtime.extras import study
from openmxu.spec.formats import SUBNORMALS
from openmxu_evidence.verify.check import FAILED, HOLDS, Check, Outcome, of_tally
from openmxu_evidence.verify.engine_checks import compiled_checks, simulator_checks
from openmxu_evidence.verify.hardware_checks import (
    bug_checks,
    claim_checks,
    exploration_checks,
    mutant_checks,
    operand_checks,
    path_checks,
    proof_checks,
    sum_checks,
)
from openmxu_evidence.verify.third_parties import OPERATIONS, products_by_jax, sample


@cache
def checks(*, thorough: bool, faults: bool = False) -> Mapping[tuple[str, str], Check]:
    """Return the checks of a run, by group and name; the same on every machine."""
    makers: tuple[Callable[[bool], Iterator[Check]], ...] = (
        operand_checks,
        sum_checks,
        proof_checks,
        claim_checks,
        path_checks,
        exploration_checks,
        bug_checks,
        compiled_checks,
        simulator_checks,
        mutant_checks,
        _third_parties,
    )
    by_name: dict[tuple[str, str], Check] = {}
    for check in (check for maker in ((_faults,) if faults else makers) for check in maker(thorough)):
        if (check.group, check.name) in by_name:
            raise ValueError(f"name must be another one: {check.group} has two of {check.name!r}")
        by_name[check.group, check.name] = check
    return {name: check for name, check in by_name.items() if thorough or not check.thorough}


def _faults(_: bool) -> Iterator[Check]:
    faults = study("faults", "--faults")
    for chosen in faults.CLASSES:

        def run(chosen: Any = chosen) -> Outcome:
            tally = faults.try_class(chosen, count=chosen.long)
            return Outcome(
                HOLDS if tally.holds else FAILED, f"{tally.tried:,} faults", "; ".join(tally.shown), tally.counts
            )

        yield Check(
            "faults", chosen.name, "the golden model, or the same program left alone", run, seconds=int(chosen.limit)
        )


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
        partial(of_tally, partial(products_by_jax, 2 * 10**6), "results"),
        thorough=True,
        seconds=15,
    )


def _sample(subject: str, names: Sequence[str], oracle: str, count: int) -> Outcome:
    tallies = {f"{name}, {mode}": sample(subject, name, mode, oracle, count) for name in names for mode in SUBNORMALS}
    wrong = [f"{what}: {tally.first}" for what, tally in tallies.items() if tally.wrong]
    total = sum(tally.count for tally in tallies.values())
    return Outcome(FAILED if wrong else HOLDS, f"{total:,} operands or pairs", "; ".join(wrong))
