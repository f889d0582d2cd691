"""What follows from measurements: fits, ratios, and the sentences about them."""

import csv
import io
import json

import pytest
from rich.console import Console

from openmxu.formats import FORMATS, FloatFormat
from openmxu.synth.export import to_csv, to_json
from openmxu.synth.markdown import to_markdown
from openmxu.synth.plot import to_images
from openmxu.synth.points import MULTIPLIER, PRODUCT, Point, default_points, quick_points
from openmxu.synth.results import Report, Result, fit_quadratic, fits, ratios
from openmxu.synth.table import to_table
from openmxu.synth.targets import Area, Target, choose_targets

GENERIC, ECP5 = choose_targets(["generic", "ecp5"], [], ["area"])


def result(part: str, fmt: FloatFormat | None, width: int, area: float | None, target: Target = GENERIC) -> Result:
    point = Point(part, width, fmt, "top", str, {})
    counted = area and Area(area, area, 0.0, 0, 0, None, area, {"NAND2": 1})
    return Result(point, target, counted or None, "" if area else "Yosys: exit code 1\nERROR: [red]no[/red]", "", "")


def report(results: list[Result]) -> Report:
    return Report("Yosys 1", results, fits(results), ratios(results))


def multipliers(**areas: float | None) -> list[Result]:
    return [result(MULTIPLIER, FORMATS[name], FORMATS[name].significand_width, area) for name, area in areas.items()]


def test_fit_finds_the_coefficients() -> None:
    fit = fit_quadratic(GENERIC, PRODUCT, {p: 3 + 5 * p + 7 * p**2 for p in (3, 8, 11, 24)})
    assert fit is not None
    assert (fit.a, fit.b, fit.c) == pytest.approx((3, 5, 7))
    assert (fit.r_squared, fit.worst) == pytest.approx((1, 0), abs=1e-9)
    assert fit(10) == pytest.approx(753)


def test_fit_says_how_far_off_it_is() -> None:
    areas = {p: float(p * p) for p in range(3, 25)}
    areas[3] = 18.0
    fit = fit_quadratic(GENERIC, PRODUCT, areas)
    assert fit is not None
    assert fit.worst == pytest.approx(abs(fit(3) / 18 - 1))
    assert 0.99 < fit.r_squared < 1


def test_three_widths_are_no_fit() -> None:
    assert fit_quadratic(GENERIC, PRODUCT, {3: 1.0, 8: 2.0, 24: 3.0}) is None


def test_fits_leave_out_other_exponents_and_failures() -> None:
    sweep = [result(MULTIPLIER, FloatFormat(f"e8f{p - 1}", 8, p - 1), p, 2.0 * p * p) for p in (4, 6, 8, 24)]
    others = [*multipliers(fp16=9999, fp8_e4m3=9999), result(MULTIPLIER, FORMATS["tf32"], 11, None)]
    fit, = fits(sweep + others)
    assert fit.widths == (4, 6, 8, 24)
    assert (fit.a, fit.b, fit.c) == pytest.approx((0, 0, 2), abs=1e-9)


def test_ratios() -> None:
    products = [result(PRODUCT, None, width, area, ECP5) for width, area in ((8, 10.0), (11, 20.0), (24, 90.0))]
    whole, bare = ratios(multipliers(bf16=100, fp16=150, fp32=600, tf32=1) + products)
    assert (whole.target, whole.part, whole.bf16, whole.others) == (GENERIC, MULTIPLIER, 100, {"fp16": 1.5, "fp32": 6})
    assert (bare.target, bare.part, bare.bf16, bare.others) == (ECP5, PRODUCT, 10, {"fp16": 2, "fp32": 9})


def test_ratios_without_a_format() -> None:
    ratio, = ratios(multipliers(bf16=100, fp16=None, fp32=600))
    assert ratio.others == {"fp32": 6}
    assert ratios(multipliers(bf16=None, fp32=600)) == []


@pytest.mark.parametrize(("fp16", "verdict"), [
    (150, "1.50 times as large for fp16 as for bf16 (claim: 2; bf16 saves less than claimed)"),
    (195, "1.95 times as large for fp16 as for bf16 (claim: 2; agrees)"),
    (300, "3.00 times as large for fp16 as for bf16 (claim: 2; bf16 saves more than claimed)"),
])
def test_verdicts_follow_the_figures(fp16: float, verdict: str) -> None:
    assert f"- On generic, a complete multiplier is {verdict}." in to_markdown(report(multipliers(bf16=100, fp16=fp16)))


def test_nothing_to_say() -> None:
    text = to_markdown(report(multipliers(bf16=None, fp16=100)))
    assert "Too few designs were measured to say anything about the claims." not in text
    assert "1 of 2 runs failed" in text
    assert "Too few designs" in to_markdown(report(multipliers(fp16=100)))


def test_failures_are_shown_everywhere() -> None:
    found = report(multipliers(bf16=100, fp16=None))
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(to_table(found))
    for text in (console.export_text(), to_markdown(found)):
        assert "failed" in text
        assert "ERROR: [red]no[/red]" in text
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [(row["format"], row["status"], row["area"]) for row in rows] == [("bf16", "measured", "100"),
                                                                             ("fp16", "failed", "")]
    assert [entry["area"] for entry in json.loads(to_json(found))["results"]] == [100, None]


@pytest.mark.parametrize("results", [multipliers(bf16=None), multipliers(bf16=100, fp16=150, fp32=600)])
def test_plots_are_drawn_whatever_was_measured(results: list[Result]) -> None:
    images = to_images(report(results))
    assert images["area.png"].startswith(b"\x89PNG")
    assert b"<svg" in images["area.svg"]
    assert images["area.svg"] == to_images(report(results))["area.svg"]


def test_points() -> None:
    points = default_points()
    assert len({point.name for point in points}) == len({point.top for point in points}) == len(points)
    assert {point.name for point in quick_points()} <= {point.name for point in points}
    for point in points:
        assert f"module \\{point.top}\n" in point.rtlil()
