"""A routed layout passes all checks, and each damage to it is seen by one."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import gdstk
import pytest

from openmxu.layout.check.decks import check_circuit, check_rules
from openmxu.layout.check.netlists import differences, to_spice
from openmxu.layout.flow import steps
from openmxu.layout.flow.steps import Foundry, Outcome, Request, Source, lay_out
from openmxu.layout.placed import Placed
from openmxu.layout.route.routing import Wire
from openmxu.layout.technology import Rect, Technology

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("klayout") is None, reason="KLayout is not installed")]


@pytest.fixture(scope="module")
def outcome(source: Source, foundry: Foundry, pdk: Mapping[str, Path]) -> Outcome:
    """The layout, with checks: the decks' files are in the fixture ``pdk``."""
    return lay_out(source, replace(foundry, files=pdk), Request(), lambda line: None)


def _found(outcome: Outcome, foundry: Foundry, pdk: Mapping[str, Path], masks: Path) -> list[str]:
    """What LVS finds in masks, against the schematic of the layout."""
    spice, ports = to_spice(outcome.best.placed, pdk["transistors"].read_text(), ("VDD", "VSS"))
    return check_circuit(masks, spice, ports, outcome.best.placed.name, pdk["lvs"])


def test_the_layout_passes(outcome: Outcome) -> None:
    checked = outcome.checked
    assert checked is not None
    assert checked.passed
    assert (checked.circuit, checked.netlist, checked.proof) == ([], [], "")
    assert checked.rules["minimal"].rules == 91
    assert sum(each.master == "sg13g2_buf_8" for each in outcome.best.placed.instances) == 2


def _shape(wire: Wire, technology: Technology) -> tuple[int, Rect]:
    return technology.metals[wire.level].layer, technology.wire(*wire)


def _remove(top: gdstk.Cell, layer: int, rect: Rect) -> None:
    """Remove the one polygon that is this rectangle."""
    box = tuple(side / 1000 for side in rect)
    [shape] = [
        each
        for each in top.polygons
        if (each.layer, each.datatype) == (layer, 0)
        and all(abs(a - b) < 1e-6 for a, b in zip(sum(each.bounding_box(), ()), box, strict=True))
    ]
    top.remove(shape)


def _lose_via(top: gdstk.Cell, outcome: Outcome, technology: Technology) -> None:
    """The via between metals 2 and 3 of a net within."""
    via = next(via for via in outcome.best.routes["late[1]"].vias if via.level == 1)
    _remove(top, technology.metals[1].via["layer"], (via.x - 95, via.y - 95, via.x + 95, via.y + 95))


def _short(top: gdstk.Cell, outcome: Outcome, technology: Technology) -> None:
    """Join two wires of metal 3, of different nets, on neighbouring tracks."""
    wires = [(net, wire) for net, route in outcome.best.routes.items() for wire in route.wires if wire.level == 1]
    x, y = next(
        (max(one.x, other.x), one.y)
        for net, one in wires
        for its, other in wires
        if net != its
        and other.y - one.y == 420
        and max(one.x, other.x) < min(one.x + one.length, other.x + other.length)
    )
    top.add(gdstk.rectangle((x / 1000, y / 1000), (x / 1000 + 0.2, y / 1000 + 0.42), layer=30))


def _move_cell(top: gdstk.Cell, outcome: Outcome, technology: Technology) -> None:
    """By one site, a cell that is no fill."""
    cell = next(each for each in top.references if each.cell.name == "sg13g2_xnor2_1")
    cell.origin = (cell.origin[0] + 0.48, cell.origin[1])


def _cut_trunk(top: gdstk.Cell, outcome: Outcome, technology: Technology) -> None:
    """The longest wire between the clock's port and its buffers."""
    longest = max(outcome.best.routes["clk"].wires, key=lambda wire: wire.length)
    _remove(top, *_shape(longest, technology))


Damage = Callable[[gdstk.Cell, Outcome, Technology], None]


def _damaged(outcome: Outcome, foundry: Foundry, folder: Path, damage: Damage) -> Path:
    """The masks with a damage."""
    (folder / "sound.gds").write_bytes(outcome.masks)
    library = gdstk.read_gds(folder / "sound.gds")
    [top] = library.top_level()
    damage(top, outcome, foundry.technology)
    library.write_gds(folder / "damaged.gds")
    return folder / "damaged.gds"


@pytest.mark.parametrize("damage", [_lose_via, _short, _move_cell, _cut_trunk])
def test_damaged_masks_are_seen(
    outcome: Outcome, foundry: Foundry, pdk: Mapping[str, Path], tmp_path: Path, damage: Damage
) -> None:
    assert _found(outcome, foundry, pdk, _damaged(outcome, foundry, tmp_path, damage)) != []


def _crowd(top: gdstk.Cell, outcome: Outcome, technology: Technology) -> None:
    """A shape of metal 3 at 100 nm from a wire."""
    wire = next(wire for route in outcome.best.routes.values() for wire in route.wires if wire.level == 1)
    left, _, right, up = (side / 1000 for side in technology.wire(*wire))
    top.add(gdstk.rectangle((left, up + 0.1), (right, up + 0.2), layer=30))


@pytest.mark.parametrize(("damage", "rule"), [(_crowd, "M3.b"), (_move_cell, "Cnt.b")])
def test_broken_rules_are_counted(
    outcome: Outcome, foundry: Foundry, pdk: Mapping[str, Path], tmp_path: Path, damage: Damage, rule: str
) -> None:
    masks = _damaged(outcome, foundry, tmp_path, damage)
    assert rule in check_rules(masks, outcome.best.placed.name, pdk["minimal"]).counts


def _exchange(placed: Placed) -> Placed:
    """Two inputs of cells of one kind, of two nets within, change places."""
    nets = dict(placed.nets)
    one, other = "late[1]", "late[2]"
    nets[one], nets[other] = (*nets[one][:-1], nets[other][-1]), (*nets[other][:-1], nets[one][-1])
    return replace(placed, nets=nets)


def test_exchanged_inputs_are_seen(
    outcome: Outcome, source: Source, foundry: Foundry, pdk: Mapping[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Wires of a wrong netlist: its masks match itself, but not the right schematic; nor does it match the netlist."""
    wrong = _exchange(outcome.best.placed)
    monkeypatch.setattr(steps, "place", lambda *_, **__: wrong)
    monkeypatch.setattr(steps.cache, "fetch_result", lambda _, make, *__, **___: make())
    drawn = lay_out(source, replace(foundry, files=pdk), Request(), lambda line: None)
    assert drawn.checked is not None
    assert not drawn.checked.passed
    assert drawn.checked.circuit == []
    assert drawn.checked.netlist == differences(wrong, outcome.mapped, foundry.cells, foundry.technology.kit) != []
    (tmp_path / "wrong.gds").write_bytes(drawn.masks)
    assert _found(outcome, foundry, pdk, tmp_path / "wrong.gds") != []
