"""Netlists as functions compute what Amaranth's simulator and golden do; others are refused."""

import sys
from typing import Any

import pytest

from openmxu.area.target.gates import gates
from openmxu.arith import Adder
from openmxu.runtime import native
from openmxu.spec.formats import FP16
from openmxu.yosys.netlist import Cell, Netlist
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import BLOCK, Gates, bit_slices
from openmxu_sim.netlist.native import compile_c
from openmxu_sim.operands import vectors

from ...bits import same_bits


@pytest.mark.parametrize("stages", [0, 2])
@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK + 1])
def test_sums(stages: int, count: int) -> None:
    a, b = vectors.pairs("fp16", count, seed=5)
    adder = Gates(gates(Adder(FP16, stages=stages)), ["i_a", "i_b"], latency=stages)
    same_bits(adder(a, b), golden.add(a, b, "fp16"), a, b, fmt="fp16", operand="fp16", note="seed 5")
    same_bits(adder(a, int(b[0])), golden.add(a, b[0], "fp16"), a, b[0], fmt="fp16", operand="fp16", note="seed 5")


def _netlist(*cells: tuple[str, dict[str, Any]]) -> Netlist:
    made = tuple(
        Cell(f"cell{index}", type_, {}, {port: (bit,) for port, bit in bits.items()}, frozenset("AB"))
        for index, (type_, bits) in enumerate(cells)
    )
    return Netlist("top", {"i": (2,)}, {"o": (3,)}, made, {}, {})


LOOP = _netlist(("$_NOT_", {"A": 4, "Y": 3}), ("$_AND_", {"A": 3, "B": 2, "Y": 4}))


@pytest.mark.parametrize(
    ("netlist", "inputs", "message"),
    [
        (_netlist(("NAND2", {"A": 2, "B": 2, "Y": 3})), "i", "consist of .*, not of NAND2"),
        (LOOP, "i", "be free of loops, not run in one through cell0"),
        (_netlist(("$_NOT_", {"A": 2, "Y": 3})), "ab", "have the inputs a, b and one output, not i, o"),
    ],
)
def test_messages(netlist: Netlist, inputs: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^netlist must {message}$"):
        bit_slices(netlist, list(inputs))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(native.CompilerNotFoundError, match=r"^CC must name a .* installed, not 'no-such-compiler'$"):
        compile_c("")
    monkeypatch.delenv("CC")
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    with pytest.raises(native.CompilerNotFoundError, match=r"^a C compiler is needed; install one .* 'openmxu\[zig\]'"):
        compile_c("")
    monkeypatch.setattr(native, "find_spec", lambda name: object())
    assert native.find_compiler() == [sys.executable, "-m", "ziglang", "cc"]


def test_refused_source() -> None:
    with pytest.raises(native.CompilationError, match=r"^C compiler /.* failed: .*error: .*nothing"):
        compile_c("int function(void) { return nothing; }")
