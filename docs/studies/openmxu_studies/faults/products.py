"""Small products on the simulated unit, with their bits by the definition."""

from random import Random

import numpy as np

from openmxu_sim import golden, matmul
from openmxu_sim.operands import vectors


class Product:
    """A product of operands of every kind, on a unit of 2x2."""

    def __init__(self, random: Random, size: int = 3) -> None:
        seed = random.randrange(1 << 30)
        self.a = golden.from_bits(vectors.matrix((size, 5), "fp32", seed))
        self.b = golden.from_bits(vectors.matrix((5, size), "fp32", seed + 1))
        self.mode = random.choice(("flush", "ieee"))
        self.right = self.by("golden")

    def by(self, engine: str) -> bytes:
        """Return the result's bits on an engine."""
        result = matmul(self.a, self.b, rows=2, columns=2, subnormals=self.mode, engine=engine)
        return np.ascontiguousarray(result).tobytes()
