"""Types that many modules name."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Progress", "Words"]

Words = npt.NDArray[np.uint32]
"""Bits of numbers, one in each."""

Floats = npt.NDArray[np.float32]
"""The numbers themselves."""

Progress = Callable[[int, int], object]
"""Called with what is done, and the total."""
