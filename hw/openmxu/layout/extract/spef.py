"""The wires of a layout as resistors and capacitors, in SPEF.

::

    u1:Y ─via─┬─wire─┬─via─┬─wire─ port        A net's wires are cut where vias and ports are. A piece has its
              ╧      ╧     ╧      ╧            resistance, and half of its capacitance at each end.

Capacitance is that of a µm of the metal, whatever runs beside it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from openmxu.layout.place.synthesis import Pins
from openmxu.layout.placed import Placed, Port
from openmxu.layout.route.routing import Route
from openmxu.layout.technology import Technology

_Node = tuple[int, int, int]
"""Level and place; level -1 is the metal of pins."""

_HEADER = """\
*SPEF "IEEE 1481-1998" *DESIGN "{name}" *DATE "" *VENDOR "" *PROGRAM "openmxu layout" *VERSION "" *DESIGN_FLOW ""
*DIVIDER / *DELIMITER : *BUS_DELIMITER [ ] *T_UNIT 1 NS *C_UNIT 1 FF *R_UNIT 1 OHM *L_UNIT 1 HENRY
"""


def write_spef(
    placed: Placed, routes: Mapping[str, Route], technology: Technology, directions: Mapping[str, str], scale: int = 1
) -> str:
    """The text of a layout's SPEF file; ``directions``: ``"input"`` or ``"output"`` of each port. Resistances and
    capacitances are times ``scale``: 0 for delays without wires.
    """
    ports: dict[str, list[Port]] = {net: [] for net in placed.nets}
    for port in placed.ports:
        ports[port.net].append(port)
    lines = [_HEADER.format(name=placed.name)]
    for net, route in routes.items():
        if route.wires:
            name = quoted(net, directions)
            metal = _Metal(name, placed.nets[net], route, ports[net], technology)
            driver = 0 if directions.get(net) != "input" else None  # it comes first, unless it is a port
            lines.append(f"*D_NET {name} {sum(metal.farads.values()) * 1e15 * scale:.4f}\n*CONN")
            lines += [f"*P {port.name} {directions[port.name][0].upper()}" for port in ports[net]]
            lines += [f"*I {cell}:{pin} {'IO'[index == driver]}" for index, (cell, pin) in enumerate(placed.nets[net])]
            lines += [*metal.lines(scale), "*END"]
    return "\n".join([*lines, ""])


def quoted(name: str, ports: Collection[str]) -> str:
    """A net's name; what is no letter, digit or bit of a port's bus has a backslash."""
    return name if name in ports else re.sub(r"[^\w.]", lambda sign: f"\\{sign[0]}", name)


class _Metal:
    """A net's resistors and capacitors. Its pins are reached by its vias of level 0, in the same order."""

    def __init__(self, name: str, pins: Pins, route: Route, ports: Sequence[Port], technology: Technology) -> None:
        names: dict[_Node, str] = {(technology.levels[port.layer], port.x, port.y): port.name for port in ports}
        on_pins = (via for via in route.vias if via.level == 0)
        for (cell, pin), via in zip(pins, on_pins, strict=True):
            names[-1, via.x, via.y] = f"{cell}:{pin}"
        self.farads: dict[str, float] = defaultdict(float)  # at each node
        self._ohms: list[tuple[str, str, float]] = []

        def named(node: _Node) -> str:
            return names.setdefault(node, f"{name}:{len(names) + 1}")

        landings = {landing for level, x, y in route.vias for landing in ((level - 1, x, y), (level, x, y))}
        for first, second, length in _pieces(route, [*landings, *names], technology):
            metal = technology.metals[first[0]]
            self._ohms.append((named(first), named(second), metal.ohms * length / 1000))
            for node in (first, second):
                self.farads[named(node)] += metal.farads * length / 2000
        for level, x, y in route.vias:
            ohms = technology.metals[level].via["ohms"]
            self._ohms.append((named((level - 1, x, y)), named((level, x, y)), ohms))

    def lines(self, scale: int) -> Iterator[str]:
        """Its capacitors and resistors in SPEF."""
        yield "*CAP"
        for number, (node, farads) in enumerate(self.farads.items(), 1):
            yield f"{number} {node} {farads * 1e15 * scale:.4f}"
        yield "*RES"
        for number, (first, second, ohms) in enumerate(self._ohms, 1):
            yield f"{number} {first} {second} {ohms * scale:.4f}"


def _pieces(route: Route, nodes: Iterable[_Node], technology: Technology) -> Iterator[tuple[_Node, _Node, int]]:
    """The pieces of wires between their ends and the nodes on them, with their lengths in nm."""
    on_track: dict[tuple[int, int], set[int]] = defaultdict(set)
    vertical = [metal.vertical for metal in technology.metals]
    for level, x, y in nodes:
        if level >= 0:
            on_track[level, x if vertical[level] else y].add(y if vertical[level] else x)
    for level, x, y, length in route.wires:
        track, start = (x, y) if vertical[level] else (y, x)
        inner = {at for at in on_track[level, track] if start < at < start + length}
        for at, to in pairwise(sorted({start, start + length, *inner})):
            ends = ((track, at), (track, to)) if vertical[level] else ((at, track), (to, track))
            yield (level, *ends[0]), (level, *ends[1]), to - at
