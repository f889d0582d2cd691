# amaranth: UnusedElaboratable=no
# (elements whose other parts are proven go unused)
"""Processing elements of several terms compute what the contract says, for all operands and states."""

from dataclasses import replace

import pytest

from openmxu.arith.datapath import round as rounding
from openmxu.formal.proofs import about, late
from openmxu.formal.query import Proof, confirm, prove
from openmxu.spec.forms import AREA, FPGA, SPEED
from openmxu.unit.pe import ProcessingElement

from ...conftest import slow

_PARTS = ["products", "window", "shift", "sum"]


def _proof(part: str, terms: int, stages: int) -> Proof:
    [proof] = [each for each in about(ProcessingElement(terms=terms, stages=stages)) if each.name.endswith(f"_{part}")]
    return proof


# Nothing but sums depends on the form.
@pytest.mark.parametrize(
    ("part", "terms", "stages", "form"),
    [
        *((part, 2, 1, AREA) for part in _PARTS),
        *(slow(part, terms, stages, AREA) for part in _PARTS[:-1] for terms, stages in ((4, 7), (8, 1))),
        *(slow("sum", *sizes) for sizes in ((4, 4, AREA), (2, 4, SPEED), (2, 4, FPGA))),
    ],
)
def test_proofs(part: str, terms: int, stages: int, form: str) -> None:
    proof = replace(_proof(part, terms, stages), form=form)
    assert confirm(proof, "bitwuzla")
    assert prove(proof, "bitwuzla").holds


@pytest.mark.parametrize("part", _PARTS)
def test_a_cycle_late_is_refuted(part: str) -> None:
    assert prove(late(_proof(part, 2, 4)), "bitwuzla").holds is False


def test_ties_of_negative_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A total that is inverted is rounded by a rule of its own."""
    usual = rounding._nearest_even
    monkeypatch.setattr(rounding, "_one_more_to_nearest_even", lambda fmt, bits: usual(fmt, bits)[1])
    verdict = prove(_proof("sum", 2, 1), "bitwuzla")
    assert verdict.holds is False
    assert verdict.counterexample is not None
    assert abs(verdict.counterexample.got - verdict.counterexample.expected) == 1


@pytest.mark.slow
@pytest.mark.parametrize("part", ["products", "window"])
def test_another_solver(part: str) -> None:
    assert prove(_proof(part, 2, 1), "z3").holds
