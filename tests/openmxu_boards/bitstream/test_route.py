# amaranth: UnusedElaboratable=no
# (a design for a device that there is not goes unused)
"""Placing and routing any design: with tools that only write files, and once with the real ones."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from openmxu.catalog import CATALOG, EXPORTED
from openmxu.cli import frame
from openmxu.unit.pe import ProcessingElement
from openmxu.yosys import yowasp
from openmxu_boards import tools
from openmxu_boards.bitstream.report import LongestPath
from openmxu_boards.bitstream.route import route

from .test_flow import step

CLOCKS = {1: 90.0, 2: 110.0, 3: 100.0}


def _report(seed: int) -> dict[str, Any]:
    clocked = {"from": "posedge clk", "to": "posedge clk"}
    short = [step("clk-to-q", 0.5, "short", "short")]
    long = [step("clk-to-q", 0.5, f"a{seed}", "x"), step("routing", 1.25, "x", "y"), step("setup", 0.0, "y", "z")]
    return {
        "fmax": {"clk": {"achieved": CLOCKS[seed], "constraint": 200.0}},
        "utilization": {
            "TRELLIS_COMB": {"used": 1000, "available": 24000},
            "TRELLIS_FF": {"used": 500, "available": 24000},
            "TRELLIS_IO": {"used": 3, "available": 100},
            "MULT18X18D": {"used": 0, "available": 28},
        },
        "critical_paths": [clocked | {"path": short}, clocked | {"path": long}],
    }


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run; nextpnr reports :data:`CLOCKS`."""
    calls: list[list[str]] = []

    def run(tool: str, arguments: Sequence[str], work: Path, tell: Callable[[str], None]) -> None:
        calls.append([tool, *arguments])
        if tool == "yosys":
            (work / "design.json").write_text("netlist")
        else:
            assert (work / "design.json").read_text() == "netlist"
            seed = int(arguments[arguments.index("--seed") + 1])
            (work / "report.json").write_text(json.dumps(_report(seed)))

    monkeypatch.setattr(yowasp, "run", run)
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: None)
    monkeypatch.setattr(tools, "check", lambda names: None)
    monkeypatch.setattr(tools, "versions", lambda names: dict.fromkeys(names, "1"))
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pe", "--device", "vax"], "device must be one of ecp5-25f, ecp5-85f, up5k, not 'vax'"),
        (["pe", "--seeds", "0"], "seeds must be from 1 to 100, not 0"),
        (["car"], f"DESIGN must be one of {', '.join(EXPORTED)}, not 'car'"),
        (["pe", "--rows", "2"], "pe has no parameter 'rows'; it has operand, subnormals, stages, terms"),
    ],
)
def test_mistakes(
    arguments: list[str], message: str, commands: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert frame.main(["board", "route", *arguments, "--json", str(tmp_path / "r")]) == 2
    assert capsys.readouterr().err == f"openmxu board route: {message}\n"
    assert not commands
    assert not list(tmp_path.iterdir())


def test_no_seed() -> None:
    with pytest.raises(ValueError, match=r"^seeds must be one or more, not none$"):
        route(ProcessingElement(), "ecp5-25f", [])


@pytest.mark.slow
@pytest.mark.parametrize("device", ["ecp5-25f", "up5k"])
def test_a_design_that_is_routed(device: str) -> None:
    """A small one. Registers that repeat an input must not be merged with those around the design."""
    routed = route(CATALOG["converter"].build(stages=1), device, [1])
    assert 10 < routed.median < 1000
    registers = routed.cells.get("TRELLIS_FF", routed.cells.get("ICESTORM_LC", 0))
    assert 16 <= registers < 150
