"""Delayed scaling: scales of whole tensors from the magnitudes of earlier ones."""

import threading
from collections import deque
from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from openmxu_sim.golden.specifications import find_operand, largest_magnitude
from openmxu_sim.networks.numerics import Numerics
from openmxu_sim.operands.aliases import Floats


class History:
    """The largest magnitudes of operands at each place where products are asked for: so many earlier ones count there,
    but the first tensor is scaled by its own.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._seen: dict[Hashable, deque[float]] = {}
        self._lock = threading.Lock()

    def largest(self, place: Hashable, numerics: Numerics, a: Floats, b: Floats) -> tuple[float | None, float | None]:
        """Return the magnitudes for a product's operands, and note their own; ``None`` for one without such a scale.

        ``place`` tells products of one step from each other, but for the two derivatives of a product.
        """
        sides = (a, numerics.operand), (b, numerics.weight_format)
        sizes = tuple(array.shape[-1] for array in (a, b)), tuple(array.shape[1] for array in (a, b) if array.ndim > 3)
        known = place, replace(numerics, seed=0), sizes  # each product has a seed of its own
        one, other = (self._of((*known, number), *side, numerics.subnormals) for number, side in enumerate(sides))
        return one, other

    def _of(self, place: Hashable, array: Floats, spec: str, subnormals: str) -> float | None:
        side = find_operand(spec)
        if side.group != "tensor" and not (side.block and side.block.two_levels):
            return None
        own = largest_magnitude(array.view(np.uint32), subnormals)
        with self._lock:
            seen = self._seen.setdefault(place, deque(maxlen=self._length))
            earlier = max(seen, default=own)
            seen.append(own)
        return earlier
