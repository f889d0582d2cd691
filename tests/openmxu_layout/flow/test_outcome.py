"""The report: figures that follow from the layout, and checks that failed."""

import json
import re
from dataclasses import replace

import pytest

from openmxu_layout.check.decks import Violations
from openmxu_layout.extract.arrivals import Timing
from openmxu_layout.flow.outcome import to_html, to_markdown, to_record
from openmxu_layout.flow.steps import Checked, Foundry, Layout, Outcome, Request, Source
from openmxu_layout.place.synthesis import Mapped
from openmxu_layout.placed import Instance, Placed
from openmxu_layout.route.routing import Route, Via, Wire

_INSTANCES = tuple(
    Instance(name, f"sg13g2_{master}", 0, 0, mirrored=False)
    for name, master in (("u0", "inv_1"), ("t1", "buf_4"), ("t2", "buf_8"), ("f0", "fill_1"))
)
_PLACED = Placed("case", 10_000, 7_560, _INSTANCES, {}, {"n": ()})
_ROUTES = {"n": Route([Wire(0, 0, 0, 2_000_000), Wire(3, 0, 0, 500_000)], [Via(0, 0, 0)])}


def _layout(seed: int, arrival: float) -> Layout:
    return Layout(_PLACED, _ROUTES, (), seed, "", Timing(arrival, 0.25, 0.125, 0.0625), Timing(1.5))


def _outcome(period: float | None = None) -> Outcome:
    layouts = [_layout(1, 4.25), _layout(2, 3.5)]
    checked = Checked({"minimal": Violations(91, {}, {"M1.j": 2})}, [], [], "")
    mapped = Mapped("case", {"u0": "sg13g2_inv_1"}, {}, {})
    request = Request(0.8, 2, period=period)
    return Outcome(Source("case --a 1", "case", ""), request, mapped, layouts, layouts[1], b"", checked, ["tool 1"])


def test_figures(foundry: Foundry) -> None:
    record = to_record(_outcome(3.0), foundry)
    area = sum(foundry.cells[f"sg13g2_{cell}"].width * 3.78e-3 for cell in ("inv_1", "buf_4", "buf_8"))
    assert json.loads(json.dumps(record)) == record
    assert (record["cells"], record["buffers"], record["seed"], record["core_um2"]) == (3, 2, 2, 75.6)
    assert record["cells_um2"] == pytest.approx(area, abs=0.06)
    assert record["seeds"][1] == {
        "seed": 2,
        "Metal2_mm": 2.0,
        "Metal3_mm": 0.0,
        "Metal4_mm": 0.0,
        "Metal5_mm": 0.5,
        "wires_mm": 2.5,
        "vias": 1,
        "wires_pf": 0.381,  # 0.1691 and 0.0857 pF a mm
        "arrival_ns": 3.5,
        "hold_ns": 0.25,
        "inputs_ns": 0.125,
        "skew_ns": 0.0625,
        "bare_ns": 1.5,
        "slack_ns": -0.5,
    }
    text = to_markdown(record)
    assert "| core µm² | 75.6 |" in text
    assert "| 2 | 2.0 | 0.0 | 0.0 | 0.5 | 2.5 | 1 | 0.381 | 3.5 | 0.25 | 0.125 | 0.0625 | 1.5 | -0.5 |" in text
    assert "| design rules, minimal deck (91) | kept; densities: 2 |" in text
    assert "Not signed off: " in text
    assert to_record(_outcome(), foundry)["seeds"][0]["slack_ns"] is None


@pytest.mark.parametrize("clocks", [(), ("my_ck",), ("a", "b")])
def test_several_clocks_are_said_to_be_timed_as_one(foundry: Foundry, clocks: tuple[str, ...]) -> None:
    text = to_markdown(to_record(replace(_outcome(), clocks=clocks), foundry))
    assert f"| clocks | {', '.join(clocks)} |" in text
    assert ("one clock with several ports" in text) == (len(clocks) > 1)


@pytest.mark.parametrize(
    ("checked", "row"),
    [
        (
            Checked({"minimal": Violations(91, {"M2.b": 3}, {})}, [], [], ""),
            "| design rules, minimal deck (91) | M2.b: 3 |",
        ),
        (Checked({}, ["net 1"], [], ""), "| transistors in the masks | 1 differences, first: net 1 |"),
        (Checked({}, [], ["u1", "u2"], ""), "| placed netlist, buffers apart | 2 differences, first: u1 |"),
        (
            Checked({}, [], [], "", ["the rail at 0 nm"]),
            "| rails, straps and stacks of vias in the masks | 1 differences, first: the rail at 0 nm |",
        ),
        (Checked({}, [], [], "it differs"), "| synthesised netlist | it differs |"),
    ],
)
def test_what_checks_found(foundry: Foundry, checked: Checked, row: str) -> None:
    assert not checked.passed
    failed = Outcome(**{**vars(_outcome()), "checked": checked})
    record = to_record(failed, foundry)
    assert record["checks"]["passed"] is False
    assert row in to_markdown(record)


def test_the_page_has_its_picture(foundry: Foundry) -> None:
    page = to_html(to_markdown(to_record(_outcome(), foundry)), b"picture")
    assert "<title>Layout of case --a 1</title>" in page
    assert re.findall('<img src="([^"]*)"', page) == ["data:image/png;base64,cGljdHVyZQ=="]
