"""What is derived of measured parts, by numbers that can be followed by hand."""

from dataclasses import replace

import pytest

from openmxu.area.finding.findings import Report
from openmxu.area.finding.units import parts_of, unit_energies, unit_energy
from openmxu.area.pages.markdown import to_summary
from openmxu.area.run.energy import Energy
from openmxu.area.run.measure import Result
from openmxu.area.subject.designs import register_bits
from openmxu.area.subject.points import ADDER, CONVERTER, PROCESSING_ELEMENT, Point
from openmxu.area.target.liberty import generic_library
from openmxu.area.target.targets import Area, Target, choose_targets
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS

[GENERIC] = choose_targets(["generic"], [], ["area"])
LIB = replace(GENERIC, name="lib")
SPEED = replace(LIB, recipe="speed")


def result(
    part: str, name: str, area: float, delay: float | None = None, stages: int = 0, target: Target = LIB
) -> Result:
    """A part that was measured, with 100 flip-flops of 6 GE each where it has stages."""
    fmt = FORMATS[name]
    made = Point(part, fmt.significand_width, fmt, name, str, {"subnormals": "flush", "stages": stages})
    stored = 600.0 if stages else 0.0
    counted = Area(area, area - stored, stored, 100 if stages else 0, cell_area=area)
    return Result(made, target, counted, "", "", "", delay=delay)


def energy(
    found: Result, logic: float, *, clock: float = 0.0, flip_flops: float = 0.0, operands: str = "normal"
) -> Energy:
    return Energy(found, operands, 1024, 3, clock, flip_flops, logic, 0.0, 0.01)


BF16 = result(PROCESSING_ELEMENT, "bf16", 1000.0, 20.0, 1)
FP32 = result(PROCESSING_ELEMENT, "fp32", 3000.0, 40.0, 1)
ADDS = result(ADDER, "fp32", 1300.0)
CONVERTS = result(CONVERTER, "bf16", 100.0)
ENERGIES = [
    energy(BF16, 17.0, clock=2.0, flip_flops=1.0),
    energy(BF16, 0.0, clock=2.0, operands="idle"),
    energy(FP32, 57.0, clock=2.0, flip_flops=1.0),
    energy(FP32, 0.0, clock=2.0, operands="idle"),
    energy(ADDS, 16.0),
    energy(CONVERTS, 0.8),
]


def test_units() -> None:
    """4x4: of 16 products, 8 converters, 4 adders, and registers of which each takes what one of the element's does.

    Units of fp32 have no converters.
    """
    small, _, large = (each for each in unit_energies(ENERGIES) if each.format == "bf16")
    config = MxuConfig(rows=4, columns=4)
    # Skew: columns 0 to 3 and rows 1 to 4 with one cycle a row, of 16 bits; control: a word for each cycle's delay.
    skew, control = register_bits(config)
    assert skew == (0 + 1 + 2 + 3 + 1 + 2 + 3 + 4) * 16
    assert control % (1 + config.array_latency) == 0
    around = (8 * 0.8 + 4 * 16.0 + (skew + control) * 0.03) / 16
    assert small.elements == 20.0
    assert small.around == pytest.approx(around)
    assert small.product() == pytest.approx(20.0 + around)
    assert small.idle == pytest.approx(2.0 + (skew + control) * 0.02 / 16)
    assert small.product(0.5) == pytest.approx(small.product() + small.idle)
    assert small.gflops_per_watt() == pytest.approx(2000 / (20.0 + around))
    assert (large.rows, large.columns) == (128, 128)
    assert large.around < small.around
    bits = sum(register_bits(MxuConfig(rows=4, columns=4, operand=FORMATS["fp32"])))
    [small, *_] = (each for each in unit_energies(ENERGIES) if each.format == "fp32")
    assert small.around == pytest.approx((4 * 16.0 + bits * 0.03) / 16)


def test_a_unit_that_is_not_square() -> None:
    """2x3: of 6 products, 5 converters, 3 adders."""
    config = MxuConfig(rows=2, columns=3)
    [parts] = parts_of(ENERGIES).values()
    unit = unit_energy("lib", "area", config, parts)
    assert unit is not None
    bits = sum(register_bits(config))
    assert (unit.rows, unit.columns, unit.elements) == (2, 3, 20.0)
    assert unit.around == pytest.approx((5 * 0.8 + 3 * 16.0 + bits * 0.03) / 6)
    assert unit.idle == pytest.approx(2.0 + bits * 0.02 / 6)


@pytest.mark.parametrize("missing", range(6))
def test_nothing_is_derived_of_what_is_missing(missing: int) -> None:
    """The formats that have all parts stay; a failure is no part."""
    failed = [replace(each, error="no") if number == missing else each for number, each in enumerate(ENERGIES)]
    for energies in (failed, [each for number, each in enumerate(ENERGIES) if number != missing]):
        found = {each.format for each in unit_energies(energies)}
        assert found == {0: {"fp32"}, 1: {"fp32"}, 2: {"bf16"}, 3: {"bf16"}, 4: set(), 5: {"fp32"}}[missing]


def test_page_of_units_and_results() -> None:
    text = to_summary(Report("Yosys 1", [each.result for each in ENERGIES], energies=ENERGIES))
    unit = next(each for each in unit_energies(ENERGIES) if each.format == "bf16")
    row = f"| lib | area | 4x4 | bf16 | {unit.product():.1f} | {unit.around / unit.product():.0%} |"
    assert f"{row} {2000 / unit.product():.0f} | {2000 / (unit.product() + unit.idle):.0f} |" in text
    # 16 of 100 flip-flops: 96 of 600 GE, 0.32 of 2 pJ; 0.8 pJ are 2.5 times that.
    assert "| lib | 100 | 0.80 | 96 | 0.32 | 2.5 |" in text
    assert "2.5 pJ from a cache of 8 kB, 25 pJ from one of 1 MB, 325 to 650 pJ from DRAM" in text
    assert "Energy of whole units" not in to_summary(Report("Yosys 1", [BF16, FP32]))


def test_a_layer_has_the_name_of_its_file() -> None:
    energies = [*ENERGIES, energy(BF16, 7.0, operands="layer")]
    text = to_summary(Report("Yosys 1", [each.result for each in ENERGIES], energies=energies, layer="magika.npz"))
    assert "\n- layer: activations and weights of the layer in magika.npz\n" in text
    assert "the layer in" not in to_summary(Report("Yosys 1", [BF16], energies=ENERGIES))


def test_page_of_passes() -> None:
    """At their own clocks, 1000 GE for 20 ns beside 3000 GE for 40 ns; and both at one clock."""
    text = to_summary(Report("Yosys 1", [BF16, FP32], energies=ENERGIES[:4]))
    assert "| lib | one stage, area | 0.50 | 1.00 | 1.50 | 1.00 | 2.00 | 3.00 |" in text
    alone = to_summary(Report("Yosys 1", [BF16, FP32]))
    assert "| lib | one stage, area | 0.50 | 1.00 | 1.50 | - | - | - |" in alone
    fast = [
        result(PROCESSING_ELEMENT, name, area, 10.0, 1, SPEED) for name, area in (("bf16", 2000.0), ("fp32", 4000.0))
    ]
    both = to_summary(Report("Yosys 1", [BF16, FP32, *fast], energies=ENERGIES[:4]))
    # At 10 ns 2000 GE beside 4000, at 40 ns 1000 beside 3000.
    assert "| lib | both at 10.00 ns | 1.50 | 3.00 | 4.50 | - | - | - |" in both
    assert "| lib | both at 40.00 ns | 1.00 | 2.00 | 3.00 | - | - | - |" in both
    assert "by passes" not in to_summary(Report("Yosys 1", [BF16]))
    # A doubtful library is no ground.
    doubtful = replace(LIB, library=replace(generic_library(), doubt="it says so"))
    elements = [replace(each, target=doubtful) for each in (BF16, FP32)]
    assert "one stage, area" not in to_summary(Report("Yosys 1", elements))
