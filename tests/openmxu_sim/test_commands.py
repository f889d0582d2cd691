"""The commands of the simulation: each does its work, and says what came of it, by its exit code too."""

import json
import re
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import openmxu.area
from openmxu.area.subject.points import PRODUCT, point
from openmxu.runtime.extras import install
from openmxu.spec.formats import BF16
from openmxu_sim import demo
from openmxu_sim.studies import accuracy
from openmxu_studies import speed
from openmxu_studies.speed.measure import Clocked

from ..conftest import Command, needs_compiler

_ACCURACY = accuracy.Accuracy.of_json((Path(__file__).parents[2] / "docs" / "reference" / "accuracy.json").read_text())


@pytest.mark.slow  # `make demo` runs it, too
@pytest.mark.parametrize("wrong", [False, True])
def test_demo(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr(openmxu.area, "report", partial(openmxu.area.report, points=[point(PRODUCT, BF16)]))
    if wrong:
        classify = demo.classify
        monkeypatch.setattr(demo, "classify", lambda **options: replace(classify(**options), bit_equal=False))
    code, shown, _ = command("demo -o", str(tmp_path / "demo"))
    assert code == int(wrong)
    assert f"bit-equal to the golden model  {'NO' if wrong else 'yes'}" in shown
    assert shown.endswith(f"Report with plots: {tmp_path / 'demo' / 'report.html'}\n")
    said = json.loads((tmp_path / "demo" / "classifier.json").read_text())
    assert said["images"] == 360
    assert {"area.json", "report.html", "classifier.json"} <= {path.name for path in (tmp_path / "demo").iterdir()}


def test_a_demo_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    outcome = Mock(bit_equal=True, **{"as_dict.return_value": {}, "text.return_value": "right"})
    monkeypatch.setattr(demo, "classify", lambda **_: outcome)
    monkeypatch.setattr(openmxu.area, "report", Mock(side_effect=OSError("Yosys does not run")))
    code, _, said = command("demo -o", str(tmp_path / "demo"))
    assert (code != 0, "Yosys does not run" in said, list(tmp_path.iterdir())) == (True, True, [])


@pytest.mark.slow  # `openmxu demo` says the same of a whole run
@pytest.mark.parametrize("wrong", [False, True])
def test_outcome_of_the_demo(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers of random weights instead of a trained classifier, six images."""
    normal = partial(np.random.default_rng(0).standard_normal, dtype=np.float32)
    layers: Any = [(normal((5, 4)), normal(4)), (normal((4, 3)), normal(3))]
    images: Any = normal((6, 5))
    classes = demo._infer(layers, images, np.matmul)
    monkeypatch.setattr(demo, "train", lambda: (layers, images, classes))
    if wrong:
        right = demo.golden.matmul
        monkeypatch.setattr(demo.golden, "matmul", lambda a, b, **options: -right(a, b, **options))
    outcome = demo.classify(engine="pysim")
    assert (outcome.engine, outcome.images, outcome.results) == ("pysim", 6, 6 * (4 + 3))
    assert outcome.bit_equal == (not wrong)
    assert outcome.accuracy_fp32 == 1.0
    assert outcome.accuracy_unit == outcome.same_class / 6
    assert 0 < outcome.utilisation < 1
    assert f"bit-equal to the golden model  {'NO' if wrong else 'yes (42 numbers)'}" in outcome.text()


def test_the_demo_takes_only_engines_with_a_clock() -> None:
    with pytest.raises(ValueError, match=r"engine must be 'auto' or one with a clock \(.*\), not 'golden'"):
        demo.classify(engine="golden")


def test_training_of_the_demo() -> None:
    layers, images, labels = demo.train()
    assert images.shape == (360, 64)
    assert np.mean(demo._infer(layers, images, np.matmul) == labels) > 0.95


def test_what_the_demo_misses_is_said_first(monkeypatch: pytest.MonkeyPatch, command: Command, tmp_path: Path) -> None:
    monkeypatch.setattr("openmxu.runtime.extras.find_spec", lambda package: None)
    code, out, complaint = command("demo -o demo")
    named, _, remedy = complaint.partition(", not installed here: ")
    assert (code, out, list(tmp_path.iterdir()), remedy) == (2, "", [], f"{install('demo')}\n")
    needed = named.removeprefix("openmxu demo: the demo needs ").split(", ")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert extras["demo"][0] == "openmxu[area]"
    brought = " ".join(extras["demo"] + extras["area"]).replace("scikit-learn", "sklearn").replace("-", "_")
    assert needed
    assert all(re.search(rf"\b{package}", brought) for package in needed)


_TOOLS, _CLOCKED = {"C compiler": "gcc 12", "numpy": "2"}, Clocked("compiled", 128, 1, 1.0, 8653, 0.25, 3, 60.0)
_SPEED = speed.Report("2026-01-01", "a machine", 600.0, _TOOLS, (_CLOCKED,), (), (), ("pysim left out",))


@pytest.mark.parametrize(
    ("words", "module", "function", "report", "asked"),
    [
        ("bench --quick --limit 7 --plot plot.svg", speed, "bench", _SPEED, {"quick": True, "limit": 7}),
        ("accuracy --seed 7", accuracy, "measure", _ACCURACY, {"seed": 7}),
    ],
)
def test_reports(
    words: str, module: Any, function: str, report: Any, asked: Any, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    measured = Mock(return_value=report)
    monkeypatch.setattr(module, function, measured)
    code, out, _ = command(f"{words} --json report.json")
    assert (code, out) == (0, f"{module.to_markdown(report)}\n")
    assert measured.call_args.kwargs.items() >= asked.items()
    assert type(report).of_json(Path("report.json").read_text()) == report
    assert "--plot" not in words or "<svg" in Path("plot.svg").read_text()


def _multiply(command: Command, m: int, k: int, n: int, options: str) -> str:
    """What is said of a product of matrices of ones by the compiled engine."""
    for name, shape in (("A", (m, k)), ("B", (k, n))):
        np.save(f"{name}.npy", np.ones(shape, np.float32))
    code, _, err = command(f"matmul A.npy B.npy --engine compiled -o C.npy {options}")
    assert code == 0
    return err


@needs_compiler
def test_where_the_cycles_went(command: Command) -> None:
    err = _multiply(command, 40, 8, 6, "--rows 4 --columns 3 --stalls 2 --stats s.json")
    said = json.loads(Path("s.json").read_text())
    busy, by_input, by_output = (said[name] / said["cycles"] for name in ("busy", "input_stalls", "output_stalls"))
    assert f"{by_input:.1%}" != f"{by_output:.1%}"
    assert err.splitlines()[-1] == (
        f"of these cycles: busy {busy:.1%}, stalled by input {by_input:.1%}, stalled by output {by_output:.1%}, "
        f"filling and draining {1 - busy - by_input - by_output:.1%}"
    )


@needs_compiler
def test_the_window_of_a_waveform(command: Command) -> None:
    window = "--vcd-rows 1:2 --vcd-columns 1:3 --vcd-cycles 3:9"
    _multiply(command, 6, 6, 6, f"--rows 4 --columns 3 --vcd wave.vcd {window}")
    text = Path("wave.vcd").read_text()
    assert set(re.findall(r"\$scope module (row_\d+) ", text)) == {"row_1"}
    assert set(re.findall(r"\$scope module (pe_\d+) ", text)) == {"pe_1", "pe_2"}
    times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.MULTILINE)]
    assert len(times) == 2 * 6 + 1
