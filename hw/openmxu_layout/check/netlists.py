"""The netlist of a placed design: it is the synthesised one with buffers put in; and its transistors, in SPICE.

::

    RTL ══ synthesised netlist ══ placed netlist ══ cells and wires in the masks
        │                      │                 │
        │ :mod:`.equality`     │ differences     │ misdrawn

Transistors within cells are compared with SPICE by :mod:`.decks`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from openmxu.cells.lef import LefCell
from openmxu_layout.check.decks import Circuit, Place
from openmxu_layout.kit import Kit
from openmxu_layout.place.synthesis import Mapped
from openmxu_layout.placed import Placed
from openmxu_layout.technology import Technology

End = tuple[str, str]
"""An instance, and its pin."""


def differences(placed: Placed, mapped: Mapped, library: Mapping[str, LefCell], kit: Kit) -> list[str]:
    """Why a placed netlist is not the synthesised one with buffers put into nets, in words; empty if it is.

    A net with one driver, and as many as its buffers drive, is one net. Each has exactly one driver, so buffers that
    drive each other are no part of a net, and what they drive is missing from it.
    """
    buffers = {buffer.cell: buffer for buffer in (kit.buffer, kit.clock_buffer)}
    masters = {name: master for name, master in placed.masters.items() if master not in kit.fill}
    added = {name: master for name, master in masters.items() if name not in mapped.instances}
    wrong = [f"{name} is no buffer" for name, master in added.items() if master not in buffers]
    wrong += [
        f"{name} is {masters.get(name, 'missing')}, not a {master}"
        for name, master in mapped.instances.items()
        if masters.get(name) != master
    ]
    net_of = {end: net for net, ends in placed.nets.items() for end in ends}
    pairs = ((name, buffers[master]) for name, master in added.items() if master in buffers)
    # The net before the buffer that drives a net.
    above = {net_of.get((name, its.output), ""): net_of.get((name, its.input), "") for name, its in pairs}

    def root(net: str) -> str:
        path = [net]
        while (before := above.get(path[-1])) is not None and before not in path:
            path.append(before)
        return path[-1]

    roots: dict[str, tuple[set[tuple[str, str]], set[str]]] = defaultdict(lambda: (set(), set()))
    for net, pins in placed.nets.items():
        roots[root(net)][0].update(end for end in pins if end[0] not in added)
        drivers = [f"{name} {pin}" for name, pin in pins if library[masters[name]].pins[pin].direction == "OUTPUT"]
        drivers += [net] * (mapped.ports.get(net) == "input")
        if len(drivers) != 1:
            wrong.append(f"net {net} must have one driver, not {', '.join(drivers) or 'none'}")
    for port in placed.ports:
        roots[root(port)][1].add(port)
    ours = {(frozenset(pins), frozenset(ports)) for pins, ports in roots.values()}
    theirs = {(frozenset(pins), frozenset({net} & mapped.ports.keys())) for net, pins in mapped.nets.items()}
    for which, nets in (("placed", ours - theirs), ("synthesised", theirs - ours)):
        for inner, outer in nets:
            ends = " ".join([*sorted(outer), *(f"{name}.{pin}" for name, pin in sorted(inner))])
            wrong.append(f"only the {which} netlist has a net of {ends}")
    return sorted(wrong)


def misdrawn(masks: Circuit, placed: Placed, technology: Technology) -> list[str]:
    """Where the circuit in masks is not the placed one, in words; empty if it is.

    A cell in masks is known by its place, so equal nets have the same pins of the same cells. Texts name ports and
    supplies; a port that leads to no cell is in no netlist of masks.
    """
    row, supplies, fill = technology.grid["row"], technology.straps["supplies"], technology.kit.fill
    cells = {
        Place(each.master, f"M Y({each.x} {each.y + row})" if each.mirrored else f"Y({each.x} {each.y})"): each.name
        for each in placed.instances
    }
    count = Counter(masks.cells)
    wrong = [
        *masks.wrong,
        *(f"{place.master} {place.at} is only in the masks" for place in (count - Counter(cells.keys()))),
    ]
    wrong += [
        f"{name} is not in the masks" for place, name in cells.items() if not count[place] | (place.master in fill)
    ]
    expected = {net: (net if net in placed.ports else "", frozenset(ends)) for net, ends in placed.nets.items() if ends}
    for supply in supplies:
        expected[supply] = supply, frozenset((name, supply) for place, name in cells.items() if count[place])
    drawn = [
        (text, frozenset((cells.get(place, " ".join(place)), pin) for place, pin in ends)) for text, ends in masks.nets
    ]
    there = {end: net for net in drawn for end in net[1]}
    for net, (text, ends) in expected.items():
        found = {there[end] for end in ends & there.keys()}
        if not (found or text or len(ends) > 1):
            continue  # an output that leads nowhere is in no netlist of masks
        # The largest piece stands for the net.
        name, drawn_ends = max(found, key=lambda each: (len(each[1] & ends), each[0]), default=("", frozenset[End]()))
        for does, its in (("has", drawn_ends - ends), ("lacks", ends - drawn_ends)):
            wrong += [f"net {net} {does} {' '.join(min(its))} in the masks"] if its else []
        if name != text:
            wrong.append(f"net {net} must have the text {text!r} in the masks, not {name!r}")
    extra = there.keys() - {end for _, ends in expected.values() for end in ends}
    return wrong + [f"{cell} has {pin} in the masks" for cell, pin in sorted(extra) if cell in placed.masters]


def to_spice(placed: Placed, transistors: str, supplies: Sequence[str]) -> str:
    """The placed netlist in SPICE, below the text that has the transistors of the library's cells.

    Nets have numbers, as SPICE does not tell upper from lower case, and some readers do not know brackets.
    """
    orders = {name: pins.split() for name, pins in re.findall(r"^\.subckt (\S+) (.*)$", transistors, re.I | re.M)}
    names = {net: f"n{number}" for number, net in enumerate(placed.nets)} | {supply: supply for supply in supplies}
    nets = {end: names[net] for net, ends in placed.nets.items() for end in ends}
    nets |= {(each.name, supply): supply for each in placed.instances for supply in supplies}
    cells = (
        f"X{each.name} {' '.join(nets[each.name, pin] for pin in orders[each.master])} {each.master}"
        for each in placed.instances
    )
    top = f".SUBCKT {placed.name} {' '.join([*(names[port] for port in placed.ports), *supplies])}"
    return "\n".join([transistors, top, *cells, ".ENDS", ""])
