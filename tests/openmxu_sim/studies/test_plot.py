"""The picture of the roofline in the documentation is of the unit and the layers of today."""

import re
from pathlib import Path

import numpy as np

from openmxu_sim.studies.roofline import Machine, roofline
from openmxu_sim.studies.roofline_plot import to_svg

PICTURE = Path(__file__).parents[3] / "docs/images/roofline.svg"

NEAR = 0.5
"""Points of print, by which versions of matplotlib may place the same point."""


def points(svg: str) -> list[tuple[float, float]]:
    """Where markers are."""
    return [(float(x), float(y)) for x, y in re.findall(r'<use [^>]*\bx="([\d.]+)" y="([\d.]+)"', svg)]


def labels(svg: str) -> list[str]:
    """What matplotlib draws as outlines, it repeats as comments."""
    return re.findall(r"<!-- (.*?) -->", svg)


def test_the_picture_is_of_today() -> None:
    drawn, documented = to_svg(roofline(Machine())).decode(), PICTURE.read_text()
    remedy = "run openmxu roofline --plot docs/images/roofline.svg"
    assert labels(drawn) == labels(documented), remedy
    assert len(points(drawn)) > 20, remedy
    np.testing.assert_allclose(points(drawn), points(documented), rtol=0, atol=NEAR, err_msg=remedy)


def test_another_machine_has_another_picture() -> None:
    """The comparison sees it."""
    drawn = to_svg(roofline(Machine(bandwidth=100.0))).decode()
    assert labels(drawn) != labels(PICTURE.read_text())
