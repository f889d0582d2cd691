"""Placing and routing any design: with tools that only write files, and once with the real ones."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from openmxu.catalog import CATALOG
from openmxu.cli import frame
from openmxu.unit.pe import ProcessingElement
from openmxu.yosys import yowasp
from openmxu_boards.bitstream.report import LongestPath
from openmxu_boards.bitstream.route import route

from .test_flow import step

CLOCKS = {1: 90.0, 2: 110.0, 3: 100.0}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run; nextpnr reports :data:`CLOCKS`."""
    calls: list[list[str]] = []
    used = {"TRELLIS_COMB": 1000, "TRELLIS_FF": 500, "TRELLIS_IO": 3, "MULT18X18D": 0}

    def run(tool: str, arguments: Sequence[str], work: Path, tell: object) -> None:
        calls.append([tool, *arguments])
        if tool == "yosys":
            (work / "design.json").write_text("netlist")
            return
        assert (work / "design.json").read_text() == "netlist"
        seed = int(arguments[arguments.index("--seed") + 1])
        long = [step("clk-to-q", 0.5, f"a{seed}", "x"), step("routing", 1.25, "x", "y"), step("setup", 0.0, "y", "z")]
        paths = [[step("clk-to-q", 0.5, "short", "short")], long]
        report = {
            "fmax": {"clk": {"achieved": CLOCKS[seed], "constraint": 200.0}},
            "utilization": {kind: {"used": count, "available": 24000} for kind, count in used.items()},
            "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": path} for path in paths],
        }
        (work / "report.json").write_text(json.dumps(report))

    monkeypatch.setattr(yowasp, "run", run)
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: None)
    return calls


def test_figures(commands: list[list[str]]) -> None:
    told: list[str] = []
    routed = route(ProcessingElement(), "ecp5-25f", [1, 2, 3], progress=told.append)
    assert (routed.median, routed.megahertz) == (100.0, CLOCKS)
    # 82 bits go in, with clock and reset left out, and as many out.
    ins, outs = 16 + 1 + 1 + 16 + 32, 16 + 1 + 1 + 16 + 32
    assert routed.cells == {"TRELLIS_COMB": 1000 - outs, "TRELLIS_FF": 500 - ins - outs}
    assert routed.path == LongestPath("a3", "z", cells=0, logic=0.5, routing=1.25)
    assert sorted(told) == [f"placement and routing, seed {n}" for n in (1, 2, 3)] + ["synthesis of pe_bf16_flush_s1"]
    assert commands[0][0] == "yosys"
    assert "synth_ecp5 -nowidelut -top registered" in commands[0][-1]
    assert {command[0] for command in commands[1:]} == {"nextpnr-ecp5"}
    assert json.loads(routed.to_json())["megahertz"] == {"1": 90.0, "2": 110.0, "3": 100.0}
    assert "clock: 100.0 MHz, median of 3 seeds (90.0 to 110.0)" in str(routed)


def test_command(commands: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["board", "route", "adder", "--seeds", "2", "--stages", "5", "--json", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out.startswith("adder_fp32_flush_s5 on Lattice ECP5 LFE5U-25F")
    assert json.loads((tmp_path / "r").read_text())["median"] == 90.0


@pytest.mark.slow
@pytest.mark.parametrize("device", ["ecp5-25f", "up5k"])
def test_a_design_that_is_routed(device: str) -> None:
    """A small one. Registers that repeat an input must not be merged with those around the design."""
    routed = route(CATALOG["converter"].build(stages=1), device, [1])
    assert 10 < routed.median < 1000
    registers = routed.cells.get("TRELLIS_FF", routed.cells.get("ICESTORM_LC", 0))
    assert 16 <= registers < 150
