"""Products of operands that lie anywhere: golden's bits, for any places, formats and patterns."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.engines.model.placed import Side, placed_products
from openmxu_sim.engines.model.try_kernel import CASES
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ...conftest import needs_compiler

pytestmark = needs_compiler


def _increasing(count: int, step: int, run: int) -> Any:
    """Offsets in runs of neighbours, of which every other one has a gap behind it."""
    numbers = np.arange(count, dtype=np.int64)
    return numbers * step + numbers // run * (run > 1) * 3


def _side(rows: Any, ks: Any, kind: str, seed: int, groups: int, *, along_k: bool) -> Side:
    step = int(rows[-1] + ks[-1]) + 3
    array = golden.from_bits(vectors.matrix((groups, step), "fp32", seed, kind=kind))
    return Side(array, rows, ks, step, along_k=along_k)


def _by_golden(a: Side, b: Side, out: Side, groups: int, **options: Any) -> np.ndarray:
    """The array of results, product by product, each row of it after the other."""
    result = out.array.copy()
    flat = result.reshape(-1)
    for group in range(groups):
        left, right = (side.array.reshape(-1)[group * side.step + np.add.outer(side.at, side.k_at)] for side in (a, b))
        for at, row in zip(out.at, golden.matmul(left, right.T, **options), strict=True):
            flat[group * out.step + at + out.k_at] = row
    return result


# Rows, k and columns: fewer than a vector has, some more, several panels and blocks of k.
SIZES = ((1, 9, 40), (3, 1, 5), (13, 30, 33), (25, 140, 300))


@pytest.mark.parametrize("run", [1, 4, 7, 16])
@pytest.mark.parametrize("along_k", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_any_places(size: tuple[int, int, int], along_k: bool, run: int) -> None:
    """Runs of a vector, of a quarter of one, and odd ones, in both directions; patterns of all kinds."""
    m, k, n = size
    k_step, column_step = (1, k + 5) if along_k else (n + n // run * 3 + 7, 1)
    for kind in ("all", "normal"):
        a = _side(_increasing(m, 2 * k + 9, 1), _increasing(k, 1, run), kind, 1, 2, along_k=True)
        b = _side(_increasing(n, column_step, run), _increasing(k, k_step, run), kind, 2, 2, along_k=along_k)
        array = np.zeros((2, 3 * m * (n + n // run * 3 + 1)), np.float32)
        out = Side(
            array, _increasing(m, 2 * n + 3 * (n // run), 1), _increasing(n, 1, run), array.shape[1], along_k=False
        )
        right = _by_golden(a, b, out, 2, rows=8)
        placed_products(a, b, out, 2, rows=8)
        same_bits(array, right)


@pytest.mark.parametrize(("mode", "case"), CASES)
@pytest.mark.parametrize("kind", ["all", "normal"])
def test_any_numerics(kind: str, mode: str, case: dict[str, Any]) -> None:
    a = _side(_increasing(14, 31, 1), _increasing(21, 1, 5), kind, 1, 1, along_k=True)
    b = _side(_increasing(37, 1, 4), _increasing(21, 70, 1), kind, 2, 1, along_k=False)
    array = np.zeros(14 * 37, np.float32)
    out = Side(array, _increasing(14, 37, 1), _increasing(37, 1, 1), 0, along_k=False)
    right = _by_golden(a, b, out, 1, rows=4, subnormals=mode, **case)
    placed_products(a, b, out, 1, rows=4, subnormals=mode, **case)
    same_bits(array, right)


def test_results_are_added_in_the_order_of_rows() -> None:
    """Ones times numbers: taps of 3 at each place, which overlap, in calls of several threads."""
    places, channels = 700, 50
    generator = np.random.default_rng(1)
    a = Side(np.ones((channels, 3), np.float32), np.arange(channels * 3), np.zeros(1, np.int64), 0, along_k=False)
    values = generator.standard_normal(places).astype(np.float32)
    b = Side(values, np.arange(places), np.zeros(1, np.int64), 0, along_k=False)
    sums = np.zeros((channels, places + 2), np.float32)
    at = np.add.outer(np.arange(channels) * (places + 2), np.arange(3)).reshape(-1)
    out = Side(sums, at, np.arange(places), 0, along_k=False)
    expected = np.zeros(places + 2, np.float32)
    for tap in range(3):
        expected[tap : tap + places] += values

    def add(threads: int) -> np.ndarray:
        sums_ = np.zeros_like(sums)
        placed_products(
            a,
            b,
            Side(sums_, out.at, out.k_at, 0, along_k=False),
            1,
            units=(3, places),
            add=True,
            rows=4,
            operand="fp32",
            threads=threads,
        )
        return sums_

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(add, (1, 2, 5)):
            same_bits(found, np.tile(expected, (channels, 1)))
