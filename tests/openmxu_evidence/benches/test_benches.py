"""Every design of up to 64 processing elements has a bench, which does not pass what is broken."""

import ast
import re
from pathlib import Path

import pytest

from openmxu.arith.datapath import round as rounding
from openmxu.catalog import CATALOG
from openmxu_sim.cosim.runner import SimulationError

from ...conftest import Bench, slow, thorough

_TESTS = Path(__file__).parents[2] / "openmxu"


def test_every_design_is_on_its_bench() -> None:
    """The tests of the parts name them all."""
    files = [_TESTS / name for name in ("arith/test_arithmetic.py", "unit/test_pe.py", "unit/test_mxu.py")]
    named = {
        word
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in node.value.split()
    }
    assert {name for name, design in CATALOG.items() if design.cells <= 64} <= named


def delayed_swap(verilog: str) -> str:
    """Verilog in which processing elements pass the swap mark on a cycle late."""
    late = r"reg late = 0; always @(posedge clk) begin late <= \1; o_swap <= late; end"
    text, count = re.subn(r"always @\(posedge clk\)\n\s*o_swap <= (.+);", late, verilog)
    assert count == 1
    return text


@pytest.mark.parametrize(
    ("design", "complaint"),
    [("pe", "o_swap: "), thorough("array_4x4", "o_psums of tile "), thorough("mxu_2x2", "results: beat ")],
)
def test_benches_see_a_late_swap_mark(bench: Bench, design: str, complaint: str) -> None:
    with pytest.raises(SimulationError, match=complaint):
        bench(design, mutate=delayed_swap)


@pytest.mark.parametrize("design", ["converter", slow("multiplier_bf16"), slow("stream_adder")])
def test_benches_see_truncation(bench: Bench, design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nearest_even = rounding._nearest_even
    monkeypatch.setattr(rounding, "_nearest_even", lambda fmt, bits: (nearest_even(fmt, bits)[0], 0 & bits[0]))
    with pytest.raises(SimulationError, match=r"o: .*got [0-9A-F]+ \(.*expected .*operands .*cycle \d+, seed 0"):
        bench(design, count=100)
