"""Random words for stochastic rounding: functions of a seed and a position, so every order of computing has the same.

A word is ``mix(mix(row ^ s) ^ mix(column))`` with ``s = mix(mix(seed) ^ stream)``, its upper 24 bits. ``mix`` is C.
Wellons's integer hash lowbias32: each bit of its argument changes each bit of its result in about half of all cases.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Index = npt.NDArray[np.int64]

WIDTH = 24
"""Bits of a word: as many as a number of fp32 has."""


def mix(words: npt.ArrayLike) -> Words:
    """Return the hash of each word."""
    x = np.atleast_1d(np.asarray(words)).astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


@dataclass(frozen=True)
class Noise:
    """The words of one product.

    ``stream`` 0 is that of activations, with ``row`` and ``column`` m and k; 1 of weights, with n and k; 2 of sums:
    their row is the place m * N + n of the result modulo 2^32, and their column 4 k for a product, 4 k + 1 for the sum
    to which it is added, 4 k + 2 for that of a tile that begins at k, and 4 k + 3 for the tile times its scales.
    """

    seed: int

    def of_operands(self, stream: int, rows: int, inner: int) -> npt.NDArray[np.float64]:
        """Return the words of (rows, K) operands."""
        return self._words(stream, np.arange(rows)[:, np.newaxis], np.arange(inner))

    def of_sums(self, m: Index, n: Index, columns: int, k: Index, kind: int) -> npt.NDArray[np.float64]:
        """Return the words of sums of some rows and columns, of so many columns in all: (..., m, n)."""
        return self._words(2, m[:, np.newaxis] * columns + n, 4 * np.asarray(k) + kind)

    def _words(self, stream: int, row: npt.ArrayLike, column: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the words at places that broadcast, as fractions in [0, 1)."""
        start = mix(mix(self.seed & 0xFFFFFFFF) ^ np.uint32(stream))
        rows, columns = (np.asarray(place).astype(np.uint32) for place in (row, column))
        words = mix(mix(rows ^ start).reshape(rows.shape) ^ mix(columns).reshape(columns.shape))
        shape = np.broadcast_shapes(rows.shape, columns.shape)
        return np.ldexp((words >> np.uint32(32 - WIDTH)).astype(np.float64), -WIDTH).reshape(shape)
