"""Placed designs: what the router and the drawing begin with. All lengths are in nm."""

from collections.abc import Mapping
from dataclasses import dataclass


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
class Port:
    """A pin of the core."""

    name: str
    net: str
    side: str
    """``"west"``, ``"north"``, ``"east"`` or ``"south"``."""
    x: int
    y: int
    """Its centre, on the core's edge and on a routing track."""
    layer: str


@dataclass(frozen=True)
class Placed:
    """A design whose cells and pins have places; supplies are connected by abutment of rails."""

    name: str
    width: int
    height: int
    """Size of the core, whose lower left corner is the origin."""
    instances: tuple[Instance, ...]
    """Cells; those that fill gaps have no nets."""
    ports: tuple[Port, ...]
    nets: Mapping[str, tuple[tuple[str, str], ...]]
    """Instance and pin of all ends of each net. Ports and supplies are left out."""
