"""Where the arithmetic can be cut by registers, and which of them a processing element has."""

import operator
from collections.abc import Collection, Mapping

MULTIPLIER_CUTS: Mapping[int, tuple[str, ...]] = {0: (), 1: ("rounded",), 2: ("product", "rounded")}
"""Number of stages of a multiplier, and the names of the cuts that are registers then."""

ADDER_CUTS: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("rounded",),
    2: ("summed", "rounded"),
    3: ("aligned", "half_normalised", "rounded"),
    4: ("half_aligned", "summed", "half_normalised", "rounded"),
    5: ("half_aligned", "aligned", "summed", "half_normalised", "rounded"),
}
"""The same of an adder, and of what comes behind the product in a multiply-add."""

PRODUCT_CUTS: Mapping[int, tuple[str, ...]] = {0: (), 1: ("multiplied",), 2: ("multiplied", "product")}
"""The same of a multiply-add's product."""

_SPLIT = {0: (0, 0), 1: (0, 1), 2: (1, 1), 3: (1, 2), 4: (1, 3), 5: (1, 4), 6: (2, 4), 7: (2, 5)}

STAGES = range(1, len(_SPLIT))
"""Numbers of stages that a processing element can have."""


def check_stages(stages: int, known: Collection[int]) -> int:
    """Return ``stages`` as an integer, or say which numbers of stages are ``known``.

    Raises
    ------
    TypeError
        ``stages`` is not an integer.
    ValueError
        There is no such number of stages.
    """
    domain = f"stages must be an integer from {min(known)} to {max(known)}, not {stages!r}"
    try:
        stages = operator.index(stages)
    except TypeError:
        raise TypeError(domain) from None
    if stages not in known:
        raise ValueError(domain)
    return stages


def split_stages(stages: int) -> tuple[int, int]:
    """How many of a multiply-add's ``stages`` its product gets, and how many its sum.

    The sum gets the last register. From 2 on the product has one, as it costs no skew. Then the sum takes all that
    divide it well, and the product another one, before the last is given to the sum.

    Raises
    ------
    TypeError, ValueError
        There is no such number of stages.
    """
    return _SPLIT[check_stages(stages, _SPLIT)]
