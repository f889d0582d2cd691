"""Multiplication of floating-point numbers."""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.pipeline import Pipeline
from openmxu.arith.round import round_pack
from openmxu.arith.shift import normalise
from openmxu.arith.unpack import unpack
from openmxu.formats import FloatFormat, check_subnormals
from openmxu.stages import MULTIPLIER_CUTS, check_stages

__all__ = ["Multiplier", "SignificandProduct"]

_MOST_WIDTH = 1024
"""Bits of an operand that Yosys still maps in minutes."""


class SignificandProduct(wiring.Component):
    """Unsigned product of two significands, ``o = i_a · i_b``, combinational.

    The part of a multiplier whose area is said to grow with the square of the significand width.

    Parameters
    ----------
    width
        Bits of each operand, from 1 to 1024.

    Members
    -------
    i_a, i_b : In(width)
    o : Out(2 · width)

    Raises
    ------
    ValueError
        ``width`` is not positive, or too large for any tool.
    """

    i_a: Value
    i_b: Value
    o: Value

    def __init__(self, width: int) -> None:
        if not isinstance(width, int) or not 1 <= width <= _MOST_WIDTH:
            raise ValueError(f"width must be an integer from 1 to {_MOST_WIDTH}, not {width!r}")
        self.width = width
        super().__init__({"i_a": In(width), "i_b": In(width), "o": Out(2 * width)})

    latency = 0

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"significand_product_{self.width}"

    def elaborate(self, platform: object) -> Module:
        """Leave the structure of the product to the synthesis tool."""
        m = Module()
        m.d.comb += self.o.eq(self.i_a * self.i_b)
        return m


class _Product(data.StructLayout):
    """Signals between the significand product and its rounding."""

    def __init__(self, significand: int, exponent: int) -> None:
        super().__init__({"sign": 1, "exponent": signed(exponent), "significand": significand, "infinite": 1, "nan": 1})


class Multiplier(wiring.Component):
    """Floating-point product, ``o = round(i_a · i_b)``, a rigid pipeline.

    Rounds once, to nearest, ties to even; where the product fits the result's significand (bf16 x bf16 ->
    fp32), it is exact except for overflow and underflow.

    Latency: :attr:`latency` cycles, equal to ``stages``. Throughput: one product per cycle.
    Back-pressure: none; see :class:`~openmxu.arith.Streamed`.

    Deviations from IEEE 754: NaN results are the canonical quiet NaN and there are no flags. With
    ``subnormals="flush"`` a subnormal operand counts as a zero of its sign, and a product below the
    smallest normal number, looked at before rounding, becomes a zero of its sign.

    Parameters
    ----------
    operand, result
        Formats of both operands and of the result.
    subnormals
        ``"flush"`` or ``"ieee"`` (gradual underflow).
    stages
        0: combinational. 1: the output is a register. 2: so is the significand product.

    Members
    -------
    i_a, i_b : In(operand.width)
    o : Out(result.width)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    i_a: Value
    i_b: Value
    o: Value

    CUTS = MULTIPLIER_CUTS

    def __init__(
        self, operand: FloatFormat, result: FloatFormat, *, subnormals: str = "flush", stages: int = 0
    ) -> None:
        self.operand = operand
        self.result = result
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, self.CUTS)
        super().__init__({"i_a": In(operand.width), "i_b": In(operand.width), "o": Out(result.width)})

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
        """Multiply significands, add exponents; normalise, round."""
        m = Module()
        m.submodules.significands = significands = SignificandProduct(self.operand.significand_width)
        pipeline = Pipeline(m, self.CUTS[self.stages])
        a = unpack(m, self.i_a, self.operand, self.subnormals, name="a")
        b = unpack(m, self.i_b, self.operand, self.subnormals, name="b")

        exponents = self._exponents
        width = 1 + max(abs(exponents.start), exponents.stop).bit_length()
        rebias = self.result.bias - 2 * self.operand.bias
        product = Signal(_Product(len(significands.o), width), name="multiplied")
        m.d.comb += [
            significands.i_a.eq(a.significand),
            significands.i_b.eq(b.significand),
            product.sign.eq(a.sign ^ b.sign),
            # The top bit of the product has weight two: hence the one more.
            product.exponent.eq(a.exponent + b.exponent + (rebias + 1)),
            product.significand.eq(significands.o),
            product.infinite.eq(a.infinite | b.infinite),
            product.nan.eq(a.nan | b.nan | (a.infinite & ~b.significand.any()) | (b.infinite & ~a.significand.any())),
        ]
        product = pipeline.cut("product", product)

        significand, shift = self._normalise(m, product.significand)
        exponent = Signal(signed(width), name="exponent")
        m.d.comb += exponent.eq(product.exponent - shift)
        bits = round_pack(
            m,
            self.result,
            self.subnormals,
            sign=product.sign,
            exponent=exponent,
            significand=significand,
            infinite=product.infinite,
            nan=product.nan,
            exponents=exponents,
        )
        m.d.comb += self.o.eq(pipeline.cut("rounded", bits))
        return m

    def _normalise(self, m: Module, product: Value) -> tuple[Value, Value]:
        """The significands' product shifted left until its top bit is set, and how far that is."""
        if self.subnormals == "ieee":
            return normalise(m, product, name="normalised")
        # Both operands are normalised or zero: their product lacks one bit at most.
        shift = ~product[-1]
        normalised = Signal(len(product), name="normalised")
        m.d.comb += normalised.eq(Mux(shift, product << 1, product))
        return normalised, shift
