"""Sums of products of numbers in blocks, added exactly, scaled, and added to a sum with one rounding.

::

    i_a, i_b ─▶ integers ─▶ products ─▶ add ─▶│─▶ times the scales' ─▶ normalise ─▶│─▶ compare, add, round, as in ─▶ o
                                       exactly│   significands, if any             │   multiply_add.py
    i_scale_a, i_scale_b ─▶ add exponents ───▶│                                    │    ▲
                                          multiplied                            product └ i_c

- Numbers of at most 6 bits are small integers in units of the smallest, so their products need no alignment: integers
  of 2 to 18 bits, which adders add exactly.
- A total of at most 24 bits fits the result's significand, so that nothing is rounded before the sum is. It is
  normalised up to one place: the sum takes a product whose top bit is missing.
- Integers without scales stay integers: ``o`` is their sum modulo 2^32.
"""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.addend import GUARD_BITS, order, round_product
from openmxu.arith.datapath.pipeline import Pipeline, RigidSum, structure
from openmxu.arith.datapath.product import multiply
from openmxu.arith.datapath.shift import normalise
from openmxu.arith.datapath.sum import Sum
from openmxu.spec.blocks import BlockFormat
from openmxu.spec.formats import FP8_E4M3, FP32
from openmxu.spec.forms import form_of
from openmxu.spec.stages import ADDER_CUTS, PRODUCT_CUTS, check_stages, check_terms, split_stages

_OFFSETS = {"e8m0": -2 * 127 + FP32.bias - 2, "e4m3": -2 * 7 - 7 + FP32.bias - 2}
"""Of exponents of a product with no bit, by the format of its scales: their biases, the fraction bits of their
significands' product, fp32's bias, and one each as the top bit is counted from one and as flush mode has one less."""


class BlockMultiplyAdd(RigidSum):
    """``o = round(i_c + 2^e · Σ i_a[n] · i_b[n])`` over N products of one block, a rigid pipeline.

    The sum of products times both scales is exact, but flushed to zero below fp32's least normal number, and infinite
    above its largest, as a multiplier's result. Without scales sums are integers of 32 bits, which wrap around.

    Latency: :attr:`latency` cycles from operands and scales to ``o``, :attr:`addend_latency` cycles from ``i_c``.
    Throughput: one result per cycle. Back-pressure: none.

    Parameters
    ----------
    block
        Format of ``i_a`` and ``i_b``, and of their scales; scales in fp8_e4m3 must be normal numbers, or count as zero.
    terms
        Products: 1, 2, 4 or 8.
    stages
        0: combinational. From 1 to 7: see :func:`~openmxu.spec.stages.split_stages`; of integers up to 2.

    Members
    -------
    i_a, i_b : In(terms · width)
        Numbers, as stored; term 0 lowest.
    i_scale_a, i_scale_b : In(scale_width)
        Scales of both blocks. A NaN makes a NaN.
    i_c : In(32)
        A NaN must be the canonical one.
    o : Out(32)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    def __init__(self, block: BlockFormat, *, terms: int = 4, stages: int = 0) -> None:
        self.block = block
        self.terms = check_terms(terms, "flush")
        self._product_stages, self._sum_stages = split_stages(stages)
        self.stages = stages if block.scale else check_stages(stages, range(3))
        word, scale = In(terms * block.width), In(block.scale_width)
        scales = {"i_scale_a": scale, "i_scale_b": scale} if block.scale else {}
        super().__init__({"i_a": word, "i_b": word, **scales, "i_c": In(32), "o": Out(32)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"block_multiply_add_{self.block.name}_t{self.terms}_s{self.stages}"

    def elaborate(self, platform: object) -> Module:
        """Multiply and add integers; scale; then compare total and addend, and add."""
        m = Module()
        pipeline = Pipeline(m, PRODUCT_CUTS[self._product_stages] + ADDER_CUTS[self._sum_stages])
        total = self._total(m)
        if not self.block.scale:
            m.d.comb += self.o.eq(pipeline.cut("rounded", (self.i_c + pipeline.cut("multiplied", total))[:32]))
            return m
        exact, exponent, most = self._scaled(m, pipeline.cut("multiplied", self._with_scales(m, total)))
        product = pipeline.cut("product", round_product(m, exact, exponent, most, FP32, "flush"))
        room = FP32.significand_width - len(product.significand)
        addition = Sum(m, pipeline, FP32, "flush", guard=GUARD_BITS, form=form_of(platform))
        m.d.comb += self.o.eq(addition.add(*order(m, product, self.i_c, FP32, "flush", room)))
        return m

    def _total(self, m: Module) -> Value:
        """The sum of all products, in two's complement."""
        products: list[Value] = []
        for index in range(self.terms):
            a, b = (side.word_select(index, self.block.width) for side in (self.i_a, self.i_b))
            product, negative = self._magnitude(a) * self._magnitude(b), a[-1] ^ b[-1]
            # Yosys gives the + 1 of an inverted one to the carry of an adder. Its signed products are half as large
            # again.
            products.append((Cat(product, 0) ^ negative.replicate(len(product) + 1)).as_signed() + negative)
        total = Signal(signed(1 + (self.terms * self.block.largest**2).bit_length()), name="total")
        m.d.comb += total.eq(sum(products[1:], products[0]))
        return total

    def _magnitude(self, number: Value) -> Value:
        """A number's magnitude as an integer."""
        if self.block.element is None:
            return ((number ^ number[-1].replicate(len(number))) + number[-1])[: len(number)]
        fraction, exponent = number[: self.block.element.fraction_width], number[self.block.element.fraction_width : -1]
        hidden = exponent.any()
        return (Cat(fraction, hidden) << (exponent - hidden)[: len(exponent)])[: self.block.largest.bit_length()]

    def _with_scales(self, m: Module, total: Value) -> data.View:
        """Magnitude and sign of the total, and the product of both scales."""
        magnitude = ((total ^ total[-1].replicate(len(total))) + total[-1])[: len(total) - 1]
        fields: dict[str, Value] = {"sign": total[-1], "magnitude": magnitude}
        if self.block.scale == "e4m3":
            m.submodules.scales = scales = Module()
            product = multiply(scales, Cat(self.i_scale_a, 0), Cat(self.i_scale_b, 0), (FP8_E4M3, FP8_E4M3), "flush")
            fields |= {name: product[name] for name in ("exponent", "significand", "zero", "nan")}
        else:
            fields |= {"exponent": self.i_scale_a + self.i_scale_b, "nan": self.i_scale_a.all() | self.i_scale_b.all()}
        return structure(m, "scaled_total", fields)

    def _scaled(self, m: Module, total: data.View) -> tuple[data.View, Value, int]:
        """The product of total and scales; its exponent, biased for fp32, less one; the largest magnitude of that."""
        value, zero = total.magnitude, Const(0, 1)
        if self.block.scale == "e4m3":
            value, zero = value * total.significand, total.zero
        shifted = normalise(m, value, steps=range(1, (len(value) - 1).bit_length()), name="normalised")
        fields = {
            "sign": total.sign,
            "significand": shifted.value,
            "zero": zero | ~shifted.value[-2:].any(),
            "infinite": Const(0, 1),
            "nan": total.nan,
        }
        offset = _OFFSETS[self.block.scale] + len(value) - 2 * self.block.fraction_bits
        exponent = total.exponent + offset - shifted.shift
        return structure(m, "exact", fields), exponent, abs(offset) + (1 << len(total.exponent)) + len(value)
