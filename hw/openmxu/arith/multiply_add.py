"""Multiplication and addition in one datapath, with the results of a multiplier and an adder.

::

    i_a, i_b ─▶ multiply    ─▶│─▶ flags, ─▶│─▶ compare      ─▶ select ─▶ align, add, normalise, round ─▶ o
                significands, │   product  │   exponents               └────── as in sum.py ───────┘
                add exponents │            │       ▲
                          multiplied    product    └─ i_c

    weight              2 1 . 1/2 1/4 ...
    product             1 x . x x x x x x x x x x x x x x       from 1 on, below 4
                     or 0 1 . x x x x x x x x x x x x x x
    summand a             1 . x x x x x x x x x x x x x x x     the same bits, the exponent one more
                     or   0 . 1 x x x x x x x x x x x x x x
    summand b             1 . y y y y y y y y y y y y y y y y y y y y y y y         i_c

Savings over a multiplier and an adder, and why each bit stays the same:

- The product of two significands fits that of the result: the multiplier rounds it only where it is
  tiny or huge. So it need not be packed, nor normalised: the sum is normalised anyway. Its top bit may be missing; one
  guard bit more makes up for that. With its top bit at weight one a difference of nearly equal exponents still fits
  the significand and one guard bit, and is exact; with that bit at weight two it would not be.
- A carry-in of one in the exponents' sum makes their bias a power of two: subtracting the bias changes the upper bits
  only. The result is one less than the exponent of the product. Compared with i_c's exponent, with a carry-in, it
  gives the distance less one where the product's exponent is larger, as :mod:`openmxu.arith.datapath.sum` requires.
  The one that is missing in the larger exponent is the carry-in of a later adder.
- Three wires mark a product as zero, infinite or NaN: it is never packed and unpacked again. An infinite summand
  decides the sign of the sum, and nothing is subtracted then: the sum cannot become negative.
- An incoming sum has one NaN, the canonical one: one bit tells it from infinity.
- With gradual underflow a tiny product is rounded in place: the mask of its dropped bits is a row of ones that depends
  on its exponent only. It is aligned to i_c later, as every product is.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.adder import Adder
from openmxu.arith.datapath.pipeline import Pipeline
from openmxu.arith.datapath.product import Formats, multiply, product_width, rebias
from openmxu.arith.datapath.sum import Order, Sum, Summand
from openmxu.arith.datapath.unpack import unpack
from openmxu.arith.multiplier import Multiplier
from openmxu.spec.formats import FP32, FloatFormat, check_subnormals, pair_name
from openmxu.spec.forms import form_of
from openmxu.spec.recoded import port_width
from openmxu.spec.stages import ADDER_CUTS, PRODUCT_CUTS, split_stages

_GUARD_BITS = 4  # one more than an adder's: the product may lack its top bit


class MultiplyAdd(wiring.Component):
    """``o = round(i_c + round(i_a · i_b))``, a rigid pipeline.

    The two roundings of the numerics contract, not a fused multiply-add: a product below the smallest normal number is
    flushed, or rounded, before it is added, and one above the largest is infinite. Where a product does not fit the
    result's significand (tf32 and bf16 do, fp32 does not), this is a :class:`Multiplier` and an :class:`Adder`.

    Latency: :attr:`latency` cycles from ``i_a`` and ``i_b`` to ``o``, :attr:`addend_latency` cycles from ``i_c`` to
    ``o``. Throughput: one result per cycle. Back-pressure: none.

    Parameters
    ----------
    operand, result
        Formats of ``i_a`` and ``i_b``, and of ``i_c`` and ``o``.
    weight
        Format of ``i_b``, if it is another one.
    subnormals
        ``"flush"`` or ``"ieee"``.
    stages
        0: combinational. From 1 to 7: see :func:`~openmxu.spec.stages.split_stages`.
    recoded
        Operands come as recoded words, see :class:`Multiplier`.

    Members
    -------
    i_a, i_b : In(width of the format), or In(Recoded(format).width)
    i_c : In(result.width)
        A NaN must be the canonical one, as every sum's is.
    o : Out(result.width)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    def __init__(
        self,
        operand: FloatFormat,
        result: FloatFormat = FP32,
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
        self._product_stages, self._sum_stages = split_stages(stages)
        self.stages = stages
        self.recoded = recoded
        a, b = (In(port_width(fmt, subnormals, recoded=recoded)) for fmt in self.formats)
        super().__init__({"i_a": a, "i_b": b, "i_c": In(result.width), "o": Out(result.width)})

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.stages

    @property
    def addend_latency(self) -> int:
        """Cycles from ``i_c`` to the result."""
        return self._sum_stages

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"multiply_add_{pair_name(*self.formats)}_{self.result}_{self.subnormals}_s{self.stages}"

    @property
    def is_one_datapath(self) -> bool:
        """Whether products fit the result's significand."""
        return self.result.has_infinity and product_width(self.formats) <= self.result.significand_width

    def elaborate(self, platform: object) -> Module:
        """Multiply; then compare product and addend, and add."""
        m = Module()
        if not self.is_one_datapath:
            return self._apart(m)
        pipeline = Pipeline(m, PRODUCT_CUTS[self._product_stages] + ADDER_CUTS[self._sum_stages])
        exact = multiply(m, self.i_a, self.i_b, self.formats, self.subnormals, recoded=self.recoded)
        exact = pipeline.cut("multiplied", exact)
        product = pipeline.cut("product", self._product(m, exact))
        total = Sum(m, pipeline, self.result, self.subnormals, guard=_GUARD_BITS, form=form_of(platform))
        m.d.comb += self.o.eq(total.add(*self._order(m, product)))
        return m

    def _apart(self, m: Module) -> Module:
        """A multiplier, and an adder behind it."""
        m.submodules.multiplier = multiplier = Multiplier(
            self.operand,
            self.result,
            weight=self.formats[1],
            subnormals=self.subnormals,
            stages=self._product_stages,
            recoded=self.recoded,
        )
        m.submodules.adder = adder = Adder(self.result, subnormals=self.subnormals, stages=self._sum_stages)
        m.d.comb += [
            multiplier.i_a.eq(self.i_a),
            multiplier.i_b.eq(self.i_b),
            adder.i_a.eq(self.i_c),
            adder.i_b.eq(multiplier.o),
            self.o.eq(adder.o),
        ]
        return m

    def _product(self, m: Module, exact: data.View) -> data.View:
        """The product as a multiplier would round it: its significand need not have its top bit set."""
        flush, fmt = self.subnormals == "flush", self.result
        exponent = Signal(signed(1 + self._most_exponent.bit_length()), name="product_exponent")
        significand = exact.significand
        # In flush mode ``exponent`` is one less than the product's.
        top, most = significand[-1], fmt.exponent_mask - 1 if flush else fmt.exponent_mask
        tiny = exponent[-1] | ((exponent == 0) & ~top) if flush else Const(0, 1)
        huge = ~exponent[-1] & ((exponent > most) | ((exponent == most) & top))
        significand = significand if flush else self._round(m, significand, exponent)
        product = Signal(
            data.StructLayout(
                {
                    "sign": 1,
                    "exponent": fmt.exponent_width if flush else exponent.shape(),
                    "significand": len(significand),
                    "zero": 1,
                    "infinite": 1,
                    "nan": 1,
                }
            ),
            name="rounded_product",
        )
        m.d.comb += [
            exponent.eq(rebias(exact.exponent, self.formats, fmt, recoded=self.recoded)),
            product.sign.eq(exact.sign),
            product.exponent.eq(exponent),
            product.significand.eq(significand),
            product.zero.eq(exact.zero | tiny),
            product.infinite.eq(exact.infinite | (huge & ~exact.zero)),
            product.nan.eq(exact.nan),
        ]
        return product

    @property
    def _most_exponent(self) -> int:
        """The largest magnitude of a product's exponent, biased for the result."""
        offset = self.result.bias - sum(fmt.bias for fmt in self.formats)
        lost = 0 if self.subnormals == "flush" else sum(fmt.fraction_width for fmt in self.formats)
        return max(sum(fmt.exponent_mask for fmt in self.formats) + 1 + offset, lost - offset)

    def _round(self, m: Module, significand: Value, exponent: Value) -> Value:
        """The significand rounded to a multiple of the smallest subnormal number, in place; a bit more for its carry.

        ::

            significand   1 x x x x x x x x x x x x x x x     dropped[1:] is half the place of the last bit that stays,
            dropped     0 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1     less one; with the one that makes a tie even, it carries
        """
        width = len(significand)
        room = self.result.significand_width - width
        dropped = Signal(width + 1, name="dropped")
        is_odd = Signal(name="is_odd")
        rounded = Signal(width + 1, name="rounded_significand")
        m.d.comb += [
            dropped.eq(Cat(exponent < 1 - room - place for place in range(width + 1))),
            is_odd.eq((significand & ~dropped & (dropped << 1)).any()),
            rounded.eq((significand + dropped[1:] + is_odd) & ~dropped),
        ]
        return rounded

    def _order(self, m: Module, product: data.View) -> tuple[Summand, Summand, Order]:
        """Product and addend, and which of them has the larger exponent."""
        flush, fmt = self.subnormals == "flush", self.result
        c = unpack(m, self.i_c, fmt, self.subnormals, name="c", canonical=True)
        special = c.infinite | c.nan
        subtract, larger = Signal(name="subtract"), Signal(name="product_is_larger")
        width = len(product.exponent)
        difference, distance = Signal(1 + width, name="difference"), Signal(width, name="distance")
        m.d.comb += [
            subtract.eq(product.sign ^ c.sign),
            difference.eq(product.exponent + ~c.exponent + 1 if flush else product.exponent - c.exponent - 1),
            distance.eq(difference[:-1] ^ (~larger).replicate(width)),
            larger.eq((difference[-1] if flush else ~difference[-1]) & ~product.zero),
        ]
        order = Order(
            a_is_larger=larger,
            distance=distance,
            exponent=Mux(larger, product.exponent[: fmt.exponent_width], c.exponent),
            above=larger if flush else Const(0, 1),
            sign=Mux(product.infinite | (larger & ~special), product.sign, c.sign),
            subtract=subtract & ~product.infinite & ~special,
            infinite=product.infinite | special,
            nan=product.nan | c.nan | (product.infinite & c.infinite & subtract),
        )
        room = fmt.significand_width - product_width(self.formats)
        significand = Cat(Const(0, room), product.significand)
        counts = ~c.zero if flush else Const(1)
        return Summand(significand, product.sign, ~product.zero), Summand(c.significand, c.sign, counts), order
