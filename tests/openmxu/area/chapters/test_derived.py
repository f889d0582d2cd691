"""What is derived of measured parts, by numbers that can be followed by hand."""

from dataclasses import replace
from typing import Any

import pytest

from openmxu.area import Report, Result
from openmxu.area.finding.units import parts_of, unit_energies, unit_energy
from openmxu.area.pages.markdown import to_summary
from openmxu.area.run.energy import Energy
from openmxu.area.subject.designs import register_bits
from openmxu.area.subject.points import ADDER, CONVERTER, PROCESSING_ELEMENT
from openmxu.area.target.targets import Area
from openmxu.cells.liberty import generic_library
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS

from ..conftest import GENERIC, result

LIB = replace(GENERIC, name="lib")


def element(name: str, area: float, delay: float, **more: Any) -> Result:
    """With 100 flip-flops of 6 GE each."""
    counted = Area(area, area - 600.0, 600.0, 100, cell_area=area)
    return result(PROCESSING_ELEMENT, name, counted, **{"target": LIB, "delay": delay, **more})


def energy(found: Result, logic: float, operands: str = "normal") -> Energy:
    """An element's registers take 3 pJ, 2 of them for the clock."""
    is_element, is_idle = found.point.part == PROCESSING_ELEMENT, operands == "idle"
    return Energy(found, operands, 1024, 3, 2.0 * is_element, 1.0 * (is_element and not is_idle), logic, 0.0, 0.01)


BF16, FP32 = element("bf16", 1000.0, 20.0), element("fp32", 3000.0, 40.0)
ENERGIES = [
    *(energy(BF16, 17.0), energy(BF16, 0.0, "idle"), energy(FP32, 57.0), energy(FP32, 0.0, "idle")),
    energy(result(ADDER, "fp32", 1300.0, target=LIB), 16.0),
    energy(result(CONVERTER, "bf16", 100.0, target=LIB), 0.8),
]


@pytest.mark.parametrize(
    ("rows", "columns", "fmt", "element", "converters"),
    [(4, 4, "bf16", 20.0, 8), (2, 3, "bf16", 20.0, 5), (4, 4, "fp32", 60.0, 0)],
)
def test_units(rows: int, columns: int, fmt: str, element: float, converters: int) -> None:
    """A converter for each row and column, an adder for each column, registers that take what an element's do."""
    config = MxuConfig(rows=rows, columns=columns, operand=FORMATS[fmt])
    [parts] = parts_of(ENERGIES).values()
    unit = unit_energy("lib", "area", config, parts)
    skew, control = register_bits(config)  # the first a cycle for each row, the second a word for each cycle's delay
    assert skew == (sum(range(columns)) + sum(range(1, rows + 1))) * FORMATS[fmt].width
    assert control % (1 + config.array_latency) == 0
    around = (converters * 0.8 + columns * 16.0 + (skew + control) * 0.03) / (rows * columns)
    assert (unit.rows, unit.columns, unit.elements) == (rows, columns, element)
    assert unit.around == pytest.approx(around)
    assert unit.product() == pytest.approx(element + around)
    assert unit.idle == pytest.approx(2.0 + (skew + control) * 0.02 / (rows * columns))
    assert unit.product(0.5) == pytest.approx(unit.product() + unit.idle)
    assert unit.gflops_per_watt() == pytest.approx(2000 / (element + around))
    small, _, large = (each for each in unit_energies(ENERGIES) if each.format == fmt)
    assert (small == unit) == (rows == columns)
    assert (large.rows, large.columns) == (128, 128)
    assert large.around < small.around


@pytest.mark.parametrize("missing", range(6))
def test_nothing_is_derived_of_what_is_missing(missing: int) -> None:
    """The formats that have all parts stay; a failure is no part."""
    failed = [replace(each, error="no") if number == missing else each for number, each in enumerate(ENERGIES)]
    for energies in (failed, [each for number, each in enumerate(ENERGIES) if number != missing]):
        found = {each.format for each in unit_energies(energies)}
        assert found == {0: {"fp32"}, 1: {"fp32"}, 2: {"bf16"}, 3: {"bf16"}, 4: set(), 5: {"fp32"}}[missing]


def test_page_of_units_and_results() -> None:
    """A layer has the name of its file."""
    energies = [*ENERGIES, energy(BF16, 7.0, "layer")]
    text = to_summary(Report("Yosys 1", [each.result for each in ENERGIES], energies=energies, layer="magika.npz"))
    assert "\n| layer | activations and weights of the layer in magika.npz |\n" in text
    assert "the layer in" not in to_summary(Report("Yosys 1", [BF16], energies=ENERGIES))
    unit = next(each for each in unit_energies(ENERGIES) if each.format == "bf16")
    row = f"| lib | area | 4x4 | bf16 | {unit.product():.1f} | {unit.around / unit.product():.0%} |"
    assert f"{row} {2000 / unit.product():.0f} | {2000 / (unit.product() + unit.idle):.0f} |" in text
    # 16 of 100 flip-flops: 96 of 600 GE, 0.32 of 2 pJ; 0.8 pJ are 2.5 times that.
    assert "| lib | 100 | 0.80 | 96 | 0.32 | 2.5 |" in text
    assert "pJ a product" not in to_summary(Report("Yosys 1", [BF16, FP32]))


def test_page_of_passes() -> None:
    """At their own clocks, 1000 GE for 20 ns beside 3000 GE for 40 ns; and both at one clock."""
    text = to_summary(Report("Yosys 1", [BF16, FP32], energies=ENERGIES[:4]))
    assert "| lib | one stage, area | 0.50 | 1.00 | 1.50 | 1.00 | 2.00 | 3.00 |" in text
    alone = to_summary(Report("Yosys 1", [BF16, FP32]))
    assert "| lib | one stage, area | 0.50 | 1.00 | 1.50 | - | - | - |" in alone
    speed = replace(LIB, recipe="speed")
    fast = [element(name, area, 10.0, target=speed) for name, area in (("bf16", 2000.0), ("fp32", 4000.0))]
    both = to_summary(Report("Yosys 1", [BF16, FP32, *fast], energies=ENERGIES[:4]))
    # At 10 ns 2000 GE beside 4000, at 40 ns 1000 beside 3000.
    assert "| lib | both at 10.00 ns | 1.50 | 3.00 | 4.50 | - | - | - |" in both
    assert "| lib | both at 40.00 ns | 1.00 | 2.00 | 3.00 | - | - | - |" in both
    assert "Derived" not in to_summary(Report("Yosys 1", [BF16]))
    # A doubtful library is no ground.
    doubtful = replace(LIB, library=replace(generic_library(), doubt="it says so"))
    elements = [replace(each, target=doubtful) for each in (BF16, FP32)]
    assert "one stage, area" not in to_summary(Report("Yosys 1", elements))
