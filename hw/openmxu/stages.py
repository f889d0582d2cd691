"""Where the arithmetic can be cut by registers, and which of them a processing element has."""

import operator
from collections.abc import Collection, Mapping

__all__ = ["ADDER_CUTS", "MULTIPLIER_CUTS", "check_stages", "split_stages"]

MULTIPLIER_CUTS: Mapping[int, tuple[str, ...]] = {0: (), 1: ("rounded",), 2: ("product", "rounded")}
"""Number of stages of a multiplier, and the names of the cuts that are registers then."""

ADDER_CUTS: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("rounded",),
    2: ("aligned", "rounded"),
    3: ("aligned", "summed", "rounded"),
    4: ("aligned", "summed", "normalised", "rounded"),
    5: ("ordered", "aligned", "summed", "normalised", "rounded"),
}
"""The same of an adder."""

_STAGES = range(1, max(MULTIPLIER_CUTS) + max(ADDER_CUTS) + 1)


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
    """How many of a processing element's ``stages`` its multiplier gets, and how many its adder.

    The adder gets the last register. From 2 on the multiplier has one, as it costs no skew; then the adder
    takes all that it can use, and the multiplier the rest.

    Raises
    ------
    TypeError, ValueError
        There is no such number of stages.
    """
    stages = check_stages(stages, _STAGES)
    at_adder = max(1, min(stages - 1, max(ADDER_CUTS)))
    return stages - at_adder, at_adder
