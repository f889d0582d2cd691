"""Products on their way into a sum: rounded as a multiplier would, then ordered by exponent with what they go to."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from openmxu.arith.datapath.sum import Order, Summand
from openmxu.arith.datapath.unpack import unpack
from openmxu.spec.formats import FloatFormat

GUARD_BITS = 4
"""Those of such a sum: one more than an adder's, as the product may lack its top bit."""

NOISE_WIDTH = 24
"""Bits of a random word, and of what is cut off from a sum, in random rounding."""


def round_product(
    m: Module, exact: data.View, exponent: Value, most: int, fmt: FloatFormat, subnormals: str
) -> data.View:
    """The product as a multiplier would round it: its significand need not have its top bit set.

    ``exponent`` is signed, biased for ``fmt``, in flush mode one less than that of the top bit, and ``most`` at most in
    magnitude.
    """
    flush, biased = subnormals == "flush", Signal(signed(1 + most.bit_length()), name="product_exponent")
    significand = exact.significand
    top, largest = significand[-1], fmt.exponent_mask - 1 if flush else fmt.exponent_mask
    tiny = biased[-1] | ((biased == 0) & ~top) if flush else Const(0, 1)
    huge = ~biased[-1] & ((biased > largest) | ((biased == largest) & top))
    significand = significand if flush else _round(m, significand, biased, fmt)
    product = Signal(
        data.StructLayout(
            {
                "sign": 1,
                "exponent": fmt.exponent_width if flush else biased.shape(),
                "significand": len(significand),
                "zero": 1,
                "infinite": 1,
                "nan": 1,
            }
        ),
        name="rounded_product",
    )
    m.d.comb += [
        biased.eq(exponent),
        product.sign.eq(exact.sign),
        product.exponent.eq(biased),
        product.significand.eq(significand),
        product.zero.eq(exact.zero | tiny),
        product.infinite.eq(exact.infinite | (huge & ~exact.zero)),
        product.nan.eq(exact.nan),
    ]
    return product


def _round(m: Module, significand: Value, exponent: Value, fmt: FloatFormat) -> Value:
    """The significand rounded to a multiple of the smallest subnormal number, in place; a bit more for its carry.

    ::

        significand   1 x x x x x x x x x x x x x x x     dropped[1:] is half the place of the last bit that stays,
        dropped     0 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1     less one; with the one that makes a tie even, it carries
    """
    width = len(significand)
    room = fmt.significand_width - width
    dropped = Signal(width + 1, name="dropped")
    is_odd = Signal(name="is_odd")
    rounded = Signal(width + 1, name="rounded_significand")
    m.d.comb += [
        dropped.eq(Cat(exponent < 1 - room - place for place in range(width + 1))),
        is_odd.eq((significand & ~dropped & (dropped << 1)).any()),
        rounded.eq((significand + dropped[1:] + is_odd) & ~dropped),
    ]
    return rounded


def order(
    m: Module, product: data.View, bits_c: Value, fmt: FloatFormat, subnormals: str, room: int
) -> tuple[Summand, Summand, Order]:
    """Product and addend, and which of them has the larger exponent; ``room`` is left below a product's bits."""
    flush = subnormals == "flush"
    c = unpack(m, bits_c, fmt, subnormals, name="c", canonical=True)
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
    ordered = Order(
        a_is_larger=larger,
        distance=distance,
        exponent=Mux(larger, product.exponent[: fmt.exponent_width], c.exponent),
        above=larger if flush else Const(0, 1),
        sign=Mux(product.infinite | (larger & ~special), product.sign, c.sign),
        subtract=subtract & ~product.infinite & ~special,
        infinite=product.infinite | special,
        nan=product.nan | c.nan | (product.infinite & c.infinite & subtract),
    )
    significand = Cat(Const(0, room), product.significand)
    counts = ~c.zero if flush else Const(1)
    return Summand(significand, product.sign, ~product.zero), Summand(c.significand, c.sign, counts), ordered
