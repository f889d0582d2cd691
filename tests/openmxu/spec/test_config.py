# amaranth: UnusedElaboratable=no
# (what test_messages makes is refused, so nobody uses it)
"""What a unit's parameters may be."""

from collections.abc import Callable
from typing import Any

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP16
from openmxu.spec.stages import split_stages
from openmxu.unit.pe import ProcessingElement

_ROWS, _STAGES = "rows must be an integer from 1 to 65536, not", "stages must be an integer from 1 to 7, not"
_SIZE = "rows times columns must be at most 16777216"


@pytest.mark.parametrize(
    ("make", "parameters", "error", "message"),
    [
        (MxuConfig, {"rows": 0}, ValueError, f"{_ROWS} 0"),
        (MxuConfig, {"rows": 10**9}, ValueError, f"{_ROWS} 1000000000"),
        (MxuConfig, {"rows": 2.0}, TypeError, rf"{_ROWS} 2\.0"),
        (MxuConfig, {"columns": 65537}, ValueError, "columns must be an integer from 1 to 65536, not 65537"),
        (MxuConfig, {"columns": -3}, ValueError, "columns must be an integer from 1 to 65536, not -3"),
        (MxuConfig, {"rows": 4096, "columns": 4097}, ValueError, f"{_SIZE}, not 4096 times 4097"),
        (MxuConfig, {"stages": 0}, ValueError, f"{_STAGES} 0"),
        (MxuConfig, {"stages": 8}, ValueError, f"{_STAGES} 8"),
        (MxuConfig, {"stages": None}, TypeError, f"{_STAGES} None"),
        (MxuConfig, {"depth": 500}, ValueError, "depth must be a power of two from 2 to 65536, not 500"),
        (MxuConfig, {"depth": 1}, ValueError, "depth must be a power of two from 2 to 65536, not 1"),
        (MxuConfig, {"subnormals": "FTZ"}, ValueError, "subnormals must be 'flush' or 'ieee', not 'FTZ'"),
        (MxuConfig, {"operand": "bf16"}, TypeError, "operand must be a FloatFormat, not 'bf16'"),
        (MxuConfig, {"source": FP16}, ValueError, "source must be fp32 or the operand format bf16, not fp16"),
        (ProcessingElement, {"stages": 9}, ValueError, f"{_STAGES} 9"),
        (ProcessingElement, {"subnormals": ""}, ValueError, "subnormals must be 'flush' or 'ieee', not ''"),
    ],
)
def test_messages(make: Callable[..., Any], parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(**parameters)


def test_all_stages_are_spent() -> None:
    for stages in range(1, 8):
        at_product, at_sum = split_stages(stages)
        assert at_product + at_sum == stages
        assert at_sum >= 1
