"""Costs of layouts: energies with wires, followed by hand; what is tried and recorded."""

import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from openmxu.cells.energies import read_cells
from openmxu.cells.liberty import parse_library
from openmxu_layout.kit import Buffer, Kit
from openmxu_layout.placed import Instance, Placed
from openmxu_sim.energy.events import Activity, Player
from openmxu_studies.layouts import laying
from openmxu_studies.layouts.formats import Cost, Layouts, to_markdown
from openmxu_studies.layouts.wired import timed

from ..conftest import Said, needs_compiler
from ..openmxu_sim.energy.library import GATES, LOAD, flip_flop, gate, library

_WITH_BUFFER = GATES + flip_flop() + gate("BUF", 1, "A", "A", "positive_unate")
_CELLS = read_cells(parse_library(library(_WITH_BUFFER), "test"))
_BUFFER = Buffer("BUF", "A", "Y")
_KIT = Kit({}, {}, (), (), (), _BUFFER, _BUFFER, "C", ("FILL",))
_HALF = 2.0
"""pJ for each pF: half of its charge at 2 V."""


def _played(cells: str, nets: dict[str, str], farads: dict[str, float], **inputs: str) -> Activity:
    """Cells as in ``u1:INV``, the pins of nets as in ``u1.A u2.Y``; nets of one port each have its name."""
    instances = [Instance(*each.split(":"), 0, 0, mirrored=False) for each in cells.split()]
    ends = {net: tuple((pin.split(".")[0], pin.split(".")[1]) for pin in pins.split()) for net, pins in nets.items()}
    placed = Placed("top", 0, 0, tuple(instances), {}, ends)
    directions = {net: "output" if net == "y" else "input" for net in nets if len(net) == 1 or net == "clk"}
    made = timed(placed, directions, farads, _KIT, _CELLS)
    return Player(made).play(
        {name: np.array([[int(level)] for level in each], np.uint8) for name, each in inputs.items()}
    )


@needs_compiler
def test_wires_are_charged() -> None:
    """An inverter: 0.03 pF of wire before it, 0.05 pF after it."""
    farads = {"a": 0.03e-12, "y": 0.05e-12}
    bare, wired = (_played("u:INV f:FILL", {"a": "u.A", "y": "u.Y"}, each, a="0110") for each in ({}, farads))
    assert "".join(map(str, wired.outputs["y"][:, 0])) == "1001"
    assert wired.energies[:, 2] - bare.energies[:, 2] == pytest.approx([0, 0.08 * _HALF, 0, 0.08 * _HALF])
    assert bare.energies[1, 2] == pytest.approx(0.0005 + LOAD * _HALF + 0.001)


@needs_compiler
def test_wires_delay() -> None:
    """A pulse of an AND whose other input is late by an inverter's 0.1 ns and its wire's: 0.45 ns are needed."""
    nets = {"a": "i.A g.A", "late": "i.Y g.B", "y": "g.Y"}
    found = [_played("i:INV g:AND2", nets, {"late": each * 1e-12}, a="01").toggles[1] for each in (0.0, 0.2)]
    assert found == [2, 4]


@needs_compiler
def test_a_clock_tree() -> None:
    """Two buffers and a register: a cycle has two edges of three nets; a buffer takes 0.003 and 0.001 for its output,
    and 0.0005 for each edge of its input.
    """
    nets = {"clk": "b1.A", "c1": "b1.Y b2.A", "c2": "b2.Y r.C", "a": "r.D", "y": "r.Q"}
    farads = {"clk": 0.01e-12, "c2": 0.02e-12}
    found = _played("b1:BUF b2:BUF r:DFF", nets, farads, a="000")
    charges = 2 * (3 * LOAD + 0.03) * _HALF
    buffers = 2 * (0.003 + 0.001 + 2 * 0.0005)
    assert found.energies[:, 0] == pytest.approx(3 * [charges + buffers + 2 * 0.02])
    assert not found.energies[:, 1:].any()


_SEED = {"wires_mm": 2.0, "wires_pf": 0.5, "arrival_ns": 5.0, "bare_ns": 4.0, "hold_ns": 0.3}
_COST = Cost(
    "pe bf16", "pe", "bf16", 100, 9, 0.95, 1000.0, (_SEED, _SEED | {"wires_mm": 4.0}), (2.0,), (3.0, 5.0), True
)
_TWICE = Cost("pe fp16", "pe", "fp16", 150, 9, 0.9, 2500.0, (_SEED | {"hold_ns": None},), (2.0,), (6.0,), False)
_THEIRS = Cost("theirs", "theirs", "", 150, 9, 0.9, 2000.0, (_SEED,), (), (), True)


def test_record() -> None:
    record = Layouts("2026-01-01", "a machine", {"KLayout": "0.28"}, (_COST, _TWICE, _THEIRS))
    assert Layouts.of_json(record.to_json()) == record
    text = to_markdown(record)
    assert "| pe fp16 | 2.50 | 0.67 | 1.00 | 1.00 | 1.00 | 1.50 | 1.00 |" in text
    assert "| pe bf16 | 100 | 95% | 1,000 | 2.0 to 4.0 | 0.5 | 5.00 | 4.00 | 0.30 | 3.0 to 5.0 | 2.0 | passed |" in text
    assert "| pe fp16 | 150 | 90% | 2,500 | 2.0 | 0.5 | 5.00 | 4.00 |  | 6.0 | 2.0 | failed |" in text
    assert "| theirs | 150 | 90% | 2,000 | 2.0 | 0.5 | 5.00 | 4.00 | 0.30 |  |  | passed |" in text


def test_the_densest_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out, said = Mock(side_effect=[ValueError("no room"), ValueError("no room"), "laid out"]), list[str]()
    monkeypatch.setattr(laying, "lay_out", lay_out)
    assert laying._densest(SimpleNamespace(name="pe"), None, said.append) == "laid out"  # type: ignore[arg-type,comparison-overlap]
    asked = [call.args[2] for call in lay_out.call_args_list]
    assert [(each.utilisation, each.seeds, each.checks) for each in asked] == [(u, 3, "all") for u in (0.95, 0.9, 0.85)]
    assert said == ["pe, 95%: no room", "pe, 90%: no room"]


def test_designs() -> None:
    names = [each.name for each in laying.points()]
    assert len(names) == len({*names}) == 3 + 2 * 5 + 3
    assert {"multiplier fp32", "processing element bf16, 6 stages", "processing element of 4 terms fp16"} <= {*names}


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Said) -> None:
    layouts = Mock(return_value=Layouts("", "", {}, (_COST,)))
    monkeypatch.setattr(laying, "layouts", layouts)
    assert "pe bf16" in shown("study layouts --only a --json r.json --pdk", str(tmp_path))
    [call] = layouts.call_args_list
    assert call.args[:3] == ([tmp_path], None, ["a"])
    assert len(json.loads((tmp_path / "r.json").read_text())["costs"]) == 1


def test_no_kit_and_an_unknown_design(monkeypatch: pytest.MonkeyPatch, refused: Said) -> None:
    monkeypatch.delenv("OPENMXU_PDK", raising=False)
    kit = "--pdk must name a folder with the files of IHP's SG13G2, or $OPENMXU_PDK several"
    assert kit in refused("study layouts")
    assert "--pdk must name existing folders, not 'nowhere'" in refused("study layouts --pdk nowhere")
    monkeypatch.setattr(laying, "find_foundry", lambda *_, **__: SimpleNamespace(name="x"))
    with pytest.raises(ValueError, match=r"only must be one of multiplier bf16; .*, not 'pe'"):
        laying.layouts([], None, ["pe"], print)
