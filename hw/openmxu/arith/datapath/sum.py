"""The sum of two numbers whose order is known: the datapath that adder and multiply-add share.

::

    Summand a ─┐
    Summand b ─┴▶ order ─▶ align ─▶│─▶ align ─▶│─▶ add or   ─▶│─▶ normalise ─▶│─▶ normalise ─▶ round, pack ─▶│─▶ bits
                           by 16   │   by 8 to │   subtract   │   by 16, 8, 4 │   by 2, 1                    │
                             half_aligned  aligned         summed      half_normalised                    rounded
                                                                                                 names of the cuts

Why it is exact:

- The smaller operand is shifted right with guard bits below the significand; the last one is 1 if any bit was lost.
  They decide each rounding as the exact sum would.
- Operands are ordered by exponent alone, so a difference d is negative where the exponents are equal, or nearly so, and
  the significands are not in order. No bit was lost then: d is exact, and so is its magnitude, ~d + 1.
- The + 1 is added at the rounding. Normalisation shifts in ones from below, so all bits below the last place are ones,
  and the carry of the + 1 through them is the increment that the rounding adds to that place.
- The form for speed shifts by anticipated zeros, one too few at most. It rounds the sum as it then is, and shifted by
  one more place; the top bit selects. A limited shift, of gradual underflow, looks for its zeros as for area.
- Random rounding reads 24 bits below the last place, and guard bits are 23 more: what is cut off is cut off below them.
- The difference of exponents has no carry-in. Where a's exponent is larger, the distance is therefore one too small,
  and b is aligned from one place further right. Else the distance is the inverted difference, which is exact.
"""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from openmxu.arith.datapath.anticipate import anticipate
from openmxu.arith.datapath.pipeline import Pipeline
from openmxu.arith.datapath.round import exponent_shape, round_pack
from openmxu.arith.datapath.shift import masked, normalise, shift_right_sticky
from openmxu.spec.formats import FloatFormat
from openmxu.spec.forms import SPEED

_INNER_CUTS = ("half_aligned", "aligned", "summed", "half_normalised")
"""Cuts before the last one."""

_FINE_ALIGNMENT, _FINE_NORMALISATION = 4, 2
"""Steps of each shifter behind the cut in its middle: both halves then take the same time."""


class Summand(NamedTuple):
    """A finite number to add. Where ``counts`` is 0 it is a zero of its sign, whatever its significand."""

    significand: Value
    sign: Value
    counts: Value


class Order(NamedTuple):
    """Exponents, signs and special values of two summands, before they are aligned.

    Members
    -------
    a_is_larger : 1
        The exponent of the first one is larger than that of the second one. Set only where the first one counts.
    distance
        The difference of the exponents, less one where ``a_is_larger``.
    exponent, above
        The larger exponent is ``exponent + above``, biased.
    sign, subtract : 1
        Sign of the summand of larger exponent; whether the signs differ. For an infinite sum, its sign; and d must not
        be below 0.
    infinite, nan : 1
        They override the sum.
    """

    a_is_larger: Value
    distance: Value
    exponent: Value
    above: Value
    sign: Value
    subtract: Value
    infinite: Value
    nan: Value


_CARRIED = ("above", "sign", "subtract", "infinite", "nan")
"""Fields of :class:`Order` that every cut carries, a bit each."""


def _layout(**fields: object) -> data.StructLayout:
    """The layout of a cut: ``fields``, and those that every cut carries."""
    return data.StructLayout({**fields, **dict.fromkeys(_CARRIED, 1)})


def _kept(target: data.View, source: Any) -> list[object]:
    """Statements that copy the fields that every cut carries."""
    return [getattr(target, name).eq(getattr(source, name)) for name in _CARRIED]


class Sum:
    """Adds two numbers in a module."""

    def __init__(
        self,
        m: Module,
        pipeline: Pipeline,
        fmt: FloatFormat,
        subnormals: str,
        *,
        guard: int,
        form: str,
        noise: Value | None = None,
    ) -> None:
        self._m = m
        self._pipeline = pipeline
        self._fmt = fmt
        self._subnormals = subnormals
        self._guard = guard
        self._noise = noise
        self._width = fmt.significand_width + guard
        # With a register inside, a sum's slowest part is not where these would make it faster.
        self._compound = form == SPEED and not pipeline.cuts(_INNER_CUTS)
        self._anticipates = self._compound and subnormals == "flush"

    def add(self, a: Summand, b: Summand, order: Order) -> Value:
        """The bit pattern of ``a + b``, rounded to nearest, ties to even, behind all cuts.

        ``a.significand`` may be wider than the format's where its exponent is not the larger one.
        """
        half_aligned = self._pipeline.cut("half_aligned", self._align(self._order(a, b, order)))
        aligned = self._pipeline.cut("aligned", self._align_finely(half_aligned))
        if self._anticipates:
            return self._pipeline.cut("rounded", self._round_twice(aligned))
        summed = self._pipeline.cut("summed", self._sum(aligned))
        half_normalised = self._pipeline.cut("half_normalised", self._normalise(summed))
        return self._pipeline.cut("rounded", self._round(self._normalise_finely(half_normalised)))

    def _order(self, a: Summand, b: Summand, order: Order) -> data.View:
        """The summand of larger exponent; the other one, and the distance to shift it right."""
        fmt = self._fmt
        # A summand that is farther away changes no rounding, and becomes 0.
        reach = 0 if self._noise is None else len(self._noise)
        width = min(len(order.distance), (fmt.significand_width + 1 + reach).bit_length())
        ordered = Signal(
            _layout(
                exponent=fmt.exponent_width,
                distance=width,
                near=1,
                large=fmt.significand_width,
                small=1 + max(len(a.significand), fmt.significand_width),
            ),
            name="by_exponent",
        )
        larger = order.a_is_larger
        self._m.d.comb += [
            ordered.exponent.eq(order.exponent),
            ordered.distance.eq(order.distance),
            ordered.near.eq(~order.distance[width:].any()),
            ordered.large.eq(masked(a.significand, larger) | masked(b.significand, ~larger & b.counts)),
            ordered.small.eq(
                masked(Cat(0, a.significand), ~larger & a.counts) | masked(b.significand, larger & b.counts)
            ),
            *_kept(ordered, order),
        ]
        return ordered

    def _align(self, ordered: data.View) -> data.View:
        """The smaller significand shifted right by the larger steps."""
        small = Cat(Const(0, self._guard - 1), ordered.small)
        steps = range(len(ordered.distance))
        aligned = Signal(
            _layout(
                exponent=self._fmt.exponent_width,
                distance=min(_FINE_ALIGNMENT, len(steps)),
                large=self._fmt.significand_width,
                small=len(small),
            ),
            name="half_aligned_operands",
        )
        shifted = shift_right_sticky(
            self._m, small, ordered.distance, name="coarse", steps=steps[_FINE_ALIGNMENT:], keep=ordered.near
        )
        self._m.d.comb += [
            aligned.exponent.eq(ordered.exponent),
            aligned.distance.eq(ordered.distance),
            aligned.large.eq(ordered.large),
            aligned.small.eq(shifted if self._noise is None else shifted | (~ordered.near & ordered.small.any())),
            *_kept(aligned, ordered),
        ]
        return aligned

    def _align_finely(self, half: data.View) -> data.View:
        """The smaller significand shifted to the larger one's exponent."""
        aligned = Signal(
            _layout(exponent=self._fmt.exponent_width, large=self._fmt.significand_width, small=self._width),
            name="aligned_operands",
        )
        self._m.d.comb += [
            aligned.exponent.eq(half.exponent),
            aligned.large.eq(half.large),
            aligned.small.eq(
                shift_right_sticky(self._m, half.small, half.distance, name="small", steps=range(len(half.distance)))
            ),
            *_kept(aligned, half),
        ]
        return aligned

    def _sum(self, aligned: data.View) -> data.View:
        """The sum's magnitude; one too small in its last place, and with ones to follow, where it is ``short``."""
        width = self._width
        summed = Signal(_layout(exponent=self._fmt.exponent_width, significand=width + 1, short=1), name="sum")
        # Signals outside of the structure: simulators take a word that depends on itself for a loop.
        total, short = Signal(width + 1, name="total"), Signal(name="short")
        small = aligned.small ^ aligned.subtract.replicate(width)
        self._m.d.comb += [
            total.eq(Cat(Const(0, self._guard), aligned.large) + small + aligned.subtract),
            summed.exponent.eq(aligned.exponent),
            short.eq(aligned.subtract & ~total[-1]),
            summed.short.eq(short),
            summed.significand.eq(Cat(total[:-1] ^ short.replicate(width), total[-1] & ~aligned.subtract)),
            *_kept(summed, aligned),
            summed.sign.eq(aligned.sign ^ short),
        ]
        return summed

    @property
    def _steps(self) -> range:
        """The steps that normalise a sum, with the bit of its carry."""
        return range(self._width.bit_length())

    def _limit(self, exponent: Value) -> Value | None:
        """The most that a sum may be shifted left: not one less, as the top bit has the weight of a carry."""
        return exponent if self._subnormals == "ieee" else None

    def _normalise(self, summed: data.View) -> data.View:
        """The sum shifted left by the larger steps."""
        shifted = normalise(
            self._m,
            summed.significand,
            steps=self._steps[_FINE_NORMALISATION:],
            limit=self._limit(summed.exponent),
            fill=summed.short,
            name="coarsely",
        )
        half = Signal(
            _layout(
                exponent=self._fmt.exponent_width,
                significand=len(summed.significand),
                short=1,
                shift=len(self._steps),
                more=1,
            ),
            name="half_normalised_sum",
        )
        self._m.d.comb += [
            half.exponent.eq(summed.exponent),
            half.significand.eq(shifted.value),
            half.short.eq(summed.short),
            half.shift.eq(shifted.shift),
            half.more.eq(shifted.more),
            *_kept(half, summed),
        ]
        return half

    def _normalise_finely(self, half: data.View) -> data.View:
        """The sum with its top bit set, or as far left as its exponent allows."""
        shifted = normalise(
            self._m,
            half.significand,
            steps=self._steps[:_FINE_NORMALISATION],
            limit=self._limit(half.exponent),
            more=half.more,
            fill=half.short,
            name="finely",
        )
        fields = {
            "exponent": exponent_shape(self._exponents),
            "significand": len(half.significand),
            "short": 1,
            "sign": 1,
            "infinite": 1,
            "nan": 1,
        }
        normalised = Signal(data.StructLayout(fields), name="normalised_sum")
        is_zero = ~shifted.value[-1] if self._subnormals == "flush" else ~half.significand.any()
        width = len(normalised.exponent)
        unshifted = Cat(~(half.shift | shifted.shift), Const(-1, width))[:width]  # less shift and one
        # exponent + above + 1 - shift; less an offset of two where the rounding, one adder for all, has room for it
        compound = (half.exponent + half.above + 2) + unshifted
        self._m.d.comb += [
            normalised.exponent.eq(compound if self._compound else half.exponent + unshifted + half.above),
            normalised.significand.eq(shifted.value),
            normalised.short.eq(half.short),
            # Exact cancellation is +0, whatever was cancelled.
            normalised.sign.eq(half.sign & ~(half.subtract & is_zero)),
            normalised.infinite.eq(half.infinite),
            normalised.nan.eq(half.nan),
        ]
        return normalised

    @property
    def _exponents(self) -> range:
        """Exponents that a sum can have."""
        lowest = 1 if self._subnormals == "ieee" else 2 - self._width
        return range(lowest, self._fmt.exponent_mask + (1 if self._fmt.has_infinity else 2))

    def _round(self, normalised: data.View) -> Value:
        """The sum's bit pattern."""
        return self._pack(normalised, normalised.sign, normalised.exponent, normalised.significand, normalised.short)

    def _round_twice(self, aligned: data.View) -> Value:
        """The sum's bit pattern, from its anticipated zeros: rounded as it is shifted by them, and by a place more."""
        m, summed = self._m, self._sum(aligned)
        small = aligned.small ^ aligned.subtract.replicate(self._width)
        a, b = Cat(Const(0, self._guard), aligned.large, Const(0, 2)), Cat(small, aligned.subtract.replicate(2))
        zeros = anticipate(m, a, b, aligned.subtract)
        shifted = normalise(m, summed.significand, fill=summed.short, zeros=zeros, name="anticipated").value
        shape = exponent_shape(self._exponents)
        unshifted = Cat(~zeros, Const(-1, shape.width))[: shape.width]  # less zeros and one
        rounded = []
        for more, significand in enumerate((shifted, Cat(Const(0, 1), shifted[:-1]))):  # the 0 is never read
            exponent = Signal(shape, name=f"exponent_{more}")
            m.d.comb += exponent.eq((summed.exponent + summed.above + (2 - more)) + unshifted)
            # Exact cancellation is +0, whatever was cancelled.
            sign = summed.sign & ~(summed.subtract & ~significand[-1])
            rounded.append(self._pack(summed, sign, exponent, significand, summed.short))
        return Mux(shifted[-1], *rounded)

    def _pack(self, special: data.View, sign: Value, exponent: Value, significand: Value, short: Value) -> Value:
        """The bit pattern of a number, or of a special value."""
        return round_pack(
            self._m,
            self._fmt,
            self._subnormals,
            sign=sign,
            exponent=exponent,
            significand=significand,
            short=short,
            offset=0 if self._compound else 2,
            compound=self._compound,
            infinite=special.infinite,
            nan=special.nan,
            exponents=self._exponents,
            noise=self._noise,
        )
