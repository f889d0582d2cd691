"""Reports beside each other, and what is behind a figure."""

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from openmxu import cli
from openmxu.synth import report, yosys
from openmxu.synth.compare import changes, read_report, to_text
from openmxu.synth.points import default_points


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a report on two small designs is."""
    yosys.prepare()
    folder = tmp_path_factory.mktemp("report")
    points = sorted(default_points(), key=lambda point: point.width)[:2]
    report(folder, targets=["generic"], points=points)
    return folder


@pytest.fixture
def old(folder: Path) -> dict[str, Any]:
    """Its content."""
    return read_report(folder / "area.json")


def test_nothing_has_moved(old: dict[str, Any]) -> None:
    assert changes(old, deepcopy(old)) == []
    assert to_text(old, deepcopy(old)) == "nothing has moved"


def test_what_has_moved(old: dict[str, Any]) -> None:
    new = deepcopy(old)
    new["tool"] = "Yosys 9"
    first, second = new["results"]
    before = first["area"]
    first["area"] = 2 * before
    second["flip_flops"] = 7
    lines = to_text(old, new).splitlines()
    assert lines[0] == f"tool: {old['tool']} -> Yosys 9"
    assert lines[1].endswith(f", generic, area: area {before:g} -> {2 * before:g} GE (+100.00%)")
    assert lines[2].endswith(", generic, area: flip_flops 0 -> 7")
    second["depth"] = 99
    assert " -> 99 (" in to_text(old, new).splitlines()[3]
    first["area"] = None
    assert f"area {before:g} -> failed GE" in to_text(old, new)


def test_designs_that_come_and_go(old: dict[str, Any]) -> None:
    new = deepcopy(old)
    entry = {"design": "adder", "target": "generic", "recipe": "area", "area": 5.0, "flip_flops": 0, "memory_bits": 0,
             "unit": "GE"}
    new["catalog"].append(entry)
    other = {**entry, "target": "ecp5"}  # the old report knows nothing of it
    new["catalog"].append(other)
    assert [str(change) for change in changes(old, new)] == ["adder, generic, area: new"]
    assert [str(change) for change in changes(new, old)] == ["adder, generic, area: gone"]


def test_command_compares(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                          capsys: pytest.CaptureFixture[str]) -> None:
    old = read_report(folder / "area.json")
    old["results"][0]["area"] = 1.0
    (tmp_path / "area.json").write_text(json.dumps(old))
    points = sorted(default_points(), key=lambda point: point.width)[:2]
    module = sys.modules["openmxu.synth.report"]  # the package has the function by this name
    monkeypatch.setattr(module, "default_points", lambda: points)
    monkeypatch.setattr(module, "ablation_points", list)
    monkeypatch.setattr(module, "CATALOG", {})
    # Into the folder of the old report, which is read before.
    arguments = ["--target", "generic", "-o", str(tmp_path), "--compare", str(tmp_path / "area.json")]
    assert cli.main(["area", *arguments]) == 0
    shown = capsys.readouterr().out
    assert f"since {tmp_path}/area.json:\n" in shown
    assert ", generic, area: area 1 -> " in shown


def test_a_repeat_runs_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> None:
        raise AssertionError("Yosys must not run")

    monkeypatch.setattr(yosys, "run", forbidden)
    points = sorted(default_points(), key=lambda point: point.width)[:2]
    report(tmp_path, targets=["generic"], points=points)
    assert (tmp_path / "area.json").read_text() == (folder / "area.json").read_text()


def test_explain(folder: Path, old: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run = old["results"][0]
    for name in (run["figure"], run["figure"][:6], run["top"], run["name"]):
        assert cli.main(["area", "--explain", name, "-o", str(folder)]) == 0
        shown = capsys.readouterr().out
        assert f"figure {run['figure']}: {run['top']}, {run['area']:g} GE" in shown
        assert run["rtlil_sha256"] in shown
        assert old["tool"] in shown
        assert all(f"    {line}\n" in shown for line in run["script"].strip().splitlines())


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--explain", "wombat"], "explain must be a figure or a design of the report, not 'wombat'"),
    (["--compare", "no.json"], "no.json: No such file or directory"),
    (["--compare", "poor.json"], "the report must be an area.json of openmxu area, not poor.json"),
    (["--compare", "later.json"], "the report must have the layout 2, not 9: later.json"),
])
def test_mistakes(arguments: list[str], complaint: str, folder: Path, tmp_path: Path,
                  monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poor.json").write_text("[1, 2]")
    (tmp_path / "later.json").write_text('{"schema": 9}')
    assert cli.main(["area", "-o", str(folder), *arguments]) == 2
    assert complaint in capsys.readouterr().err
