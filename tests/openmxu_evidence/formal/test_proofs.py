"""Proofs fail where they should, and the second solver agrees; all proofs are run by `openmxu verify`.

No output of a unit follows an input within the cycle, as AXI asks for; and the search finds such paths.
"""

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Fragment

from openmxu import yosys
from openmxu.arith import Adder, Converter, Multiplier, streamed
from openmxu.arith.datapath import round as rounding
from openmxu.catalog import CATALOG, build
from openmxu.export.verilog import to_rtlil
from openmxu.spec.formats import BF16, FP32, SUBNORMALS
from openmxu.spec.forms import AREA, FORMS
from openmxu.unit.pe import ProcessingElement
from openmxu_evidence.formal import solvers
from openmxu_evidence.formal.paths import combinational_paths
from openmxu_evidence.formal.proofs import about, controls, late, mutant_controls, proofs
from openmxu_evidence.formal.query import Control, Proof, confirm, is_ambiguous, prove
from openmxu_evidence.formal.smt import transition_system
from openmxu_evidence.formal.solvers import SOLVERS, SolverError, solve
from openmxu_evidence.formal.specification import ADD, ADD_PRODUCT, CONVERT, MULTIPLY, NEAREST, PRODUCT, Operation
from openmxu_sim import golden

from ...conftest import slow


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    yosys.prepare()


def _golden(operation: Operation, operands: tuple[int, ...]) -> int | None:
    """What the golden model says; ``None`` where arithmetic is not what is asked for."""
    words = (np.array([operand], dtype=np.uint32) for operand in operands)
    for mode in SUBNORMALS:
        if operation is ADD[mode]:
            return int(golden.add(next(words), next(words), "fp32", subnormals=mode)[0])
        if operation is ADD_PRODUCT[mode]:
            return _golden(ADD[mode], (operands[0], _word(operands[1], mode)))
        if operation in (MULTIPLY[mode], PRODUCT[mode]):
            return int(golden.multiply(next(words), next(words), "bf16", "fp32", subnormals=mode)[0])
        if operation in (CONVERT[mode], NEAREST[mode]):
            return int(golden.convert(next(words), "fp32", "bf16", subnormals=mode)[0])
    return None


def _word(product: int, mode: str) -> int:
    """The fp32 pattern of the product that goes from one half of a multiply-add to the other."""
    exponent_width, width = (8, 16) if mode == "flush" else (10, 17)
    fields = []
    for each in (1, exponent_width, width, 1, 1, 1):
        fields.append(product & ((1 << each) - 1))
        product >>= each
    sign, exponent, significand, zero, infinite, nan = fields
    if nan:
        return FP32.quiet_nan
    if mode == "ieee" and exponent >> (exponent_width - 1):
        exponent -= 1 << exponent_width
    # A top bit has weight one; flushed, its exponent is one more.
    number = math.ldexp(significand, exponent - FP32.bias - (14 if mode == "flush" else 15))
    magnitude = math.inf if infinite else 0.0 if zero else number
    return int(np.float32(magnitude).view(np.uint32)) | sign << (FP32.width - 1)


@pytest.mark.parametrize("part", ["products", "window", "sum"])
def test_specification_of_several_terms_is_a_function(part: str) -> None:
    assert is_ambiguous(proofs()[f"pe_bf16_flush_t4_s4_{part}"], "bitwuzla") is False


@pytest.mark.parametrize("table", [ADD, MULTIPLY, CONVERT, NEAREST], ids=["add", "multiply", "convert", "nearest"])
@pytest.mark.parametrize("mode", ["flush", slow("ieee")])
def test_specification_is_a_function(table: Mapping[str, Operation], mode: str) -> None:
    proof = next(proof for proof in proofs().values() if proof.operation is table[mode])
    assert is_ambiguous(proof, proof.solvers[-1]) is False


def test_ambiguous_specification() -> None:
    proof = proofs()["adder_fp32_ieee_s0"]
    any_nan = replace(proof.operation, text=proof.operation.text.replace("#x7fc00000", "o"))
    assert is_ambiguous(replace(proof, operation=any_nan), "bitwuzla")


def test_catalog_is_covered() -> None:
    names = set(proofs())
    for design in CATALOG.values():
        if design.family == "pe" and design.domain["operand"] == "bf16":
            component = design.build()
            Fragment.get(component, None)
            parts = ("product", "sum", "shift") if component.terms == 1 else ("products", "window", "sum", "shift")
            assert names >= {f"{component.module_name}_{part}" for part in parts}, design.name
    # What stands inside others is found, too: the adder of an accumulator column, the converter at the edge.
    assert names >= {"adder_fp32_flush_s1", "adder_fp32_flush_s5", "adder_fp32_ieee_s1", "converter_fp32_bf16_ieee_s0"}
    # A quick run has both modes, one stage and several.
    quick = {name for name, proof in proofs().items() if name.endswith("_sum") and proof.quick}
    assert quick == {"pe_bf16_ieee_s1_sum", "pe_bf16_flush_s6_sum"}


@pytest.mark.slow
def test_forms_with_gates_of_their_own_are_covered() -> None:
    """Each has a proof, and gates as in another form have none."""
    components = {
        proof.component.module_name: proof.component
        for proof in proofs().values()
        if isinstance(proof.component, (Adder, Converter, Multiplier, ProcessingElement))
    }
    texts = {(name, form): to_rtlil(each, form=form) for name, each in components.items() for form in FORMS}
    differing = {(name, form) for name, form in texts if texts[name, form] != texts[name, AREA]}
    proven = {(proof.component.module_name, proof.form) for proof in proofs().values() if proof.form != AREA}
    assert proven == differing
    assert all(name.endswith(f"_{proof.form}") == (proof.form != AREA) for name, proof in proofs().items())


@pytest.mark.parametrize(
    "name", ["multiplier_bf16_fp32_flush_s0", *(slow(f"converter_fp32_bf16_{mode}_s0_nearest") for mode in SUBNORMALS)]
)
def test_proof_by_another_solver(name: str) -> None:
    assert confirm(proofs()[name], "bitwuzla")
    assert prove(proofs()[name], "bitwuzla").holds


@pytest.mark.parametrize(
    "control", [each if each.proof.quick else slow(each) for each in controls()], ids=lambda control: control.name
)
def test_wrong_claim(control: Control) -> None:
    verdict = prove(control.proof, control.proof.solvers[0], change=control.change)
    assert verdict.holds is False
    found, operation = verdict.counterexample, control.proof.operation
    assert found.got != found.expected
    modes = [mode for mode in SUBNORMALS if operation is PRODUCT[mode]]
    solved = _word(found.expected, modes[0]) if modes else found.expected
    assert _golden(operation, found.operands) in (None, solved)


@pytest.mark.parametrize(
    "name", ["converter_fp32_bf16_flush_s0", *map(slow, ("adder_fp32_ieee_s0", "multiplier_bf16_fp32_flush_s0"))]
)
def test_mutant(name: str) -> None:
    proof = proofs()[name]
    mutants = mutant_controls(proof, 4, seed=2)
    assert [control.change for control in mutants] == [control.change for control in mutant_controls(proof, 4, seed=2)]
    for mutant in mutants:
        verdict = prove(proof, change=mutant.change)
        assert verdict.holds is False, mutant.name
        found = verdict.counterexample
        assert found.expected == _golden(proof.operation, found.operands)
        assert found.got == _evaluate(mutant, found.operands)


def _evaluate(mutant: Control, operands: tuple[int, ...]) -> int:
    """What Yosys's own evaluation of a mutant gives: no solver, no SMT-LIB."""
    component, wires = mutant.proof.component, [wire for wire, _ in mutant.proof.operands]
    widths = (component.signature.members[wire].shape for wire in wires)
    values = " ".join(f"-set {wire} {n}'b{word:b}" for wire, n, word in zip(wires, widths, operands, strict=True))
    script = f"read_rtlil /job/design.il\nprep -flatten -top {component.module_name}\n{mutant.change}\n"
    text = yosys.produce(f"{script}tee -q -o /job/result eval {values} -show o\n", to_rtlil(component))
    width, _, digits = text.rsplit("=", 1)[1].strip().rstrip(".").rpartition("'")
    return int(digits, 2 if width else 10)


def test_cases() -> None:
    proof = proofs()["converter_fp32_bf16_flush_s0_nearest"]
    sign = "(= ((_ extract 31 31) x0) #b0)"

    def cut(*cases: str) -> Proof:
        return replace(proof, operation=replace(proof.operation, cases={"bitwuzla": cases}))

    verdict = prove(cut(sign, f"(not {sign})"), "bitwuzla", jobs=2)
    assert (verdict.holds, verdict.cases) == (True, 2)
    with pytest.raises(ValueError, match=r"cases must cover all operands, not \("):
        prove(cut(sign, "(= ((_ extract 31 23) x0) #b100000000)"), "bitwuzla")


def test_a_stream_that_loses_what_it_accepts() -> None:
    """With an empty pipeline and nobody who takes results, it accepts but does not move."""
    source = inspect.getsource(streamed)
    right, wrong = "enable.eq(self.o.ready | ~valid)", "enable.eq(self.o.ready)"
    assert source.count(right) == 1
    broken: dict[str, Any] = {}
    exec(source.replace(right, wrong).replace("else enable)", "else self.o.ready | ~valid)"), broken)
    [claim] = [proof for name, proof in proofs().items() if re.fullmatch("streamed_converter_.*_accept", name)]
    wrong_one = replace(claim, component=broken["Streamed"](Converter(FP32, BF16, stages=1)))
    assert prove(wrong_one, claim.solvers[0]).holds is False


_PARTS = ["products", "window", "shift", "sum"]


def _proof(part: str, terms: int, stages: int) -> Proof:
    [proof] = [each for each in about(ProcessingElement(terms=terms, stages=stages)) if each.name.endswith(f"_{part}")]
    return proof


@pytest.mark.parametrize(
    ("part", "terms"), [*((part, 2) for part in _PARTS[:-1]), slow("sum", 2), *(slow(part, 8) for part in _PARTS[:-1])]
)
def test_several_terms(part: str, terms: int) -> None:
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
    assert abs(verdict.counterexample.got - verdict.counterexample.expected) == 1


@pytest.mark.parametrize(("options", "outputs"), [({"status": True}, 4 + 5), ({"bus": "axi"}, 2 + 3 + 8)])
def test_units_have_no_paths(options: dict[str, Any], outputs: int) -> None:
    # Plain: ready, valid and payload of the streams, and of the status. On a bus: ready of two streams; data, last and
    # valid of the third; ready and valid of five channels, three payloads.
    paths = combinational_paths(build("mxu", rows=2, columns=2, splitter=True, result="bf16", **options))
    assert (len(paths), {name: found for name, found in paths.items() if found}) == (outputs, {})


def test_paths_are_found() -> None:
    stream = {"i__ready": {"o__ready"}, "o__valid": set(), "o__payload": set()}
    assert combinational_paths(build("stream_adder")) == stream
    assert combinational_paths(build("adder")) == {"o": {"i_a", "i_b"}}


def test_time_limit() -> None:
    verdict = prove(proofs()["adder_fp32_flush_s0"], limit=0.5)
    assert (verdict.holds, verdict.counterexample) == (None, None)


@pytest.mark.parametrize("solver", SOLVERS)
def test_failure(solver: str) -> None:
    with pytest.raises(SolverError, match=f"^{solver}: .*y"):
        solve("(set-logic QF_BVFP)(assert y)", solver, limit=60)


def test_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = next(proof for proof in proofs().values() if proof.quick)
    with pytest.raises(ValueError, match=r"^solver must be one of z3, bitwuzla, not 'yices'$"):
        prove(quick, "yices")
    system = transition_system(proofs()["converter_fp32_bf16_flush_s0"].component)
    with pytest.raises(ValueError, match=r"^wire must be one of .*, not 'carry'$"):
        system.value("carry", 0)
    monkeypatch.setattr(solvers, "find_spec", lambda name: None)
    with pytest.raises(SolverError, match=r"^z3 is missing: .*pip install .*\[verify\]'$"):
        prove(quick)
