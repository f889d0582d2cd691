"""Benches in Verilog and in Python, run as somebody runs them who has a simulator and nothing of ours, or cocotb."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from openmxu_sim.exported import cocotb, verilog
from openmxu_sim.exported.beats import make_beats

from ...conftest import ran, slow
from .bare import BROKEN, FASTER, FORM, SMALL, damage, environment, export, flip, make, needs, passed

pytestmark = pytest.mark.usefixtures("fewer_beats")

_CASES = {
    "streams": SMALL,
    "axi": f"{SMALL} --bus axi --splitter --clock-enable --stages 2",
    "form": FORM,
    "format": "--rows 1 --columns 1 --depth 2 --operand e4f2 --source e4f2 --stages 3",
    "formats": "--rows 2 --columns 3 --depth 8 --operand fp8_e5m2 --weight fp8_e4m3",
    "bytes": "--rows 3 --columns 2 --operand fp8_e4m3 --source fp8_e4m3 --bus axi",
}


@pytest.fixture(scope="module")
def fewer_beats() -> Iterator[None]:
    """Exported benches have all marks and kinds of words, but a tenth of their beats: Icarus takes 15 s for all."""
    with pytest.MonkeyPatch.context() as patch:
        for bench in (cocotb, verilog):
            patch.setattr(bench, "make_beats", partial(make_beats, share=0))
        yield


@pytest.fixture(scope="module")
def exported(fewer_beats: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("icarus")
    where = export(tmp_path_factory.mktemp("exported"), SMALL)
    make(where, "mxu_tb.vvp")
    return where


@pytest.fixture
def unit(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "unit"))


@pytest.mark.parametrize("case", ["streams", *(slow(case) for case in _CASES if case != "streams")])
def test_icarus(case: str, tmp_path: Path) -> None:
    needs("icarus")
    done = make(export(tmp_path, _CASES[case]), "icarus", "lint-icarus")
    assert done.stderr == ""
    words, _, seed = passed(done)
    assert words > 100
    assert seed == 1


@pytest.mark.slow
def test_pauses(unit: Path) -> None:
    runs = [passed(make(unit, "icarus", f"ARGS={arguments}")) for arguments in ("+seed=7", "+stalls=0")]
    assert len({words for words, _, _ in runs}) == 1
    assert runs[0][1] > runs[1][1]
    assert [seed for _, _, seed in runs] == [7, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", ["--terms 2", "--splitter", "--operand fp8_e4m3 --source fp8_e4m3 --subnormals ieee"]
)
def test_other_operands(options: str, tmp_path: Path) -> None:
    """With another seed the same results, one of them changed, come from other operands, in other columns."""
    needs("icarus")
    where = export(tmp_path, f"--rows 2 --columns 3 --depth 4 {options}")
    flip(where / "results.hex")
    for seed, column in ((1, 0), (2, 2), (2**32 - 1, 1)):
        told = make(where, "icarus", f"ARGS=+seed={seed}", code=2).stdout
        assert f", word {column}: " in told
        assert re.search(r"^FAIL: (\d+) of \1 words compared, 1 wrong, 0 other", told, re.MULTILINE), told


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_line_fails(what: str, unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "NaN at the edge":  # few beats have one
        monkeypatch.setattr(verilog, "make_beats", make_beats)
        shutil.rmtree(unit)
        export(unit.parent, SMALL)
    damage(unit / "mxu.v", *BROKEN[what])
    done = make(unit, "icarus", code=2)
    found = re.search(r"^FAIL: (\d+) of (\d+) words compared, (\d+) wrong, (\d+) other", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    compared, words, wrong, mistakes = map(int, found.groups())
    if what == "a hang":
        assert "the unit hangs" in done.stdout
        assert compared < words
    elif what == "last of results":
        assert (wrong, mistakes) == (0, words // 2)
        assert "last of a result is wrong" in done.stdout
    else:
        assert wrong
        assert re.search(r"^result \d+, word \d: \w{8}, expected \w{8}, cycle \d+$", done.stdout, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "change", "complaint"),
    [
        ("results.hex", lambda path: path.write_text(""), "results.hex is missing or too short"),
        ("results.hex", flip, "expected"),
        ("weights.hex", lambda path: path.write_text(""), "weights.hex or activations.hex is missing or too short"),
    ],
)
def test_vectors_that_are_not_whole(file: str, change: Callable[[Path], object], complaint: str, unit: Path) -> None:
    change(unit / file)
    done = make(unit, "icarus", code=2)
    assert complaint in done.stdout
    assert "FAIL: " in done.stdout


@pytest.mark.slow
def test_axi_registers_are_looked_at(tmp_path: Path) -> None:
    """A unit with a register that holds another one's number gives the right words, and fails."""
    needs("icarus")
    where = export(tmp_path, f"{SMALL} --bus axi")
    damage(where / "mxu_axi.v", r"('h\w+, )i_cycles, i_busy, ", r"\1i_cycles, i_cycles, ")
    done = make(where, "icarus", code=2)
    assert "register BUSY is wrong" in done.stdout
    assert " 0 wrong, 1 other mistakes" in done.stdout


@pytest.mark.slow
def test_verilator(tmp_path: Path) -> None:
    """The same words in the same cycles as in Icarus, no warning; one wrong bit fails."""
    needs("verilator")
    needs("icarus")
    where = export(tmp_path, _CASES["axi"])
    done = make(where, "verilator", "lint-verilator", f"FLAGS={FASTER}")
    assert passed(done) == passed(make(where, "icarus"))
    assert "%Warning" not in done.stderr + (where / "build.log").read_text()
    flip(where / "results.hex")
    done = make(where, "verilator", f"FLAGS={FASTER}", code=2)
    assert re.search(r"^FAIL: \d+ of \d+ words compared, 1 wrong", done.stdout, re.MULTILINE)


def test_no_simulator(unit: Path) -> None:
    done = make(unit, "IVERILOG=no-such-program", "VERILATOR=nor-this", code=2)
    assert "neither no-such-program nor nor-this is on PATH" in done.stdout


def _fusesoc(where: Path, target: str, *arguments: str) -> CompletedProcess[str]:
    variables = environment(where.parent / "programs") | {"MAKEFLAGS": "OPT_FAST=-O0 OPT_GLOBAL=-O0 OPT_SLOW=-O0"}
    command = [Path(sys.executable).with_name("fusesoc"), "--cores-root", ".", "run", "--target", target, "mxu"]
    return ran([*command, *arguments], cwd=where, env=variables, timeout=300)


@pytest.mark.slow
def test_fusesoc(unit: Path) -> None:
    needs("verilator")
    done = _fusesoc(unit, "lint")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--lint-only" in next((unit / "build").rglob("*.vc")).read_text()
    done = _fusesoc(unit, "sim", "--seed", "7")
    assert passed(done)[2] == 7
    assert "deprecated" not in (done.stdout + done.stderr).lower()


@pytest.mark.slow
def test_a_broken_line_fails_in_fusesoc(unit: Path) -> None:
    needs("verilator")
    damage(unit / "mxu.v", *BROKEN["a tie at the edge"])
    verdicts = []
    for target in ("sim", "sim_verilator"):
        done = _fusesoc(unit, target)
        assert done.returncode == 1
        verdicts += re.findall(r"^FAIL: (\d+) of \1 words compared, ([1-9]\d*) wrong", done.stdout, re.MULTILINE)
    assert len(verdicts) == 2
    assert verdicts[0] == verdicts[1]


# Benches in Python, run as somebody runs them who has OpenMXU and cocotb


_IN_PYTHON = {
    "streams": SMALL,
    "axi": f"{SMALL} --bus axi --splitter --clock-enable",
    "form": FORM,
    "formats": "--rows 4 --columns 2 --depth 8 --operand fp16 --weight bf16 --terms 4",
    "formats, axi": "--rows 2 --columns 2 --depth 8 --operand fp8_e4m3 --weight fp16 --subnormals ieee --bus axi",
}


def _run_in_python(where: Path, simulator: str, *arguments: str, code: int = 0) -> str:
    done = make(where, simulator, f"PYTHON={sys.executable}", *arguments, given=dict(os.environ), code=code)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("case", "simulator", "arguments"),
    [
        ("streams", "icarus", []),
        *(slow(case, "icarus", []) for case in _IN_PYTHON if case != "streams"),
        slow("axi", "verilator", ["SEED=7"]),  # with other operands and pauses
    ],
)
def test_benches_in_python(case: str, simulator: str, arguments: list[str], tmp_path: Path) -> None:
    needs(simulator)
    said = _run_in_python(export(tmp_path, _IN_PYTHON[case], bench="cocotb"), simulator, *arguments)
    tests = "what_it_is, golden_vectors, product" if "axi" in _IN_PYTHON[case] else "golden_vectors, product"
    assert f"PASS: {tests}, {simulator}, seed " in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "line", "complaint"),
    [
        ("", "the swap mark", r"results: beat \d+, lane \d: got \w+"),
        (" --bus axi", "a tie at the edge", r"packet \d+: \d+ words are wrong, the first at"),
    ],
)
def test_a_broken_line_fails_in_python(options: str, line: str, complaint: str, tmp_path: Path) -> None:
    needs("icarus")
    where = export(tmp_path, SMALL + options, bench="cocotb")
    damage(where / ("mxu_axi.v" if options else "mxu.v"), *BROKEN[line])
    said = _run_in_python(where, "icarus", code=2)
    assert re.search(r"^FAIL: icarus$", said, re.MULTILINE)
    assert re.search(complaint, said)
