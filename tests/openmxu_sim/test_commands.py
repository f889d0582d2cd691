"""The commands of the simulation: each does its work, and says what came of it, by its exit code too."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openmxu.area
from openmxu.area.subject.points import PRODUCT, point
from openmxu.cli.frame import main
from openmxu.spec.formats import BF16
from openmxu_sim import demo
from openmxu_sim.studies import accuracy
from openmxu_studies import speed
from openmxu_studies.speed.measure import Clocked

from ..conftest import needs_compiler

_ACCURACY = accuracy.Accuracy.of_json((Path(__file__).parents[2] / "docs" / "reference" / "accuracy.json").read_text())


@pytest.mark.slow  # `make demo` runs it, too
@pytest.mark.parametrize("wrong", [False, True])
def test_demo(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the area of one small design."""
    monkeypatch.setattr(openmxu.area, "report", partial(openmxu.area.report, points=[point(PRODUCT, BF16)]))
    if wrong:
        classify = demo.classify
        monkeypatch.setattr(demo, "classify", lambda **options: replace(classify(**options), bit_equal=False))
    assert main(["demo", "-o", str(tmp_path / "demo")]) == int(wrong)
    shown = capsys.readouterr().out
    assert f"bit-equal to the golden model  {'NO' if wrong else 'yes'}" in shown
    assert shown.endswith(f"Report with plots: {tmp_path / 'demo' / 'report.html'}\n")
    said = json.loads((tmp_path / "demo" / "classifier.json").read_text())
    assert said["images"] == 360
    assert {"area.json", "report.html", "classifier.json"} <= {path.name for path in (tmp_path / "demo").iterdir()}


_TOOLS, _CLOCKED = {"C compiler": "gcc 12", "numpy": "2"}, Clocked("compiled", 128, 1, 1.0, 8653, 0.25, 3, 60.0)
_SPEED = speed.Report("2026-01-01", "a machine", 600.0, _TOOLS, (_CLOCKED,), (), (), ("pysim left out",))


@pytest.mark.parametrize(
    ("command", "module", "function", "report", "asked"),
    [
        ("bench --quick --limit 7 --plot plot.svg", speed, "bench", _SPEED, {"quick": True, "limit": 7}),
        ("accuracy --seed 7", accuracy, "measure", _ACCURACY, {"seed": 7}),
    ],
)
def test_reports(
    command: str,
    module: Any,
    function: str,
    report: Any,
    asked: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a measurement that is there already."""
    given: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, function, lambda **options: given.update(options) or report)
    assert main([*command.split(), "--json", "report.json"]) == 0
    assert given.items() >= asked.items()
    assert type(report).of_json(Path("report.json").read_text()) == report
    assert "--plot" not in command or "<svg" in Path("plot.svg").read_text()
    assert capsys.readouterr().out == f"{module.to_markdown(report)}\n"


def _multiply(m: int, k: int, n: int, options: str) -> int:
    """Matrices of ones by the compiled engine; the exit code."""
    np.save("A.npy", np.ones((m, k), np.float32))
    np.save("B.npy", np.ones((k, n), np.float32))
    return main(["matmul", "A.npy", "B.npy", "--engine", "compiled", "-o", "C.npy", *options.split()])


@needs_compiler
def test_where_the_cycles_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words as in the file."""
    monkeypatch.chdir(tmp_path)
    assert _multiply(40, 8, 6, "--rows 4 --columns 3 --stalls 2 --stats s.json") == 0
    said = json.loads(Path("s.json").read_text())
    busy, by_input, by_output = (said[name] / said["cycles"] for name in ("busy", "input_stalls", "output_stalls"))
    assert f"{by_input:.1%}" != f"{by_output:.1%}"
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"of these cycles: busy {busy:.1%}, stalled by input {by_input:.1%}, stalled by output {by_output:.1%}, "
        f"filling and draining {1 - busy - by_input - by_output:.1%}"
    )


@needs_compiler
def test_the_window_of_a_waveform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    window = "--vcd-rows 1:2 --vcd-columns 2:4 --vcd-cycles 3:9"
    assert _multiply(6, 6, 6, f"--rows 4 --columns 5 --vcd wave.vcd {window}") == 0
    text = Path("wave.vcd").read_text()
    assert set(re.findall(r"\$scope module (row_\d+) ", text)) == {"row_1"}
    assert set(re.findall(r"\$scope module (pe_\d+) ", text)) == {"pe_2", "pe_3"}
    times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.MULTILINE)]
    assert len(times) == 2 * 6 + 1
