# amaranth: UnusedElaboratable=no
# (what test_messages makes is refused, so nobody uses it)
"""What a unit's parameters may be."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32
from openmxu.spec.stages import split_stages
from openmxu.unit.pe import ProcessingElement

_ROWS, _STAGES = "rows must be an integer from 1 to 65536, not", "stages must be an integer from 1 to 7, not"
_SIZE = "rows times columns must be at most 16777216"
_SOURCE = "source must be fp32 with weights in another format"
_SPLITTER = "splitter must be False unless fp32 is converted into"
_HYBRID = {"operand": FP8_E5M2, "weight": FP8_E4M3}


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
        (MxuConfig, {"weight": "bf16"}, TypeError, "weight must be a FloatFormat, not 'bf16'"),
        (MxuConfig, _HYBRID | {"source": FP8_E5M2}, ValueError, f"{_SOURCE}, fp8_e4m3, not fp8_e5m2"),
        (MxuConfig, {"source": BF16, "weight": FP32}, ValueError, f"{_SOURCE}, fp32, not bf16"),
        (MxuConfig, {"weight": FP16, "result": FP16}, ValueError, "result must be fp32 or the operand format bf16"),
        (MxuConfig, {"weight": FP16, "splitter": True}, ValueError, f"{_SPLITTER} bf16, not fp32 into bf16_x_fp16"),
        (ProcessingElement, {"stages": 9}, ValueError, f"{_STAGES} 9"),
        (ProcessingElement, {"subnormals": ""}, ValueError, "subnormals must be 'flush' or 'ieee', not ''"),
    ],
)
def test_messages(make: Callable[..., Any], parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(**parameters)


def test_two_formats() -> None:
    one, two = MxuConfig(2, 3, operand=FP8_E5M2), MxuConfig(2, 3, **_HYBRID)
    assert (one.weight_format, two.weight_format) == (FP8_E5M2, FP8_E4M3)
    assert (one.cell_name, two.cell_name) == ("fp8_e5m2_flush_s1", "fp8_e5m2_x_fp8_e4m3_flush_s1")
    assert (MxuConfig().has_passes, MxuConfig(weight=FP16).has_passes) == (True, False)
    assert MxuConfig(2, 3, operand=FP8_E5M2, weight=FP8_E5M2) == one
    assert hash(replace(two, weight=FP8_E5M2)) == hash(one)


def test_text_and_plain_data() -> None:
    """Those of units with one format are as they were before there were two: caches and files have them."""
    one, two = MxuConfig(2, 3), MxuConfig(2, 3, weight=FP8_E4M3)
    assert repr(one).startswith("MxuConfig(rows=2, columns=3, stages=1, operand=FloatFormat(name='bf16', ")
    assert repr(one).endswith(", status=False, terms=1)")
    weight = "FloatFormat(name='fp8_e4m3', exponent_width=4, fraction_width=3, has_infinity=False)"
    assert repr(two) == f"{repr(one)[:-1]}, weight={weight})"
    assert [MxuConfig.of_dict(json.loads(json.dumps(asdict(config)))) for config in (one, two)] == [one, two]
    old = asdict(one)
    del old["weight"]
    assert MxuConfig.of_dict(old) == one


@pytest.mark.parametrize("stages", range(1, 8))
def test_all_stages_are_spent(stages: int) -> None:
    at_product, at_sum = split_stages(stages)
    assert at_product + at_sum == stages
    assert at_sum >= 1
