"""What an array and an accumulator bank compute, in operations of the golden model."""

import numpy as np

from openmxu_sim import golden
from openmxu_sim.cosim.words import Words

__all__ = ["accumulate", "tile_sums"]


def tile_sums(activations: Words, weights: Words, psums: Words, *, operand: str, subnormals: str) -> Words:
    """Sums at the foot of the columns.

    Parameters
    ----------
    activations, weights
        (M, K) and (K, N) patterns of ``operand``.
    psums
        (M, N) fp32 patterns that the sums start from.
    operand, subnormals
        See :func:`openmxu_sim.golden.multiply`.
    """
    for k in range(len(weights)):
        products = golden.multiply(activations[:, k, np.newaxis], weights[k], operand, "fp32",
                                   subnormals=subnormals)
        psums = golden.add(psums, products, "fp32", subnormals=subnormals)
    return psums


def accumulate(old: Words, sums: Words, *, clear_nan: bool, subnormals: str) -> Words:
    """``sums`` added to what is in the accumulator bank, where a NaN may count as +0."""
    if clear_nan:
        old = np.where((old & 0x7FFF_FFFF) > 0x7F80_0000, np.uint32(0), old)
    return golden.add(old, sums, "fp32", subnormals=subnormals)
