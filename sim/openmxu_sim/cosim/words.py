"""Rows of words, and the integers that buses hold: word 0 lowest."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from openmxu_sim.operands.aliases import Words


def pack(rows: npt.NDArray[np.unsignedinteger], width: int) -> list[int]:
    """One integer per row of ``rows``, whose words have ``width`` bits."""
    return [sum(word << (lane * width) for lane, word in enumerate(row)) for row in rows.tolist()]


def unpack(values: Sequence[int], width: int, lanes: int) -> Words:
    """(rows, lanes) words of ``width`` bits, at most 32; higher bits are left out."""
    mask = (1 << width) - 1
    words = [[(value >> (lane * width)) & mask for lane in range(lanes)] for value in values]
    return np.array(words, dtype=np.uint32).reshape(len(values), lanes)
