"""The catalog's designs: measured with their hierarchy, or put together from parts by a rule that is checked."""

import csv
import importlib
import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from openmxu.area import Point, Report, report, to_table
from openmxu.area.finding.findings import Entry, Term
from openmxu.area.pages.export import to_csv, to_json
from openmxu.area.pages.markdown import to_markdown
from openmxu.area.report import measure_catalog
from openmxu.area.run.job import execute
from openmxu.area.run.measure import Result, measure
from openmxu.area.run.schedule import Workers
from openmxu.area.subject.designs import DEVIATION, Part, is_measured, parts, whole
from openmxu.area.target.targets import Area, choose_targets
from openmxu.catalog import CATALOG, Design
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.unit.accumulator import Control

pytestmark = pytest.mark.usefixtures("tool")

(GENERIC,) = choose_targets(["generic"], [], ["area"])
CHECKED = ("mxu_4x4_pipelined", "mxu_8x8", "mxu_16x16")
"""Designs that are measured and derived here, one of them among those that reports derive."""


def total(plan: list[Part], results: dict[str, Result]) -> Area:
    """The sum of parts."""
    terms = tuple(Term(part.count, results[part.point.top]) for part in plan)
    area = Entry(CATALOG["mxu"], GENERIC, True, terms).area
    assert area is not None, [term.result.error for term in terms]
    return area


@pytest.mark.slow
def test_derived_is_what_is_measured() -> None:
    """The rule for large units, held to units that are measured whole; storage to the bit."""
    plans = [([Part(1, whole(CATALOG[name]))], parts(CATALOG[name])) for name in CHECKED]
    points = {part.point.top: part.point for pair in plans for plan in pair for part in plan}
    texts = {top: point.rtlil() for top, point in points.items()}
    with ThreadPoolExecutor(2) as executor:
        found = executor.map(lambda top: measure(points[top], texts[top], GENERIC, execute), points)
        results = dict(zip(points, found, strict=True))
    for name, (once, plan) in zip(CHECKED, plans, strict=True):
        measured, derived = total(once, results), total(plan, results)
        deviation = derived.area / measured.area - 1
        assert abs(deviation) <= DEVIATION, f"{name}: {deviation:+.2%}"
        config = MxuConfig(**{each: CATALOG[name].domain[each] for each in ("rows", "columns", "stages")})
        bits = config.depth * (config.columns * FP32.width + 1)
        assert (measured.memory_bits, derived.memory_bits) == (bits, bits), name
        # Admission remembers places and valid marks of sums underway, as the registers of control do.
        remembered = Control(config.depth)["row"].width + 1
        shared = (config.row_latency - 1) * remembered
        assert derived.flip_flops - measured.flip_flops == shared, name


@pytest.mark.slow
def test_hierarchy_adds_up() -> None:
    """The sum over the hierarchy is what there is in the mapped netlist once it is flattened."""
    point = whole(CATALOG["mxu_2x2"])
    mapping, statistics, rest = GENERIC.script.partition("tee ")
    flat = replace(GENERIC, script=f"{mapping}setattr -mod -unset keep_hierarchy *\nflatten\n{statistics}{rest}")
    found = [measure(point, point.rtlil(), target, execute).area for target in (GENERIC, flat)]
    assert found[0] is not None
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.thorough
def test_points_of_the_catalog() -> None:
    """Each design has a plan; those with equal top modules are equal parts."""
    tops: dict[str, str] = {}
    for design in CATALOG.values():
        small = design.cells <= 64
        assert is_measured(design) == small
        for part in [Part(1, whole(design))] if small else parts(design):
            text = part.point.rtlil()
            assert f"module \\{part.point.top}\n" in text
            assert tops.setdefault(part.point.top, text) == text


PRODUCT = Design("small", "product", "for the test", {"width": 2})
LARGE = Design("large", "array", "for the test", {"rows": 9, "columns": 8, "operand": "e4f1"})
BROKEN = Point("broken", 1, None, "elsewhere", whole(PRODUCT).rtlil)


def check_everywhere(found: Report, status: str, area: str, count: str) -> None:
    """An entry for ``large`` in all that is written."""
    entry = json.loads(to_json(found))["catalog"][-1]
    assert (entry["design"], entry["processing_elements"], entry["status"]) == ("large", 72, status)
    assert [(term["count"], term["part"]) for term in entry["terms"]] == [(72, "processing element")]
    row = list(csv.DictReader(io.StringIO(to_csv(found))))[-1]
    assert (row["design"], row["part"], row["status"]) == ("large", "", status)
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(to_table(found))
    cells = ["large", "derived", "72", area, count]
    line = next(line for line in console.export_text().splitlines() if "large" in line)
    assert line.split()[:5] == cells
    assert f"| {' | '.join(cells)} |" in to_markdown(found)


def test_measured_and_derived_are_said_to_be(tool: str) -> None:
    lines: list[str] = []
    small, large = measure_catalog([PRODUCT, LARGE], [GENERIC], Workers(execute, 2, 100), lines.append)
    assert (small.status, large.status, len(lines)) == ("measured", "derived", 2)
    element, area = large.terms[0].result.area, large.area
    assert element is not None
    assert area is not None
    assert (area.area, area.flip_flops) == (72 * element.area, 72 * element.flip_flops)
    assert area.cells["DFF"] == area.flip_flops
    found = Report(tool, [small.terms[0].result], [small, large])
    check_everywhere(found, "derived", f"{area.area:,.0f}", f"{area.flip_flops:,}")
    assert len(found.runs) == 2


def test_failures_are_said_to_be(tool: str) -> None:
    """A design one part of which failed has no area, and the report says why."""
    failed = measure(BROKEN, BROKEN.rtlil(), GENERIC, execute)
    catalog = [Entry(LARGE, GENERIC, True, (Term(72, replace(failed, point=parts(LARGE)[0].point)),))]
    point = whole(PRODUCT)
    found = Report(tool, [measure(point, point.rtlil(), GENERIC, execute)], catalog)
    check_everywhere(found, "failed", "failed", "failed")
    assert len(found.failed) == 1
    text = to_markdown(found)
    assert "1 of 2 runs failed" in text
    assert "Module `elsewhere' not found" in text


@pytest.mark.parametrize(
    ("extent", "target", "designs"),
    [
        ("default", "generic", ["small"]),
        ("full", "generic", ["small"]),
        ("quick", "generic", []),
        ("default", "ice40", []),
    ],
)
def test_which_reports_have_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extent: str, target: str, designs: list[str]
) -> None:
    module = importlib.import_module("openmxu.area.report")  # whose name in the package is the function's
    for name in ("default_points", "full_points", "quick_points"):
        monkeypatch.setattr(module, name, lambda: [whole(PRODUCT)])
    monkeypatch.setattr(module, "ablation_points", list)
    monkeypatch.setattr(module, "CATALOG", {"small": PRODUCT})
    found = report(tmp_path, extent=extent, recipes=["area"], targets=[target])
    assert list(found.by_design) == designs
    assert ("## The catalog's designs" in (tmp_path / "report.md").read_text()) == bool(designs)
