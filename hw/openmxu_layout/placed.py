"""Placed designs: what the router and the drawing begin with. All lengths are in nm."""

from collections.abc import Mapping
from dataclasses import dataclass

from openmxu.cells.lef import LefCell, Rect

Node = tuple[int, int, int]
"""The level of a metal with wires, 0 for the lowest, and a place: x and y."""

Pins = tuple[tuple[str, str], ...]
"""Instance and pin of all ends of a net."""


@dataclass(frozen=True)
class Instance:
    """A cell at its place."""

    name: str
    master: str
    x: int
    y: int
    """Its lower left corner."""
    mirrored: bool
    """Whether it is mirrored about the x axis (MX), as every second row is."""


@dataclass(frozen=True)
class Placed:
    """A design whose cells and pins have places; supplies are connected by abutment of rails."""

    name: str
    width: int
    height: int
    """Size of the core, whose lower left corner is the origin."""
    instances: tuple[Instance, ...]
    """Cells; those that fill gaps have no nets."""
    ports: Mapping[str, Node]
    """The centres of its pins, by their nets: on the core's edge and on a routing track."""
    nets: Mapping[str, Pins]
    """Ports and supplies are left out."""

    def boxes(self, cells: Mapping[str, LefCell]) -> dict[str, Rect]:
        """The outlines of the cells that have nets."""
        named = {name for ends in self.nets.values() for name, _ in ends}
        sized = ((each, cells[each.master]) for each in self.instances if each.name in named)
        return {each.name: (each.x, each.y, each.x + cell.width, each.y + cell.height) for each, cell in sized}

    @property
    def masters(self) -> dict[str, str]:
        """The cell of each instance."""
        return {each.name: each.master for each in self.instances}
