"""Formats at the same clock, by numbers that can be followed by hand."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openmxu.area import Report, Result
from openmxu.area.chapters.quantities import in_short
from openmxu.area.finding.fronts import area_fronts, energy_fronts, same_clocks
from openmxu.area.pages.markdown import to_summary
from openmxu.area.pages.plot import to_images
from openmxu.area.run.energy import Energy
from openmxu.area.subject.points import PROCESSING_ELEMENT, Tie
from openmxu.cells.liberty import generic_library

from ..conftest import GENERIC, result

TARGETS = {recipe: replace(GENERIC, name="lib", recipe=recipe) for recipe in ("area", "speed")}


def element(
    name: str, stages: int, delay: float | None, area: float | None, recipe: str = "area", **more: Any
) -> Result:
    return result(PROCESSING_ELEMENT, name, area, target=TARGETS[recipe], delay=delay, stages=stages, **more)


BF16 = [
    element("bf16", 1, 16.0, 100.0),
    element("bf16", 1, 8.0, 200.0, "speed"),
    element("bf16", 4, 8.0, 190.0),
    element("bf16", 5, 9.0, 400.0),  # beaten in both
    element("bf16", 7, 2.0, 800.0, "speed"),
]
FP16 = [element("fp16", 1, 18.0, 150.0), element("fp16", 4, 4.5, 600.0)]


def test_fronts() -> None:
    """What is beaten is left out; on logarithmic axes halfway in delay is halfway in area, and none is faster."""
    bf16, fp16 = area_fronts([*BF16, *FP16])
    assert (bf16.library, bf16.format) == ("lib", "bf16")
    assert bf16.points == ((2.0, 800.0), (8.0, 190.0), (16.0, 100.0))
    assert [fp16.cost(delay) for delay in (4.5, 9.0, 18.0, 100.0)] == pytest.approx([600, 300, 150, 150])
    assert fp16.cost(4.4) is None


def test_what_is_no_element_of_a_front() -> None:
    one = element("bf16", 1, 1.0, 10.0)
    others = [
        *(element("bf16", 1, *figures) for figures in ((None, 10.0), (1.0, None))),
        element("bf16", 1, 1.0, 10.0, subnormals="ieee"),
        *(replace(one, point=replace(one.point, **change)) for change in ({"ties": (Tie("a.b"),)}, {"part": "adder"})),
    ]
    for other in others:
        assert (area_fronts([*BF16, other]), area_fronts([other])) == (area_fronts(BF16), []), other


def test_at_the_same_clock() -> None:
    """At the shortest delay that both have, at the longest that one needs, and between."""
    clocks = same_clocks(area_fronts([*BF16, *FP16]))
    assert [clock.delay for clock in clocks] == [4.5, 9.0, 18.0]
    at = np.exp(np.interp(np.log([4.5, 9, 18]), np.log([2, 8, 16]), np.log([800, 190, 100])))
    assert [clock.costs["bf16"] for clock in clocks] == pytest.approx(at)
    assert [clock.costs["fp16"] for clock in clocks] == pytest.approx([600, 300, 150])
    elsewhere = [replace(each, target=replace(each.target, name="other")) for each in FP16]
    for alone in (BF16, [*BF16, *elsewhere]):
        assert same_clocks(area_fronts(alone)) == []


def test_page_and_plot() -> None:
    report = Report("Yosys 1", [*BF16, *FP16])
    text = to_summary(report)
    assert "| lib | 9.00 | 111 | 1 (170 GE) | 1.76 |" in text
    assert "| lib | 18.00 | 56 | 1 (100 GE) | 1.50 |" in text
    assert "| lib | bf16 | 2.00, 800, 7 speed; 8.00, 190, 4 area; 16.00, 100, 1 area |" in text
    comments = re.findall(r"<!-- (.*) -->", to_images(report)["clock.svg"].decode())
    assert {"bf16", "fp16", "Processing elements on lib"} <= set(comments)
    alone = Report("Yosys 1", BF16)
    assert "clock.svg" not in to_images(alone)
    assert "At the same clock" not in to_summary(alone)


def test_energies_have_fronts_of_their_own() -> None:
    """By energy another element may be the best; other operands and failures have no part in it."""
    given = [(BF16[0], 30.0), (BF16[1], 90.0), (BF16[3], 20.0), (FP16[0], 45.0), (FP16[1], 40.0)]
    energies = [Energy(each, "normal", 1024, 3, logic=total) for each, total in given]
    energies += [Energy(BF16[4], "idle", 1024, 3, logic=1.0), Energy(BF16[2], "normal", error="no")]
    bf16, fp16 = energy_fronts(energies)
    assert bf16.points == ((8.0, 90.0), (9.0, 20.0))
    assert fp16.points == ((4.5, 40.0),)
    report = Report("Yosys 1", [*BF16, *FP16], energies=energies)
    text = to_summary(report)
    assert "| lib | 9.00 | 111 | 1 (20.0 pJ) | 2.00 |" in text
    # Areas as above, energies 40 / 90 to 40 / 20.
    assert [row for row in in_short(report).rows if "same clock" in row[0]] == [
        ["area, processing element at the same clock", "1.50 to 1.76", "", "100 to 345 GE"],
        ["energy, processing element at the same clock", "0.44 to 2.00", "", "20.0 to 90.0 pJ"],
    ]
    assert "| lib | bf16 | 8.00, 90.0, 1 speed; 9.00, 20.0, 5 area |" in text
    assert "<!-- energy of a cycle (pJ), without wires -->" in to_images(report)["energy.svg"].decode()
    assert "energy.svg" not in to_images(Report("Yosys 1", [*BF16, *FP16]))


def test_the_plot_is_of_a_sound_library() -> None:
    """One whose areas contradict each other is in the table, and in no picture of its own."""
    library = replace(generic_library(), doubt="its areas are those of another")
    doubtful = {recipe: replace(target, name="other", library=library) for recipe, target in TARGETS.items()}
    large = [element("fp16", 1, 18.0, 900.0), element("fp16", 4, 4.5, 990.0)]
    there = [replace(each, target=doubtful[each.target.recipe]) for each in (*BF16, *large)]
    found = Report("Yosys 1", [*there, *BF16, *FP16])
    row = ["area, processing element at the same clock", "1.50 to 1.76", "", "100 to 345 GE"]
    assert row in in_short(found).rows
    images = to_images(found)
    assert "<!-- Processing elements on lib -->" in images["clock.svg"].decode()
    assert "clock.svg" not in to_images(Report("Yosys 1", [*there, *BF16]))
