"""Beats, stalls, and both ends of the streams."""

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu_sim.operands.stimulus import Stalls, Traffic, stimulus

_A, _B = np.array([[1, 2, 3], [4, 5, 6]], np.uint32), np.array([[7, 8], [9, 10], [11, 12]], np.uint32)
_GIVEN = stimulus(MxuConfig(rows=2, columns=3, depth=4), _A, _B)


def test_beats_and_padding() -> None:
    neg = 0x80000000
    blocks = zip(*(block[:3] for block in _GIVEN.blocks()), strict=True)
    weights, activations, marks = (np.concatenate(parts) for parts in blocks)
    assert weights.tolist() == [[9, 10, neg], [7, 8, neg], [neg, neg, neg], [11, 12, neg]]
    assert activations.tolist() == [[1, 2], [4, 5], [3, 0], [6, 0]]
    first, last, add, clear, emit, keep = marks.T.tolist()
    assert (first, last, add, clear, emit) == ([1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1], [0] * 4, [0, 0, 1, 1])
    assert keep == [0] * 4
    assert _GIVEN.results == 2


def test_payload_bits() -> None:
    weights, activations = list(_GIVEN.weight_payloads()), list(_GIVEN.activation_payloads())
    assert weights[0] == 9 | 10 << 32 | 0x80000000 << 64
    assert weights[1] >> 96 == 1  # last
    assert activations[0] == 1 | 2 << 32 | 0b00001 << 64
    assert activations[3] == 6 | 0b10110 << 64


def test_stalls_are_seeded_and_end() -> None:
    pattern, again, other = (
        [[stalls.waits(stream, cycle) for cycle in range(9000)] for stream in range(3)]
        for stalls in (Stalls(5), Stalls(5), Stalls(6))
    )
    assert pattern == again != other
    for stream in pattern:
        assert any(stream)
        assert not all(stream[:4096])


def test_a_source_never_takes_back_a_beat() -> None:
    traffic = Traffic(_GIVEN, Stalls(1))
    offered = None
    for cycle in range(300):
        before = offered
        offered = traffic.weights
        if before is not None:
            assert offered == before
        take = cycle % 7 == 6
        traffic.advance(take, True, 0 if cycle % 50 == 0 else None)
        offered = None if take else offered


@pytest.mark.parametrize(
    ("columns", "m", "k", "n", "most"),
    [
        (1, 8, 4096, 4096, "4194304 tiles on a clocked engine, not 16777216: 8x4096x4096 on 1x1"),
        (65536, 100000, 1, 1, "2147483648 words of results on a clocked engine, not 6553600000: 100000x1x1 on 1x65536"),
    ],
)
def test_products_that_do_not_fit_in_memory(columns: int, m: int, k: int, n: int, most: str) -> None:
    a, b = (np.broadcast_to(np.uint32(0), shape) for shape in ((m, k), (k, n)))
    with pytest.raises(ValueError, match=f"^the product must have at most {most}$"):
        stimulus(MxuConfig(rows=1, columns=columns), a, b)
