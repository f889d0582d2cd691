"""Several products and a sum, added exactly within a window and rounded once.

::

    i_a, i_b ─▶ N products ─▶│─▶ largest     ─▶│─▶ cut to   ─▶│─▶ add all ─▶│─▶ normalise ─▶ round, pack ─▶│─▶ o
                exact, their │   exponent E,   │   a window   │   exactly   │      ┊                       │
                largest   product  distances   │   from 2^E   │           summed   ┊                    rounded
                exponent     i_c ─▶          ordered       aligned           half_normalised

    weight         2^(E+1) 2^E                                      2^(E-23)      2^(E-26)
    i_c                     1 . y y y y y y y y y y y y y y y y y y y y y y y
    a product          1    x . x x x x x x x x x x x x x x                              from 1 on, below 4
    another                       0 1 . x x x x x x x x x x x x x x                      aligned
    one cut                                                     0 1 . x x x x x x│x x    cut off at the window's end

Why the bits are those of the contract:

- The window ends three bits below the last place of a sum with exponent E. A term loses what is below it; a term of
  the largest exponent loses nothing, unless a product is wider than the window, as of fp32. So the error is at most
  half a unit in the last place of the result and N · 2^(E - 26).
- Signs count relative to that of i_c. A term that is subtracted is inverted, and its + 1 is a carry-in: each of N
  carry-save rows and the last adder has one free.
- A negative total is rounded as its inverted bits t, which are one unit of the lowest place less than its magnitude.
  Normalisation shifts in ones from below, so the + 1 stays behind all bits: half a unit or more is then guard, and
  exactly half, which ties to even, is ~guard with ones in all places below.
- The largest exponent of the products is known before i_c comes, which is then compared with that one alone.
- A zero takes no part in the largest exponent: 0 · 2^100 would else push the other terms out of the window.
- Scales of blocks are one factor 2^s of all products. i_c's exponent is compared less s instead, so that one adder does
  for N, and the result's gets s back beside the alignment, off the longest path.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.pipeline import Pipeline, RigidSum, structure
from openmxu.arith.datapath.product import Formats, multiply, rebias_offset
from openmxu.arith.datapath.round import exponent_shape, round_pack
from openmxu.arith.datapath.shift import masked, normalise
from openmxu.arith.datapath.unpack import unpack
from openmxu.spec.formats import FP32, FloatFormat, pair_name
from openmxu.spec.forms import FPGA, SPEED, form_of
from openmxu.spec.stages import PRODUCT_CUTS, TERM_CUTS, check_terms, split_stages

WINDOW_BITS = 3
"""Bits of the window below the last place of a sum of the largest exponent. With fewer, sums are biased towards zero;
with a sticky bit below, cancellation is less accurate (a bit that stands for others survives) and costs more."""

_SCALE_BIAS, _LIFT = 127, 511
"""Of a scale in E8M0, and of i_c's exponent less that of two scales: their 9 bits inverted."""

_FINE_NORMALISATION = 2
"""Steps of the normalisation behind the cut in its middle."""


class DotProductAdd(RigidSum):
    """``o = round(i_c + Σ i_a[n] · i_b[n])`` over N terms with one rounding, a rigid pipeline.

    Products are exact and neither flushed nor infinite. All terms are cut towards zero at three bits below the last
    place of a sum of the largest exponent among them; what is left is added exactly. See the numerics contract,
    "Several terms".

    Latency: :attr:`latency` cycles from ``i_a`` and ``i_b`` to ``o``, :attr:`addend_latency` cycles from ``i_c`` to
    ``o``. Throughput: one result per cycle. Back-pressure: none.

    Deviations from IEEE 754: a term may lose bits before the rounding, so this is no correctly rounded dot product,
    and not monotone. A subnormal operand counts as a zero of its sign, and a result below the smallest normal number
    after rounding becomes one. NaN results are the canonical quiet NaN, and there are no flags.

    Parameters
    ----------
    operand, result
        Formats of ``i_a`` and ``i_b``, and of ``i_c`` and ``o``.
    weight
        Format of ``i_b``, if it is another one.
    terms
        Number of products: 2, 4 or 8.
    subnormals
        ``"flush"``.
    scaled
        The products are those of two blocks with scales in E8M0, 2^(s - 127), 255 being NaN.
    stages
        0: combinational. From 1 to 7: see :func:`~openmxu.spec.stages.split_stages`, with the cuts of
        :data:`~openmxu.spec.stages.TERM_CUTS`.

    Members
    -------
    i_a, i_b : In(terms · width of the format)
        Term 0 lowest. The order of terms does not matter.
    i_scale_a, i_scale_b : In(8)
        Where products are scaled.
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
        terms: int = 4,
        subnormals: str = "flush",
        stages: int = 0,
        scaled: bool = False,
    ) -> None:
        self.operand = operand
        self.formats: Formats = (operand, weight or operand)
        self.result = result
        self.terms = check_terms(terms, subnormals)
        if self.terms == 1:
            raise ValueError("terms must be 2, 4 or 8 in a sum of products, not 1")
        self.subnormals = subnormals
        self._product_stages, self._sum_stages = split_stages(stages)
        self.stages = stages
        self.scaled = scaled
        a, b = (In(terms * fmt.width) for fmt in self.formats)
        scales = {"i_scale_a": In(8), "i_scale_b": In(8)} if scaled else {}
        super().__init__({"i_a": a, "i_b": b, **scales, "i_c": In(result.width), "o": Out(result.width)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        formats = f"{pair_name(*self.formats)}_{self.result}"
        scaled = "_scaled" if self.scaled else ""
        return f"dot_product_add_{formats}{scaled}_{self.subnormals}_t{self.terms}_s{self.stages}"

    @property
    def _window(self) -> int:
        """Bits of the window: a product's upper integer bit, a significand of the result, and those below."""
        return 1 + self.result.significand_width + WINDOW_BITS

    @property
    def _total(self) -> int:
        """Bits of the magnitude of a total: that of i_c is below 2, those of products below 4, in units of 2^E."""
        return self._window - 2 + (2 + 4 * self.terms - 1).bit_length()

    @property
    def _steps(self) -> range:
        """The steps that normalise a total."""
        return range((self._total - 1).bit_length())

    @property
    def _offset(self) -> int:
        """The number that biases products' exponents, ea + eb + 1, as i_c's are, less the scales."""
        return rebias_offset(self.formats, self.result) + (_LIFT - 2 * _SCALE_BIAS if self.scaled else 0)

    @property
    def _lift(self) -> int:
        """The number added to i_c's exponent instead, where the products' would be negative, or scales are added."""
        return _LIFT if self.scaled else max(-self._offset, 0)

    def elaborate(self, platform: object) -> Module:
        """Multiply; compare exponents; align, add, normalise and round."""
        m = Module()
        form = form_of(platform)
        pipeline = Pipeline(m, PRODUCT_CUTS[self._product_stages] + TERM_CUTS[self._sum_stages])
        products = pipeline.cut("product", self._products(m, pipeline))
        ordered = pipeline.cut("ordered", self._order(m, products))
        aligned = pipeline.cut("aligned", self._align(m, ordered))
        summed = pipeline.cut("summed", self._sum(m, aligned, form))
        half = pipeline.cut("half_normalised", self._normalise(m, summed))
        m.d.comb += self.o.eq(pipeline.cut("rounded", self._round(m, half, form)))
        return m

    def _products(self, m: Module, pipeline: Pipeline) -> data.View:
        """The exact products, the largest exponent, and whether a NaN or infinities of either sign are among them."""
        exact = []
        for index in range(self.terms):
            m.submodules[f"term_{index}"] = term = Module()
            a, b = (
                side.word_select(index, fmt.width) for side, fmt in zip((self.i_a, self.i_b), self.formats, strict=True)
            )
            exact.append(pipeline.cut("multiplied", multiply(term, a, b, self.formats, self.subnormals)))
        fields: dict[str, Value] = {}
        for index, product in enumerate(exact):
            fields |= {
                f"exponent_{index}": product.exponent + self._offset if self._offset > 0 else product.exponent,
                f"significand_{index}": product.significand,
                f"sign_{index}": product.sign,
                f"zero_{index}": product.zero,
            }
        fields["nan"] = Cat(product.nan for product in exact).any()
        if self.scaled:
            a, b = self.i_scale_a, self.i_scale_b
            scales = pipeline.cut("multiplied", structure(m, "scales", {"sum": a + b, "nan": a.all() | b.all()}))
            fields |= {"scale": scales.sum, "nan": fields["nan"] | scales.nan}
        fields["plus"] = Cat(product.infinite & ~product.sign for product in exact).any()
        fields["minus"] = Cat(product.infinite & product.sign for product in exact).any()
        candidates = [(fields[f"exponent_{index}"], ~product.zero) for index, product in enumerate(exact)]
        fields["largest"], fields["counts"] = _largest(m, "product", candidates)
        return structure(m, "exact_products", fields)

    def _order(self, m: Module, products: data.View) -> data.View:
        """The largest exponent, i_c's included, the distances of all terms from it, and the special values."""
        c = unpack(m, self.i_c, self.result, self.subnormals, name="c", canonical=True)
        exponents = [products[f"exponent_{index}"] for index in range(self.terms)]
        zeros = [products[f"zero_{index}"] for index in range(self.terms)]
        addend = Signal(range(self.result.exponent_mask + self._lift + 1), name="addend_exponent")
        m.d.comb += addend.eq(c.exponent + (~products.scale if self.scaled else self._lift))  # _LIFT - scale
        largest, _ = _largest(m, "term", [(addend, ~c.zero), (products.largest, products.counts)])
        fields: dict[str, Value] = {"exponent": largest, "addend": c.significand}
        if self.scaled:
            fields["scale"] = products.scale
        bits = self._window.bit_length()
        for name, exponent, zero in zip(
            ("addend", *range(self.terms)), [addend, *exponents], [c.zero, *zeros], strict=True
        ):
            distance = Signal(len(largest), name=f"distance_{name}")
            m.d.comb += distance.eq(~(exponent + ~largest))  # largest - exponent
            fields |= {f"distance_{name}": distance[:bits], f"near_{name}": ~zero & ~distance[bits:].any()}
        for index in range(self.terms):
            fields[f"significand_{index}"] = products[f"significand_{index}"]
            fields[f"differs_{index}"] = products[f"sign_{index}"] ^ c.sign
        plus, minus = products.plus | (c.infinite & ~c.sign), products.minus | (c.infinite & c.sign)
        fields["infinite"] = plus | minus
        fields["nan"] = products.nan | c.nan | (plus & minus)
        fields["sign"] = Mux(plus | minus, minus, c.sign)
        return structure(m, "by_exponent", fields)

    def _align(self, m: Module, ordered: data.View) -> data.View:
        """The terms in the window; those to subtract are inverted."""
        fields = {name: ordered[name] for name in ("exponent", "sign", "infinite", "nan")}
        if self.scaled:
            fields["exponent"] = ordered.exponent + ordered.scale
        fields["addend"] = self._cut_off(m, Cat(ordered.addend, Const(0, 1)), ordered, "addend")
        for index in range(self.terms):
            differs = ordered[f"differs_{index}"]
            term = self._cut_off(m, ordered[f"significand_{index}"], ordered, str(index))
            fields |= {f"term_{index}": term ^ differs.replicate(len(term)), f"differs_{index}": differs}
        return structure(m, "aligned_terms", fields)

    def _cut_off(self, m: Module, significand: Value, ordered: data.View, name: str) -> Value:
        """A significand, its top bit at the window's, shifted right by its distance; 0 if that is too far."""
        value = significand if len(significand) <= self._window else significand[-self._window :]
        value = masked(value, ordered[f"near_{name}"])
        distance = ordered[f"distance_{name}"]
        for step in range(len(distance)):  # small steps first, while there are few bits
            room = min(1 << step, self._window - len(value))
            staged = Signal(len(value) + room, name=f"shifted_{name}_{1 << step}")
            m.d.comb += staged.eq(Mux(distance[step], value >> ((1 << step) - room), Cat(Const(0, room), value)))
            value = staged
        return Cat(Const(0, self._window - len(value)), value)

    def _sum(self, m: Module, aligned: data.View, form: str) -> data.View:
        """The total, inverted if it is negative, by rows of carry-save adders, or by a tree of adders."""
        width = self._total + 1
        carries = [aligned[f"differs_{index}"] for index in range(self.terms)]
        differ = Cat(carries).any()
        terms = [Cat(aligned[f"term_{i}"], carries[i].replicate(width - self._window)) for i in range(self.terms)]
        summands = [Cat(aligned.addend, Const(0, width - self._window)), *terms]
        a, b = (_added_in_pairs if form == FPGA else _added_in_rows)(m, summands, carries)
        total = Signal(width, name="total")
        m.d.comb += total.eq(_add(a, b, carries.pop()))
        fields = {name: aligned[name] for name in ("exponent", "sign", "infinite", "nan")}
        negative = total[-1]
        fields |= {"magnitude": total[:-1] ^ negative.replicate(width - 1), "negative": negative, "differ": differ}
        return structure(m, "sum", fields)

    def _normalise(self, m: Module, summed: data.View) -> data.View:
        """The total shifted left by the larger steps."""
        steps = self._steps[_FINE_NORMALISATION:]
        shifted = normalise(m, summed.magnitude, steps=steps, fill=summed.negative, name="coarsely")
        fields = {name: summed[name] for name in ("exponent", "sign", "infinite", "nan", "negative", "differ")}
        return structure(m, "half_normalised_sum", fields | {"magnitude": shifted.value, "shift": shifted.shift})

    def _round(self, m: Module, half: data.View, form: str) -> Value:
        """The total's bit pattern."""
        steps = self._steps[:_FINE_NORMALISATION]
        shifted = normalise(m, half.magnitude, steps=steps, fill=half.negative, name="finely")
        # Biased for the result, the top bit's exponent is E + top. A shift is subtracted as what the longest one
        # would have left over.
        longest, top = (1 << len(self._steps)) - 1, self._total - (self._window - 1) - self._lift
        exponents = range(top - longest, top + (1 << len(half.exponent)))
        exponent = Signal(exponent_shape(exponents), name="exponent")
        unshifted = ~(half.shift | shifted.shift)
        m.d.comb += exponent.eq(half.exponent + unshifted + (top - longest))
        is_zero = ~shifted.value[-1]
        return round_pack(
            m,
            self.result,
            self.subnormals,
            # +0 unless all signs are negative.
            sign=half.sign ^ (~half.infinite & (half.negative | (is_zero & half.sign & half.differ))),
            exponent=exponent,
            significand=shifted.value,
            negative=half.negative,
            infinite=half.infinite,
            nan=half.nan,
            exponents=exponents,
            compound=form == SPEED,
        )


def _add(a: Value, b: Value, carry: Value) -> Value:
    """``a + b + carry`` in one adder, to their width."""
    return (Cat(carry, a) + Cat(carry, b))[1 : 1 + len(a)]


def _added_in_rows(m: Module, summands: list[Value], carries: list[Value]) -> tuple[Value, Value]:
    """Two summands that are left by carry-save adders, each of which takes a carry."""
    a, b, *rest = summands
    for row, c in enumerate(rest):
        sums, carried = Signal(len(a), name=f"sums_{row}"), Signal(len(a), name=f"carries_{row}")
        m.d.comb += [sums.eq(a ^ b ^ c), carried.eq(Cat(carries.pop(), ((a & b) | (c & (a ^ b)))[:-1]))]
        a, b = sums, carried
    return a, b


def _added_in_pairs(m: Module, summands: list[Value], carries: list[Value]) -> tuple[Value, Value]:
    """Two summands that are left by a tree of adders, each of which takes a carry."""
    while len(summands) > 2:
        sums: list[Value] = []
        for index in range(0, len(summands) - 1, 2):
            pair = Signal(len(summands[0]), name=f"pair_{len(summands)}_{index}")
            m.d.comb += pair.eq(_add(summands[index], summands[index + 1], carries.pop()))
            sums.append(pair)
        summands = sums + summands[2 * len(sums) :]
    a, b = summands
    return a, b


def _largest(m: Module, name: str, candidates: list[tuple[Value, Value]]) -> tuple[Value, Value]:
    """The largest of some values that count, in a tournament, and whether any of them counts."""
    while len(candidates) > 1:
        winners = candidates[len(candidates) & ~1 :]  # one that is left over waits for the next round
        for index in range(0, len(candidates) - 1, 2):
            (a, a_counts), (b, b_counts) = candidates[index : index + 2]
            larger = Signal(max(len(a), len(b)), name=f"larger_{name}_{len(candidates)}_{index}")
            m.d.comb += larger.eq(Mux(a_counts & (~b_counts | (a >= b)), a, b))
            winners.append((larger, a_counts | b_counts))
        candidates = winners
    return candidates[0]
