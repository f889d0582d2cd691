"""Shifts that floating-point datapaths are made of."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def shift_right_sticky(
    m: Module, value: Value, amount: Value, *, name: str, steps: range | None = None, keep: Value | None = None
) -> Signal:
    """``value >> amount``, where the lowest bit is sticky: it keeps every 1 that is shifted out."""
    most = (len(value) - 1).bit_length()
    sticky, value = value[0], value[1:]
    if steps is None:
        steps = range(min(most, len(amount)))
        if len(amount) > most:
            beyond = amount[most:].any()
            sticky = sticky | (beyond & value.any())
            value = masked(value, ~beyond)
    keep = Const(1) if keep is None else keep
    for step in reversed(steps):
        distance = 1 << step
        lost = Signal(name=f"{name}_lost_{distance}")
        staged = Signal(len(value), name=f"{name}_{distance}")
        stays, moves = keep & ~amount[step], keep & amount[step]
        # Verilog has no vector of no bits.
        left = masked(value[distance:], moves) if distance < len(value) else Const(0, 1)
        m.d.comb += [
            lost.eq((sticky & keep) | (value[:distance].any() & moves)),
            staged.eq(masked(value, stays) | left),
        ]
        sticky, value, keep = lost, staged, Const(1)
    sticky, value = sticky & keep, masked(value, keep)  # for the case without steps
    result = Signal(1 + len(value), name=name)
    m.d.comb += result.eq(Cat(sticky, value))
    return result


def masked(value: Value, keep: Value) -> Value:
    """``value`` where ``keep`` is 1, else 0."""
    return value & keep.replicate(len(value))


class Normalised(NamedTuple):
    """A normalised value and its shift."""

    value: Value  # shifted left
    shift: Value  # the distance by these steps; earlier steps are not included
    more: Value  # a bit: the rest of the limit is more than the remaining steps can shift


def normalise(
    m: Module,
    value: Value,
    *,
    steps: range | None = None,
    limit: Value | None = None,
    more: Value | None = None,
    fill: Value | None = None,
    zeros: Value | None = None,
    name: str,
) -> Normalised:
    """Shift ``value`` left until its top bit is set, or by ``zeros``.

    Without a number of zeros every step tests the top bits itself: that is smaller than counting the leading zeros
    first and shifting afterwards.
    """
    steps = range((len(value) - 1).bit_length()) if steps is None else steps
    fill = Const(0, 1) if fill is None else fill
    if more is None:
        more = Const(0, 1) if limit is None else limit[steps.stop :].any()
    taken: list[Value] = []
    for step in reversed(steps):
        distance = 1 << step
        shift = Signal(name=f"{name}_by_{distance}")
        staged = Signal(len(value), name=f"{name}_{distance}")
        free = ~value[-distance:].any() if zeros is None else zeros[step]
        if limit is None:
            m.d.comb += shift.eq(free)
        else:
            allowed = limit[step : step + 1].any()
            left = Signal(name=f"{name}_beyond_{distance}")
            m.d.comb += [shift.eq(free & (more | allowed)), left.eq(more | (allowed & ~shift))]
            more = left
        m.d.comb += staged.eq(Mux(shift, Cat(fill.replicate(distance), value[:-distance]), value))
        value = staged
        taken.insert(0, shift)
    return Normalised(value, Cat(Const(0, steps.start), *taken), more)
