"""The nodes of a core, and their numbers, which are those of ``router.c``."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from openmxu.layout.placed import Placed
from openmxu.layout.technology import Rect, Technology

Ints = NDArray[np.uint32]


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
        if self.technology.metals[level].vertical:
            return 1 + level * self.plane + column * (self.rows + 1) + row
        return 1 + level * self.plane + row * (self.columns + 1) + column

    def places(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Level, x and y of nodes; the reverse of :meth:`number`."""
        level, within = np.divmod(numbers - np.uint32(1), np.uint32(self.plane))
        vertical = np.array([metal.vertical for metal in self.technology.metals])[level]
        track, along = np.divmod(within, np.where(vertical, self.rows + 1, self.columns + 1).astype(np.uint32))
        x, y = (np.uint32(self.technology.grid[axis]) for axis in "xy")
        return level, np.where(vertical, track, along) * x, np.where(vertical, along, track) * y

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
