"""Places where registers can cut the arithmetic, and the registers that a processing element has."""

import operator
from collections.abc import Collection, Mapping

MULTIPLIER_CUTS: Mapping[int, tuple[str, ...]] = {0: (), 1: ("rounded",), 2: ("product", "rounded")}
"""Cuts of a multiplier that are registers, by its number of stages."""

ADDER_CUTS: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("rounded",),
    2: ("summed", "rounded"),
    3: ("aligned", "half_normalised", "rounded"),
    4: ("half_aligned", "summed", "half_normalised", "rounded"),
    5: ("half_aligned", "aligned", "summed", "half_normalised", "rounded"),
}
"""Cuts of an adder that are registers, by its number of stages; also of the sum in a multiply-add."""

TERM_CUTS: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("rounded",),
    2: ("summed", "rounded"),
    3: ("aligned", "summed", "rounded"),
    4: ("aligned", "summed", "half_normalised", "rounded"),
    5: ("ordered", "aligned", "summed", "half_normalised", "rounded"),
}
"""Cuts of a sum of several terms that are registers, by its number of stages."""

PRODUCT_CUTS: Mapping[int, tuple[str, ...]] = {0: (), 1: ("multiplied",), 2: ("multiplied", "product")}
"""Cuts of a multiply-add's product that are registers, by its number of stages."""

_SPLIT = {0: (0, 0), 1: (0, 1), 2: (1, 1), 3: (1, 2), 4: (1, 3), 5: (1, 4), 6: (2, 4), 7: (2, 5)}

TERMS = (1, 2, 4, 8)
"""Products that a processing element can add at once."""

STAGES = range(1, len(_SPLIT))
"""Numbers of stages that a processing element can have."""


def check_stages(stages: int, known: Collection[int]) -> int:
    """Return ``stages`` as an integer if it is one of the ``known`` numbers of stages.

    Raises
    ------
    TypeError
        ``stages`` is not an integer.
    ValueError
        There is no such number of stages.
    """
    return _known(stages, known, f"stages must be an integer from {min(known)} to {max(known)}, not {stages!r}")


def check_terms(terms: int, subnormals: str) -> int:
    """Return ``terms`` if it is one of :data:`TERMS`, 1 unless subnormal numbers are flushed.

    Raises
    ------
    TypeError, ValueError
        An element cannot take so many terms.
    """
    terms = _known(terms, TERMS, f"terms must be {', '.join(map(str, TERMS[:-1]))} or {TERMS[-1]}, not {terms!r}")
    if terms > 1 and subnormals != "flush":
        raise ValueError(f"terms must be 1 with gradual underflow, which would take 15 % more area, not {terms}")
    return terms


def _known(value: int, known: Collection[int], message: str) -> int:
    """``value`` as an integer if it is a known one; else an error with this message."""
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(message) from None
    if value not in known:
        raise ValueError(message)
    return value


def split_stages(stages: int) -> tuple[int, int]:
    """The numbers of registers in a multiply-add's product and in its sum, ``stages`` in all.

    The sum has the last register. From 2 stages on the product has one, which costs no skew. Further registers divide
    the sum, up to 4; the sixth register goes to the product, the seventh to the sum.

    Raises
    ------
    TypeError, ValueError
        There is no such number of stages.
    """
    return _SPLIT[check_stages(stages, _SPLIT)]
