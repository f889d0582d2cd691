"""Layouts as GDS files."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import gdstk

from openmxu.cells.lef import Rect
from openmxu_layout.route.routing import Wired
from openmxu_layout.route.supplies import stack_metal
from openmxu_layout.technology import Technology, around

_NM = 1e-3
"""A nm in the unit of the drawing."""


def write_gds(path: Path, wired: Wired, technology: Technology, library: Path) -> None:
    """Write a layout, with the cells of the library's file that it has. Its bytes depend on nothing else."""
    cells = {cell.name: cell for cell in gdstk.read_gds(library).cells}
    top = gdstk.Cell(wired.placed.name)
    for instance in wired.placed.instances:
        origin = instance.x * _NM, (instance.y + (technology.grid["row"] if instance.mirrored else 0)) * _NM
        top.add(gdstk.Reference(cells[instance.master], origin, x_reflection=instance.mirrored))
    for layer, (left, bottom, right, up), pin in _shapes(wired, technology):
        for kind in ("drawing", "pin") if pin else ("drawing",):
            corners = (left * _NM, bottom * _NM), (right * _NM, up * _NM)
            top.add(gdstk.rectangle(*corners, layer=layer, datatype=technology.gds[kind]))
        if pin:
            middle = (left + right) / 2 * _NM, (bottom + up) / 2 * _NM
            top.add(gdstk.Label(pin, middle, layer=layer, texttype=technology.gds["label"]))
    result = gdstk.Library(unit=1e-6, precision=1e-9)
    result.add(top, *(cells[master] for master in sorted({*wired.placed.masters.values()})))
    result.write_gds(path, timestamp=datetime(2000, 1, 1))


def _shapes(wired: Wired, technology: Technology) -> Iterator[tuple[int, Rect, str]]:
    """The layer of each shape, its rectangle, and its name if it is a pin.

    Wires have the pads of their vias: they end beyond them.
    """
    metals, rules, cut, large = technology.metals, technology.straps, technology.wires["via"], technology.straps["via"]
    for route in wired.routes.values():
        for wire in route.wires:
            yield metals[wire.level].layer, technology.wire(*wire), ""
        for level, x, y in route.vias:
            yield metals[level].via["layer"], around(x, y, cut, cut), ""
        for pad in route.pads:
            yield technology.pins["layer"], pad, ""
    for strap in wired.straps:
        yield rules["layer"], strap.rect, strap.supply
        for x, y in strap.stacks:
            for level, rect in stack_metal(x, y, technology):
                yield metals[level].layer, rect, ""
                yield metals[level].via["layer"], around(x, y, cut, cut), ""
            yield large["layer"], around(x, y, large["size"], large["size"]), ""
    for port, node in wired.placed.ports.items():
        yield metals[node[0]].layer, technology.wire(*node), port
