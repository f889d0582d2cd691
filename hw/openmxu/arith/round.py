"""Rounding: the only place that rounds, overflows, underflows and packs."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from openmxu.arith.shift import shift_right_sticky
from openmxu.formats import FloatFormat

__all__ = ["round_pack"]


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
) -> Value:
    """The bit pattern of ``±significand · 2^exponent`` in ``fmt``, rounded to nearest, ties to even.

    In flush mode, underflow is decided on the value before rounding. Logic for overflow and underflow is
    made only where ``exponents`` leaves room for them.

    Parameters
    ----------
    m
        The module that the logic is written into.
    fmt, subnormals
        The result's format, and ``"flush"`` or ``"ieee"``.
    sign
        Sign of the result, zeros and infinities included.
    exponent
        Biased for ``fmt``: 1 is the smallest normal exponent. Signed.
    significand
        Normalised: the top bit, of weight one, is set. The exceptions: zero, whatever the exponent; and
        subnormal numbers, if their exponent is 1. The lowest bit counts as sticky.
    infinite, nan
        Override the number; ``nan`` overrides ``infinite``.
    exponents
        The values that ``exponent`` can take for a finite non-zero number.

    Returns
    -------
    bits
        ``fmt.width`` bits. NaN is the canonical quiet NaN.
    """
    underflows = exponents.start < 1
    if subnormals == "ieee" and underflows:
        exponent, significand = _to_subnormal(m, fmt, exponent, significand)

    kept, increment = _nearest_even(fmt, significand)
    normal = Signal(name="normal")
    if subnormals == "flush" and underflows:
        m.d.comb += normal.eq(significand[-1] & ~exponent[-1] & exponent.any())
    else:
        m.d.comb += normal.eq(significand[-1])

    # A carry out of the fraction is a carry into the exponent; a subnormal number has exponent field 0.
    field_width = max(fmt.exponent_width, exponents.stop.bit_length())
    field = exponent[:field_width] & normal.replicate(field_width)
    fraction = kept[:-1]
    if subnormals == "flush":
        fraction = fraction & normal.replicate(fmt.fraction_width)
        increment = increment & normal
    magnitude = Signal(field_width + fmt.fraction_width, name="magnitude")
    m.d.comb += magnitude.eq(Cat(fraction, field) + increment)

    if exponents.stop > fmt.exponent_mask or not fmt.has_infinity:
        infinite = infinite | (magnitude > fmt.largest)
    bits = Signal(fmt.width, name="rounded_bits")
    m.d.comb += bits.eq(Mux(nan, fmt.quiet_nan, Cat(Mux(infinite, fmt.overflow, magnitude)[: fmt.width - 1], sign)))
    return bits


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
    amount = missing[:-1] & tiny.replicate(len(missing) - 1)
    return Mux(tiny, 1, exponent), shift_right_sticky(m, significand, amount, name="subnormal")


def _nearest_even(fmt: FloatFormat, significand: Value) -> tuple[Value, Value]:
    """The significand cut to the format's width, and whether to add one in its last place."""
    excess = len(significand) - fmt.significand_width
    if excess <= 0:
        return Cat(Const(0, -excess), significand), Const(0, 1)
    kept = significand[excess:]
    guard = significand[excess - 1]
    return kept, guard & (kept[0] | significand[: excess - 1].any())
