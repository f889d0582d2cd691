"""The comparison of a placed netlist with the synthesised one, and each way in which one can be wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from openmxu.layout.check.netlists import differences, to_spice
from openmxu.layout.place.trees import with_trees
from openmxu.layout.placed import Instance, Placed

from ..netlists import KIT, LIBRARY, shift_register

DESIGN = shift_register(300)
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
    text, ports = to_spice(_placed(1), transistors, ["VDD", "VSS"])
    numbers = {net: f"n{number}" for number, net in enumerate(_placed(1).nets)}
    assert ports == {**{port: numbers[port] for port in ("i", "clk", "o")}, "VDD": "VDD", "VSS": "VSS"}
    assert text == (
        f"{transistors}\n.SUBCKT shift {numbers['i']} {numbers['clk']} {numbers['o']} VDD VSS\n"
        f"Xinverter0 {numbers['d0']} VSS {numbers['i']} VDD inverter\n"
        f"Xregister0 {numbers['clk']} {numbers['d0']} {numbers['o']} VDD VSS register\n"
        "Xf0 VDD VSS gap4\n.ENDS\n"
    )
