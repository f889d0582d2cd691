"""Benches in Python, run as somebody runs them who has OpenMXU and cocotb."""

import os
import re
import sys
from pathlib import Path

import pytest

from ...conftest import slow
from .bare import BROKEN, FORM, SMALL, damage, export, make, needs

pytestmark = pytest.mark.usefixtures("fewer_beats")

_CASES = {
    "streams": SMALL,
    "axi": f"{SMALL} --bus axi --splitter --clock-enable",
    "form": FORM,
    "formats": "--rows 4 --columns 2 --depth 8 --operand fp16 --weight bf16 --terms 4",
    "formats, axi": "--rows 2 --columns 2 --depth 8 --operand fp8_e4m3 --weight fp16 --subnormals ieee --bus axi",
}


def _run(where: Path, simulator: str, *arguments: str) -> tuple[int, str]:
    """The exit code of make, and what was said."""
    done = make(where, simulator, f"PYTHON={sys.executable}", *arguments, given=dict(os.environ))
    return done.returncode, done.stdout + done.stderr


def _check(case: str, simulator: str, folder: Path, *arguments: str) -> None:
    needs(simulator)
    code, said = _run(export(folder, _CASES[case], bench="cocotb"), simulator, *arguments)
    assert code == 0, said
    tests = "what_it_is, golden_vectors, product" if "axi" in _CASES[case] else "golden_vectors, product"
    assert f"PASS: {tests}, {simulator}, seed " in said


@pytest.mark.parametrize("case", ["streams", *(slow(case) for case in _CASES if case != "streams")])
def test_icarus(case: str, tmp_path: Path) -> None:
    _check(case, "icarus", tmp_path)


@pytest.mark.slow
def test_verilator(tmp_path: Path) -> None:
    """With other operands and pauses."""
    _check("axi", "verilator", tmp_path, "SEED=7")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "line", "complaint"),
    [
        ("", "the swap mark", r"results: beat \d+, lane \d: got \w+"),
        (" --bus axi", "a tie at the edge", r"packet \d+: \d+ words are wrong, the first at"),
    ],
)
def test_a_broken_line_fails(options: str, line: str, complaint: str, tmp_path: Path) -> None:
    needs("icarus")
    where = export(tmp_path, SMALL + options, bench="cocotb")
    damage(where / ("mxu_axi.v" if options else "mxu.v"), *BROKEN[line])
    code, said = _run(where, "icarus")
    assert code == 2
    assert re.search(r"^FAIL: icarus$", said, re.MULTILINE)
    assert re.search(complaint, said)
