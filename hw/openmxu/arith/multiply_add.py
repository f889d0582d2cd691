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

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from openmxu.arith.adder import Adder
from openmxu.arith.datapath.addend import GUARD_BITS, NOISE_WIDTH, order, round_product
from openmxu.arith.datapath.pipeline import Pipeline, RigidSum
from openmxu.arith.datapath.product import Formats, multiply, product_width, rebias
from openmxu.arith.datapath.sum import Sum
from openmxu.arith.multiplier import Multiplier
from openmxu.spec.formats import FP32, FloatFormat, check_subnormals, pair_name
from openmxu.spec.forms import form_of
from openmxu.spec.recoded import port_width
from openmxu.spec.stages import ADDER_CUTS, PRODUCT_CUTS, split_stages


class MultiplyAdd(RigidSum):
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
    stochastic
        Round the sum at random; only in flush mode, where products are exact.

    Members
    -------
    i_a, i_b : In(width of the format), or In(Recoded(format).width)
    i_c : In(result.width)
        A NaN must be the canonical one, as every sum's is.
    i_noise : In(24)
        Where sums are rounded at random: a word for the result that follows the next clock edge, or without stages for
        this one. What is cut off and the word, both in last places, round it up if their sum is 1 or more.
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
        stochastic: bool = False,
    ) -> None:
        self.operand = operand
        self.formats: Formats = (operand, weight or operand)
        self.result = result
        self.subnormals = check_subnormals(subnormals)
        self._product_stages, self._sum_stages = split_stages(stages)
        self.stages = stages
        self.recoded = recoded
        self.stochastic = stochastic
        if stochastic and not (self.is_one_datapath and subnormals == "flush"):
            raise ValueError("stochastic must be False with gradual underflow, or where products are rounded")
        a, b = (In(port_width(fmt, subnormals, recoded=recoded)) for fmt in self.formats)
        noise = {"i_noise": In(NOISE_WIDTH)} if stochastic else {}
        super().__init__({"i_a": a, "i_b": b, "i_c": In(result.width), **noise, "o": Out(result.width)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        rounding = "_stochastic" if self.stochastic else ""
        return f"multiply_add_{pair_name(*self.formats)}_{self.result}{rounding}_{self.subnormals}_s{self.stages}"

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
        exponent = rebias(exact.exponent, self.formats, self.result, recoded=self.recoded)
        rounded = round_product(m, exact, exponent, self._most_exponent, self.result, self.subnormals)
        product = pipeline.cut("product", rounded)
        noise, more = (self.i_noise, NOISE_WIDTH - 1) if self.stochastic else (None, 0)
        form = form_of(platform)
        total = Sum(m, pipeline, self.result, self.subnormals, guard=GUARD_BITS + more, form=form, noise=noise)
        room = self.result.significand_width - product_width(self.formats)
        m.d.comb += self.o.eq(total.add(*order(m, product, self.i_c, self.result, self.subnormals, room)))
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

    @property
    def _most_exponent(self) -> int:
        """The largest magnitude of a product's exponent, biased for the result."""
        offset = self.result.bias - sum(fmt.bias for fmt in self.formats)
        lost = 0 if self.subnormals == "flush" else sum(fmt.fraction_width for fmt in self.formats)
        return max(sum(fmt.exponent_mask for fmt in self.formats) + 1 + offset, lost - offset)
