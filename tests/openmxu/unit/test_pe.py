"""Processing elements: every cycle, all that is handed on."""

from typing import Any

import pytest

from ...conftest import Bench, slow


@pytest.mark.parametrize(
    ("design", "options", "how"),
    [
        *((design, {}, {}) for design in ("pe", "pe_pipelined", "pe_4_terms")),
        slow("pe_ieee", {}, {}),
        slow("pe", {"terms": 8}, {"count": 1000}),
        slow("pe", {"terms": 2, "stages": 7, "operand": "fp16"}, {"count": 1000}),
        slow("pe_pipelined", {}, {"count": 200, "simulator": "icarus"}),  # Icarus is slow
    ],
)
def test_bench(bench: Bench, design: str, options: dict[str, Any], how: dict[str, Any]) -> None:
    bench(design, options, **how)
