"""The one comparison of words, and matrices that have every sort of them, for all tests."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.cosim.scoreboard import describe
from openmxu_sim.operands import vectors

_FORMATS = {dtype.name: fmt for fmt, dtype in golden.DTYPES.items()}


def same_bits(
    got: npt.ArrayLike,
    expected: npt.ArrayLike,
    *operands: npt.ArrayLike,
    fmt: str = "fp32",
    operand: str = "fp32",
    note: str = "",
) -> None:
    """Fail unless two arrays have the same shape and bits; say what the first that differ mean, and of what they are.

    ``got`` and ``expected`` are patterns of ``fmt``, those of ``got`` in uint32; or floats of a dtype with a format.
    ``operands``: what each word was made of, as patterns of ``operand``, broadcast to the shape of ``got``. ``note``:
    configuration and seed.
    """
    (found, fmt), (wanted, other) = _patterns(got, fmt), _patterns(expected, fmt)
    assert fmt == other, f"got {fmt}, expected {other}: {note}"
    assert found.dtype.kind == "u", f"got {found.dtype}: {note}"
    assert found.dtype.itemsize <= 4, f"got {found.dtype}: {note}"
    assert found.shape == wanted.shape, f"got the shape {found.shape}, expected {wanted.shape}: {note}"
    different = found != wanted
    if not different.any():
        return
    where = np.unravel_index(np.argmax(different), different.shape)
    given = [np.broadcast_to(np.asarray(each), different.shape)[where] for each in operands]
    lines = [
        f"{np.count_nonzero(different)} of {different.size} differ, first at {tuple(map(int, where))}",
        f"got      {describe(int(found[where]), fmt)}",
        f"expected {describe(int(wanted[where]), fmt)}",
        *(f"operand  {describe(int(each), operand)}" for each in given),
        *([note] if note else []),
    ]
    pytest.fail("\n".join(lines))


def matrices(m: int, k: int, n: int, seed: int = 1, kind: str = "all", scale: int = 0) -> tuple[Any, Any]:
    """Operands of a product in fp32, of a kind, times a power of two."""
    drawn = vectors.matrix((m, k), "fp32", seed, kind=kind), vectors.matrix((n, k), "fp32", seed + 1, kind=kind).T
    a, b = (golden.from_bits(bits) * np.float32(2.0**scale) if scale else golden.from_bits(bits) for bits in drawn)
    return a, b


def _patterns(words: npt.ArrayLike, fmt: str) -> tuple[npt.NDArray[Any], str]:
    array = np.asarray(words)
    if array.dtype.kind in "iu":
        return array, fmt
    assert array.dtype.name in _FORMATS, f"{array.dtype} has no bits to compare"
    return array.view(f"u{array.dtype.itemsize}"), _FORMATS[array.dtype.name]
