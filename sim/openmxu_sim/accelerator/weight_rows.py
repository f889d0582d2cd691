"""Weights of a layer as rows of their memory, in the order of use."""

from collections.abc import Sequence

import numpy as np

from openmxu_sim import golden
from openmxu_sim.accelerator.definition import Halves
from openmxu_sim.operands.aliases import Floats


def _padded(size: int, weight: Floats) -> Halves:
    """Weights in bf16, by blocks: (blocks of outputs, size, blocks of inputs, size, y, x)."""
    outputs, inputs, *kernel = weight.shape
    blocks, columns = -(-inputs // size), -(-outputs // size)
    # Rows without an operand have the weight -0, which changes no sum's sign.
    padded = np.full((columns * size, blocks * size, *kernel), 0x8000, np.uint16)
    padded[:outputs, :inputs] = golden.convert(golden.to_bits(weight)).astype(np.uint16)
    return padded.reshape(columns, size, blocks, size, *kernel)


def tiles(size: int, weight: Floats, bias: Floats | None) -> Halves:
    """Rows of biases and weights (outputs, inputs, y, x), for each block of outputs."""
    padded = _padded(size, weight).transpose(0, 2, 4, 5, 3, 1)
    columns = len(padded)
    rows = padded[..., ::-1, :].reshape(columns, -1, size)  # the last row first
    if bias is not None:
        words = np.zeros(columns * size, np.uint32)
        words[: len(bias)] = golden.to_bits(bias)
        halves = np.stack([words & 0xFFFF, words >> 16], axis=1).astype(np.uint16)
        rows = np.concatenate([halves.reshape(columns, size, 2).transpose(0, 2, 1), rows], axis=1)
    return rows.reshape(-1, size)


def identity(size: int) -> Halves:
    """A tile whose sums are its operands."""
    rows = np.full((size, size), 0x8000, np.uint16)
    np.fill_diagonal(rows, 0x3F80)
    return rows[::-1]


def pieces(bias: Floats | None) -> Halves | None:
    """Biases as sums of three numbers of bf16, (outputs, 3), or none: some are no such sums."""
    rest = np.asarray(bias, np.float32)
    if not np.isfinite(rest).all():
        return None
    found = []
    for _ in range(3):
        piece = (rest.view(np.uint32) & 0xFFFF0000).view(np.float32)
        rest = rest - piece
        found.append(golden.to_bits(piece) >> 16)
    words = np.stack(found, axis=1).astype(np.uint16)
    return None if ((words & 0x7FFF > 0) & (words & 0x7F80 == 0)).any() else words


def flowing(size: int, weight: Floats, bias: Floats | None, blocks: Sequence[int]) -> list[Halves]:
    """Rows of weights that flow by a vector: for so many blocks of outputs at a time, and each tile, a row for each."""
    rows = _padded(size, weight).transpose(2, 4, 5, 0, 1, 3)
    rows = rows.reshape(-1, rows.shape[3] * size, size)
    if bias is not None:
        first = np.full((1, *rows.shape[1:]), 0x8000, np.uint16)
        words = pieces(bias)
        assert words is not None
        first[0, : len(words), :3] = words
        rows = np.concatenate([first, rows])
    counts = np.cumsum([count * size for count in blocks])[:-1]
    return [chunk.reshape(-1, size) for chunk in np.split(rows, counts, axis=1)]
