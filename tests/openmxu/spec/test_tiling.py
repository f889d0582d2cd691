"""Tiles cover each product once, in the contract's order."""

import itertools

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu.spec.passes import PASSES, Part
from openmxu.spec.tiling import _follow, cycles, shares, stream_bytes, tiles
from openmxu_sim import simulate
from openmxu_sim.operands.stimulus import stimulus

from ...conftest import slow


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
    huge = 1 << 60  # a matrix with a side of 0 may have another one of any length
    for sizes in ((huge, huge, 0), (huge, 0, huge), (0, huge, huge)):
        assert cycles(MxuConfig(), *sizes, units=2) == 0
        assert list(tiles(MxuConfig(), *sizes)) == []


def test_tall_tiles_follow_without_a_bubble() -> None:
    """From ``shortest_tile`` on, one more K tile costs its beats and nothing else."""
    for stages in range(1, 8):
        config = MxuConfig(rows=5, columns=3, stages=stages, depth=64)
        more = [cycles(config, m, 15, 3) - cycles(config, m, 10, 3) for m in range(1, config.shortest_tile + 1)]
        assert more[-1] == config.shortest_tile
        assert all(each > m for m, each in enumerate(more[:-1], start=1)), stages


def test_passes() -> None:
    """Each is a product of its own, added to the one before; NaN is forgotten before the last."""
    config = MxuConfig(rows=3, columns=2, depth=4)
    one = [(tile.activations, tile.inner, tile.columns) for tile in tiles(config, 5, 7, 2)]
    six = list(tiles(config, 5, 7, 2, "highest"))
    for block in (one[:3], one[3:]):
        found, six = six[:18], six[18:]
        assert [(tile.activations, tile.inner, tile.columns) for tile in found] == 6 * block
        assert [tile.add for tile in found] == [False] + 17 * [True]
        assert [tile.clear_nan for tile in found] == 15 * [False] + [True, False, False]
        assert [tile.emit for tile in found] == 17 * [False] + [True]
        assert [(tile.activation_part, tile.weight_part) for tile in found[15:]] == 3 * [(Part.HIGH, Part.HIGH)]
    assert not six


def test_blocks_of_one_tile_keep_its_weights() -> None:
    """As long as nothing else comes between them: not another part of the inner dimension, nor another pass."""
    config = MxuConfig(rows=3, columns=2, depth=4)
    assert [tile.keep for tile in tiles(config, 9, 3, 4)] == 2 * [False, True, True]
    assert not any(tile.keep for tile in tiles(config, 9, 4, 4))
    assert not any(tile.keep for tile in tiles(config, 9, 3, 4, "high"))
    sent = stimulus(config, np.zeros((9, 3), np.uint32), np.zeros((3, 4), np.uint32))
    assert len(list(sent.weight_payloads())) == 2 * config.rows
    assert cycles(config, 8, 3, 2) - cycles(config, 7, 3, 2) == 1


@pytest.mark.slow
def test_the_closed_formula_is_what_tile_by_tile_comes_to() -> None:
    generator = np.random.default_rng(1)
    closed = 0
    for _ in range(200):
        rows, columns, stages = (int(generator.integers(1, most)) for most in (20, 20, 8))
        config = MxuConfig(rows, columns, stages, depth=1 << int(generator.integers(3, 9)))
        m, k, n = (int(size) for size in generator.integers(1, 70, 3))
        precision = list(PASSES)[generator.integers(len(PASSES))]
        closed += m * -(-n // config.columns) <= config.depth or config.depth >= config.latency
        assert cycles(config, m, k, n, precision) == _follow(config, m, k, n, precision), (config, m, k, n, precision)
    assert closed > 66


@pytest.mark.parametrize(
    ("config", "m", "k", "n"),
    [
        # A result leaves a cycle after its place is wanted; weights wait for the rows of the tile before.
        (MxuConfig(rows=1, columns=1, stages=7, depth=16), 15, 1, 3),
        slow(MxuConfig(rows=5, columns=2, stages=6, depth=2), 3, 11, 5),
    ],
    ids=["late by one", "late by many"],
)
def test_banks_that_tiles_wait_for(config: MxuConfig, m: int, k: int, n: int) -> None:
    """Places are rarer than results that are underway; the unit's own clock says how long that takes."""
    unit = simulate(np.ones((m, k), np.float32), np.ones((k, n), np.float32), unit=config, engine="pysim")
    assert cycles(config, m, k, n) == unit.statistics.cycles


@pytest.mark.parametrize(
    ("n", "units", "expected"),
    [
        *((10, 1, [range(10)]), (10, 2, [range(6), range(6, 10)]), (7, 3, [range(4), range(4, 6), range(6, 7)])),
        *((3, 5, [range(2), range(2, 3)]), (0, 2, []), (8, 2, [range(4), range(4, 8)])),
    ],
)
def test_shares(n: int, units: int, expected: list[range]) -> None:
    config = MxuConfig(rows=2, columns=2)
    assert shares(config, n, units) == expected
    times = [cycles(config, 5, 6, len(share)) for share in expected]
    assert cycles(config, 5, 6, n, units=units) == max(times, default=0)


@pytest.mark.parametrize(("precision", "k"), [("default", 5), ("high", 5), ("default", 3), ("high", 3)])
def test_bytes_are_those_of_the_beats(precision: str, k: int) -> None:
    """Three blocks of rows, one or two of the inner dimension, four of columns, all with padding."""
    config = MxuConfig(rows=3, columns=2, depth=4, result=BF16)
    a, b = np.zeros((9, k), np.uint32), np.zeros((k, 7), np.uint32)
    given = stimulus(config, a, b, precision)
    weights, activations = (sum(getattr(b, name).size for b in given.blocks()) for name in ("weights", "activations"))
    expected = 4 * weights, 4 * activations, 2 * given.results * config.columns
    assert stream_bytes(config, 9, k, 7, precision) == expected
    assert stream_bytes(config, 9, 0, 5) == (0, 0, 0)
