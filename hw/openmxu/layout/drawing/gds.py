"""Layouts as GDS files."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import gdstk

from openmxu.layout.placed import Placed
from openmxu.layout.route.routing import Route
from openmxu.layout.route.supplies import Strap, stack_metal
from openmxu.layout.technology import Rect, Technology

_NM = 1e-3
"""A nm in the unit of the drawing."""


def write_gds(
    path: Path,
    placed: Placed,
    routes: Mapping[str, Route],
    straps: Sequence[Strap],
    technology: Technology,
    library: Path,
) -> None:
    """Write a layout, with the cells of the library's file that it has. Its bytes depend on nothing else."""
    cells = {cell.name: cell for cell in gdstk.read_gds(library).cells}
    masters = sorted({instance.master for instance in placed.instances})
    drawing = _Drawing(placed.name, technology)
    for instance in placed.instances:
        origin = instance.x * _NM, (instance.y + (technology.grid["row"] if instance.mirrored else 0)) * _NM
        drawing.cell.add(gdstk.Reference(cells[instance.master], origin, x_reflection=instance.mirrored))
    for route in routes.values():
        drawing.add_route(route)
    for strap in straps:
        drawing.add_strap(strap)
    for port in placed.ports:
        level = technology.levels[port.layer]
        drawing.add_pin(technology.metals[level].layer, technology.wire(level, port.x, port.y), port.name)
    result = gdstk.Library(unit=1e-6, precision=1e-9)
    result.add(drawing.cell, *(cells[master] for master in masters))
    result.write_gds(path, timestamp=datetime(2000, 1, 1))


class _Drawing:
    """The cell of a whole layout."""

    def __init__(self, name: str, technology: Technology) -> None:
        self.cell = gdstk.Cell(name)
        self._technology = technology

    def _add(self, layer: int, rect: Rect, kind: str = "drawing") -> None:
        left, bottom, right, top = (place * _NM for place in rect)
        self.cell.add(gdstk.rectangle((left, bottom), (right, top), layer=layer, datatype=self._technology.gds[kind]))

    def _add_square(self, layer: int, x: int, y: int, size: int) -> None:
        self._add(layer, (x - size // 2, y - size // 2, x + size // 2, y + size // 2))

    def add_pin(self, layer: int, rect: Rect, name: str) -> None:
        """A rectangle of metal that is a pin, and its name in the middle."""
        self._add(layer, rect)
        self._add(layer, rect, "pin")
        middle = (rect[0] + rect[2]) / 2 * _NM, (rect[1] + rect[3]) / 2 * _NM
        self.cell.add(gdstk.Label(name, middle, layer=layer, texttype=self._technology.gds["label"]))

    def add_route(self, route: Route) -> None:
        """The metal of a net. Wires have the pads of their vias: they end beyond them."""
        for wire in route.wires:
            self._add(self._technology.metals[wire.level].layer, self._technology.wire(*wire))
        for via in route.vias:
            layer = self._technology.metals[via.level].via["layer"]
            self._add_square(layer, via.x, via.y, self._technology.wires["via"])
        for pad in route.pads:
            self._add(self._technology.pins["layer"], pad)

    def add_strap(self, strap: Strap) -> None:
        """A strap with its stacks of vias."""
        rules = self._technology.straps
        self.add_pin(rules["layer"], strap.rect, strap.supply)
        for x, y in strap.stacks:
            for level, rect in stack_metal(x, y, self._technology):
                self._add(self._technology.metals[level].layer, rect)
                self._add_square(self._technology.metals[level].via["layer"], x, y, self._technology.wires["via"])
            self._add_square(rules["via"]["layer"], x, y, rules["via"]["size"])
