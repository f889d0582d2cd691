"""Processing elements: every cycle, all that is handed on."""

import pytest

from ...conftest import Bench, slow


@pytest.mark.parametrize("design", ["pe", slow("pe_ieee"), "pe_pipelined"])
def test_bench(bench: Bench, design: str) -> None:
    bench(design)


@pytest.mark.parametrize("design", [slow("pe_pipelined")])
def test_icarus(bench: Bench, design: str) -> None:
    """Few vectors: Icarus is slow."""
    bench(design, count=200, simulator="icarus")
