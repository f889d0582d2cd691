"""The catalog's designs: measured with their hierarchy, or put together from parts by a rule that is checked."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.area import Report, report
from openmxu.area.finding.findings import Entry, Term
from openmxu.area.pages.export import to_csv, to_json
from openmxu.area.pages.markdown import to_markdown
from openmxu.area.report import measure_catalog
from openmxu.area.run.job import execute
from openmxu.area.run.measure import measure
from openmxu.area.run.schedule import Workers
from openmxu.area.subject.designs import DEVIATION, Part, is_measured, parts, whole
from openmxu.catalog import CATALOG, Design
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.unit.accumulator import Control

from ..conftest import COMPLAINT, GENERIC, printed, report_module, result

pytestmark = pytest.mark.usefixtures("tool")


@pytest.mark.slow
def test_derived_is_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule for large units, held to units that are measured whole; storage to the bit."""
    designs = [CATALOG[name] for name in ("mxu_4x4_pipelined", "mxu_8x8", "mxu_16x16")]  # reports derive the last
    entries = []
    for is_whole in (True, False):
        monkeypatch.setattr(report_module, "is_measured", lambda design, answer=is_whole: answer)
        entries.append(measure_catalog(designs, [GENERIC], Workers(execute, 2, 600), lambda line: None))
    for one, other in zip(*entries, strict=True):
        name, domain, measured, derived = one.design.name, one.design.domain, one.area, other.area
        assert len(one.terms) == 1 < len(other.terms)
        deviation = derived.area / measured.area - 1
        assert abs(deviation) <= DEVIATION, f"{name}: {deviation:+.2%}"
        config = MxuConfig(**{each: domain[each] for each in ("rows", "columns", "stages")})
        bits = config.depth * (config.columns * FP32.width + 1)
        assert (measured.memory_bits, derived.memory_bits) == (bits, bits), name
        # Admission remembers places and valid marks of sums underway, as the registers of control do.
        shared = (config.row_latency - 1) * (Control(config.depth)["row"].width + 1)
        assert derived.flip_flops - measured.flip_flops == shared, name


@pytest.mark.slow
def test_hierarchy_adds_up() -> None:
    """The sum over the hierarchy is what there is in the mapped netlist once it is flattened."""
    point = whole(CATALOG["mxu_2x2"])
    mapping, statistics, rest = GENERIC.script.partition("tee ")
    flat = replace(GENERIC, script=f"{mapping}setattr -mod -unset keep_hierarchy *\nflatten\n{statistics}{rest}")
    whole_area, flat_area = (measure(point, point.rtlil(), target, execute).area for target in (GENERIC, flat))
    assert whole_area == flat_area is not None


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


def check_everywhere(found: Report, status: str, area: str, count: str) -> None:
    entry = json.loads(to_json(found))["catalog"][-1]
    assert (entry["design"], entry["processing_elements"], entry["status"]) == ("large", 72, status)
    assert [(term["count"], term["part"]) for term in entry["terms"]] == [(72, "processing element")]
    row = list(csv.DictReader(to_csv(found).splitlines()))[-1]
    assert (row["design"], row["part"], row["status"]) == ("large", "", status)
    cells = ["large", "derived", "72", area, count]
    line = next(line for line in printed(found).splitlines() if "large" in line)
    assert line.split()[:5] == cells
    assert f"| {' | '.join(cells)} |" in to_markdown(found)


def test_measured_and_derived_are_said_to_be(tool: str) -> None:
    lines: list[str] = []
    small, large = measure_catalog([PRODUCT, LARGE], [GENERIC], Workers(execute, 2, 100), lines.append)
    assert (small.status, large.status, len(lines)) == ("measured", "derived", 2)
    element, area = large.terms[0].result.area, large.area
    assert (area.area, area.flip_flops) == (72 * element.area, 72 * element.flip_flops)
    assert area.cells["DFF"] == area.flip_flops
    found = Report(tool, [small.terms[0].result], [small, large])
    check_everywhere(found, "derived", f"{area.area:,.0f}", f"{area.flip_flops:,}")
    assert len(found.runs) == 2


def test_failures_are_said_to_be() -> None:
    failed = replace(result("processing element", "bf16", None), point=parts(LARGE)[0].point)
    catalog = [Entry(LARGE, GENERIC, True, (Term(72, failed),))]
    found = Report("Yosys 1", [result("significand product", 2, 1.0)], catalog)
    check_everywhere(found, "failed", "failed", "failed")
    assert found.failed == [failed]
    assert all(words in to_markdown(found) for words in ("1 of 2 runs failed", COMPLAINT))


@pytest.mark.parametrize(
    ("extent", "target", "designs"),
    [
        *(("default", "generic", ["small"]), ("full", "generic", ["small"])),
        *(("quick", "generic", []), ("default", "ice40", [])),
    ],
)
def test_which_reports_have_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extent: str, target: str, designs: list[str]
) -> None:
    for name in ("default_points", "full_points", "quick_points"):
        monkeypatch.setattr(report_module, name, lambda: [whole(PRODUCT)])
    for name, value in (("ablation_points", list), ("other_points", list), ("CATALOG", {"small": PRODUCT})):
        monkeypatch.setattr(report_module, name, value)
    found = report(tmp_path, extent=extent, recipes=["area"], targets=[target])
    assert list(found.by_design) == designs
    assert ("## The catalog's designs" in (tmp_path / "report.md").read_text()) == bool(designs)
