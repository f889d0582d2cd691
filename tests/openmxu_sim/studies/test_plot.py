"""The picture of the roofline in the documentation is of the unit and the layers of today."""

import re
from pathlib import Path

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
    ours, theirs = points(drawn), points(documented)
    assert len(ours) == len(theirs) > 20, remedy
    assert all(
        abs(a - b) < NEAR for one, two in zip(ours, theirs, strict=True) for a, b in zip(one, two, strict=True)
    ), remedy


def test_another_machine_has_another_picture() -> None:
    """The comparison sees it."""
    drawn = to_svg(roofline(Machine(bandwidth=100.0))).decode()
    assert labels(drawn) != labels(PICTURE.read_text())
