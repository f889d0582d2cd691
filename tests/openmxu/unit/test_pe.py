"""Processing elements: every cycle, all that is handed on."""

from typing import Any

import pytest

from ...conftest import Bench, slow


@pytest.mark.parametrize("design", ["pe", slow("pe_ieee"), "pe_pipelined", "pe_4_terms"])
def test_bench(bench: Bench, design: str) -> None:
    bench(design)


@pytest.mark.parametrize("options", [slow({"terms": 8}), slow({"terms": 2, "stages": 7, "operand": "fp16"})])
def test_several_terms(bench: Bench, options: dict[str, Any]) -> None:
    bench("pe", options, count=1000)


@pytest.mark.parametrize("design", [slow("pe_pipelined")])
def test_icarus(bench: Bench, design: str) -> None:
    """Few vectors: Icarus is slow."""
    bench(design, count=200, simulator="icarus")
