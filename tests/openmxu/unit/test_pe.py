"""Processing elements and an array of them: every cycle, all that is handed on; tile after tile."""

from typing import Any

import pytest

from ...conftest import Bench, slow

_ICARUS = {"simulator": "icarus"}  # which is slow


@pytest.mark.parametrize(
    ("design", "options", "how"),
    [
        *((design, {}, {}) for design in ("pe", "pe_4_terms")),
        *(slow(design, {}, {}) for design in ("pe_pipelined", "pe_ieee", "array_4x4")),
        slow("pe", {"terms": 8}, {"count": 1000}),
        slow("pe", {"terms": 2, "stages": 7, "operand": "fp16"}, {"count": 1000}),
        slow("pe_pipelined", {}, {"count": 200, **_ICARUS}),
        slow("array_4x4", {}, {"count": 50, **_ICARUS}),
    ],
)
def test_bench(bench: Bench, design: str, options: dict[str, Any], how: dict[str, Any]) -> None:
    bench(design, options, **how)
