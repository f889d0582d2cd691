"""The arithmetic's designs pass their benches in the simulators."""

import pytest

from ...conftest import Bench, slow


@pytest.mark.parametrize(
    "design",
    [
        slow("product"),
        slow("multiplier"),
        slow("multiplier_ieee"),
        slow("multiplier_bf16"),
        slow("multiplier_fp16"),
        slow("multiplier_fp32"),
        slow("adder"),
        slow("adder_ieee"),
        slow("adder_pipelined"),
        slow("converter"),
        slow("converter_ieee"),
        slow("splitter"),
        slow("splitter_ieee"),
        slow("stream_multiplier"),
        slow("stream_adder"),
        "stream_converter",
    ],
)
def test_bench(bench: Bench, design: str) -> None:
    bench(design)


@pytest.mark.parametrize(
    "design", [slow("adder_pipelined"), slow("product"), slow("multiplier"), "converter", slow("stream_adder")]
)
def test_icarus(bench: Bench, design: str) -> None:
    """Few vectors: Icarus is slow."""
    bench(design, count=200, simulator="icarus")
