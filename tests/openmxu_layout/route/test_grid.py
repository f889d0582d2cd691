"""Numbers of nodes, and nodes near metal."""

from itertools import product

import numpy as np
import pytest

from openmxu.cells.lef import Rect
from openmxu_layout.route.grid import Grid

from ..conftest import IHP

GRID = Grid(7, 11, IHP)
NODES = [(level, 480 * x, 420 * y) for level, x, y in product(range(4), range(7), range(11))]


def test_each_node_has_a_number_and_each_track_leaves_one_out() -> None:
    numbers = [GRID.number(*node) for node in NODES]
    assert len(set(numbers)) == len(NODES)
    assert GRID.places(np.array(numbers, np.uint32)) == NODES
    assert GRID.number(0, 480, 420) - GRID.number(0, 480, 0) == 1
    assert GRID.number(1, 480, 420) - GRID.number(1, 0, 420) == 1
    assert GRID.number(0, 480, 0) - GRID.number(0, 0, 420 * 10) == 2


@pytest.mark.parametrize(
    "rect", [(1200, 2000, 1201, 2001), (1171, 1575, 1309, 1785), (1170, 1574, 1310, 1786), (0, 0, 30, 9000)]
)
@pytest.mark.parametrize("level", [0, 3])
def test_nodes_near_metal(level: int, rect: Rect) -> None:
    """Where a pad of 200 x 310 nm would be nearer than 210 in both directions."""
    half = (100, 155) if level == 0 else (155, 100)
    near = {
        GRID.number(level, x, y)
        for node_level, x, y in NODES
        if node_level == level
        and all(
            max(low - (at + reach), (at - reach) - high) < 210
            for at, reach, low, high in zip((x, y), half, rect[:2], rect[2:], strict=True)
        )
    }
    assert set(GRID.near(level, rect)) == near
    assert near
