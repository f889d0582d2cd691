# amaranth: UnusedElaboratable=no
# (elements whose other parts are proven go unused)
"""Processing elements of several terms compute what the contract says, for all operands and states."""

import pytest

from openmxu.arith.datapath import round as rounding
from openmxu.formal.proofs import about, late
from openmxu.formal.query import Proof, confirm, prove
from openmxu.unit.pe import ProcessingElement

from ...conftest import slow

_PARTS = ["products", "window", "shift", "sum"]


def _proof(part: str, terms: int, stages: int) -> Proof:
    [proof] = [each for each in about(ProcessingElement(terms=terms, stages=stages)) if each.name.endswith(f"_{part}")]
    return proof


@pytest.mark.parametrize(("part", "terms"), [*((part, 2) for part in _PARTS), *(slow(part, 8) for part in _PARTS[:-1])])
def test_proofs(part: str, terms: int) -> None:
    """``openmxu verify`` proves an element of four terms, by both solvers and in all forms."""
    proof = _proof(part, terms, 1)
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
