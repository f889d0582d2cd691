"""Reports beside each other, and what is behind a figure."""

import hashlib
import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from openmxu import yosys
from openmxu.area import Point, report
from openmxu.area.pages.compare import changes, to_text
from openmxu.area.pages.schema import read_report
from openmxu.area.subject.points import default_points
from openmxu.area.target.liberty import generic_library
from openmxu.cli import frame

from ..conftest import Refused


@pytest.fixture(scope="module")
def points() -> list[Point]:
    """Two small designs."""
    return sorted(default_points(), key=lambda point: point.width)[:2]


@pytest.fixture(scope="module")
def folder(tool: str, points: list[Point], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a report on them is."""
    folder = tmp_path_factory.mktemp("report")
    report(folder, targets=["generic"], points=points)
    return folder


@pytest.fixture
def old(folder: Path) -> dict[str, Any]:
    """Its content."""
    return read_report(folder / "area.json")


def test_what_has_moved(old: dict[str, Any]) -> None:
    new = deepcopy(old)
    assert to_text(old, new) == "nothing has moved"
    new["tool"] = "Yosys 9"
    first, second = new["results"]
    before = first["area"]
    first["area"] = 2 * before
    second |= {"flip_flops": 7, "depth": 99}
    lines = to_text(old, new).splitlines()
    assert lines[0] == f"tool: {old['tool']} -> Yosys 9"
    assert lines[1].endswith(f", generic, area: area {before:g} -> {2 * before:g} GE (+100.00%)")
    assert lines[2].endswith(", generic, area: flip_flops 0 -> 7")
    assert " -> 99 (" in lines[3]
    first["area"] = None
    assert f"area {before:g} -> failed GE" in to_text(old, new)


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("area", "area 2 -> 3 GE (+50.00%)"),
        ("flip_flops", "flip_flops 2 -> 3 (+50.00%)"),
        ("memory_bits", "memory_bits 2 -> 3 (+50.00%)"),
        ("depth", "depth 2 -> 3 (+50.00%)"),
        ("delay_ns", "delay 2 -> 3 ns (+50.00%)"),
    ],
)
def test_each_figure_that_has_moved(figure: str, words: str, old: dict[str, Any]) -> None:
    new = deepcopy(old)
    old["results"][0][figure], new["results"][0][figure] = 2, 3
    [change] = changes(old, new)
    assert str(change).endswith(f", generic, area: {words}")


def test_energies_that_have_moved(old: dict[str, Any]) -> None:
    """By design and operands; one that is new says so."""
    first = {"name": "adder fp32", "operands": "normal", "target": "generic", "recipe": "area", "total": 10.0}
    new = deepcopy(old)
    old["energies"] = [first]
    new["energies"] = [first | {"total": 11.0}, first | {"operands": "idle"}]
    moved, came = changes(old, new)
    assert str(moved) == "adder fp32 with operands normal, generic, area: energy 10 -> 11 pJ (+10.00%)"
    assert str(came) == "adder fp32 with operands idle, generic, area: new"


def test_designs_that_come_and_go(old: dict[str, Any]) -> None:
    new = deepcopy(old)
    entry = {"design": "adder", "target": "generic", "recipe": "area", "area": 5.0, "unit": "GE"}
    new["catalog"] += [entry, {**entry, "target": "ecp5"}]  # the old report knows nothing of the other target
    assert [str(change) for change in changes(old, new)] == ["adder, generic, area: new"]
    assert [str(change) for change in changes(new, old)] == ["adder, generic, area: gone"]


def test_command_compares(
    old: dict[str, Any],
    points: list[Point],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old["results"][0]["area"] = 1.0
    (tmp_path / "area.json").write_text(json.dumps(old))
    module = sys.modules["openmxu.area.report"]  # the package has the function by this name
    monkeypatch.setattr(module, "default_points", lambda: points)
    monkeypatch.setattr(module, "ablation_points", list)
    monkeypatch.setattr(module, "CATALOG", {})
    # Into the folder of the old report, which is read before.
    arguments = ["--target", "generic", "-o", str(tmp_path), "--compare", str(tmp_path / "area.json")]
    assert frame.main(["area", *arguments]) == 0
    shown = capsys.readouterr().out
    assert f"since {tmp_path}/area.json:\n" in shown
    assert ", generic, area: area 1 -> " in shown


def test_a_repeat_runs_nothing(
    folder: Path, points: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yosys, "run", lambda *_, **__: pytest.fail("Yosys must not run"))
    report(tmp_path, targets=["generic"], points=points)
    assert (tmp_path / "area.json").read_text() == (folder / "area.json").read_text()


def test_explain(folder: Path, old: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run = old["results"][0]
    for name in (run["figure"], run["figure"][:6], run["top"], run["name"]):
        assert frame.main(["area", "--explain", name, "-o", str(folder)]) == 0
        shown = capsys.readouterr().out
        assert f"figure {run['figure']}: {run['top']}, {run['area']:g} GE" in shown
        assert f"RTLIL    sha256 {run['rtlil_sha256']}\n" in shown
        assert f"library  openmxu_generic, sha256 {hashlib.sha256(generic_library().text).hexdigest()}\n" in shown
        assert old["tool"] in shown
        assert all(f"    {line}\n" in shown for line in run["script"].strip().splitlines())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--explain", "wombat"], "explain must be a figure or a design of the report, not 'wombat'"),
        (["--compare", "no.json"], "no.json: No such file or directory"),
        (["--compare", "later.json"], "the report must have the layout 2, not 9: later.json"),
    ],
)
def test_mistakes(
    arguments: list[str],
    complaint: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    refused: Refused,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("later.json").write_text('{"schema": 9}')
    if "--explain" in arguments:
        arguments = ["-o", str(folder), *arguments]
    assert complaint in refused(*arguments)


def _changed(report: dict[str, Any], place: str, value: object) -> bytes:
    """The report with another value in one place, such as ``results.0.area``; without it if there is none."""
    new = deepcopy(report)
    *path, last = (int(part) if part.isdecimal() else part for part in place.split("."))
    within: Any = new
    for part in path:
        within = within[part]
    if value is ...:
        del within[last]
    else:
        within[last] = value
    return json.dumps(new).encode()


_REPORT_KEYS = ("schema", "tool", "targets", "results", "catalog")
_RESULT_KEYS = (
    *("name", "top", "options", "target", "recipe", "unit", "area", "flip_flops", "memory_bits", "depth", "delay_ns"),
    *("figure", "rtlil_sha256", "script", "error"),
)


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        *((f"results.0.{key}", ..., f"data.results[0] must contain ['{key}'] properties") for key in _RESULT_KEYS),
        *((key, ..., f"data must contain ['{key}'] properties") for key in _REPORT_KEYS),
        ("schema", [2], "data.schema must be integer"),
        ("tool", 7, "data.tool must be string"),
        ("targets", {}, "data.targets must be array"),
        ("targets", [], "data.results[0].target must be one of data.targets, with its recipe, not 'generic'"),
        ("targets.0.library", 7, "data.targets[0].library must be valid exactly by one definition"),
        ("results", None, "data.results must be array"),
        ("results.1", [], "data.results[1] must be object"),
        ("results.1.area", "7", "data.results[1].area must be number or null"),
        ("results.1.area", True, "data.results[1].area must be number or null"),
        ("results.1.area", -1, "data.results[1].area must be bigger than or equal to 0"),
        ("results.1.area", 10**400, "data.results[1].area must be smaller than or equal to 1e+18"),
        ("results.1.area", float("nan"), "NaN is no number of JSON"),
        ("results.1.delay_ns", float("inf"), "Infinity is no number of JSON"),
        ("results.1.depth", {}, "data.results[1].depth must be number or null"),
        ("results.1.options", [1], "data.results[1].options must be object"),
        ("results.1.options", {"rows": [1]}, "data.results[1].options.rows must be string or number or boolean"),
        ("results.1.area_per_multiply_add", "7", "data.results[1].area_per_multiply_add must be number or null"),
        ("results.1.target", "asic", "data.results[1].target must be one of data.targets, with its recipe, not 'asic'"),
        ("catalog", [{"design": "adder"}], "data.catalog[0] must contain ['area', 'flip_flops', "),
    ],
)
def test_reports_that_are_none(
    place: str, value: object, complaint: str, old: dict[str, Any], tmp_path: Path, refused: Refused
) -> None:
    _check_refused(_changed(old, place, value), complaint, tmp_path, refused)


def test_older_reports(old: dict[str, Any], tmp_path: Path) -> None:
    """They have no areas of multiply-adds."""
    (tmp_path / "area.json").write_bytes(_changed(old, "results.1.area_per_multiply_add", ...))
    assert "area_per_multiply_add" not in read_report(tmp_path / "area.json")["results"][1]


def _check_refused(text: bytes, complaint: str, folder: Path, refused: Refused) -> None:
    """Both ways to read one; each says in a line which file is wrong, and where, and does nothing else."""
    (folder / "area.json").write_bytes(text)
    for arguments in (["-o", folder, "--explain", "multiplier"], ["--compare", folder / "area.json"]):
        wanted = f"the report must be an area.json of openmxu area, not {folder}/area.json: {complaint}"
        assert wanted in refused(*arguments)
        assert [path.name for path in folder.iterdir()] == ["area.json"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "Expecting value: line 1"),
        (b"[1, 2]", "data must be object"),
        (b"null", "data must be object"),
        (b'{"schema": 2, "tool": 1e999}', "1e999 is too large a number"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        (b"[" * 200000, "it is nested too deeply"),
        (b'{"a":' * 200000, "it is nested too deeply"),
        (b"\xff\xfe\x00", "'utf-16"),
        (b'{"tool": "\xff"}', "'utf-8' codec can't decode"),
        (bytes(100), "Expecting value"),
        (b" " * 2000, "it must be at most 0 MiB"),
    ],
)
def test_files_that_are_no_reports(
    text: bytes, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    if text.isspace():
        monkeypatch.setattr("openmxu.area.pages.schema._MOST_BYTES", 1000)
    _check_refused(text, complaint, tmp_path, refused)


def test_words_of_others_do_nothing_to_a_terminal(
    old: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "area.json").write_bytes(_changed(old, "tool", "Yosys \x1b[2J \ud800"))
    assert frame.main(["area", "--explain", old["results"][0]["figure"], "-o", str(tmp_path)]) == 0
    assert "tool     Yosys \\x1b[2J \\ud800" in capsys.readouterr().out
