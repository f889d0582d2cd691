"""The demo, with a classifier and images small enough for Amaranth's simulator."""

from typing import Any

import numpy as np
import pytest

from openmxu_sim import demo


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers of random weights instead of a trained classifier, six images."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32)

    layers = [(normal(5, 4), normal(4)), (normal(4, 3), normal(3))]
    images = normal(6, 5)
    classes = demo._infer(layers, images, np.matmul)
    monkeypatch.setattr(demo, "train", lambda: (layers, images, classes))


@pytest.mark.slow  # `openmxu demo` says the same of a whole run
@pytest.mark.usefixtures("small")
def test_outcome() -> None:
    outcome = demo.classify(engine="pysim")
    assert (outcome.engine, outcome.images, outcome.results) == ("pysim", 6, 6 * (4 + 3))
    assert outcome.bit_equal
    assert outcome.accuracy_fp32 == 1.0
    assert outcome.accuracy_unit == outcome.same_class / 6
    assert 0 < outcome.utilisation < 1
    assert "bit-equal to the golden model  yes (42 numbers)" in outcome.text()


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_wrong_bit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    right = demo.golden.matmul
    monkeypatch.setattr(demo.golden, "matmul", lambda a, b, **options: -right(a, b, **options))
    outcome = demo.classify(engine="pysim")
    assert not outcome.bit_equal
    assert "bit-equal to the golden model  NO" in outcome.text()


def test_only_engines_with_a_clock() -> None:
    with pytest.raises(ValueError, match=r"engine must be 'auto' or one with a clock \(.*\), not 'golden'"):
        demo.classify(engine="golden")


def test_training_reaches_its_accuracy() -> None:
    layers, images, labels = demo.train()
    assert images.shape == (360, 64)
    assert np.mean(demo._infer(layers, images, np.matmul) == labels) > 0.95
