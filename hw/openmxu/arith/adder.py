"""Addition of floating-point numbers."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.pipeline import Pipeline, Rigid
from openmxu.arith.datapath.sum import Order, Sum, Summand
from openmxu.arith.datapath.unpack import unpack
from openmxu.spec.formats import FloatFormat, check_subnormals
from openmxu.spec.forms import form_of
from openmxu.spec.stages import ADDER_CUTS, check_stages

_GUARD_BITS = 3  # guard, round and sticky: enough for one rounding after any alignment


class Adder(Rigid):
    """Floating-point sum, ``o = round(i_a + i_b)``, a rigid pipeline.

    One path: order by exponent, align, add or subtract, normalise, round to nearest, ties to even.

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
        0: combinational. From 1 to 5: with the registers of :data:`~openmxu.spec.stages.ADDER_CUTS`.

    Members
    -------
    i_a, i_b : In(fmt.width)
    o : Out(fmt.width)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    CUTS = ADDER_CUTS

    def __init__(self, fmt: FloatFormat, *, subnormals: str = "flush", stages: int = 0) -> None:
        self.fmt = fmt
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, self.CUTS)
        super().__init__({"i_a": In(fmt.width), "i_b": In(fmt.width), "o": Out(fmt.width)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"adder_{self.fmt}_{self.subnormals}_s{self.stages}"

    def elaborate(self, platform: object) -> Module:
        """Unpack the operands, compare their exponents, add."""
        m = Module()
        fmt = self.fmt
        a = unpack(m, self.i_a, fmt, self.subnormals, name="a")
        b = unpack(m, self.i_b, fmt, self.subnormals, name="b")
        difference = Signal(fmt.exponent_width + 1, name="difference")
        a_is_larger = difference[-1]
        distance = Signal(fmt.exponent_width, name="distance")
        subtract = Signal()
        m.d.comb += [
            difference.eq(a.exponent + ~b.exponent),
            distance.eq(difference[:-1] ^ (~a_is_larger).replicate(fmt.exponent_width)),
            subtract.eq(a.sign ^ b.sign),
        ]
        # A zero that is not flushed has a significand of 0, and needs no mask.
        ieee = self.subnormals == "ieee"
        first, second = (Summand(each.significand, each.sign, Const(1) if ieee else ~each.zero) for each in (a, b))
        order = Order(
            a_is_larger=a_is_larger,
            distance=distance,
            exponent=Mux(a_is_larger, a.exponent, b.exponent),
            above=Const(0, 1),
            sign=Mux(a_is_larger, a.sign, b.sign),
            subtract=subtract,
            infinite=a.infinite | b.infinite,
            nan=a.nan | b.nan | (a.infinite & b.infinite & subtract),
        )
        pipeline = Pipeline(m, self.CUTS[self.stages])
        total = Sum(m, pipeline, fmt, self.subnormals, guard=_GUARD_BITS, form=form_of(platform))
        m.d.comb += self.o.eq(total.add(first, second, order))
        return m
