"""Errors of products on the unit, against the same products of the numbers before conversion, in binary64."""

import math
from dataclasses import dataclass, fields

import numpy as np

from openmxu_sim.networks.numerics import Product


@dataclass(frozen=True)
class Errors:
    """Errors of products of one kind; results that are not finite where the exact ones are count by themselves."""

    signal: float = 0.0
    noise: float = 0.0
    """Sums of squares, of exact results and of their errors."""
    largest: float = 0.0
    """The largest error, relative to the largest exact result of its products."""
    results: int = 0
    overflowed: int = 0
    """Number of results, and of those among them that are not finite."""
    operands: int = 0
    lost: int = 0
    """Number of operands, and of those among them that become zero or too large in conversion."""

    @property
    def share_overflowed(self) -> float:
        """Share of results that are not finite."""
        return self.overflowed / self.results if self.results else 0.0

    @property
    def share_lost(self) -> float:
        """Share of operands that conversion loses."""
        return self.lost / self.operands if self.operands else 0.0

    @property
    def sqnr(self) -> float:
        """Signal-to-noise ratio in dB; infinite if there is no error."""
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    def __add__(self, other: "Errors") -> "Errors":
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return Errors(**sums | {"largest": max(self.largest, other.largest)})


def measure(product: Product, operands: int, lost: int) -> Errors:
    """Return the errors of a product that lost ``lost`` of its ``operands``."""
    if product.result is None:
        raise ValueError("product must have its result")
    with np.errstate(all="ignore"):
        exact = product.a.astype(np.float64) @ product.b.astype(np.float64)
        known = np.isfinite(exact)
        fits = known & np.isfinite(product.result)
        right = np.where(fits, exact, 0.0)
        error = np.where(fits, product.result - right, 0.0)
    peak = float(np.max(np.abs(right), initial=0.0))
    most = float(np.max(np.abs(error), initial=0.0))
    return Errors(
        float(np.sum(right * right)),
        float(np.sum(error * error)),
        most / peak if peak else float(most > 0),
        int(np.count_nonzero(known)),
        int(np.count_nonzero(known & ~fits)),
        operands,
        lost,
    )
