"""The wires of a layout as resistors and capacitors, in SPEF.

::

    u1:Y ─via─┬─wire─┬─via─┬─wire─ port        A net's wires are cut where vias and ports are. A piece has its
              ╧      ╧     ╧      ╧            resistance, and half of its capacitance at each end.

Capacitance is that of a µm of the metal, whatever runs beside it.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain, pairwise

from openmxu_layout.placed import Node, Placed
from openmxu_layout.route.routing import Route
from openmxu_layout.technology import Technology

_PINS = -1
"""The level of the metal of pins."""

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
    lines = [_HEADER.format(name=placed.name)]
    for net, route in routes.items():
        if route.wires:
            lines += _lines(net, placed, route, technology, directions, scale)
    return "\n".join([*lines, ""])


def _lines(
    net: str, placed: Placed, route: Route, technology: Technology, directions: Mapping[str, str], scale: int
) -> Iterator[str]:
    """A net. Its pins are reached by its vias of level 0, in the same order."""
    names: dict[Node, str] = {placed.ports[net]: net} if net in placed.ports else {}
    on_pins = ((_PINS, x, y) for level, x, y in route.vias if level == 0)
    for (cell, pin), node in zip(placed.nets[net], on_pins, strict=True):
        names[node] = f"{cell}:{pin}"
    # What is no letter, digit or bit of a port's bus has a backslash.
    whole = net if net in directions else re.sub(r"[^\w.]", lambda sign: f"\\{sign[0]}", net)

    def named(node: Node) -> str:
        return names.setdefault(node, f"{whole}:{len(names) + 1}")

    ohms: list[tuple[str, str, float]] = []
    farads: dict[str, float] = defaultdict(float)  # at each node
    vias = [((level - 1, x, y), (level, x, y)) for level, x, y in route.vias]
    for first, second, length in _pieces(route, {*chain(*vias), *names}, technology):
        metal = technology.metals[first[0]]
        ohms.append((named(first), named(second), metal.ohms * length / 1000))
        for node in (first, second):
            farads[named(node)] += metal.farads * length / 2000
    for below, above in vias:
        ohms.append((named(below), named(above), technology.metals[above[0]].via["ohms"]))
    yield f"*D_NET {whole} {sum(farads.values()) * 1e15 * scale:.4f}\n*CONN"
    if net in placed.ports:
        yield f"*P {net} {directions[net][0].upper()}"
    driver = 0 if directions.get(net) != "input" else None  # it comes first, unless it is a port
    for index, (cell, pin) in enumerate(placed.nets[net]):
        yield f"*I {cell}:{pin} {'IO'[index == driver]}"
    yield "*CAP"
    for number, (name, charge) in enumerate(farads.items(), 1):
        yield f"{number} {name} {charge * 1e15 * scale:.4f}"
    yield "*RES"
    for number, (one, other, resistance) in enumerate(ohms, 1):
        yield f"{number} {one} {other} {resistance * scale:.4f}"
    yield "*END"


def _pieces(route: Route, nodes: Iterable[Node], technology: Technology) -> Iterator[tuple[Node, Node, int]]:
    """The pieces of wires between their ends and the nodes on them, with their lengths in nm."""

    def track(level: int, x: int, y: int) -> Hashable:
        return level, x if technology.metals[level].vertical else y

    on_track: dict[Hashable, set[Node]] = defaultdict(set)
    for node in nodes:
        on_track[track(*node)].add(node)
    for level, x, y, length in route.wires:
        start, end = (level, x, y), (level, *technology.end(level, x, y, length))
        inner = {node for node in on_track[track(*start)] if start < node < end}
        for one, other in pairwise(sorted({start, end, *inner})):
            yield one, other, other[1] - one[1] + other[2] - one[2]
