"""Technologies: grids, layers and rules as data. All lengths are in nm."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from openmxu.cells.lef import Rect
from openmxu_layout.kit import Kit, read_kit


def around(x: int, y: int, width: int, height: int) -> Rect:
    """A rectangle with its centre."""
    return x - width // 2, y - height // 2, x + width // 2, y + height // 2


@dataclass(frozen=True)
class Metal:
    """A metal with wires, and the via below it."""

    name: str
    layer: int
    ohms: float
    """Resistance of a µm of wire."""
    farads: float
    """Capacitance of a µm of wire."""
    via: Mapping[str, Any]
    """Its ``name``, ``layer`` and ``ohms``."""
    vertical: bool


@dataclass(frozen=True)
class Technology:
    """A process whose cells have their pins on a routing grid.

    A node is where tracks cross, on one metal. The router gives a node to one net, leaves a free node between two nets
    on a track, and makes every piece of wire a step long or longer. ``__post_init__`` refuses a process in which
    wires made like that could break a rule.
    """

    gds: Mapping[str, int]
    grid: Mapping[str, int]
    pins: Mapping[str, Any]
    wires: Mapping[str, int]
    metals: tuple[Metal, ...]
    """Those with wires, by level: 0 for the lowest."""
    straps: Mapping[str, Any]
    kit: Kit

    def __post_init__(self) -> None:
        """Refuse rules that the router would not keep."""
        steps, wires = (self.grid["x"], self.grid["y"]), self.wires
        reach = 2 * wires["end"]
        straps = self.straps
        reach_of_via = straps["via"]["size"] // 2 + straps["enclosure"]
        for holds, rule in (
            (wires["width"] >= wires["via"] <= reach, "a wire must cover its vias"),
            (min(steps) >= wires["width"] + wires["spacing"], "tracks side by side must keep the spacing"),
            (2 * min(steps) >= reach + wires["spacing"], "two steps on a track must keep the spacing"),
            ((min(steps) + reach) * wires["width"] >= wires["area"], "a step of wire must have the least area"),
            (min(steps) >= wires["via"] + wires["via_spacing"], "vias side by side must keep the spacing"),
            (self.grid["row"] % self.grid["y"] == 0, "a row must be a number of tracks high"),
            (straps["shift"] * self.grid["x"] + reach_of_via <= straps["width"] // 2, "a strap must cover its vias"),
        ):
            if not holds:
                raise ValueError(f"technology cannot be routed: {rule}")

    @cached_property
    def stack(self) -> tuple[str, ...]:
        """The names of all metals, and of the via between two, from the metal of pins up to that of straps."""
        above = [*((metal.via, metal.name) for metal in self.metals), (self.straps["via"], self.straps["name"])]
        return (self.pins["name"], *(name for via, metal in above for name in (via["name"], metal)))

    def end(self, level: int, x: int, y: int, length: int) -> tuple[int, int]:
        """The place at a length from another one on its track, to the right or up."""
        return (x, y + length) if self.metals[level].vertical else (x + length, y)

    def wire(self, level: int, x: int, y: int, length: int = 0) -> Rect:
        """A piece of wire from a node over a length to the right or up; with none the pad of a via."""
        right, top = self.end(level, x, y, length)
        side, end = self.wires["width"] // 2, self.wires["end"]
        wide, high = (side, end) if self.metals[level].vertical else (end, side)
        return x - wide, y - high, right + wide, top + high

    def farads(self, lengths: Mapping[int, int]) -> float:
        """Capacitance of wires, by their lengths in nm on each level."""
        return sum(self.metals[level].farads * length / 1000 for level, length in lengths.items())

    def step(self, level: int) -> int:
        """Distance of two nodes on a track."""
        return self.grid["y" if self.metals[level].vertical else "x"]


def load_technology(text: str) -> Technology:
    """The technology that a document in TOML describes."""
    data = tomllib.loads(text)
    metals = (Metal(**metal, vertical=level % 2 == 0) for level, metal in enumerate(data.pop("metals")))
    return Technology(kit=read_kit(data.pop("kit")), metals=tuple(metals), **data)


def technology(name: str) -> Technology:
    """A technology that comes with this package."""
    return load_technology(files(__package__).joinpath(f"{name}.toml").read_text())
