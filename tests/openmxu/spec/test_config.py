# amaranth: UnusedElaboratable=no
# (what test_processing_element_messages makes is refused, so nobody uses it)
"""What a unit's parameters may be."""

from typing import Any

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP16, FP32
from openmxu.spec.stages import split_stages
from openmxu.unit.pe import ProcessingElement


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"rows": 0}, ValueError, "rows must be an integer from 1 to 65536, not 0"),
        ({"rows": 10**9}, ValueError, "rows must be an integer from 1 to 65536, not 1000000000"),
        ({"columns": 65537}, ValueError, "columns must be an integer from 1 to 65536, not 65537"),
        (
            {"rows": 4096, "columns": 4097},
            ValueError,
            "rows times columns must be at most 16777216, not 4096 times 4097",
        ),
        ({"columns": -3}, ValueError, "columns must be an integer from 1 to 65536, not -3"),
        ({"rows": 2.0}, TypeError, r"rows must be an integer from 1 to 65536, not 2\.0"),
        ({"stages": 0}, ValueError, "stages must be an integer from 1 to 7, not 0"),
        ({"stages": 8}, ValueError, "stages must be an integer from 1 to 7, not 8"),
        ({"stages": None}, TypeError, "stages must be an integer from 1 to 7, not None"),
        ({"depth": 500}, ValueError, "depth must be a power of two from 2 to 65536, not 500"),
        ({"depth": 1}, ValueError, "depth must be a power of two from 2 to 65536, not 1"),
        ({"subnormals": "FTZ"}, ValueError, "subnormals must be 'flush' or 'ieee', not 'FTZ'"),
        ({"operand": "bf16"}, TypeError, "operand must be a FloatFormat, not 'bf16'"),
        ({"source": FP16}, ValueError, "source must be fp32 or the operand format bf16, not fp16"),
    ],
)
def test_messages(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MxuConfig(**parameters)


def test_processing_element_messages() -> None:
    with pytest.raises(ValueError, match="stages must be an integer from 1 to 7, not 9"):
        ProcessingElement(stages=9)
    with pytest.raises(ValueError, match="subnormals must be 'flush' or 'ieee', not ''"):
        ProcessingElement(subnormals="")


def test_any_format_is_an_operand() -> None:
    assert MxuConfig(operand=FP16).operand is FP16
    assert MxuConfig(operand=FP32, source=FP32).source is FP32


def test_all_stages_are_spent() -> None:
    for stages in range(1, 8):
        at_product, at_sum = split_stages(stages)
        assert at_product + at_sum == stages
        assert at_sum >= 1
