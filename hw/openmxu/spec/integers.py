"""Integers within bounds."""

import operator


def check_integer(noun: str, value: object, least: int, most: int | None = None) -> int:
    """Return ``value`` as an integer.

    Raises
    ------
    TypeError, ValueError
        It is none, or is out of bounds; the text names ``noun``, the bounds and the value.
    """
    domain = f"{noun} must be an integer {f'>= {least}' if most is None else f'from {least} to {most}'}, not {value!r}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(domain) from None
    if number < least or (most is not None and number > most):
        raise ValueError(domain)
    return number
