"""The unit: random matrices, random waits on all streams, resets."""

import pytest

from ...conftest import Bench, slow


@pytest.mark.parametrize(
    "design",
    [
        "mxu_2x2",
        slow("mxu_2x2_splitter"),
        slow("mxu_2x2_bf16"),
        slow("mxu_4x4"),
        slow("mxu_4x4_ieee"),
        slow("mxu_4x4_pipelined"),
        slow("mxu_8x8"),
    ],
)
def test_bench(bench: Bench, design: str) -> None:
    bench(design)


@pytest.mark.slow
def test_short_bank(bench: Bench) -> None:
    """The accumulator bank shorter than the adders' latency, the array taller than wide."""
    bench("mxu", {"rows": 3, "columns": 2, "stages": 7, "depth": 4, "subnormals": "ieee"}, count=500)


@pytest.mark.slow
def test_smallest(bench: Bench) -> None:
    """The smallest of everything, a format without infinities, no converters at the edge."""
    bench(
        "mxu",
        {"rows": 1, "columns": 3, "stages": 2, "depth": 2, "operand": "fp8_e4m3", "source": "fp8_e4m3"},
        count=500,
    )
