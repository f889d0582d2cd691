"""The patterns at the edges of a format, and ties."""

import numpy as np
import numpy.typing as npt

from openmxu_sim.golden import find_format
from openmxu_sim.golden.formats import Bits, Format

Ints = npt.NDArray[np.int64]


def corners(fmt: str, *, ties: bool = True) -> Bits:
    """Patterns at the edges of a format, every one with both signs.

    Zeros, the smallest and largest subnormal and normal numbers and their neighbours, 1, 2 and their
    neighbours, infinities, quiet and signalling NaNs with various payloads, and ties: fractions that end in
    a one and zeros, those one ulp to both sides, and those with another one behind, at the exponents of 1, of
    the smallest and of the largest normal numbers and of the subnormal ones, with even and odd bits before the
    tie.
    """
    layout = find_format(fmt, "fmt")
    patterns = _landmarks(layout)
    if ties:
        patterns += _at_edges(layout, [*_tie_fractions(layout), *_broken_tie_fractions(layout)])
    return _with_both_signs(layout, patterns).astype(np.uint32)


def _landmarks(fmt: Format) -> list[int]:
    """Magnitudes of the corners that are no ties."""
    lowest_normal = 1 << fmt.fraction_width
    one = fmt.bias << fmt.fraction_width
    top = fmt.exponent_mask
    quiet = top | fmt.quiet_bit
    edges = [0, 1, 2, *_around(lowest_normal), *_around(one), *_around(one + lowest_normal)]
    return [*edges, *_around(top), top + 2, *_around(quiet), top | fmt.fraction_mask]


def _at_edges(fmt: Format, fractions: list[int]) -> list[int]:
    """Magnitudes with these fractions at the exponents of 1 and of the extremes."""
    lowest_normal = 1 << fmt.fraction_width
    one = fmt.bias << fmt.fraction_width
    top = fmt.exponent_mask
    exponents = (0, lowest_normal, one - lowest_normal, one, top - lowest_normal, top)
    return [exponent | fraction for exponent in exponents for fraction in fractions]


def _with_both_signs(fmt: Format, magnitudes: list[int]) -> Ints:
    """Return the patterns of magnitudes that `fmt` has, with both signs, ascending, without duplicates."""
    possible = [magnitude for magnitude in magnitudes if magnitude < fmt.sign_bit]
    return np.unique([*possible, *(magnitude | fmt.sign_bit for magnitude in possible)])


def _around(pattern: int) -> list[int]:
    """A pattern and its neighbours."""
    return [pattern - 1, pattern, pattern + 1]


def _dropped(fmt: Format) -> list[int]:
    """Return numbers of bits to round away: a few, half of the fraction, and those that narrower named formats drop."""
    named = {fmt.fraction_width - kept for kept in (2, 3, 7, 10)}  # fp32 to bf16: 16
    return [bits for bits in sorted({1, 2, 3, fmt.fraction_width // 2} | named) if 1 <= bits <= fmt.fraction_width]


def _tie_fractions(fmt: Format) -> list[int]:
    """Fractions at ties and next to them, for several numbers of bits to be rounded away."""
    fractions = []
    for dropped in _dropped(fmt):
        half = 1 << (dropped - 1)
        for upper in (0, 1 << dropped, fmt.fraction_mask & -(1 << dropped)):
            fractions += [upper | low for low in _around(half)]
    return [fraction for fraction in fractions if fraction <= fmt.fraction_mask]


def _broken_tie_fractions(fmt: Format) -> list[int]:
    """Ties broken by a single one below, at each place that it can have."""
    return [1 << (dropped - 1) | 1 << bit for dropped in _dropped(fmt) for bit in range(dropped - 1)]


def edges(fmt: Format, count: int, rng: np.random.Generator) -> Ints:
    """Corners; every second one is no tie, as wide formats have many ties and few special values."""
    landmarks = _with_both_signs(fmt, _landmarks(fmt))
    with_ties = _with_both_signs(fmt, [*_landmarks(fmt), *_at_edges(fmt, _tie_fractions(fmt))])
    return np.where(
        rng.random(count) < 0.5,
        landmarks[rng.integers(len(landmarks), size=count)],
        with_ties[rng.integers(len(with_ties), size=count)],
    )
