"""Requests for a product: what they put into buffers is there when a tile needs it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP32
from openmxu.spec.marks import MARKS
from openmxu_boards.host.program import Load, Run, _steps, _sums, program
from openmxu_boards.protocol import Identity
from openmxu_sim import golden
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stimulus, stimulus

UNIT = MxuConfig(rows=2, columns=3, stages=2, source=BF16, depth=4, status=True)


def identity(weights: int, activations: int, results: int, frame: int = 255) -> Identity:
    return Identity(UNIT, weights, activations, results, frame, True, 12_000_000, 1_000_000, "0.1.0", "")


def product(m: int, k: int, n: int, precision: str = "default") -> Stimulus:
    a, b = vectors.matrix((m, k), "fp32", 1, kind="all"), vectors.matrix((n, k), "fp32", 2, kind="all").T
    return stimulus(replace(UNIT, source=FP32), a, b, precision)


def beats(words: np.ndarray) -> list[bytes]:
    """Rows of fp32 words as the board takes them."""
    return [row.astype("<u2").tobytes() for row in golden.convert(words, "fp32", "bf16", subnormals="flush")]


def replay(board: Identity, given: Stimulus) -> tuple[int, int]:
    """Play the requests, and check each tile; how many loads and runs there were."""
    buffers: Mapping[bool, dict[int, bytes]] = {True: {}, False: {}}
    plan = program(board, given)
    blocks = expected(given, plan.order)
    runs: list[Run] = []
    active: list[bytes] = []
    for step in plan.steps:
        if isinstance(step, Load):
            for place in range(len(step.beats) // step.size):
                beat = step.beats[place * step.size : (place + 1) * step.size]
                buffers[step.weights][step.address + place] = beat
            assert max(buffers[step.weights]) < (board.weights if step.weights else board.activations)
            continue
        runs.append(step)
        assert step.tiles
        assert step.results == sum(tile.beats for tile in step.tiles if tile.emit) <= board.results
        assert 5 + 2 + 6 * len(step.tiles) + 4 <= board.frame
        for tile in step.tiles:
            weights, activations, marks = next(blocks)
            if not tile.keep:
                active = [buffers[True][tile.weights + row] for row in range(UNIT.rows)]
            assert active == weights
            assert [buffers[False][tile.activations + place] for place in range(tile.beats)] == activations
            assert [tile.add, tile.clear_nan, tile.emit] == marks
    assert next(blocks, None) is None
    assert sum(run.results for run in runs) == given.results
    return len(plan.steps) - len(runs), len(runs)


def expected(given: Stimulus, order: Sequence[int]) -> Iterator[tuple[list[bytes], list[bytes], list[bool]]]:
    """Weights, activations and marks of each tile, sums in this order."""
    sums: list[list[Any]] = [[]]
    for block in given.blocks():
        if len(block.weights):
            weights = beats(block.weights)
        marks = [bool(block.marks[0, MARKS.index(name)]) for name in ("add", "clear_nan", "emit")]
        sums[-1].append((weights, beats(block.activations), marks))
        if marks[-1]:
            sums.append([])
    assert sorted(order) == list(range(len(sums) - 1))
    return (tile for number in order for tile in sums[number])


@pytest.mark.parametrize("size", [(1, 1, 1), (4, 2, 3), (9, 5, 7), (13, 2, 8), (20, 11, 10)])
@pytest.mark.parametrize("buffers", [(2, 4, 4), (8, 8, 8), (64, 128, 64)])
def test_operands_are_where_tiles_look_for_them(size: tuple[int, int, int], buffers: tuple[int, int, int]) -> None:
    replay(identity(*buffers), product(*size))


def test_several_passes_and_operands_that_are_sent_once_where_there_is_room() -> None:
    replay(identity(8, 16, 8), product(9, 5, 4, "highest"))
    # One load of all weights, one of all activations, as neighbours go together.
    assert replay(identity(64, 128, 64, frame=4095), product(20, 11, 10)) == (2, 2)


def test_what_is_needed_again_last_makes_room() -> None:
    """Three blocks of activations in turn, room for two: one in two is sent again, where the oldest would always be."""
    board = identity(64, 8, 64)
    [sums, _] = _sums(UNIT, product(12, 2, 12))
    steps = _steps(board, [step for tiles in sums for step in tiles])
    sent = sum(len(step.beats) // step.size for step in steps if isinstance(step, Load) and not step.weights)
    assert sent // UNIT.depth == 3 + 4


def test_sums_are_built_in_the_order_that_sends_less() -> None:
    # All weights fit and half of the activations: so all weights meet a block of activations before the next one comes.
    plan = program(identity(64, 8, 64), product(12, 2, 12))
    assert plan.order[:5] == [0, 3, 6, 9, 1]
    assert sum(len(step.beats) for step in plan.steps if isinstance(step, Load)) == 12 * 4 + 2 * 12 * 2
    # All activations fit, and few weights: the other way round.
    assert program(identity(2, 64, 64), product(12, 2, 12)).order == list(range(12))
