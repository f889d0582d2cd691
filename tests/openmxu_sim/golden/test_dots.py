"""Dot products whose results say in which order there was added, where rounded and where flushed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.engines import model

from ...bits import same_bits

INF, NAN = np.inf, np.nan
T = 2.0**-24  # half of the last place of 1
TINY, LAST = 2.0**-126, 2.0**-149  # the smallest normal and the smallest subnormal number
ODD, JUST = 1 + 2.0**-7, 2 - 2.0**-7
LARGE = JUST * 2.0**127  # the largest bf16 number
TO_MINUS_ZERO = [TINY, -1.5 * TINY]  # a sum that is flushed
QUARTERS = [2.0**-75] * 4
BELOW = golden.from_bits(0x007F8000)  # would round up to the smallest normal bf16 number
SIGNALLING = golden.from_bits([0xFF800001, 0x3F800000])

DOTS: dict[str, tuple[Any, list[Any], int, float, float]] = {
    # activations, weights, rows, result in flush mode, in ieee mode
    "1 first": ([1, 1, 1], [1, T, T], 3, 1, 1),
    "1 last": ([1, 1, 1], [T, T, 1], 3, 1 + 2 * T, 1 + 2 * T),
    "1 and half of the rest first": ([1, 1, 1], [1, T, T], 2, 1, 1),
    "1 in the middle": ([1, 1, 1], [T, 1, T], 1, 1, 1),
    "1 in a tile of its own": ([1, 1, 1, 1], [1, 0, T, T], 2, 1 + 2 * T, 1 + 2 * T),
    "1 in the same tile": ([1, 1, 1, 1], [1, 0, T, T], 4, 1, 1),
    # Products are rounded before they are added: one that overflows or is flushed cannot be brought back.
    "a product too large beside -2^127": ([-(2.0**127), 2.0**64], [1, 2.0**64], 128, INF, INF),
    "a product that just overflows": ([-(2.0**63), JUST * 2.0**63], [JUST * 2.0**64] * 2, 128, INF, INF),
    "products too large of both signs": ([2.0**64] * 2, [2.0**64, -(2.0**64)], 128, NAN, NAN),
    "two products flushed": ([TINY, 2.0**-63, 2.0**-63], [1, 2.0**-64, 2.0**-64], 3, TINY, 2 * TINY),
    "two halves flushed": ([TINY, 0.5, 0.5], [1, TINY, TINY], 128, TINY, 2 * TINY),
    "a flushed product lifts no sum": ([*TO_MINUS_ZERO, 0.5], [1, 1, -TINY], 128, -0.0, -TINY),
    "8320.5 and 16641": ([ODD * 2.0**-67, ODD * 2.0**-68], [ODD * 2.0**-68] * 2, 128, 0, 24961 * LAST),
    "a tie below the last place": ([2.0**-75], [2.0**-75], 128, 0, 0),
    "above a tie": ([2.0**-75], [ODD * 2.0**-75], 128, 0, LAST),
    "a tie up to even": ([3 * 2.0**-75], [2.0**-75], 128, 0, 2 * LAST),
    "three last places and a tie": (QUARTERS, [2.0**-74] * 3 + [2.0**-75], 128, 0, 3 * LAST),
    # A sum of -0 can only come from flushing: the first tile is taken, as adding it to +0 would lose the sign.
    "flushed to -0": (TO_MINUS_ZERO, [1, 1], 128, -0.0, -TINY / 2),
    "flushed to -0 in tiles": (TO_MINUS_ZERO, [1, 1], 1, -0.0, -TINY / 2),
    "flushed to -0, then +0": ([*TO_MINUS_ZERO, 1], [1, 1, 0], 128, 0, -TINY / 2),
    "flushed to -0, then a product of -0": ([*TO_MINUS_ZERO, TINY], [1, 1, -0.5], 128, -0.0, -TINY),
    "flushed to -0 twice": (TO_MINUS_ZERO * 2, [1] * 4, 2, -0.0, -TINY),
    "flushed to -0, then a tile of -0": ([*TO_MINUS_ZERO, TINY], [1, 1, -0.5], 2, 0, -TINY),
    "only -0, as a column starts from +0": ([-0.0, -0.0], [1, 1], 2, 0, 0),
    "only -0 in tiles": ([-0.0, -0.0], [1, 1], 1, 0, 0),
    "a sum too large": ([LARGE] * 2, [1, 1], 128, INF, INF),
    "a sum too large of tiles": ([LARGE] * 2, [1, 1], 1, INF, INF),
    "a sum too large stays so": ([LARGE, LARGE, -LARGE], [1] * 3, 128, INF, INF),
    "sums too large of both signs": ([LARGE, LARGE, -LARGE, -LARGE], [1] * 4, 2, NAN, NAN),
    "infinity and 0": ([INF, 0], [1, 1], 128, INF, INF),
    "infinity times 0": ([INF], [0], 128, NAN, NAN),
    "infinity times a subnormal number": ([INF], [2.0**-130], 1, NAN, INF),
    "a NaN with a sign and a payload": (SIGNALLING, [1, 1], 2, NAN, NAN),
    "such a NaN in tiles": (SIGNALLING, [1, 1], 1, NAN, NAN),
    # Operands are flushed before they are rounded.
    "an activation that rounds up": ([BELOW], [2.0**100], 1, 0, 2.0**-26),
    "a weight that rounds up": ([2.0**100], [BELOW], 1, 0, 2.0**-26),
}


@pytest.mark.parametrize("matmul", [golden.matmul, model.matmul], ids=["golden", "model"])
@pytest.mark.parametrize("name", DOTS)
def test_dot_products(name: str, matmul: Callable[..., Any], mode: str) -> None:
    a, b, rows, flush, ieee = DOTS[name]
    got = matmul(np.float32([a]), np.float32(b)[:, np.newaxis], rows=rows, subnormals=mode)
    same_bits(got, np.float32([[flush if mode == "flush" else ieee]]), note=name)
