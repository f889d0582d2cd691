"""A routed layout passes all checks, and each damage to it is seen by one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import gdstk
import pytest

from openmxu.cells.lef import Rect
from openmxu_layout.check.decks import check_circuit, check_rules
from openmxu_layout.check.netlists import differences, misdrawn, to_spice
from openmxu_layout.flow import steps
from openmxu_layout.flow.steps import Foundry, Outcome, Request, Source, lay_out
from openmxu_layout.placed import Placed

from ..conftest import IHP, needs_klayout

pytestmark = [pytest.mark.slow, needs_klayout]

Damage = Callable[[gdstk.Cell, Outcome], None]


@pytest.fixture(scope="module")
def outcome(source: Source, foundry: Foundry, pdk: Mapping[str, Path]) -> Outcome:
    """The layout, with checks: the decks' files are in the fixture ``pdk``."""
    return lay_out(source, replace(foundry, files=pdk), Request(), lambda line: None)


def _found(outcome: Outcome, pdk: Mapping[str, Path], masks: Path) -> list[str]:
    """What LVS finds in masks, against the layout."""
    placed = outcome.best.placed
    spice = to_spice(placed, pdk["transistors"].read_text(), ("VDD", "VSS"))
    return misdrawn(check_circuit(masks, spice, placed.name, pdk["lvs"]), placed, IHP)


def test_the_layout_passes(outcome: Outcome) -> None:
    checked = outcome.checked
    assert checked is not None
    assert checked.passed
    assert (checked.circuit, checked.netlist, checked.proof, checked.supplies) == ([], [], "", [])
    assert checked.rules["minimal"].rules == 91
    assert {"M1.j", "M3Fil.h"} < checked.rules["minimal"].densities.keys()
    assert sum(each.master == "sg13g2_buf_8" for each in outcome.best.placed.instances) == 2


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


def _lose_via(net: str) -> Damage:
    """The first via between metals 2 and 3 of a net."""

    def damage(top: gdstk.Cell, outcome: Outcome) -> None:
        via = next(via for via in outcome.best.routes[net].vias if via.level == 1)
        _remove(top, IHP.metals[1].via["layer"], (via.x - 95, via.y - 95, via.x + 95, via.y + 95))

    return damage


def _exchange_texts(top: gdstk.Cell, outcome: Outcome) -> None:
    for text in top.labels:
        text.text = {"i[0]": "i[1]", "i[1]": "i[0]"}.get(text.text, text.text)


def _lose_text(top: gdstk.Cell, outcome: Outcome) -> None:
    top.remove(next(text for text in top.labels if text.text == "i[0]"))


def _short(top: gdstk.Cell, outcome: Outcome) -> None:
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


def _move_cell(top: gdstk.Cell, outcome: Outcome) -> None:
    """By two sites, a cell that is no fill."""
    cell = next(each for each in top.references if each.cell.name == "sg13g2_xnor2_1")
    cell.origin = (cell.origin[0] + 0.96, cell.origin[1])


def _cut_trunk(top: gdstk.Cell, outcome: Outcome) -> None:
    """The longest wire between the clock's port and its buffers."""
    longest = max(outcome.best.routes["clk"].wires, key=lambda wire: wire.length)
    _remove(top, IHP.metals[longest.level].layer, IHP.wire(*longest))


def _damaged(outcome: Outcome, folder: Path, damage: Damage) -> Path:
    """The masks with a damage."""
    (folder / "sound.gds").write_bytes(outcome.masks)
    library = gdstk.read_gds(folder / "sound.gds")
    [top] = library.top_level()
    damage(top, outcome)
    library.write_gds(folder / "damaged.gds")
    return folder / "damaged.gds"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_lose_via("late[1]"), "net "),  # within the circuit
        (
            _lose_via("i[0]"),
            "net i[0] must have the text 'i[0]' in the masks, not ''",
        ),  # an input: KLayout says that all matches
        (_exchange_texts, "net i[0] must have the text 'i[0]' in the masks, not 'i[1]'"),  # likewise
        (_lose_text, "net i[0] must have the text 'i[0]' in the masks, not ''"),  # likewise
        (_short, "net "),
        (_move_cell, "sg13g2_xnor2_1 "),
        (_cut_trunk, "net "),
    ],
)
def test_damaged_masks_are_seen(
    outcome: Outcome, pdk: Mapping[str, Path], tmp_path: Path, damage: Damage, words: str
) -> None:
    wrong = _found(outcome, pdk, _damaged(outcome, tmp_path, damage))
    assert [line for line in wrong if line.startswith(words)]


def _crowd(top: gdstk.Cell, outcome: Outcome) -> None:
    """A shape of metal 3 at 100 nm from a wire."""
    wire = next(wire for route in outcome.best.routes.values() for wire in route.wires if wire.level == 1)
    left, _, right, up = (side / 1000 for side in IHP.wire(*wire))
    top.add(gdstk.rectangle((left, up + 0.1), (right, up + 0.2), layer=30))


@pytest.mark.parametrize(("damage", "rule"), [(_crowd, "M3.b"), (_move_cell, "Cnt.b")])
def test_broken_rules_are_counted(
    outcome: Outcome, pdk: Mapping[str, Path], tmp_path: Path, damage: Damage, rule: str
) -> None:
    masks = _damaged(outcome, tmp_path, damage)
    assert rule in check_rules(masks, outcome.best.placed.name, pdk["minimal"], 91).counts


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
    assert _found(outcome, pdk, tmp_path / "wrong.gds") != []
