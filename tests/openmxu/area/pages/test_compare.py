"""Reports beside each other, and what is behind a figure."""

import json
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from openmxu import yosys
from openmxu.area import default_points, report
from openmxu.area.pages.compare import to_text
from openmxu.area.pages.schema import read_report
from openmxu.cells.liberty import generic_library

from ....conftest import Said
from ..conftest import report_module

POINTS = sorted(default_points(), key=lambda point: point.width)[:2]


@pytest.fixture(scope="module")
def folder(tool: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a report on two small designs is."""
    folder = tmp_path_factory.mktemp("report")
    report(folder, targets=["generic"], points=POINTS)
    return folder


@pytest.fixture
def old(folder: Path) -> dict[str, Any]:
    return read_report(folder / "area.json")


def changed(report: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """The report with another value in one place, such as ``results.0.area``; without it if there is none."""
    new: Any = deepcopy(report)
    keys: list[Any] = [int(part) if part.isdecimal() else part for part in place.split(".")]
    within = reduce(getitem, keys[:-1], new)
    if value is ...:
        del within[keys[-1]]
    else:
        within[keys[-1]] = value
    return dict(new)


ENERGY = {"name": "adder fp32", "operands": "normal", "target": "generic", "recipe": "area", "total": 10.0}
ENTRY = {"design": "adder", "target": "generic", "recipe": "area", "area": 5.0, "unit": "GE"}


@pytest.mark.parametrize(
    ("place", "before", "after", "words"),
    [
        *((f"results.0.{each}", 2, 3, f"{each} 2 -> 3 (+50.00%)") for each in ("flip_flops", "memory_bits", "depth")),
        ("results.0.area", 2, 3, "area 2 -> 3 GE (+50.00%)"),
        ("results.0.area", 2, None, "area 2 -> failed GE"),
        ("results.0.delay_ns", 2, 3, "delay 2 -> 3 ns (+50.00%)"),
        ("results.0.flip_flops", 0, 7, "flip_flops 0 -> 7"),
        ("energies", [ENERGY], [{**ENERGY, "total": 11.0}], "energy 10 -> 11 pJ (+10.00%)"),
        ("energies", [ENERGY], [ENERGY, {**ENERGY, "operands": "idle"}], "new"),
        # The old report knows nothing of the other target.
        ("catalog", [], [ENTRY, {**ENTRY, "target": "ecp5"}], "new"),
        ("catalog", [ENTRY, {**ENTRY, "target": "ecp5"}], [], "gone"),
    ],
)
def test_what_has_moved(place: str, before: object, after: object, words: str, old: dict[str, Any]) -> None:
    names = {"catalog": "adder", "energies": f"adder fp32 with operands {'idle' if words == 'new' else 'normal'}"}
    one, other = (changed(old, place, value) for value in (before, after))
    assert to_text(one, other) == f"{names.get(place, old['results'][0]['top'])}, generic, area: {words}"


def test_another_tool(old: dict[str, Any]) -> None:
    assert to_text(old, deepcopy(old)) == "nothing has moved"
    first, second = to_text(old, changed(changed(old, "tool", "Yosys 9"), "results.1.depth", 99)).splitlines()
    assert first == f"tool: {old['tool']} -> Yosys 9"
    assert " -> 99 (" in second


def test_command_compares(old: dict[str, Any], monkeypatch: pytest.MonkeyPatch, shown: Said) -> None:
    Path("area.json").write_text(json.dumps(changed(old, "results.0.area", 1.0)))
    for name, value in (("default_points", lambda: POINTS), ("ablation_points", list), ("CATALOG", {})):
        monkeypatch.setattr(report_module, name, value)
    # Into the folder of the old report, which is read before.
    said = shown("area --target generic -o . --compare area.json")
    assert "since area.json:\n" in said
    assert ", generic, area: area 1 -> " in said


def test_a_repeat_runs_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "run", lambda *_, **__: pytest.fail("Yosys must not run"))
    report(tmp_path, targets=["generic"], points=POINTS)
    assert (tmp_path / "area.json").read_text() == (folder / "area.json").read_text()


def test_explain(folder: Path, old: dict[str, Any], shown: Said) -> None:
    run = old["results"][0]
    for name in (run["figure"], run["figure"][:6], run["top"], run["name"]):
        said = shown("area -o", str(folder), "--explain", name)
        assert f"figure {run['figure']}: {run['top']}, {run['area']:g} GE" in said
        assert f"RTLIL    sha256 {run['rtlil_sha256']}\n" in said
        assert f"library  openmxu_generic, sha256 {generic_library().sha256}\n" in said
        assert old["tool"] in said
        assert all(f"    {line}\n" in said for line in run["script"].strip().splitlines())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--explain", "wombat"], "explain must be a figure or a design of the report, not 'wombat'"),
        (["--compare", "no.json"], "no.json: No such file or directory"),
        (["--compare", "later.json"], "the report must have the layout 2, not 9: later.json"),
    ],
)
def test_mistakes(arguments: list[str], complaint: str, folder: Path, refused: Said) -> None:
    Path("later.json").write_text('{"schema": 9}')
    assert complaint in refused(*(["-o", folder] if "--explain" in arguments else []), *arguments)


_TARGET = "must be one of data.targets, with its recipe"
_REPORT_KEYS = ("schema", "tool", "targets", "results", "catalog")
_RESULT_KEYS = (
    *("name", "top", "options", "target", "recipe", "unit", "area", "flip_flops", "memory_bits", "depth", "delay_ns"),
    *("figure", "rtlil_sha256", "script", "error"),
)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        *((("results.0." + key, ...), f"data.results[0] must contain ['{key}'] properties") for key in _RESULT_KEYS),
        *(((key, ...), f"data must contain ['{key}'] properties") for key in _REPORT_KEYS),
        (("schema", [2]), "data.schema must be integer"),
        (("tool", 7), "data.tool must be string"),
        (("targets", {}), "data.targets must be array"),
        (("targets", []), f"data.results[0].target {_TARGET}, not 'generic'"),
        (("targets.0.library", 7), "data.targets[0].library must be valid exactly by one definition"),
        (("results", None), "data.results must be array"),
        (("results.1", []), "data.results[1] must be object"),
        (("results.1.area", "7"), "data.results[1].area must be number or null"),
        (("results.1.area", True), "data.results[1].area must be number or null"),
        (("results.1.area", -1), "data.results[1].area must be bigger than or equal to 0"),
        (("results.1.area", 10**400), "data.results[1].area must be smaller than or equal to 1e+18"),
        (("results.1.area", float("nan")), "NaN is no number of JSON"),
        (("results.1.delay_ns", float("inf")), "Infinity is no number of JSON"),
        (("results.1.depth", {}), "data.results[1].depth must be number or null"),
        (("results.1.options", [1]), "data.results[1].options must be object"),
        (("results.1.options", {"rows": [1]}), "data.results[1].options.rows must be string or number or boolean"),
        (("results.1.area_per_multiply_add", "7"), "data.results[1].area_per_multiply_add must be number or null"),
        (("results.1.target", "asic"), f"data.results[1].target {_TARGET}, not 'asic'"),
        (("catalog", [{"design": "adder"}]), "data.catalog[0] must contain ['area', 'flip_flops', "),
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
    ],
    ids=lambda value: str(value)[:60],
)
def test_reports_that_are_none(content: Any, complaint: str, old: dict[str, Any], refused: Said) -> None:
    """Both ways to read one; each says in a line which file is wrong, and where, and does nothing else."""
    text = content if isinstance(content, bytes) else json.dumps(changed(old, *content)).encode()
    Path("area.json").write_bytes(text)
    for arguments in (["-o", ".", "--explain", "multiplier"], ["--compare", "area.json"]):
        wanted = f"the report must be an area.json of openmxu area, not area.json: {complaint}"
        assert wanted in refused(*arguments)


def test_reports_of_others(old: dict[str, Any], shown: Said) -> None:
    """Older ones have no areas of multiply-adds. Words do nothing to a terminal."""
    Path("area.json").write_text(json.dumps(changed(old, "results.1.area_per_multiply_add", ...)))
    assert "area_per_multiply_add" not in read_report(Path("area.json"))["results"][1]
    Path("area.json").write_text(json.dumps(changed(old, "tool", "Yosys \x1b[2J \ud800")))
    said = shown("area -o . --explain", old["results"][0]["figure"])
    assert "tool     Yosys \\x1b[2J \\ud800" in said
