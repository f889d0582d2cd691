"""The nodes of a core, and their numbers, which are those of ``router.c``."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from openmxu.cells.lef import Rect
from openmxu_layout.placed import Node, Placed
from openmxu_layout.technology import Technology

Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Grid:
    """The nodes from a core's lower left to its upper right corner."""

    columns: int
    rows: int
    technology: Technology

    @classmethod
    def of(cls, placed: Placed, technology: Technology) -> "Grid":
        """The grid of a placed design."""
        return cls(placed.width // technology.grid["x"] + 1, placed.height // technology.grid["y"] + 1, technology)

    @property
    def plane(self) -> int:
        """Numbers of a level: one more than nodes on each track."""
        return (self.columns + 1) * (self.rows + 1)

    @property
    def size(self) -> int:
        """One more than the largest number; 0 is no node's."""
        return len(self.technology.metals) * self.plane + 1

    def number(self, level: int, x: int, y: int) -> int:
        """The number of the node at a place in nm.

        Raises
        ------
        ValueError
            There is no node.
        """
        (column, right), (row, above) = divmod(x, self.technology.grid["x"]), divmod(y, self.technology.grid["y"])
        if right or above or not (0 <= column < self.columns and 0 <= row < self.rows):
            raise ValueError(f"pins must lie on the nodes of the core's grid, not at {x}, {y} nm")
        vertical = self.technology.metals[level].vertical
        within = column * (self.rows + 1) + row if vertical else row * (self.columns + 1) + column
        return 1 + level * self.plane + within

    def places(self, numbers: Ints) -> list[Node]:
        """Level, x and y of nodes; the reverse of :meth:`number`."""
        level, within = np.divmod(numbers - 1, self.plane)
        vertical = np.array([metal.vertical for metal in self.technology.metals])[level]
        track, along = np.divmod(within, np.where(vertical, self.rows + 1, self.columns + 1))
        x, y = np.where(vertical, (track, along), (along, track))
        places = level, x * self.technology.grid["x"], y * self.technology.grid["y"]
        return [*zip(*(each.tolist() for each in places), strict=True)]

    def near(self, level: int, rect: Rect) -> Iterator[int]:
        """The nodes where the pad of a via would not keep the spacing to a rectangle."""
        x, y = self.technology.grid["x"], self.technology.grid["y"]
        left, bottom, right, top = self.technology.wire(level, 0, 0)
        spacing = self.technology.wires["spacing"]
        columns = range((rect[0] - spacing - right) // x + 1, -((left - spacing - rect[2]) // x))
        rows = range((rect[1] - spacing - top) // y + 1, -((bottom - spacing - rect[3]) // y))
        for column, row in product(columns, rows):
            if 0 <= column < self.columns and 0 <= row < self.rows:
                yield self.number(level, column * x, row * y)
