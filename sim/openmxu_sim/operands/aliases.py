"""Types that many modules name, and shares of a progress."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
"""Bits of numbers, one in each."""

Floats = npt.NDArray[np.float32]
"""The numbers themselves."""

Progress = Callable[[int, int], object]
"""Called with what is done, and the total."""


def share_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    """The progress of one of several equal parts of the work, counted from 0, as that of all of it."""
    return progress and (lambda done, total: progress(number * total + done, count * total))
