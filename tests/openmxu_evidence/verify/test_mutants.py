"""The grade of a bench says what became of each mutant, and a blind bench gets a bad one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openmxu.arith import Adder
from openmxu.spec.formats import FP16
from openmxu_evidence.benches.operations import OPERATIONS
from openmxu_evidence.verify import mutants as grading
from openmxu_evidence.verify.mutation import Mutants, mutants
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands import vectors


@pytest.fixture(scope="module")
def drawn() -> Mutants:
    return mutants(Adder(FP16), 40, seed=3, flat=True)


@pytest.fixture(scope="module")
def differing(drawn: Mutants) -> list[int]:
    gates = Gates(drawn.gates(), ["i_a", "i_b", "mutant"])
    a, b = vectors.pairs("fp16", 20_000, seed=1)
    expected = golden.add(a, b, "fp16")
    assert np.array_equal(gates(a, b, 0), expected)
    return [number for number in range(1, 41) if not np.array_equal(gates(a, b, number), expected)]


def test_mutants_are_made(drawn: Mutants, differing: list[int]) -> None:
    assert len(drawn.mistakes) == 40
    assert len(differing) >= 30
    assert drawn.mistakes == mutants(Adder(FP16), 40, seed=3, flat=True).mistakes
    assert drawn.mistakes != mutants(Adder(FP16), 40, seed=4, flat=True).mistakes
    assert " at adder_fp16_flush_s0 $" in drawn.describe(1)


@pytest.mark.slow
def test_none_that_differs_is_called_equivalent(drawn: Mutants, differing: list[int]) -> None:
    assert not any(drawn.is_equivalent(number) for number in differing[:4])


def test_equivalence_is_proven() -> None:
    """Three mutants that no operand shows, of the converter, where flushing is done twice."""
    found = grading.grade("converter, flush", 24)
    assert found.count("open") == 0
    assert [mutant.by for mutant in found.mutants if mutant.fate == "equivalent"].count("SAT sweeping") >= 3
    # Spare mutants replace those.
    found = grading.grade("converter, flush", 10, spare=10)
    assert [mutant.fate for mutant in found.mutants] == ["killed"] * 10


@pytest.mark.slow
def test_holes_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bench with one operand, 0: all operands find what it does not see."""
    subject = grading.SUBJECTS["converter, ieee"]
    operation = OPERATIONS["converter"]

    def poor(unit: Any) -> Any:
        operands = [np.zeros(1, dtype=np.uint32)]
        return SimpleNamespace(inputs=("i",), expected=operation(unit).expected, operands=lambda task: operands)

    monkeypatch.setitem(OPERATIONS, "converter", poor)
    found = grading.grade(subject.name, 6, seed=1)
    assert found.count("killed late")
