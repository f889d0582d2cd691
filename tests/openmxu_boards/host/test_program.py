"""Requests for a product: what they put into buffers is there when a tile needs it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from openmxu.config import MxuConfig
from openmxu.formats import BF16, FP32
from openmxu_boards.host.program import Load, Run, program
from openmxu_boards.protocol import Identity
from openmxu_sim import golden, vectors
from openmxu_sim.stimulus import Stimulus, stimulus

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
    blocks = given.blocks()
    size = {True: board.weights, False: board.activations}
    loads = runs = results = 0
    active: list[bytes] = []
    for step in program(board, given):
        if isinstance(step, Load):
            loads += 1
            for place in range(len(step.beats) // step.size):
                assert step.address + place < size[step.weights]
                beat = step.beats[place * step.size : (place + 1) * step.size]
                buffers[step.weights][step.address + place] = beat
            continue
        runs += 1
        check_run(step, board)
        results += step.results
        for tile in step.tiles:
            block = next(blocks)
            if not tile.keep:
                active = [buffers[True][tile.weights + row] for row in range(UNIT.rows)]
                assert active == beats(block.weights)
            assert len(block.weights) == (0 if tile.keep else UNIT.rows)
            found = [buffers[False][tile.activations + place] for place in range(tile.beats)]
            assert found == beats(block.activations)
            marks = [tile.add, tile.clear_nan, tile.emit, tile.keep]
            assert np.array_equal(block.marks[:, 2:], np.tile(marks, (tile.beats, 1)))
    assert next(blocks, None) is None
    assert results == given.results
    return loads, runs


def check_run(run: Run, board: Identity) -> None:
    assert run.tiles
    assert run.results == sum(tile.beats for tile in run.tiles if tile.emit) <= board.results
    assert 5 + 2 + 6 * len(run.tiles) + 4 <= board.frame


@pytest.mark.parametrize("size", [(1, 1, 1), (4, 2, 3), (9, 5, 7), (13, 2, 8), (20, 11, 10)])
@pytest.mark.parametrize("buffers", [(2, 4, 4), (8, 8, 8), (64, 128, 64)])
def test_operands_are_where_tiles_look_for_them(size: tuple[int, int, int], buffers: tuple[int, int, int]) -> None:
    replay(identity(*buffers), product(*size))


def test_several_passes() -> None:
    replay(identity(8, 16, 8), product(9, 5, 4, "highest"))


def test_operands_are_sent_once_where_there_is_room() -> None:
    # One load of all weights, one of all activations, as neighbours go together.
    assert replay(identity(64, 128, 64, frame=4095), product(20, 11, 10)) == (2, 2)


def test_what_is_needed_again_last_makes_room() -> None:
    """Three blocks of activations in turn, room for two: one in two is sent again, where the oldest would always be."""
    steps = list(program(identity(64, 8, 64), product(12, 2, 12)))
    sent = sum(len(step.beats) // step.size for step in steps if isinstance(step, Load) and not step.weights)
    assert sent // UNIT.depth == 3 + 4
