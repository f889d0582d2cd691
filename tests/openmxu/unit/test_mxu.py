"""The unit: random matrices, random waits on all streams, resets."""

from typing import Any

import pytest

from ...conftest import Bench, slow, thorough

_LONGER = ["mxu_2x2_splitter", "mxu_2x2_bf16", "mxu_4x4"]
_LONGEST = ["mxu_4x4_ieee", "mxu_4x4_pipelined", "mxu_8x8"]


@pytest.mark.parametrize("design", ["mxu_2x2", *map(slow, _LONGER), *map(thorough, _LONGEST)])
def test_bench(bench: Bench, design: str) -> None:
    bench(design, count=200 if design == "mxu_8x8" else 2000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        # The accumulator bank shorter than the adders' latency, the array taller than wide.
        {"rows": 3, "columns": 2, "stages": 7, "depth": 4, "subnormals": "ieee"},
        # The smallest of everything, a format without infinities, no converters at the edge.
        {"rows": 1, "columns": 3, "stages": 2, "depth": 2, "operand": "fp8_e4m3", "source": "fp8_e4m3"},
        {"rows": 8, "columns": 3, "stages": 4, "depth": 16, "terms": 4, "status": True},
        {"rows": 8, "columns": 2, "stages": 6, "depth": 8, "terms": 2, "splitter": True},
    ],
    ids=["short bank", "smallest", "four terms", "two terms"],
)
def test_extremes(bench: Bench, options: dict[str, Any]) -> None:
    bench("mxu", options, count=200)
