"""The unit: random matrices, random waits on all streams, resets."""

from typing import Any

import pytest

from ...conftest import Bench, slow, thorough


@pytest.mark.parametrize(
    ("design", "options"),
    [
        ("mxu_2x2", {}),
        *(slow(design, {}) for design in ("mxu_2x2_splitter", "mxu_2x2_bf16", "mxu_4x4")),
        *(thorough(design, {}) for design in ("mxu_4x4_ieee", "mxu_4x4_pipelined", "mxu_8x8")),
        # The accumulator bank shorter than the adders' latency, the array taller than wide.
        slow("mxu", {"rows": 3, "columns": 2, "stages": 7, "depth": 4, "subnormals": "ieee"}),
        # The smallest of everything, a format without infinities, no converters at the edge.
        slow("mxu", {"rows": 1, "columns": 3, "stages": 2, "depth": 2, "operand": "fp8_e4m3", "source": "fp8_e4m3"}),
        slow("mxu", {"rows": 8, "columns": 3, "stages": 4, "depth": 16, "terms": 4, "status": True}),
        slow("mxu", {"rows": 8, "columns": 2, "stages": 6, "depth": 8, "terms": 2, "splitter": True}),
    ],
)
def test_bench(bench: Bench, design: str, options: dict[str, Any]) -> None:
    bench(design, options, count=200 if design in ("mxu", "mxu_8x8") else 2000)
