"""What can be asked for, and what is taken out of a design to see what it costs."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openmxu import yosys
from openmxu.area.run.schedule import measure_all, workers
from openmxu.area.subject import points
from openmxu.area.subject.ablation import ABLATIONS
from openmxu.area.subject.points import ADDER, ARRAY, MULTIPLIER, PROCESSING_ELEMENT, PRODUCT, chosen_points, point
from openmxu.area.target.gates import mapped
from openmxu.arith import SignificandProduct
from openmxu.catalog import FAMILIES
from openmxu.export.verilog import to_rtlil
from openmxu.spec.formats import BF16, FP16, FP32, FloatFormat
from openmxu.spec.forms import AREA, FPGA, SPEED
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands import vectors

from ....bits import same_bits
from ....conftest import each_once, slow
from ..conftest import ECP5, GENERIC

IMPOSTORS = [FloatFormat("bf16", 4, 3), FloatFormat("bf16", 8, 7, has_infinity=False)]
IMPOSTORS += [FloatFormat("fp8_e4m3", 4, 3), FloatFormat("e4f3", 4, 3, has_infinity=False)]


# Two impostors with parts that are soon made; the others, and each other part once.
@pytest.mark.parametrize(
    ("part", "impostor"),
    [
        *zip((MULTIPLIER, ADDER), IMPOSTORS[:2], strict=True),
        *map(slow, (points.CONVERTER, MULTIPLIER), IMPOSTORS[2:]),
        *map(slow, (PROCESSING_ELEMENT, ARRAY, points.BANK, points.UNIT), IMPOSTORS),
    ],
    ids=repr,
)
def test_a_format_is_its_widths_not_its_name(
    part: str, impostor: FloatFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Netlists are kept, and figures are shown, by what a format is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = FloatFormat.parse(impostor.name)
    both = [point(part, fmt, rows=1, columns=1) for fmt in (impostor, real)]
    texts = [each.rtlil() for each in both]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert texts[0] != texts[1] == point(part, real, rows=1, columns=1).rtlil()
    assert len({each.name for each in both}) == len(points.once(both)) == 2
    assert both[1].name.split()[-1 - (part in (ARRAY, points.BANK, points.UNIT))] == real.name


def gates(name: str) -> Gates:
    """Of a design without a feature: what is tied in it is gone."""
    yosys.prepare()
    point = next(row.without for row in ABLATIONS if row.without.name == name)
    rtlil = point.rtlil()
    return Gates(mapped(rtlil, point.top, point.change(rtlil)), ["i_a", "i_b"])


def test_points_are_called_by_part_and_stages_as_in_the_catalog() -> None:
    assert [point.part for point in chosen_points(["pe", "product"], ["bf16"])] == [PROCESSING_ELEMENT, PRODUCT]
    assert list(points.PART_NAMES.values()) == list(points.PARTS)
    shared = points.PART_NAMES.keys() & FAMILIES.keys()
    assert {"product", "multiplier", "adder", "converter", "pe", "array", "mxu"} <= shared
    names = [point.name for point in chosen_points([ADDER], ["bf16"], stages=[0, 1, 5])]
    assert names == ["adder bf16", "adder bf16, 1 stage", "adder bf16, 5 stages"]
    names = [point.name for point in points.beside_points()]
    assert names == ["multiplier to fp32 bf16", "adder fp32", "processing element bf16"]


@pytest.mark.slow
def test_every_part_of_a_format() -> None:
    found = chosen_points(list(points.PARTS), ["e5f3"], subnormals=["flush", "ieee"], rows=2, columns=3)
    names = {each.name for each in found}
    assert len(names) == len(found) == 2 * len(points.PARTS) - 1  # of a bare product subnormals make no difference
    assert {"multiplier e5f3", "multiplier e5f3, ieee", "unit e5f3 2x3", "significand product 4 x 4"} <= names
    for each in found:
        assert f"module \\{each.top}\n" in each.rtlil()


def test_targets_choose_a_form() -> None:
    """By recipe, also in the schedule; a design that is not ours has one form."""
    targets = [ECP5, GENERIC, replace(GENERIC, recipe="speed")]
    text = to_rtlil(SignificandProduct(4), name="theirs")
    ours = point(PROCESSING_ELEMENT, BF16, stages=4, terms=2)
    theirs = points.Point("theirs", 4, None, "theirs", points.Text(text))
    plan = [(target, each) for target in targets for each in (ours, theirs)]
    with workers(1, None, 60) as where:
        results = measure_all(plan, where, lambda line: None)
    of_ours = [hashlib.sha256(ours.rtlil(form).encode()).hexdigest() for form in (FPGA, AREA, SPEED)]
    assert [each.rtlil_sha256 for each in results[::2]] == of_ours
    assert len(set(of_ours)) == 3
    assert len({each.rtlil_sha256 for each in results[1::2]}) == 1


@pytest.mark.parametrize("text", ["0", "24", "5-3", "a", "1-", "-3", ""])
def test_widths(text: str) -> None:
    assert points.formats_of_widths(["1-23"])[6:11] == ["bf16", "e8f8", "e8f9", "tf32", "e8f11"]
    with pytest.raises(ValueError, match="width must be fraction bits from 1 to 23, or a range as in 1-23, not "):
        points.formats_of_widths([text])


def test_the_full_report_has_every_axis() -> None:
    """Elements of the formats of the claims with each number of stages, for area and for speed."""
    full = points.full_points()
    assert {(point.part, point.terms) for point in full} == {
        *((part, 1) for part in points.PARTS),
        (PROCESSING_ELEMENT, 4),
    }
    assert {point.width for point in full if point.part == PRODUCT} == set(range(2, 25))
    for part in set(points.PARTS) - {PRODUCT, points.CONVERTER, points.BANK}:
        found = {str(point.format) for point in full if point.part == part}
        assert {"fp8_e4m3", "fp8_e5m2", "bf16", "fp16", "tf32", "fp32"} <= found
    assert any(point.scope == "fpga" for point in full if point.part == ARRAY)
    assert all(point.scope == "area" for point in full if point.part == points.UNIT)
    elements = {
        (str(each.format), each.options["stages"])
        for each in full
        if each.part == PROCESSING_ELEMENT and each.options["subnormals"] == "flush"
        if each.is_for("area") and each.is_for("speed")
    }
    assert {(name, stages) for name in ("bf16", "fp16", "fp32") for stages in range(1, 8)} <= elements
    timed = [point for point in full if point.scope == "timed"]
    assert timed
    recipes = {"area": True, "sized": True, "speed": True, "fpga": False, "cmos": False, "default": False}
    assert all({recipe: point.is_for(recipe) for recipe in recipes} == recipes for point in timed)
    # In other orders are measured parts and formats of the claims, in their ordinary form; a format is its widths.
    assert {(each.part, str(each.format or each.width)) for each in full if points.is_headline(each)} == {
        *((PRODUCT, width) for width in ("8", "11", "24")),
        *((part, name) for part in (MULTIPLIER, PROCESSING_ELEMENT) for name in ("bf16", "fp16", "fp32")),
    }
    others = [point(MULTIPLIER, BF16, subnormals="ieee"), point(MULTIPLIER, replace(FP32, fraction_width=22))]
    assert not any(map(points.is_headline, [*others, point(ADDER, FP16)]))
    first, second = points.reordered([point(MULTIPLIER, BF16)], 2)
    assert (first.order, second.order, first.top, first.name) == (1, 2, second.top, "multiplier bf16, order 1")


@pytest.mark.parametrize("field", ["multiplied.colour", "nothing.nan", "nan"])
def test_fields_that_are_not_there(field: str) -> None:
    point = next(row.whole for row in ABLATIONS if row.whole.part == MULTIPLIER)
    with pytest.raises(ValueError, match=f"field must be one of the design's, once, not '{field}'"):
        points.Tie(field).command(point.rtlil())


def test_no_specials_is_the_multiplier_for_all_other_operands() -> None:
    a, b = vectors.pairs("bf16", 300_000, 1)
    tied = gates("multiplier bf16, no NaN or infinite operands")
    special = ((a >> 7 & 0xFF) == 0xFF) | ((b >> 7 & 0xFF) == 0xFF)
    differs = tied(a, b) != golden.multiply(a, b, "bf16", "bf16")
    assert not differs[~special].any()
    assert differs[special].any()


def numbers(patterns: np.ndarray, width: int) -> np.ndarray:
    """Values of bf16 or fp32 patterns as doubles, in which the results below are exact."""
    return (patterns << np.uint32(32 - width)).view(np.float32).astype(np.float64)


@pytest.mark.parametrize(
    ("unit", "rounding"),
    each_once(
        ["multiplier bf16", "adder fp32"],
        ["no NaN or infinite operands, rounding towards zero", "rounding towards zero"],
    ),
)
def test_results_are_cut(unit: str, rounding: str) -> None:
    """Doubles without their lower bits say what; for exponents that neither overflow nor underflow."""
    rng = np.random.default_rng(2)
    signs = rng.integers(2, size=(2, 4000), dtype=np.uint32)
    if unit == "multiplier bf16":
        a, b = rng.integers(70 << 7, 180 << 7, (2, 4000), dtype=np.uint32) | signs << 15
        fmt, rounded, exact = BF16, golden.multiply(a, b, "bf16", "bf16"), numbers(a, 16) * numbers(b, 16)
    else:
        a = rng.integers(100 << 23, 150 << 23, 4000, dtype=np.uint32) | signs[0] << 31
        b = a ^ rng.integers(1 << 26, size=4000, dtype=np.uint32) ^ signs[1] << 31
        fmt, rounded, exact = FP32, golden.add(a, b, "fp32"), numbers(a, 32) + numbers(b, 32)
    kept = exact.view(np.uint64) >> np.uint64(52 - fmt.fraction_width) << np.uint64(52 - fmt.fraction_width)
    expected = kept.view(np.float64).astype(np.float32).view(np.uint32) >> np.uint32(32 - fmt.width)
    same_bits(gates(f"{unit}, {rounding}")(a, b), expected, a, b, fmt=fmt.name, operand=fmt.name)
    assert (expected != rounded).any()
