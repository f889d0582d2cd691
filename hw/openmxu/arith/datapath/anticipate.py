"""Leading zeros of a sum, predicted beside the adder instead of counted behind it.

::

    a, b ─▶ each place by itself: ─▶ count leading zeros ─▶ count    by as much the sum may be shifted left;
            may the sum's first                                      its top bit is then set, or the one below
            significant bit be here?

A place propagates a carry (a ^ b), generates one (a & b), or kills it. From the top, copies of a sum's sign come from
places that propagate, then one that generates and such that kill, or one that kills and such that generate. The first
place that breaks this, as it and its neighbours show, holds the first significant bit, or the place below it does: the
carry from there is not known.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def anticipate(m: Module, a: Value, b: Value, carry: Value) -> Signal:
    """The leading zeros of ``a + b + carry``, or leading ones if it is negative, at most one too few.

    Summands are in two's complement, both of one width, with two bits of sign; one of these is not counted. The count
    of a sum without a significant bit is that of all places.
    """
    width = len(a) - 1
    propagates, generates, kills = a ^ b, Cat(carry, a & b), Cat(~carry, ~(a | b))
    first = Signal(width, name="may_be_first")
    for place in range(width):
        g, k, g_below, k_below = generates[place + 1], kills[place + 1], generates[place], kills[place]
        changes, stays = (g & ~k_below) | (k & ~g_below), (k & ~k_below) | (g & ~g_below)
        m.d.comb += first[place].eq(Mux(propagates[place + 1], changes, stays))
    size = width.bit_length()
    # A one behind the last place ends the count.
    _, count = _leading_zeros(Cat(Const(0, (1 << size) - width - 1), Const(1, 1), first))
    zeros = Signal(size, name="anticipated_zeros")
    m.d.comb += zeros.eq(count)
    return zeros


def _leading_zeros(bits: Value) -> tuple[Value, Value]:
    """Whether any of 2^n bits is set, and the number of zeros above the first one, in n bits."""
    if len(bits) == 1:
        return bits, Const(0, 0)
    middle = len(bits) // 2
    upper, upper_zeros = _leading_zeros(bits[middle:])
    lower, lower_zeros = _leading_zeros(bits[:middle])
    return upper | lower, Cat(Mux(upper, upper_zeros, lower_zeros), ~upper)
