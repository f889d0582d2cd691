"""Types that many modules name, and shares of a progress."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
"""Bit patterns of numbers, one in each word."""

Floats = npt.NDArray[np.float32]
"""Numbers in fp32."""

Progress = Callable[[int, int], object]
"""Called with the work done, and the total."""


def share_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    """Return the progress of one of several equal parts of the work, counted from 0, as progress of all of it."""
    return progress and (lambda done, total: progress(number * total + done, count * total))
