"""Area is a test: what the designs of the catalog take on generic gates, and with which tool.

A change that moves an area must say so. ``pytest tests/openmxu/area/test_areas.py --update-areas`` writes the new
figures, which belong in the same commit.
"""

import json
import re
from pathlib import Path

import pytest

from openmxu.area.report import measure_catalog
from openmxu.area.run.job import execute
from openmxu.area.run.schedule import Workers
from openmxu.catalog import CATALOG

from .conftest import GENERIC

EXPECTED = Path(__file__).with_name("areas.json")


@pytest.mark.slow
def test_the_areas_of_the_catalog(tool: str, request: pytest.FixtureRequest) -> None:
    entries = measure_catalog(list(CATALOG.values()), [GENERIC], Workers(execute, 1, 600), lambda line: None)
    results = [term.result for entry in entries for term in entry.terms]
    assert not [(result.point.name, result.error) for result in results if result.error]
    areas = {entry.design.name: entry.area for entry in entries if entry.area}
    found = {
        name: {"GE": each.area, "memory_bits": each.memory_bits, "cells": each.cells} for name, each in areas.items()
    }
    assert list(found) == list(CATALOG)
    if request.config.getoption("--update-areas"):
        EXPECTED.write_text(json.dumps({"tool": tool, "designs": found}, indent=1) + "\n")
    expected = json.loads(EXPECTED.read_text())
    assert expected["tool"] == tool, "another tool gives other areas"
    designs = expected["designs"]
    moved = [
        f"{name}: {old} -> {new}" for name in designs | found if (old := designs.get(name)) != (new := found.get(name))
    ]
    assert not moved, "\n".join([*moved, "if that is meant, run this test with --update-areas"])


def test_the_documentation_has_these_figures() -> None:
    designs = json.loads(EXPECTED.read_text())["designs"]
    text = (Path(__file__).parents[3] / "docs/reference/area.md").read_text()
    rows = re.findall(r"\(`(\w+)`\) \| ([\d,]+) \| (\d+) \| ([-+ \d,]*) ?\|$", text, re.MULTILINE)
    assert len(rows) == 5
    plain = designs[rows[0][0]]["GE"]
    for name, area, flip_flops, more in rows:
        assert int(area.replace(",", "")) == round(designs[name]["GE"])
        assert int(flip_flops) == designs[name]["cells"]["DFF"]
        assert not more or abs(int(re.sub("[ ,]", "", more)) - (designs[name]["GE"] - plain)) <= 1
