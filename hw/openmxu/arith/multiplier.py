"""Multiplication of floating-point numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.pipeline import Pipeline
from openmxu.arith.datapath.product import multiply, rebias
from openmxu.arith.datapath.round import exponent_shape, round_pack
from openmxu.spec.formats import FloatFormat, check_subnormals
from openmxu.spec.recoded import port_width
from openmxu.spec.stages import MULTIPLIER_CUTS, check_stages


class Multiplier(wiring.Component):
    """Floating-point product, ``o = round(i_a · i_b)``, a rigid pipeline.

    Rounds once, to nearest, ties to even; where the product fits the result's significand (bf16 x bf16 ->
    fp32), it is exact except for overflow and underflow.

    Latency: :attr:`latency` cycles, equal to ``stages``. Throughput: one product per cycle.
    Back-pressure: none; see :class:`~openmxu.arith.Streamed`.

    Deviations from IEEE 754: NaN results are the canonical quiet NaN and there are no flags. With
    ``subnormals="flush"`` a subnormal operand counts as a zero of its sign, and a product that is
    below the smallest normal number before rounding becomes a zero of its sign.

    Parameters
    ----------
    operand, result
        Formats of both operands and of the result.
    subnormals
        ``"flush"`` or ``"ieee"`` (gradual underflow).
    stages
        0: combinational. 1: the output is a register. 2: so is the significand product.
    recoded
        Operands come as recoded words, see :mod:`openmxu.spec.recoded`; only with gradual underflow.

    Members
    -------
    i_a, i_b : In(operand.width), or In(Recoded(operand).width)
    o : Out(result.width)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    CUTS = MULTIPLIER_CUTS

    def __init__(
        self,
        operand: FloatFormat,
        result: FloatFormat,
        *,
        subnormals: str = "flush",
        stages: int = 0,
        recoded: bool = False,
    ) -> None:
        self.operand = operand
        self.result = result
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, self.CUTS)
        self.recoded = recoded
        width = port_width(operand, subnormals, recoded=recoded)
        super().__init__({"i_a": In(width), "i_b": In(width), "o": Out(result.width)})

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.stages

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"multiplier_{self.operand}_{self.result}_{self.subnormals}_s{self.stages}"

    @property
    def _exponents(self) -> range:
        """Exponents, biased for the result, that a normalised finite product can have."""
        rebias = self.result.bias - 2 * self.operand.bias
        largest = self.operand.exponent_mask - (1 if self.operand.has_infinity else 0)
        lost = 2 * self.operand.fraction_width if self.subnormals == "ieee" else 0
        return range(2 + rebias - lost, 2 * largest + rebias + 2)

    def elaborate(self, platform: object) -> Module:
        """Multiply; normalise by at most one bit; round."""
        m = Module()
        pipeline = Pipeline(m, self.CUTS[self.stages])
        exact = multiply(m, self.i_a, self.i_b, self.operand, self.subnormals, recoded=self.recoded)
        product = pipeline.cut("product", exact)
        exponents = self._exponents
        top = product.significand[-1]
        normalised = Signal(len(product.significand) - 1, name="normalised")
        exponent = Signal(exponent_shape(exponents), name="exponent")
        shifted = Mux(top, product.significand, product.significand << 1)
        m.d.comb += [
            # A recoded zero was multiplied with a hidden bit. As a subnormal number, its product would have bits.
            normalised.eq(Mux(product.zero, 0, shifted) if self.recoded else shifted),
            exponent.eq(
                rebias(product.exponent, self.operand, self.result, recoded=self.recoded)
                + (top if self.subnormals == "flush" else top - 1)
            ),
        ]
        bits = round_pack(
            m,
            self.result,
            self.subnormals,
            sign=product.sign,
            exponent=exponent,
            significand=Cat(normalised, ~product.zero),
            infinite=product.infinite,
            nan=product.nan,
            exponents=exponents,
        )
        m.d.comb += self.o.eq(pipeline.cut("rounded", bits))
        return m
