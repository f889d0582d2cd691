"""What follows from measurements: fits, ratios, and the sentences about them."""

import csv
import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from matplotlib.figure import Figure

from openmxu.area.chapters.claims import verdict, verdicts
from openmxu.area.chapters.quantities import in_short
from openmxu.area.finding.findings import Entry, Interval, Ratio, Report, Term, fit_curve
from openmxu.area.pages import plot
from openmxu.area.pages.export import to_csv, to_json
from openmxu.area.pages.html import to_html
from openmxu.area.pages.markdown import to_markdown
from openmxu.area.pages.plot import to_images
from openmxu.area.pages.schema import read_report
from openmxu.area.run.measure import Result
from openmxu.area.subject.ablation import ABLATIONS, ablation_points
from openmxu.area.subject.points import (
    MULTIPLIER,
    PROCESSING_ELEMENT,
    PRODUCT,
    default_points,
    full_points,
    once,
    quick_points,
)
from openmxu.area.target.targets import Area, Target
from openmxu.catalog import CATALOG
from openmxu.spec.formats import FloatFormat

from ...pages.test_tables import Page
from ..conftest import COMPLAINT, DSP, ECP5, GENERIC, printed, result


def products(areas: Mapping[int, float], target: Target = GENERIC) -> list[Result]:
    return [result(PRODUCT, width, area, target=target) for width, area in areas.items()]


def swept(areas: Mapping[int, float]) -> list[Result]:
    """Multipliers of bf16's exponent, by width."""
    return [result(MULTIPLIER, FloatFormat(f"e8f{p - 1}", 8, p - 1), area) for p, area in areas.items()]


def report(results: list[Result]) -> Report:
    return Report("Yosys 1", results)


def multipliers(target: Target = GENERIC, **areas: float | None) -> list[Result]:
    return [result(MULTIPLIER, name, area, target=target) for name, area in areas.items()]


def test_a_curve_in_a_table() -> None:
    text = to_markdown(report(products({p: 3.0 + 5 * p + 7 * p**2 for p in (3, 8, 11, 24)})))
    starts = "| target | part | widths p | ", "| generic | significand product | 4, 3 to 24 | "
    headings, cells = (text.partition(start)[2].partition(" |\n")[0].split(" | ") for start in starts)
    said = dict(zip(headings, cells, strict=True))
    assert [round(float(said[name].partition(" (")[0])) for name in "abc"] == [3, 5, 7]
    assert (said["R²"], said["largest deviation"]) == ("1.0000", "0%")
    assert said["exponent"].startswith("1.")


def test_intervals() -> None:
    """Two other ways to fit: scipy's, and its regression of the logarithms."""
    areas = {p: 20 + 3.0 * p * p + (-1) ** p * 5 for p in range(3, 12)}
    fit = fit_curve(GENERIC, PRODUCT, areas)
    assert fit is not None
    widths, y = map(np.array, zip(*areas.items(), strict=True))
    found, covariance = scipy.optimize.curve_fit(lambda p, a, b, c: a + b * p + c * p * p, widths, y)
    margins = scipy.stats.t.ppf(0.975, len(y) - 3) * np.sqrt(np.diag(covariance))
    intervals = np.array([(each.value, each.low, each.high) for each in (fit.a, fit.b, fit.c)]).T
    assert intervals == pytest.approx(np.array([found, found - margins, found + margins]), rel=1e-4)
    curve = np.polyval(found[::-1], widths)
    assert fit(widths) == pytest.approx(curve, rel=1e-4)
    assert fit.worst == pytest.approx(np.abs(curve / y - 1).max(), rel=1e-4)
    assert fit.r_squared == pytest.approx(1 - np.var(y - curve) / np.var(y))
    line = scipy.stats.linregress(np.log(widths), np.log(y))
    margin = scipy.stats.t.ppf(0.975, len(y) - 2) * line.stderr
    assert fit.exponent.value == pytest.approx(line.slope)
    assert fit.exponent.high - fit.exponent.low == pytest.approx(2 * margin)
    shown = [str(Interval(*each)) for each in ((1.23456, 1.1, 1.4), (123.456, 100, 150), (2, 2 - 1e-15, 2 + 1e-15))]
    assert shown == ["1.23 (1.10 to 1.40)", "123 (100 to 150)", "2.0000 (2.0000 to 2.0000)"]


def test_widths_of_fits() -> None:
    """At least four; without other exponents and failures; of several targets the same."""
    assert fit_curve(GENERIC, PRODUCT, {3: 1.0, 8: 2.0, 24: 3.0}) is None
    others = multipliers(fp16=9999, fp8_e4m3=9999, tf32=None)
    (fit,) = report(swept({p: 2.0 * p * p for p in (4, 6, 8, 24)}) + others).fits
    assert fit.widths == (4, 6, 8, 24)
    found = fit.r_squared, fit.worst, fit.a.value, fit.b.value, fit.c.value
    assert found == pytest.approx((1, 0, 0, 0, 2), abs=1e-9)
    assert (fit.exponent.value, fit.exponent.low, fit.exponent.high) == pytest.approx((2, 2, 2))
    all_widths, few = ({p: float(p**2) for p in widths} for widths in (range(2, 25), (3, 4, 8, 11, 24)))
    first, second = report([*products(all_widths), *products(few, ECP5)]).fits
    assert first.widths == second.widths == tuple(few)


def test_ratios() -> None:
    """To bf16, by part and target; of what was measured."""
    areas = products({8: 10.0, 11: 20.0, 24: 90.0}, ECP5)
    whole = Ratio(GENERIC, MULTIPLIER, 100, {"fp16": 1.5, "fp32": 6})
    bare = Ratio(ECP5, PRODUCT, 10, {"fp16": 2, "fp32": 9})
    assert report(multipliers(bf16=100, fp16=150, fp32=600, tf32=1) + areas).ratios == [whole, bare]
    (ratio,) = report(multipliers(bf16=100, fp16=None, fp32=600)).ratios
    assert ratio.others == {"fp32": 6}
    assert report(multipliers(bf16=None, fp32=600)).ratios == []


@pytest.mark.parametrize(
    ("claim", "word", "cases"),
    [
        (8, "at least", [[10.0], [7.9951]]),  # printed as 8.00
        (8, "within 10 % of", [[7.9949], [7.1951]]),  # 7.20
        (8, "less than", [[7.1949]]),
        (2, "at least", [[1.9951]]),
        (2, "within 10 % of", [[1.9949], [1.7951]]),
        (2, "less than", [[1.7949], [1.0]]),
        (8, "within 10 % of", [[1.0, 7.2, 100.0], [7.0, 7.0, 8.5, 8.5]]),  # the median, not the mean and no single one
        (8, "within 10 % of", [[7.18, 7.21], [7.1851, 7.2009]]),  # 7.195, which is printed as 7.20; 7.19 and 7.20
        (8, "less than", [[7.18, 7.2]]),
    ],
)
def test_both_sides_of_each_border(claim: float, word: str, cases: list[list[float]]) -> None:
    name = {2: "fp16", 8: "fp32"}[int(claim)]
    for ratios in cases:
        assert verdict(ratios, claim) == word
        results: list[Result] = []
        for number, ratio in enumerate(ratios):
            areas = {"bf16": 10_000.0, name: 10_000 * ratio}
            results += multipliers(replace(GENERIC, name=f"target {number}"), **areas)
        assert f": {word} the claim |" in to_markdown(report(results))


@pytest.mark.parametrize(
    ("fp16", "fp32", "ratios", "words"),
    [
        (199.9, 799.0, ["2.00", "7.99"], ["at least", "within 10 % of"]),
        (199.5, 799.5, ["2.00", "8.00"], ["at least", "at least"]),
        (199.4, 799.4, ["1.99", "7.99"], ["within 10 % of", "within 10 % of"]),
        (179.4, 719.4, ["1.79", "7.19"], ["less than", "less than"]),
    ],
)
def test_kinds_of_parts(fp16: float, fp32: float, ratios: list[str], words: list[str], tmp_path: Path) -> None:
    """A quarter of an element of four terms for each multiply-add; and formats as hardware has them, of which the
    multipliers of fp16 and fp32 without subnormals, and that of bf16 with, are none.
    """
    areas = {"bf16": 100.0, "fp16": fp16, "fp32": fp32}
    four = [result(PROCESSING_ELEMENT, name, 4 * area, terms=4) for name, area in areas.items()]
    gradual = multipliers(bf16=150.0, fp16=fp16, fp32=fp32)
    built = [replace(each, point=replace(each.point, variant="ieee")) for each in gradual]
    for results, quantity, part in (
        (four, "area per multiply-add, processing element of four terms", "processing element of 4 terms"),
        (
            [*multipliers(bf16=100.0, fp16=150.0, fp32=600.0), *built],
            "area, multiplier as hardware has each format",
            "multiplier as hardware has each format",
        ),
    ):
        found = report(results)
        assert [quantity, *ratios, "100 GE"] in in_short(found).rows
        cells = [f"{ratio}: {word} the claim" for ratio, word in zip(ratios, words, strict=True)]
        assert [part, *cells, ""] in verdicts(found).rows
    (tmp_path / "area.json").write_text(to_json(report(four)))
    read = read_report(tmp_path / "area.json")["results"]
    assert [each["area_per_multiply_add"] for each in read] == pytest.approx([*areas.values()])
    assert {each["part"] for each in read} == {"processing element of 4 terms"}
    plain = to_markdown(report(gradual)) + to_markdown(report(multipliers(bf16=1, fp16=2)))
    assert not [words for words in ("hardware has", "per multiply-add, ") if words in plain]


def test_nothing_to_say() -> None:
    """No heading without content, no table without figures, no plot without points."""
    found = report(multipliers(fp16=100))
    headings = re.findall("^## (.*)$", text := to_markdown(found), re.MULTILINE)
    assert headings == ["Areas", "Depth and delay", "What was measured", "Scripts"]
    assert ("svg" in text, to_images(found)) == (False, {})


def test_verdicts_on_several_targets() -> None:
    found = report([*products({8: 10.0, 11: 10.0, 24: 10.0}, DSP), *multipliers(bf16=100, fp16=210, fp32=700)])
    assert verdicts(found).headings == [
        "part",
        "fp16, bf16 = 1 (claim: 2)",
        "fp32, bf16 = 1 (claim: 8)",
        "exponent of its growth",
    ]
    assert verdicts(found).rows == [["multiplier", "2.10: at least the claim", "7.00: less than the claim", ""]]


def test_nothing_is_divided_by_a_design_in_dsp_blocks() -> None:
    areas = products(dict.fromkeys((4, 8, 11, 24), 0), DSP) + multipliers(DSP, bf16=0, tf32=0, fp16=0, fp32=0)
    found = report(areas)
    assert (found.fits, found.ratios, found.costs, to_images(found)) == ([], [], [], {})
    assert "multiplier fp32" in to_markdown(found)
    assert not {"NaN", "Infinity"} & set(re.findall(r"\w+", to_json(found)))


def test_every_feature_is_drawn() -> None:
    """One bar for each feature of a target, in a colour for each kind of part."""
    areas = {design.name: 100.0 + place for place, design in enumerate(ablation_points())}
    results = [Result(design, GENERIC, Area(areas[design.name], 0, 0), "", "", "") for design in ablation_points()]
    found = report(results)
    assert len(found.costs) == len(ABLATIONS)
    axes = Figure().subplots()
    plot._draw_costs(axes, found.costs)
    saved = [1 - areas[row.without.name] / areas[row.whole.name] for row in ABLATIONS]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([100 * each for each in saved])
    assert [text.get_text() for text in axes.texts] == [f"{each:.1%}" for each in saved]


def test_arrays() -> None:
    """8 processing elements: 16 GFLOP/s at 1 GHz."""
    arrays = [
        result("array", name, Area(area, area, 0.0, 24), delay=2.0, size="2x4", rows=2, columns=4)
        for name, area in (("bf16", 1600.0), ("fp16", 3200.0), ("fp32", 4800.0))
    ]
    assert "| generic | 2x4 array | fp16 | 400 GE | 3 | 200 | 2.00 |" in to_markdown(report(arrays))


def test_a_sum_has_each_part_as_often_as_it_is_there() -> None:
    five = result(PRODUCT, 8, Area(2.0, 1.5, 0.5, 3, 10, cell_area=4.0, cells={"DFF": 3, "INV": 1}))
    two = result(PRODUCT, 8, Area(1.0, 1.0, 0.0, 0, 1, cell_area=2.5, cells={"INV": 2}))
    total = Area(12.0, 9.5, 2.5, 15, 52, cell_area=25.0, cells={"DFF": 15, "INV": 9})
    assert Entry(CATALOG["mxu"], GENERIC, True, (Term(5, five), Term(2, two))).area == total


def test_costs() -> None:
    row = ABLATIONS[0]
    areas = ((row.whole, 200.0), (row.without, 150.0))
    results = [replace(result(MULTIPLIER, "bf16", area), point=point) for point, area in areas]
    found = report(results)
    (cost,) = found.costs
    assert (cost.ablation, cost.whole, cost.without, cost.saved) == (row, 200, 150, 0.25)
    assert f"| multiplier bf16 | {row.feature} | -25.0% |" in to_markdown(found)
    other = report([*multipliers(bf16=1), *(replace(each, target=ECP5) for each in results)])
    for each in (found, other):  # which has none of the first target
        assert b"<svg" in to_images(each)["costs.svg"]
    assert "(costs.svg)" in to_markdown(other, to_images(other))
    assert json.loads(to_json(found))["costs"][0]["saved"] == 0.25


def test_one_page() -> None:
    """Nothing is fetched, every figure is there, and what stands in a log is no markup."""
    found = report(multipliers(bf16=100, fp16=None, fp32=600, tf32=5))
    page = to_html(found, to_images(found))
    read = Page(page)
    assert all(link.startswith("#") for link in read.links)
    assert not re.search(r"url\((?!#)|@import|<!-- body", page)
    assert (read.tags["svg"], read.tags["img"], read.tags["script"]) == (1, 0, 1)
    assert page.count("<tr>", page.index('id="figures"')) == 1 + 4
    assert all(each.figure in page for each in found.results)
    assert html.escape(COMPLAINT, quote=False) in page
    assert page == to_html(found, to_images(found))
    # A row has what its heading says.
    area = Area(1234.5, 1000.0, 234.5, 7, cell_area=1234.5)
    one = replace(result(MULTIPLIER, "bf16", area, delay=2.5), depth=31)
    table = to_html(report([one]), to_images(report([one]))).partition('<table id="figures">')[2]
    headings, cells = (re.findall(rf"<{tag}>(.*?)</{tag}>", table) for tag in ("th", "td"))
    assert dict(zip(headings, cells, strict=True)) == {
        **{"design": one.point.name, "target": "generic", "recipe": "area", "area": "1,234.5", "unit": "GE"},
        **{"flip-flops": "7", "depth": "31", "ns": "2.50", "figure": one.figure},
    }


def test_failures_are_shown_everywhere() -> None:
    found = report(multipliers(bf16=100, fp16=None))
    assert all("failed" in text and COMPLAINT in text for text in (printed(found), to_markdown(found)))
    rows = [(row["format"], row["status"], row["area"]) for row in csv.DictReader(to_csv(found).splitlines())]
    assert rows == [("bf16", "measured", "100"), ("fp16", "failed", "")]
    assert [entry["area"] for entry in json.loads(to_json(found))["results"]] == [100, None]


@pytest.mark.parametrize(
    ("results", "titles"),
    [
        (multipliers(bf16=None), []),
        (multipliers(bf16=100, fp16=None), []),
        (multipliers(fp16=150, fp32=600), ["Area on generic"]),
        (multipliers(bf16=100, fp16=150, fp32=600), ["Area on generic", "Ratios beside the claims"]),
        (multipliers(DSP, fp16=150, fp32=600), ["Area on ecp5-dsp"]),
    ],
)
def test_no_plot_has_empty_axes(results: list[Result], titles: list[str]) -> None:
    images = to_images(report(results))
    assert images == to_images(report(results))
    assert set(images) == ({"area.png", "area.svg"} if titles else set())
    if titles:
        assert images["area.png"].startswith(b"\x89PNG")
        assert re.findall("<!-- ((?:Area on|Ratios) .*) -->", images["area.svg"].decode()) == titles
    assert ("(area.svg)" in to_markdown(report(results), images)) == bool(titles)


def test_points_of_the_plot_are_the_areas() -> None:
    """Of each part its own, with its own curve; formats of another exponent beside them."""
    widths = (4, 6, 8, 24)
    areas = swept({p: 3.0 * p * p for p in widths}) + multipliers(fp16=400)
    found = report(areas + products({p: 2.0 * p * p for p in widths}))
    axes = Figure().subplots()
    plot._draw_areas(axes, found)
    points: dict[str, list[Any]] = {}
    curves: dict[str, np.ndarray] = {}
    for line in axes.lines:
        colour, drawn = str(line.get_color()), np.asarray(line.get_xydata())
        if line.get_linestyle() == "None":
            points.setdefault(colour, []).append(drawn.tolist())
        else:
            curves[colour] = drawn
    for part, factor, others in ((MULTIPLIER, 3, [[[11, 400]]]), (PRODUCT, 2, [])):
        colour = plot._COLOURS[part]
        assert points[colour] == [[[p, factor * p * p] for p in widths], *others]
        np.testing.assert_allclose(curves[colour][:, 1], factor * curves[colour][:, 0] ** 2)


@pytest.mark.slow
@pytest.mark.thorough
def test_points() -> None:
    for extent in (full_points(), default_points()):
        points = once([*extent, *ablation_points()])
        assert len({point.name for point in points}) == len({point.top for point in points}) == len(points)
    assert {point.name for point in quick_points()} <= {point.name for point in points}
    for point in points[::4]:
        assert f"module \\{point.top}\n" in point.rtlil()
