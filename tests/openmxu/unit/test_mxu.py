"""The unit, its status, and its ends on a bus: random matrices, random waits on all streams, resets."""

from typing import Any

import pytest

from ...conftest import Bench, slow, thorough

_FEW, _E4M3 = {"count": 200}, "fp8_e4m3"


@pytest.mark.parametrize(
    ("design", "options", "how"),
    [
        *((design, {}, {"count": 500}) for design in ("mxu_2x2", "mxu_2x2_axi")),
        *(slow(design, {}, {}) for design in ("mxu_2x2_splitter", "mxu_4x4", "mxu_2x2_status")),
        *(thorough(design, {}, {}) for design in ("mxu_2x2", "mxu_2x2_axi", "mxu_2x2_bf16")),
        *(thorough(design, {}, {}) for design in ("mxu_4x4_ieee", "mxu_4x4_pipelined")),
        thorough("mxu_8x8", {}, _FEW),
        # The accumulator bank shorter than the adders' latency, the array taller than wide.
        slow("mxu", {"rows": 3, "columns": 2, "stages": 7, "depth": 4, "subnormals": "ieee"}, _FEW),
        # The smallest of everything, a format without infinities, no converters at the edge.
        slow("mxu", {"rows": 1, "columns": 3, "stages": 2, "depth": 2, "operand": _E4M3, "source": _E4M3}, _FEW),
        slow("mxu", {"rows": 8, "columns": 3, "stages": 4, "depth": 16, "terms": 4, "status": True}, _FEW),
        slow("mxu", {"rows": 8, "columns": 2, "stages": 6, "depth": 8, "terms": 2, "splitter": True}, _FEW),
        # A short bank is the sooner full.
        thorough("mxu_2x2_status", {"depth": 16}, {"count": 50, "simulator": "icarus"}),
        slow(
            *("mxu_2x2_axi", {"rows": 2, "columns": 1, "depth": 8, "splitter": True, "result": "bf16"}),
            {"count": 500, "simulator": "icarus", "timeout": 240},
        ),
    ],
)
def test_bench(bench: Bench, design: str, options: dict[str, Any], how: dict[str, Any]) -> None:
    bench(design, options, **how)
