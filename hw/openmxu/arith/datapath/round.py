"""Rounds, overflows, underflows and packs all results. Only products within a sum are rounded in ``addend``."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed

from openmxu.arith.datapath.shift import masked, shift_right_sticky
from openmxu.spec.formats import FloatFormat


def exponent_shape(exponents: range) -> Shape:
    """The signed shape that holds each of ``exponents``."""
    return signed(1 + max(abs(exponents.start), exponents.stop - 1).bit_length())


def round_pack(
    m: Module,
    fmt: FloatFormat,
    subnormals: str,
    *,
    sign: Value,
    exponent: Value,
    significand: Value,
    infinite: Value,
    nan: Value,
    exponents: range,
    short: Value | None = None,
    negative: Value | None = None,
    offset: int = 0,
    compound: bool = False,
    noise: Value | None = None,
) -> Value:
    """The bit pattern of ``±significand · 2^exponent`` in ``fmt``, rounded to nearest, ties to even; or with ``noise``
    away from zero if that and as many of the bits that are cut off have a carry.

    In flush mode, underflow is decided on the value before rounding. Logic for overflow and underflow is
    made only where ``exponents`` leaves room for them. If ``compound``, the magnitude and the next one are made beside
    each other, and the increment, which comes last, selects.
    """
    underflows = exponents.start < 1
    if subnormals == "ieee" and underflows:
        exponent, significand = _to_subnormal(m, fmt, exponent, significand)

    kept, increment = _nearest_even(fmt, significand) if noise is None else _carried(fmt, significand, noise)
    is_number = top = significand[-1]
    if short is not None:
        increment = increment | short
    if negative is not None:
        increment = Mux(negative, _one_more_to_nearest_even(fmt, significand), increment)
        # Where ones have not reached the top, the number is 2^exponent: no fraction, and no carry.
        increment, is_number = increment & top, top | negative
    # A carry out of the fraction is a carry into the exponent; a subnormal number has exponent field 0.
    width = max(fmt.exponent_width, (exponents.stop - 1).bit_length())
    field, more = exponent[:width], Const(offset, 2)
    if subnormals == "ieee":
        field, more = masked(field, top), masked(more, top)
    magnitude = Signal(width + fmt.fraction_width, name="magnitude")
    cut_off, more = Cat(kept[:-1], field), Cat(Const(0, fmt.fraction_width), more)
    m.d.comb += magnitude.eq(_selected(m, cut_off, increment) if compound else cut_off + more + increment)

    # The exponent before rounding decides which fields count, so that nothing waits for the carry. A carry into the
    # exponent leaves a fraction of 0, which is right for the smallest normal number, and for infinity.
    has_exponent = has_fraction = Const(1, 1)
    if subnormals == "flush":
        has_exponent = has_fraction = top
        if underflows:
            has_fraction = top & _is_at_least(exponent, 1 - offset)
            carries = short is not None or negative is not None
            has_exponent = is_number & _is_at_least(exponent, -offset) if carries else has_fraction
    overflows = Const(0, 1)
    if not fmt.has_infinity:
        overflows = magnitude > fmt.largest
    elif exponents.stop > fmt.exponent_mask:
        overflows = _is_at_least(exponent, fmt.exponent_mask - offset, exponents.stop - 1 - offset)
    fraction = masked(magnitude[: fmt.fraction_width], has_fraction)
    field = masked(magnitude[fmt.fraction_width :], has_exponent)
    bits = Signal(fmt.width, name="rounded_bits")
    m.d.comb += bits.eq(Cat(_special(fmt, fraction, field, overflows & has_exponent, infinite, nan), sign & ~nan))
    return bits


def _selected(m: Module, cut_off: Value, increment: Value) -> Value:
    """``cut_off + increment``, where the increment comes last."""
    following = Signal(len(cut_off), name="following")
    m.d.comb += following.eq(cut_off + 1)
    return Mux(increment, following, cut_off)


def _special(fmt: FloatFormat, fraction: Value, field: Value, overflows: Value, infinite: Value, nan: Value) -> Value:
    """A number without its sign, or infinity or NaN in its place."""
    special = nan | infinite
    if not fmt.has_infinity:
        return (Cat(fraction, field) | (special | overflows).replicate(fmt.width))[: fmt.width - 1]
    # An exponent of the field's width that is too large is all ones already.
    ones = special if len(field) == fmt.exponent_width else special | overflows
    fraction = masked(fraction, ~(special | overflows))
    fraction = fraction | Cat(Const(0, fmt.fraction_width - 1), nan)
    return Cat(fraction, field[: fmt.exponent_width] | ones.replicate(fmt.exponent_width))


def _is_at_least(exponent: Value, bound: int, most: int | None = None) -> Value:
    """Whether a signed exponent, which is ``most`` at most, is ``bound`` or more."""
    if bound == most:
        return exponent == bound
    if bound == 1:
        return ~exponent[-1] & exponent.any()
    if bound in (0, -1, -2):  # negative exponents from the bound on: all ones but for the lowest bits
        return ~exponent[-1] | exponent[-1 - bound :].all() if bound else ~exponent[-1]
    return exponent >= bound


def _to_subnormal(m: Module, fmt: FloatFormat, exponent: Value, significand: Value) -> tuple[Value, Value]:
    """Exponents below 1 become 1, by shifting the significand to the right."""
    width = fmt.significand_width + 2  # guard and sticky
    if len(significand) > width:
        sticky = significand[: len(significand) - width + 1].any()
        significand = Cat(sticky, significand[len(significand) - width + 1 :])
    else:
        significand = Cat(Const(0, width - len(significand)), significand)
    tiny = Signal(name="tiny")
    missing = Signal(signed(len(exponent) + 2), name="missing")
    m.d.comb += [missing.eq(1 - exponent), tiny.eq(missing > 0)]
    amount = masked(missing[:-1], tiny)
    return Mux(tiny, 1, exponent), shift_right_sticky(m, significand, amount, name="subnormal")


def _nearest_even(fmt: FloatFormat, significand: Value) -> tuple[Value, Value]:
    """The significand cut to the format's width, and whether to add one in its last place."""
    excess = len(significand) - fmt.significand_width
    if excess <= 0:
        return Cat(Const(0, -excess), significand), Const(0, 1)
    kept = significand[excess:]
    guard = significand[excess - 1]
    return kept, guard & (kept[0] | significand[: excess - 1].any())


def _carried(fmt: FloatFormat, significand: Value, noise: Value) -> tuple[Value, Value]:
    """The significand cut to the format's width, and the carry of ``noise`` and the bits below."""
    excess = len(significand) - fmt.significand_width
    return significand[excess:], (significand[excess - len(noise) : excess] + noise)[len(noise)]


def _one_more_to_nearest_even(fmt: FloatFormat, significand: Value) -> Value:
    """The same increment for a number that is one unit more, far below all places of the significand.

    Half or more is the guard bit; ones in all places below make exactly half of a guard bit that is missing.
    """
    excess = len(significand) - fmt.significand_width
    guard, rest = significand[excess - 1], significand[: excess - 1]
    return guard | (rest.all() & significand[excess])
