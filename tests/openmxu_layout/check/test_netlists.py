"""The comparison of a placed netlist with the synthesised one, and each way in which one can be wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from openmxu_layout.check.decks import Circuit, Place
from openmxu_layout.check.netlists import differences, misdrawn, to_spice
from openmxu_layout.place.trees import with_trees
from openmxu_layout.placed import Instance, Placed

from ..conftest import IHP
from ..netlists import KIT, LIBRARY, shift_register

DESIGN = shift_register(300)
IHP_LIKE = replace(IHP, kit=KIT)
Nets = dict[str, tuple[tuple[str, str], ...]]


def _placed(length: int = 300) -> Placed:
    """As placed, with a clock tree of two levels; where cells lie does not matter."""
    design = shift_register(length)
    tree = with_trees(design, KIT, {name: (float(number), 0.0) for number, name in enumerate(design.instances)})
    instances = [Instance(name, master, 0, 0, mirrored=False) for name, master in tree.instances.items()]
    ports = dict.fromkeys(design.ports, (1, 0, 0))
    return Placed("shift", 0, 0, (*instances, Instance("f0", "gap4", 0, 0, mirrored=False)), ports, tree.nets)


def test_buffers_are_looked_through() -> None:
    placed = _placed()
    assert len(placed.instances) == 600 + 1 + 19 + 2
    assert differences(placed, DESIGN, LIBRARY, KIT) == []


def _exchange(nets: Nets) -> None:
    """Exchange two ends of two nets."""
    nets["d3"], nets["d4"] = (nets["d3"][0], nets["d4"][1]), (nets["d4"][0], nets["d3"][1])


def _trunk(nets: Nets) -> list[str]:
    return [net for net in nets if net.startswith("$")]


def _cut_trunk(nets: Nets) -> None:
    nets["clk"] = nets["clk"][:1]


def _lose_a_leaf(nets: Nets) -> None:
    leaf = _trunk(nets)[0]
    nets[leaf] = nets[leaf][:-1]


def _circle(nets: Nets) -> None:
    """Two buffers that drive each other: each net still has one driver, which no clock reaches."""
    one, other = _trunk(nets)[:2]
    ends = nets[one][0], nets[other][0]
    for net in nets:
        nets[net] = tuple(end for end in nets[net] if end not in {(name, "A") for name, _ in ends})
    nets[one] += ((ends[1][0], "A"),)
    nets[other] += ((ends[0][0], "A"),)


def _two_drivers(nets: Nets) -> None:
    nets["d3"] += (("inverter4", "Y"),)
    nets["d4"] = nets["d4"][1:]


def _short(nets: Nets) -> None:
    nets["d3"] += nets.pop("d4")


@pytest.mark.parametrize("damage", [_exchange, _cut_trunk, _lose_a_leaf, _circle, _two_drivers, _short])
def test_damaged_netlist_differs(damage: Callable[[Nets], None]) -> None:
    placed = _placed()
    nets = dict(placed.nets)
    damage(nets)
    assert nets != placed.nets
    assert differences(replace(placed, nets=nets), DESIGN, LIBRARY, KIT) != []


def test_exchanged_ports_and_cells_differ() -> None:
    placed = _placed()
    exchanged = {**placed.nets, "i": placed.nets["clk"], "clk": placed.nets["i"]}
    assert differences(replace(placed, nets=exchanged), DESIGN, LIBRARY, KIT) != []
    assert differences(replace(placed, ports={"i": (1, 0, 0), "clk": (1, 0, 0)}), DESIGN, LIBRARY, KIT) != []
    cell, *cells = placed.instances
    assert differences(replace(placed, instances=(replace(cell, master="buffer"), *cells)), DESIGN, LIBRARY, KIT) == [
        "inverter0 is buffer, not a inverter"
    ]
    added = Instance("more", "inverter", 0, 0, mirrored=False)
    assert differences(replace(placed, instances=(*placed.instances, added)), DESIGN, LIBRARY, KIT) == [
        "more is no buffer"
    ]


def test_spice_has_the_pins_in_the_order_of_the_cells() -> None:
    transistors = (
        ".SUBCKT inverter Y VSS A VDD\n.ENDS\n.subckt register C D Q VDD VSS\n.ENDS\n.SUBCKT gap4 VDD VSS\n.ENDS\n"
    )
    text = to_spice(_placed(1), transistors, ["VDD", "VSS"])
    numbers = {net: f"n{number}" for number, net in enumerate(_placed(1).nets)}
    assert text == (
        f"{transistors}\n.SUBCKT shift {numbers['i']} {numbers['clk']} {numbers['o']} VDD VSS\n"
        f"Xinverter0 {numbers['d0']} VSS {numbers['i']} VDD inverter\n"
        f"Xregister0 {numbers['clk']} {numbers['d0']} {numbers['o']} VDD VSS register\n"
        "Xf0 VDD VSS gap4\n.ENDS\n"
    )


_ROW = 3780
_FULL = _placed(3)
_DRAWN = replace(  # in two rows, of which the second is mirrored
    _FULL,
    instances=tuple(
        replace(each, x=number // 2 * 9600, y=number % 2 * _ROW, mirrored=number % 2 == 1)
        for number, each in enumerate(_FULL.instances)
    ),
)
_AT = {each.name: f"M Y({each.x} {each.y + _ROW})" if each.mirrored else f"Y({each.x} 0)" for each in _DRAWN.instances}


def _masks(nets: Mapping[str, Sequence[tuple[str, str]]], texts: Mapping[str, str]) -> Circuit:
    """Masks of cells at their places, all of one supply each; fill has no transistors."""
    place = {name: Place(master, _AT[name]) for name, master in _DRAWN.masters.items() if master != "gap4"}
    powered = {supply: [(name, supply) for name in place] for supply in ("VDD", "VSS")}
    return Circuit(
        [*place.values()],
        [
            (texts.get(net, ""), frozenset((place[name], pin) for name, pin in ends))
            for net, ends in (powered | dict(nets)).items()
        ],
        [],
    )


_TEXTS = {name: name for name in ("i", "clk", "o", "VDD", "VSS")}


def _swapped(one: tuple[str, str], other: tuple[str, str]) -> Nets:
    """The nets with two ends in each other's place."""
    swap = {one: other, other: one}
    return {net: tuple(swap.get(end, end) for end in ends) for net, ends in _DRAWN.nets.items()}


def test_masks_of_the_placed_circuit_match() -> None:
    assert misdrawn(_masks(_DRAWN.nets, _TEXTS), _DRAWN, IHP_LIKE) == []
    nowhere = replace(_DRAWN, nets={**_DRAWN.nets, "n": (("inverter1", "Z"),)})
    assert misdrawn(_masks(_DRAWN.nets, _TEXTS), nowhere, IHP_LIKE) == []
    unused = replace(_DRAWN, nets={**_DRAWN.nets, "idle": ()}, ports={**_DRAWN.ports, "idle": (1, 0, 0)})
    assert misdrawn(_masks(unused.nets, {**_TEXTS, "idle": "idle"}), unused, IHP_LIKE) == []


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        # Inverters in a row are alike to whoever compares names: here, each has its place.
        (_masks(_swapped(("inverter0", "A"), ("inverter1", "A")), _TEXTS), "net q0 lacks "),
        (_masks(_swapped(("register0", "C"), ("register0", "D")), _TEXTS), "net clk lacks register0 C"),
        (_masks(_DRAWN.nets, {**_TEXTS, "i": "o", "o": "i"}), "net i must have the text 'i' in the masks, not 'o'"),
        (
            _masks(_DRAWN.nets, {**_TEXTS, "VDD": "VSS", "VSS": "VDD"}),
            "net VDD must have the text 'VDD' in the masks, not 'VSS'",
        ),
        (_masks(_DRAWN.nets, {**_TEXTS, "d1": "o"}), "net d1 must have the text '' in the masks, not 'o'"),
        (
            _masks({**_DRAWN.nets, "i": (), "cut": _DRAWN.nets["i"]}, _TEXTS),
            "net i must have the text 'i' in the masks, not ''",
        ),
        (_masks({**_DRAWN.nets, "d1": _DRAWN.nets["d1"][:1], "cut": _DRAWN.nets["d1"][1:]}, _TEXTS), "net d1 lacks "),
        (_masks({**_DRAWN.nets, "d1": _DRAWN.nets["d1"][:1]}, _TEXTS), "net d1 lacks register1 D"),
        (_masks({**_DRAWN.nets, "more": (("inverter1", "no name"),)}, _TEXTS), "inverter1 has no name in the masks"),
    ],
)
def test_misdrawn_nets_are_named(masks: Circuit, words: str) -> None:
    assert [line for line in misdrawn(masks, _DRAWN, IHP_LIKE) if line.startswith(words)]


def test_cells_at_other_places_are_named() -> None:
    masks = _masks(_DRAWN.nets, _TEXTS)
    turned = replace(masks, cells=[masks.cells[0]._replace(at="M O(180) Y(0 0)"), *masks.cells[1:]])
    assert {"inverter0 is not in the masks", "inverter M O(180) Y(0 0) is only in the masks"} < {
        *misdrawn(turned, _DRAWN, IHP_LIKE)
    }
    twice = replace(masks, cells=[*masks.cells, masks.cells[0]])
    assert misdrawn(twice, _DRAWN, IHP_LIKE) == ["inverter Y(0 0) is only in the masks"]
    assert misdrawn(replace(masks, wrong=["circuit inverter differs"]), _DRAWN, IHP_LIKE) == [
        "circuit inverter differs"
    ]
