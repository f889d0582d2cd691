"""How far areas move when ABC is given the same design in other orders, and what formats take: the first table."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.area.chapters.headline import CLAIM, WIRES, everything, headline
from openmxu.area.finding.findings import Report
from openmxu.area.pages.export import to_json
from openmxu.area.pages.markdown import to_markdown
from openmxu.area.pages.plot import to_images
from openmxu.area.run.energy import Energy
from openmxu.area.run.measure import Result
from openmxu.area.subject.points import (
    ADDER,
    MULTIPLIER,
    PROCESSING_ELEMENT,
    PRODUCT,
    Point,
    full_points,
    is_headline,
    point,
    reordered,
)
from openmxu.area.target.liberty import generic_library
from openmxu.area.target.targets import Area, Target, choose_targets, in_order
from openmxu.cli.frame import main
from openmxu.spec.formats import BF16, FORMATS, FP8_E4M3, FP16, FP32

from ..conftest import Refused, prove_mapped

GENERIC, ECP5 = choose_targets(["generic", "ecp5"], [], ["area"])
SPEED = replace(GENERIC, name="lib", recipe="speed")


def result(name: str, area: float, *, part: str = MULTIPLIER, order: int = 0, target: Target = GENERIC) -> Result:
    """A part that was measured, at so many ns as its area has tens."""
    fmt = FORMATS[name]
    options = {"subnormals": "flush", "stages": int(part == PROCESSING_ELEMENT)}
    made = Point(part, fmt.significand_width, fmt, name, str, options, order=order)
    return Result(made, target, Area(area, area, 0.0, cell_area=area), "", f"{part} {order}", "", delay=area / 10)


def report(*rows: Sequence[object], energies: Sequence[Energy] = ()) -> Report:
    """Each row: format, areas by order, and more for :func:`result`."""
    results, others = [], []
    for name, areas, *more in rows:
        given = dict(more[0]) if more else {}  # type: ignore[call-overload]
        first, *rest = areas  # type: ignore[misc]
        results.append(result(str(name), first, **given))
        others += [result(str(name), area, order=1 + number, **given) for number, area in enumerate(rest)]
    return Report("Yosys 1", results, reordered=others, energies=list(energies), made_by="1.2.3, commit abc")


def test_what_is_measured_in_other_orders() -> None:
    """Parts and formats of the claims, in their ordinary form; a format is what its widths are."""
    found = {(each.part, str(each.format or each.width)) for each in full_points() if is_headline(each)}
    assert found == {
        *((PRODUCT, width) for width in ("8", "11", "24")),
        *((part, name) for part in (MULTIPLIER, PROCESSING_ELEMENT) for name in ("bf16", "fp16", "fp32")),
    }
    others = [point(MULTIPLIER, BF16, subnormals="ieee"), point(MULTIPLIER, replace(FP32, fraction_width=22))]
    assert not any(map(is_headline, [*others, point(ADDER, FP16)]))
    [first, second] = reordered([point(MULTIPLIER, BF16)], 2)
    assert (first.order, second.order, first.top, first.name) == (1, 2, second.top, "multiplier bf16, order 1")


def test_deviations_by_hand() -> None:
    """Of areas 100, 102 and 98 the standard deviation is 2; ratios have that of both formats."""
    found = report(("bf16", (100.0, 102.0, 98.0)), ("fp32", (700.0, 714.0, 686.0)), ("tf32", (150.0,)))
    bf16, fp32 = found.spreads
    assert (bf16.area, fp32.area, bf16.delay) == pytest.approx((0.02, 0.02, 0.02))
    [ratio] = found.ratios
    assert ratio.others == {"fp32": 7.0}
    assert ratio.deviations == pytest.approx({"bf16": 0.02, "fp32": 0.02 * math.sqrt(2)})
    assert "| generic | multiplier | 1 (100 ± 2 GE) | - | 7.00 ± 0.20 |" in to_markdown(found)
    assert "over 3 orders of ABC's inputs and outputs" in to_markdown(found)
    written = json.loads(to_json(found))
    assert [(each["order"], each["area"]) for each in written["reordered"]][:2] == [(1, 102.0), (2, 98.0)]
    first = written["spreads"][0]
    assert (first["name"], first["orders"], first["area_deviation"]) == ("multiplier bf16", 3, pytest.approx(0.02))
    assert written["ratios"][0]["deviations"]["bf16"] == pytest.approx(0.02)
    assert written["openmxu"] == "1.2.3, commit abc"


def test_nothing_is_said_of_what_was_measured_once() -> None:
    found = report(("bf16", (100.0,)), ("fp32", (700.0, 714.0)))
    assert found.ratios[0].deviations == {}
    assert "| generic | multiplier | 1 (100 GE) | - | 7.00 |" in to_markdown(found)


def test_another_target_has_spreads_of_its_own() -> None:
    """And a failed order counts as none."""
    first, second, failed = (result("bf16", area, order=order) for order, area in enumerate((100.0, 110.0, 1.0)))
    elsewhere = replace(first, target=ECP5)
    found = Report("Yosys 1", [first, elsewhere], reordered=[second, replace(failed, area=None)])
    [spread] = found.spreads
    assert spread.area == pytest.approx(10 / math.sqrt(2) / 105)
    assert found.spread(elsewhere) is None


def test_first_table() -> None:
    """Formats by quantity, by hand: the smallest and the largest ratio, and the largest deviation of a ratio."""
    element, speed, luts = {"part": PROCESSING_ELEMENT}, {"part": PROCESSING_ELEMENT, "target": SPEED}, {"target": ECP5}
    rows: list[Sequence[object]] = [
        ("bf16", (100.0, 102.0, 98.0)),
        ("fp32", (700.0, 700.0, 700.0)),
        ("bf16", (50.0, 51.0), luts),
        ("fp32", (400.0, 400.0), luts),
        *((name, (area,), element) for name, area in (("bf16", 200.0), ("fp16", 250.0), ("fp8_e5m2", 150.0))),
        *((name, (area,), speed) for name, area in (("bf16", 300.0), ("fp16", 330.0))),
    ]
    found = report(*rows)
    elements = {str(each.point.format): each for each in found.results if each.point.part == PROCESSING_ELEMENT}
    energies = [
        Energy(replace(elements[name], target=GENERIC), "normal", 1024, 3, logic=total, spread=0.03)
        for name, total in (("bf16", 10.0), ("fp16", 15.0))
    ]
    energies.append(Energy(energies[0].result, "idle", 1024, 3, logic=1.0))
    found = replace(found, energies=energies)
    headings = ["bf16 = 1", "fp16", "fp32", "fp8_e5m2", "bf16"]
    first = [
        [CLAIM, "2", "8", "", ""],
        ["area, multiplier", "", "7.00 to 8.00 ± 0.14", "", "100 GE"],
        ["area, processing element", "1.25", "", "0.75", "200 GE"],
    ]
    delay = ["delay, processing element of one stage mapped for speed", "1.10", "", "", "30.0 ns"]
    energy = ["energy, processing element of one stage mapped for area", "1.50 ± 0.06", "", "", "10.0 pJ"]
    assert everything(found) == (headings, [*first, delay, energy])
    assert headline(found) == (headings, [*first, energy, [WIRES, "not measured", "not measured", "", ""]])
    few = report(*rows[:4])
    assert (headline(few)[1][1][2], everything(few)[1]) == ("7.00 to 8.00 ± 0.14", [])
    assert headline(report(("fp16", (1.0,)))) == (["bf16 = 1", "fp16", "fp32", "bf16"], [])


def test_page_opens_with_the_table_and_its_plot() -> None:
    """Then the sentences, the last of which says what is missing; and BibTeX, as the citation file says."""
    found = report(("bf16", (100.0, 102.0)), ("fp32", (700.0, 690.0)))
    lines = [line for line in to_markdown(found).splitlines() if line]
    assert lines[1] == "## In short"
    assert lines[2].startswith("| bf16 = 1 | fp16 | fp32 | bf16 |")
    assert lines.index("![Area against significand width, and ratios beside the claims](area.svg)") < 10
    sentences = [line for line in lines[:20] if line.startswith("- ")]
    assert len(sentences) <= 5
    assert sentences[-1].startswith("- Not measured: wires, clock trees, memories and leakage")
    text = "\n".join(lines)
    assert "  version = {1.2.3, commit abc}," in text
    assert generic_library().sha256[:12] in text.partition("@software{openmxu,")[2]
    assert "headline.svg" not in text
    citation = (Path(__file__).parents[4] / "CITATION.cff").read_text()
    assert {"title: OpenMXU", "  - name: The OpenMXU authors"} <= set(citation.splitlines())
    assert "  title   = {OpenMXU},\n  author  = {{The OpenMXU authors}},\n" in to_markdown(found)


def test_the_rest_follows_the_first_table() -> None:
    """The table of all quantities and its plot, which reports without that table do without."""
    parts = (MULTIPLIER, PROCESSING_ELEMENT)
    rows = [(name, (area,), {"part": part}) for part in parts for name, area in (("bf16", 100.0), ("fp32", 700.0))]
    rows += [(name, (100.0,), {"part": PROCESSING_ELEMENT, "target": SPEED}) for name in ("bf16", "fp32")]
    few, *energies = report(*rows), *(result(name, 100.0, part=PROCESSING_ELEMENT) for name in ("bf16", "fp32"))
    many = replace(few, energies=[Energy(each, "normal", 1024, 3, logic=10.0, spread=0.0) for each in energies])
    assert "## All quantities" not in to_markdown(few)
    assert "headline.svg" not in to_images(few)
    assert "\n\n![Cost relative to bf16, beside the claims](headline.svg)\n\n## The claims" in to_markdown(many)
    assert "<!-- area, multiplier -->" in to_images(many)["headline.svg"].decode()


@pytest.mark.usefixtures("tool")
def test_an_order_is_the_same_function() -> None:
    """Proven: inputs and outputs keep their names."""
    made = point(MULTIPLIER, FP8_E4M3)
    mapped = in_order(GENERIC.script.format(top=made.top, change=""), 3)
    assert "permute,-S,3;" in mapped
    prove_mapped(mapped, made.rtlil(), made.top)


@pytest.mark.usefixtures("tool")
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Orders of a chosen design, which differ; each is explained by its own script."""
    chosen = ["--format", "fp8_e4m3", "--part", "adder", "--target", "generic", "-o", str(tmp_path)]
    assert main(["area", *chosen, "--orders", "4"]) == 0
    found = json.loads((tmp_path / "area.json").read_text())
    areas = [found["results"][0]["area"], *(each["area"] for each in found["reordered"])]
    assert len(areas) == 5
    assert len(set(areas)) > 1
    assert found["spreads"][0]["area_deviation"] > 0
    capsys.readouterr()
    assert main(["area", "--explain", found["reordered"][1]["figure"], "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "+strash;permute,-S,2;&get" in said
    assert "adder fp8_e4m3, order 2" in said
    assert f"  by       OpenMXU {found['openmxu']}\n" in said


@pytest.mark.parametrize("orders", ["-1", "1001"])
def test_a_number_of_orders(orders: str, refused: Refused) -> None:
    said = refused("--orders", orders)
    assert said == f"openmxu area: orders must be an integer from 0 to 1000, not {orders}\n"


def test_extents_have_elements_alone_by_the_recipe_between() -> None:
    """Others would take minutes, and no statement is about them; what is chosen is measured."""
    module = sys.modules["openmxu.area.report"]  # the package has the function by this name
    sized = replace(GENERIC, recipe="sized")
    points = [point(MULTIPLIER, BF16), point(PROCESSING_ELEMENT, BF16)]
    assert [each.part for _, each in module._plan([sized], points, every=False)] == [PROCESSING_ELEMENT]
    assert len(module._plan([sized], points, every=True)) == 2
