"""How far areas move when ABC is given the same design in other orders, and what formats take: the first table."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openmxu.area.chapters.quantities import CLAIM, in_short
from openmxu.area.finding.findings import Report
from openmxu.area.pages.export import to_json
from openmxu.area.pages.markdown import NOTES, to_markdown, to_summary
from openmxu.area.pages.plot import to_images
from openmxu.area.run.energy import Energy
from openmxu.area.subject.points import MULTIPLIER, PROCESSING_ELEMENT, point
from openmxu.cells.liberty import generic_library
from openmxu.spec.formats import BF16

from ....conftest import Said
from ..conftest import ECP5, GENERIC, report_module, result

SPEED = replace(GENERIC, name="lib", recipe="speed")
FAST = (("bf16", (100.0,)), ("fp32", (700.0,)))
ELEMENT: Any = {"part": PROCESSING_ELEMENT}


def report(*rows: Any) -> Report:
    """Each row: format, areas by order, and more for :func:`result`; at so many ns as an area has tens."""
    results = [
        result(**{"part": MULTIPLIER, **dict(*more)}, fmt=name, area=area, delay=area / 10, order=order)
        for name, areas, *more in rows
        for order, area in enumerate(areas)
    ]
    first, others = ([each for each in results if bool(each.point.order) == later] for later in (False, True))
    return Report("Yosys 1", first, reordered=others, made_by="1.2.3, commit abc")


def test_deviations_by_hand() -> None:
    """Of areas 100, 102 and 98 the standard deviation is 2; ratios have that of both formats."""
    found = report(("bf16", (100.0, 102.0, 98.0)), ("fp32", (700.0, 714.0, 686.0)), ("tf32", (150.0,)))
    bf16, fp32 = found.spreads
    assert (bf16.area, fp32.area, bf16.delay) == pytest.approx((0.02, 0.02, 0.02))
    [ratio] = found.ratios
    assert ratio.others == {"fp32": 7.0}
    assert ratio.deviations == pytest.approx({"bf16": 0.02, "fp32": 0.02 * math.sqrt(2)})
    assert "| generic | multiplier | 1 (100 ± 2 GE) | - | 7.00 ± 0.20 |" in to_markdown(found)
    written = json.loads(to_json(found))
    assert [(each["order"], each["area"]) for each in written["reordered"]][:2] == [(1, 102.0), (2, 98.0)]
    first = written["spreads"][0]
    assert (first["name"], first["orders"], first["area_deviation"]) == ("multiplier bf16", 3, pytest.approx(0.02))
    assert written["ratios"][0]["deviations"]["bf16"] == pytest.approx(0.02)
    assert written["openmxu"] == "1.2.3, commit abc"
    # Nothing is said of what was measured once.
    found = report(("bf16", (100.0,)), ("fp32", (700.0, 714.0)))
    assert found.ratios[0].deviations == {}
    assert "| generic | multiplier | 1 (100 GE) | - | 7.00 |" in to_markdown(found)


def test_another_target_has_spreads_of_its_own() -> None:
    first, second, failed = (result(MULTIPLIER, "bf16", each, order=n) for n, each in enumerate((100.0, 110.0, None)))
    elsewhere = replace(first, target=ECP5)
    found = Report("Yosys 1", [first, elsewhere], reordered=[second, failed])
    [spread] = found.spreads
    assert spread.area == pytest.approx(10 / math.sqrt(2) / 105)
    assert found.spread(elsewhere) is None


def test_first_table() -> None:
    """Formats by quantity, by hand: the smallest and the largest ratio, and the largest deviation of a ratio."""
    multipliers = [("bf16", (100.0, 102.0, 98.0)), ("fp32", (700.0, 700.0, 700.0))]
    luts = [("bf16", (50.0, 51.0), {"target": ECP5}), ("fp32", (400.0, 400.0), {"target": ECP5})]
    areas = (("bf16", 200.0), ("fp16", 250.0), ("fp8_e5m2", 150.0))
    elements = [(name, (area,), ELEMENT) for name, area in areas]
    fast = [(name, (area,), {**ELEMENT, "target": SPEED}) for name, area in (("bf16", 300.0), ("fp16", 330.0))]
    found = report(*multipliers, *luts, *elements, *fast)
    bf16, fp16 = (result(PROCESSING_ELEMENT, name, area, delay=area / 10) for name, area in areas[:2])
    energies = [Energy(each, "normal", 1024, 3, logic=pj, spread=0.03) for each, pj in ((bf16, 10.0), (fp16, 15.0))]
    found = replace(found, energies=[*energies, Energy(bf16, "idle", 1024, 3, logic=1.0)])
    assert in_short(found).headings == ["bf16 = 1", "fp16", "fp32", "fp8_e5m2", "bf16"]
    assert in_short(found).rows == [
        [CLAIM, "2", "8", "", ""],
        ["area, multiplier", "", "7.00 to 8.00 ± 0.14", "", "100 GE"],
        ["area, processing element", "1.25", "", "0.75", "200 GE"],
        ["delay, processing element of one stage mapped for speed", "1.10", "", "", "30.0 ns"],
        ["energy, processing element of one stage mapped for area", "1.50 ± 0.06", "", "", "10.0 pJ"],
    ]
    assert in_short(report(*multipliers, *luts)).rows[1][2] == "7.00 to 8.00 ± 0.14"
    assert not in_short(report(("fp16", (1.0,))))


def test_page() -> None:
    """The table first, its note, then plots; and BibTeX, as the citation file says."""
    found = report(("bf16", (100.0, 102.0)), ("fp32", (700.0, 690.0)), *((*each, ELEMENT) for each in FAST))
    images = to_images(found)
    text = to_summary(found, images)
    lines = [line for line in text.splitlines() if line]
    assert (lines[1], lines[2]) == ("## In short", "| bf16 = 1 | fp16 | fp32 | bf16 |")
    assert (
        lines.index(NOTES["In short"]) < lines.index("![Cost relative to bf16, beside the claims](headline.svg)") < 12
    )
    assert "<!-- area, multiplier -->" in images["headline.svg"].decode()
    assert "headline.svg" not in to_images(report(*(("bf16", (1.0,)), ("fp32", (7.0,)))))
    assert "  version = {1.2.3, commit abc}," in text
    assert generic_library().sha256[:12] in text.partition("@software{openmxu,")[2]
    citation = (Path(__file__).parents[4] / "CITATION.cff").read_text()
    assert {"title: OpenMXU", "  - name: The OpenMXU authors"} <= set(citation.splitlines())
    assert "  title   = {OpenMXU},\n  author  = {{The OpenMXU authors}},\n" in text


def test_a_report_has_ten_sentences() -> None:
    """No other text is in it than notes, headings and the cells of tables."""
    assert len(NOTES) == 10
    assert all(note.count(". ") == 0 and note.endswith(".") for note in NOTES.values())
    found = report(("bf16", (100.0, 102.0)), ("fp32", (700.0, 690.0)))
    lines = to_summary(found, to_images(found)).partition("## To cite")[0].splitlines()
    known = {*NOTES.values(), f"OpenMXU {found.made_by}, {found.tool}."}
    assert [line for line in lines if line and not line.startswith(("#", "|", "![")) and line not in known] == []


@pytest.mark.usefixtures("tool")
def test_command(tmp_path: Path, shown: Said) -> None:
    """Orders of a chosen design, which differ; each is explained by its own script."""
    shown("area --format fp8_e4m3 --part adder --target generic -o . --orders 2")
    found = json.loads((tmp_path / "area.json").read_text())
    areas = [found["results"][0]["area"], *(each["area"] for each in found["reordered"])]
    assert len(areas) == 3
    assert len(set(areas)) > 1
    assert found["spreads"][0]["area_deviation"] > 0
    said = shown("area -o . --explain", found["reordered"][1]["figure"])
    for words in ("+strash;permute,-S,2;&get", "adder fp8_e4m3, order 2", f"  by       OpenMXU {found['openmxu']}\n"):
        assert words in said


def test_extents_have_elements_alone_by_the_recipe_between() -> None:
    """Others would take minutes, and no statement is about them; what is chosen is measured."""
    sized = replace(GENERIC, recipe="sized")
    both = [point(MULTIPLIER, BF16), point(PROCESSING_ELEMENT, BF16)]
    assert [each.part for _, each in report_module._plan([sized], both, every=False)] == [PROCESSING_ELEMENT]
    assert len(report_module._plan([sized], both, every=True)) == 2
