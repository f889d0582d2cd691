"""Multiplication of floating-point numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.pipeline import Pipeline, Rigid
from openmxu.arith.datapath.product import Formats, multiply, rebias
from openmxu.arith.datapath.round import exponent_shape, round_pack
from openmxu.spec.formats import FloatFormat, check_subnormals, pair_name
from openmxu.spec.recoded import Recoded, port_width
from openmxu.spec.stages import MULTIPLIER_CUTS, check_stages


class Multiplier(Rigid):
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
    weight
        Format of ``i_b``, if it is another one.
    subnormals
        ``"flush"`` or ``"ieee"`` (gradual underflow).
    stages
        0: combinational. 1: the output is a register. 2: so is the significand product.
    recoded
        Operands come as recoded words, see :mod:`openmxu.spec.recoded`; only with gradual underflow.

    Members
    -------
    i_a, i_b : In(width of the format), or In(Recoded(format).width)
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
        weight: FloatFormat | None = None,
        subnormals: str = "flush",
        stages: int = 0,
        recoded: bool = False,
    ) -> None:
        self.operand = operand
        self.formats: Formats = (operand, weight or operand)
        self.result = result
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, self.CUTS)
        self.recoded = recoded
        a, b = (In(port_width(fmt, subnormals, recoded=recoded)) for fmt in self.formats)
        super().__init__({"i_a": a, "i_b": b, "o": Out(result.width)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"multiplier_{pair_name(*self.formats)}_{self.result}_{self.subnormals}_s{self.stages}"

    @property
    def _bias(self) -> int:
        """The bias to add to the exponents of two operands for the result's."""
        return self.result.bias - sum(fmt.bias for fmt in self.formats)

    @property
    def _largest(self) -> list[int]:
        """The largest exponent of each operand."""
        return [fmt.exponent_mask - fmt.has_infinity for fmt in self.formats]

    @property
    def _exponents(self) -> range:
        """Exponents, biased for the result, that a normalised finite product can have."""
        lost = sum(fmt.fraction_width for fmt in self.formats) if self.subnormals == "ieee" else 0
        return range(2 + self._bias - lost, sum(self._largest) + self._bias + 2)

    @property
    def _zeros_mislead(self) -> bool:
        """Whether the exponent of a zero product can seem too large: that of an operand is, or a negative one wraps."""
        if self.subnormals == "flush" or not self.result.has_infinity:
            return False
        # What normalisation leaves of a zero's exponent.
        zeros = [
            -Recoded(fmt).offset if self.recoded else 2 - (1 << fmt.fraction_width.bit_length()) for fmt in self.formats
        ]
        lowest = sum(zeros) + self._bias
        highest = lowest + 1 + max(largest - zero for largest, zero in zip(self._largest, zeros, strict=True))
        return highest >= self.result.exponent_mask or -lowest > 1 << exponent_shape(self._exponents).width - 1

    def elaborate(self, platform: object) -> Module:
        """Multiply; normalise by at most one bit; round."""
        m = Module()
        pipeline = Pipeline(m, self.CUTS[self.stages])
        exact = multiply(m, self.i_a, self.i_b, self.formats, self.subnormals, recoded=self.recoded)
        product = pipeline.cut("product", exact)
        exponents = self._exponents
        top = product.significand[-1]
        normalised = Signal(len(product.significand) - 1, name="normalised")
        exponent = Signal(exponent_shape(exponents), name="exponent")
        shifted = Mux(top, product.significand, product.significand << 1)
        biased = rebias(product.exponent, self.formats, self.result, recoded=self.recoded)
        biased = biased + (top if self.subnormals == "flush" else top - 1)
        m.d.comb += [
            # A recoded zero was multiplied with a hidden bit. As a subnormal number, its product would have bits.
            normalised.eq(Mux(product.zero, 0, shifted) if self.recoded else shifted),
            exponent.eq(Mux(product.zero, 0, biased) if self._zeros_mislead else biased),
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
