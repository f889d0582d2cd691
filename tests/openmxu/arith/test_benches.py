"""The arithmetic's designs pass their benches in the simulators."""

import pytest

from ...conftest import Bench, slow

_LONGER = """
product multiplier multiplier_ieee multiplier_bf16 multiplier_fp16 multiplier_fp32 adder adder_ieee adder_pipelined
converter converter_ieee splitter splitter_ieee stream_multiplier stream_adder
"""


@pytest.mark.parametrize("design", ["stream_converter", *map(slow, _LONGER.split())])
def test_bench(bench: Bench, design: str) -> None:
    bench(design)


@pytest.mark.parametrize(
    "design", ["converter", *map(slow, ("adder_pipelined", "product", "multiplier", "stream_adder"))]
)
def test_icarus(bench: Bench, design: str) -> None:
    """Few vectors: Icarus is slow."""
    bench(design, count=200, simulator="icarus")
