"""Shifts that floating-point datapaths are made of."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

__all__ = ["normalise", "shift_right_sticky"]


def shift_right_sticky(m: Module, value: Value, amount: Value, *, name: str) -> Signal:
    """``value >> amount``, with every one that falls out kept in the lowest bit.

    Parameters
    ----------
    m
        The module that the logic is written into.
    value
        Any width; its lowest bit counts as sticky already.
    amount
        Unsigned; any width, also one that shifts everything out.
    name
        What the result is called in waveforms.
    """
    steps = (len(value) - 1).bit_length()
    for step in range(min(steps, len(amount))):
        distance = 1 << step
        shifted = Cat(
            value[distance] | value[:distance].any() if distance < len(value) else value.any(), value[distance + 1 :]
        )
        staged = Signal(len(value), name=f"{name}_{distance}")
        m.d.comb += staged.eq(Mux(amount[step], shifted, value))
        value = staged
    result = Signal(len(value), name=name)
    if len(amount) > steps:
        m.d.comb += result.eq(Mux(amount[steps:].any(), value.any(), value))
    else:
        m.d.comb += result.eq(value)
    return result


def normalise(m: Module, value: Value, *, limit: Value | None = None, name: str) -> tuple[Signal, Value]:
    """``value`` shifted left until its top bit is set, and by how much.

    Every step looks at the top bits and decides for itself: that is smaller than counting the leading
    zeros first and shifting then.

    Parameters
    ----------
    m
        The module that the logic is written into.
    value
        Any width. Zero stays zero; its shift then means nothing.
    limit
        Unsigned: shift by no more than this, so that exponents do not fall below the smallest.
    name
        What the result is called in waveforms.

    Returns
    -------
    result, shift
        ``result`` as wide as ``value``; ``shift`` wide enough for any shift.
    """
    taken: list[Value] = []
    for step in reversed(range((len(value) - 1).bit_length())):
        distance = 1 << step
        shift = Signal(name=f"{name}_by_{distance}")
        staged = Signal(len(value), name=f"{name}_{distance}")
        free = ~value[-distance:].any()
        if limit is None:
            m.d.comb += shift.eq(free)
        else:
            m.d.comb += shift.eq(free & limit[step:].any())
            remaining = Signal(len(limit), name=f"{name}_limit_{distance}")
            m.d.comb += remaining.eq(Cat(limit[:step], limit[step:] - shift))
            limit = remaining
        m.d.comb += staged.eq(Mux(shift, Cat(Value.cast(0).replicate(distance), value[:-distance]), value))
        value = staged
        taken.insert(0, shift)
    return value, Cat(*taken)
