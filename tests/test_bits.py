"""The comparison that all tests rely on, and what it says."""

import numpy as np
import pytest

from .bits import same_bits


def test_what_differs_is_said() -> None:
    words = np.array([0x3F800000, 0x7FC00000, 0x80000000], np.uint32)
    same_bits(words, words.copy())
    with pytest.raises(pytest.fail.Exception) as failure:
        same_bits(words, words ^ np.uint32([0, 0, 1 << 31]), [1, 2, 0x4049], operand="bf16", note="2x2, seed 5")
    assert str(failure.value).splitlines() == [
        "1 of 3 differ, first at (2,)",
        "got      80000000 (-0.0)",
        "expected 00000000 (0.0)",
        "operand  4049 (3.140625)",
        "2x2, seed 5",
    ]


@pytest.mark.parametrize("other", [np.float32([[1, 2]]), np.float16([1, 2]), np.int32([1, 2]), np.float64([1, 2])])
def test_only_like_is_compared_with_like(other: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        same_bits(other, np.float32([1, 2]))
