"""Parameters on which the bits of a product depend, checked."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.golden.parameters import Parameters, ProductOptions, Unpack, with_options
from openmxu_sim.golden.passes import PASSES
from openmxu_sim.golden.specifications import Operand, Sum, find_operand, find_sum

_MOST_INTEGERS = 1 << 17
"""Products of int8 numbers whose sum has 32 bits."""


@dataclass(frozen=True)
class Definition:
    """Parameters of a product, as :func:`openmxu_sim.golden.matmul` takes them."""

    rows: int
    precision: str
    flush: bool
    operand: Operand
    weight: Operand
    sums: Sum
    between: Sum
    terms: int
    seed: int

    @property
    def is_scaled(self) -> bool:
        """Whether operands are prepared before they are converted; what is too large saturates in conversion."""
        return any(side.block or side.integer or side.group or side.stochastic for side in (self.operand, self.weight))

    @property
    def passes(self) -> Sequence[tuple[str, str]]:
        """Parts of activations and weights that are multiplied, one pass after the other."""
        return PASSES[self.precision]

    def tile(self, inner: int) -> int:
        """Return the number of products of one sum of a tile: of integers, all that have one scale."""
        if not self.operand.integer:
            return self.rows
        length = min(side.length or max(1, inner) for side in (self.operand, self.weight))
        if length > _MOST_INTEGERS:
            raise ValueError(f"K, or blocks of it, must be at most {_MOST_INTEGERS} for int8 in 32 bits, not {length}")
        return length


@with_options(ProductOptions)
def check_setup(*, rows: int, **numerics: Unpack[ProductOptions]) -> Definition:
    """Check the parameters of a product; an error names the one that is outside its domain."""
    given = Parameters(rows=rows, **numerics)
    operand, weight, accumulate, between = given.operand, given.weight, given.accumulate, given.between
    precision, terms = given.precision, given.terms
    sides = find_operand(operand, "operand"), find_operand(operand if weight is None else weight, "weight")
    sums, tiles = find_sum(accumulate, "accumulate"), find_sum(accumulate if between is None else between, "between")
    rows = check_count(rows, "rows")
    check_precision(precision, operand, accumulate)
    if precision != "default" and not (weight in (None, operand) and between in (None, accumulate)):
        raise ValueError(f"precision must be 'default' for two formats of operands or sums, not {precision!r}")
    for side in sides:
        if side.integer != sides[0].integer:
            raise ValueError(f"operand and weight must both be int8, or none, not {operand!r} and {weight!r}")
        if side.length % rows and not side.integer:
            raise ValueError(f"rows must divide blocks of {side.length}, not {rows}")
    for name, spec, several in (("accumulate", accumulate, terms), ("between", between or "", 1)):
        if several == 1 and "/guard" in spec:
            raise ValueError(f"{name} must have no guard bits, which several terms have, not {spec!r}")
    plain = sums.is_plain and tiles.is_plain and sums.format.name == tiles.format.name == "fp32"
    if sides[0].integer and not (plain and terms == 1):
        raise ValueError(
            f"accumulate and between must be 'fp32', and terms 1, for int8 with sums in 32 bits, "
            f"not {accumulate!r}, {between!r} and {terms}"
        )
    if sides[0].length and sides[1].length and sides[0].integer and sides[0].length != sides[1].length:
        raise ValueError(f"operand and weight must have blocks of one length in int8, not {operand!r} and {weight!r}")
    flush, terms = check_subnormals(given.subnormals), check_terms(terms, rows, given.subnormals)
    return Definition(rows, precision, flush, *sides, sums, tiles, terms, check_seed(given.seed))


def check_precision(precision: str, operand: str = "bf16", accumulate: str = "fp32") -> None:
    """Check a precision, one of :data:`PASSES`, for formats of operands and sums."""
    if not isinstance(precision, str) or precision not in PASSES:
        raise ValueError(f"precision must be {', '.join(map(repr, PASSES))}, not {precision!r}")
    if precision != "default" and operand != "bf16":
        raise ValueError(f"precision must be 'default' for operands in {operand}, not {precision!r}")
    if precision != "default" and accumulate != "fp32":
        raise ValueError(f"precision must be 'default' for sums in {accumulate}, not {precision!r}")


def check_terms(terms: int, rows: int, subnormals: str) -> int:
    """Check a number of terms that are added at once, and return it."""
    if terms not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"terms must be 1, 2, 4, 8, 16 or 32, not {terms!r}")
    if rows % terms:
        raise ValueError(f"rows must be a multiple of terms={terms}, not {rows}")
    if terms > 1 and subnormals != "flush":
        raise ValueError(f"terms must be 1 with gradual underflow, which would take 15 % more area, not {terms}")
    return int(terms)


def check_seed(seed: int) -> int:
    """Check a seed of stochastic rounding, and return it."""
    message = f"seed must be an integer from 0 to {2**32 - 1}, not {seed!r}"
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(message) from None
    if not 0 <= number < 2**32:
        raise ValueError(message)
    return number


def check_largest(largest: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    """Check magnitudes that scales of whole operands are computed from, and return them, rounded to fp32."""
    known, most = isinstance(largest, tuple) and len(largest) == 2, float(np.finfo(np.float32).max)
    if not known or not all(one is None or (isinstance(one, int | float) and 0 <= one <= most) for one in largest):
        raise ValueError(f"largest must be two finite magnitudes in fp32, or None, not {largest!r}")
    one, other = (None if each is None else float(np.float32(each)) for each in largest)
    return one, other


def check_count(value: int, parameter: str, least: int = 1) -> int:
    """Check a number of things, `least` or more, and return it."""
    domain = f"{parameter} must be an integer >= {least}, not {value!r}"
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(domain) from None
    if count < least:
        raise ValueError(domain)
    return count
