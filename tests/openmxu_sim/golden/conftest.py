"""Comparison of bit patterns for the tests of the golden model."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim.golden import find_format
from openmxu_sim.golden.formats import decode


class CheckBits(Protocol):
    """Type of the fixture :func:`check_bits`."""

    def __call__(
        self,
        got: npt.ArrayLike,
        expected: npt.ArrayLike,
        result: str,
        *operands: npt.ArrayLike,
        operand: str,
        note: str = "",
    ) -> None:
        """Compare `got` with `expected`, patterns of `result`."""


def _describe(pattern: int, fmt: str) -> str:
    found = find_format(fmt)
    value = float(decode(np.array(pattern, dtype=np.uint32), found))
    return f"{pattern:0{(found.width + 3) // 4}X} ({value!r})"


@pytest.fixture(scope="session")
def check_bits() -> CheckBits:
    """A function that compares patterns and names the operands of the first that differ."""

    def check(
        got: npt.ArrayLike, expected: npt.ArrayLike, result: str, *operands: npt.ArrayLike, operand: str, note: str = ""
    ) -> None:
        got_bits = np.asarray(got)
        expected_bits = np.asarray(expected)
        assert got_bits.dtype == np.uint32
        assert got_bits.shape == expected_bits.shape
        different = got_bits != expected_bits
        if not np.any(different):
            return
        where = np.unravel_index(np.argmax(different), different.shape)
        inputs = [np.broadcast_to(np.asarray(each), different.shape)[where] for each in operands]
        pytest.fail(
            f"{np.count_nonzero(different)} of {different.size} differ, first at {tuple(map(int, where))}\n"
            f"operands {', '.join(_describe(int(each), operand) for each in inputs)}\n"
            f"got      {_describe(int(got_bits[where]), result)}\n"
            f"expected {_describe(int(expected_bits[where]), result)}\n"
            f"{note}"
        )

    return check
