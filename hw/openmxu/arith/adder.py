"""Addition of floating-point numbers.

::

    i_a, i_b ─▶ order by ─▶│─▶ align ─▶│─▶ add or   ─▶│─▶ normalise ─▶│─▶ round, ─▶│─▶ o
                magnitude  │           │   subtract   │               │   pack     │
                           5           2              3               4            1     stages from which on a
                                                                                         register stands here

Invariant: the smaller operand is shifted right with three bits more than the significand has, the last of which is 1
if any bit was lost: guard, round and sticky decide each rounding as the exact sum would.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.pipeline import Pipeline
from openmxu.arith.round import round_pack
from openmxu.arith.shift import normalise, shift_right_sticky
from openmxu.arith.unpack import unpack
from openmxu.formats import FloatFormat, check_subnormals
from openmxu.stages import ADDER_CUTS, check_stages

__all__ = ["Adder"]

_GUARD_BITS = 3  # guard, round and sticky: enough for one rounding after any alignment


def _layout(**fields: object) -> data.StructLayout:
    """What passes a cut: ``fields``, and the flags that every cut carries."""
    return data.StructLayout({**fields, "sign": 1, "subtract": 1, "infinite": 1, "nan": 1})


class Adder(wiring.Component):
    """Floating-point sum, ``o = round(i_a + i_b)``, a rigid pipeline.

    One path: order by magnitude, align, add or subtract, normalise, round to nearest, ties to even.

    Latency: :attr:`latency` cycles, equal to ``stages``. Throughput: one sum per cycle.
    Back-pressure: none; see :class:`~openmxu.arith.Streamed`.

    Deviations from IEEE 754: NaN results are the canonical quiet NaN and there are no flags. With
    ``subnormals="flush"`` a subnormal operand counts as a zero of its sign, and a subnormal result
    becomes a zero of its sign.

    Parameters
    ----------
    fmt
        Format of operands and result.
    subnormals
        ``"flush"`` or ``"ieee"`` (gradual underflow).
    stages
        0: combinational. Then registers are added behind: 1 rounding, 2 alignment, 3 the sum, 4 the
        normalised sum, 5 the ordering by magnitude.

    Members
    -------
    i_a, i_b : In(fmt.width)
    o : Out(fmt.width)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    i_a: Value
    i_b: Value
    o: Value

    CUTS = ADDER_CUTS

    def __init__(self, fmt: FloatFormat, *, subnormals: str = "flush", stages: int = 0) -> None:
        self.fmt = fmt
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, self.CUTS)
        super().__init__({"i_a": In(fmt.width), "i_b": In(fmt.width), "o": Out(fmt.width)})

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.stages

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"adder_{self.fmt}_{self.subnormals}_s{self.stages}"

    def elaborate(self, platform: object) -> Module:
        """Step by step, with a place for a register behind each."""
        m = Module()
        pipeline = Pipeline(m, self.CUTS[self.stages])
        ordered = pipeline.cut("ordered", self._order(m))
        aligned = pipeline.cut("aligned", self._align(m, ordered))
        summed = pipeline.cut("summed", self._sum(m, aligned))
        normalised = pipeline.cut("normalised", self._normalise(m, summed))
        m.d.comb += self.o.eq(pipeline.cut("rounded", self._round(m, normalised)))
        return m

    def _order(self, m: Module) -> data.View:
        """The operand of larger magnitude, and by how far the other operand must be shifted."""
        fmt = self.fmt
        a = unpack(m, self.i_a, fmt, self.subnormals, name="a")
        b = unpack(m, self.i_b, fmt, self.subnormals, name="b")
        swap = Signal()
        subtract = Signal()
        ordered = Signal(
            _layout(
                exponent=fmt.exponent_width,
                distance=fmt.exponent_width,
                large=fmt.significand_width,
                small=fmt.significand_width,
            ),
            name="by_magnitude",
        )
        m.d.comb += [
            swap.eq(self.i_a[:-1] < self.i_b[:-1]),
            subtract.eq(a.sign ^ b.sign),
            ordered.exponent.eq(Mux(swap, b.exponent, a.exponent)),
            ordered.distance.eq(Mux(swap, b.exponent - a.exponent, a.exponent - b.exponent)),
            ordered.large.eq(Mux(swap, b.significand, a.significand)),
            ordered.small.eq(Mux(swap, a.significand, b.significand)),
            ordered.sign.eq(Mux(swap, b.sign, a.sign)),
            ordered.subtract.eq(subtract),
            ordered.infinite.eq(a.infinite | b.infinite),
            ordered.nan.eq(a.nan | b.nan | (a.infinite & b.infinite & subtract)),
        ]
        return ordered

    def _align(self, m: Module, ordered: data.View) -> data.View:
        """The smaller significand shifted to the larger one's exponent."""
        fmt = self.fmt
        aligned = Signal(
            _layout(
                exponent=fmt.exponent_width, large=fmt.significand_width, small=fmt.significand_width + _GUARD_BITS
            ),
            name="aligned_operands",
        )
        small = Cat(Const(0, _GUARD_BITS), ordered.small)
        m.d.comb += [
            aligned.exponent.eq(ordered.exponent),
            aligned.large.eq(ordered.large),
            aligned.small.eq(shift_right_sticky(m, small, ordered.distance, name="small")),
            *_flags(aligned, ordered),
        ]
        return aligned

    def _sum(self, m: Module, aligned: data.View) -> data.View:
        """Sum or difference; never negative, as the larger magnitude comes first."""
        fmt = self.fmt
        width = fmt.significand_width + _GUARD_BITS + 1
        summed = Signal(_layout(exponent=fmt.exponent_width, significand=width), name="sum")
        large = Cat(Const(0, _GUARD_BITS), aligned.large)
        small = aligned.small ^ aligned.subtract.replicate(width - 1)
        m.d.comb += [
            summed.exponent.eq(aligned.exponent),
            # The inverted operand's sign extension: one bit is all that the sum keeps of it.
            summed.significand.eq(large + Cat(small, aligned.subtract) + aligned.subtract),
            *_flags(summed, aligned),
        ]
        return summed

    def _normalise(self, m: Module, summed: data.View) -> data.View:
        """The sum with its top bit set, or as far left as its exponent allows."""
        fmt = self.fmt
        width = len(summed.significand)
        normalised = Signal(_layout(exponent=signed(fmt.exponent_width + 2), significand=width), name="normalised_sum")
        # The top bit of the sum has the weight of a carry, two: hence one more than the larger exponent.
        limit = None if self.subnormals == "flush" else summed.exponent
        significand, shift = normalise(m, summed.significand, limit=limit, name="shifted")
        m.d.comb += [
            normalised.exponent.eq(summed.exponent + 1 - shift),
            normalised.significand.eq(significand),
            *_flags(normalised, summed),
            # Exact cancellation is +0, whatever was cancelled.
            normalised.sign.eq(summed.sign & (summed.significand.any() | ~summed.subtract)),
        ]
        return normalised

    def _round(self, m: Module, normalised: data.View) -> Value:
        """The result's bit pattern."""
        fmt = self.fmt
        underflow = 1 if self.subnormals == "ieee" else 1 - fmt.significand_width - _GUARD_BITS
        return round_pack(
            m,
            fmt,
            self.subnormals,
            sign=normalised.sign,
            exponent=normalised.exponent,
            significand=normalised.significand,
            infinite=normalised.infinite,
            nan=normalised.nan,
            exponents=range(underflow, fmt.exponent_mask + (1 if fmt.has_infinity else 2)),
        )


def _flags(target: data.View, source: data.View) -> list[object]:
    """Statements that carry the flags over a cut."""
    flags = ("sign", "subtract", "infinite", "nan")
    return [getattr(target, name).eq(getattr(source, name)) for name in flags]
