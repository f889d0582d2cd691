"""Tiles cover each product once, in the contract's order."""

import itertools

import numpy as np
import pytest

from openmxu.config import MxuConfig
from openmxu.tiling import cycles, tiles


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 7, 3), (8, 6, 4), (9, 1, 8)])
def test_each_product_once_and_k_ascending(m: int, k: int, n: int) -> None:
    config = MxuConfig(rows=3, columns=2, depth=4)
    count = np.zeros((m, k, n), dtype=int)
    highest = np.full((m, n), -1)
    for tile in tiles(config, m, k, n):
        assert 1 <= len(tile.activations) <= config.depth
        assert 1 <= len(tile.inner) <= config.rows
        assert 1 <= len(tile.columns) <= config.columns
        block = np.ix_(tile.activations, tile.columns)
        count[np.ix_(tile.activations, tile.inner, tile.columns)] += 1
        assert (highest[block] == tile.inner.start - 1).all()
        highest[block] = tile.inner.stop - 1
        assert tile.add == (tile.inner.start > 0)
        assert tile.emit == (tile.inner.stop == k)
        assert not tile.clear_nan
    assert (count == 1).all()


def test_empty_products_have_no_tiles_and_take_no_time() -> None:
    config = MxuConfig(rows=2, columns=2)
    for m, k, n in itertools.product((0, 3), repeat=3):
        if 0 in (m, k, n):
            assert list(tiles(config, m, k, n)) == []
            assert cycles(config, m, k, n) == 0


def test_tall_tiles_follow_without_a_bubble() -> None:
    """From ``shortest_tile`` on, one more K tile costs its beats and nothing else."""
    for stages in range(1, 8):
        config = MxuConfig(rows=5, columns=3, stages=stages, depth=64)
        m = config.shortest_tile
        assert cycles(config, m, 15, 3) - cycles(config, m, 10, 3) == m
        if m > 1:
            assert cycles(config, m - 1, 15, 3) - cycles(config, m - 1, 10, 3) > m - 1
