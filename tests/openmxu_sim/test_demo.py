"""The demo, with a classifier and images small enough for Amaranth's simulator."""

import re
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.cli import frame
from openmxu_sim import demo


@pytest.mark.slow  # `openmxu demo` says the same of a whole run
@pytest.mark.parametrize("wrong", [False, True])
def test_outcome(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_only_engines_with_a_clock() -> None:
    with pytest.raises(ValueError, match=r"engine must be 'auto' or one with a clock \(.*\), not 'golden'"):
        demo.classify(engine="golden")


def test_training_reaches_its_accuracy() -> None:
    layers, images, labels = demo.train()
    assert images.shape == (360, 64)
    assert np.mean(demo._infer(layers, images, np.matmul) == labels) > 0.95


def test_what_is_missing_is_said_before_the_first_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The second part's packages, too; and the extra brings all of them."""
    monkeypatch.setattr(demo, "find_spec", lambda package: None)
    assert frame.main(["demo", "-o", str(tmp_path / "demo")]) == 2
    out, complaint = capsys.readouterr()
    named, _, command = complaint.partition(", not installed here: ")
    assert (out, list(tmp_path.iterdir()), command) == ("", [], "pip install 'openmxu[demo]'\n")
    needed = named.removeprefix("openmxu demo: the demo needs ").split(", ")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert extras["demo"][0] == "openmxu[area]"
    brought = " ".join(extras["demo"] + extras["area"]).replace("scikit-learn", "sklearn").replace("-", "_")
    assert needed
    assert all(re.search(rf"\b{package}", brought) for package in needed)
