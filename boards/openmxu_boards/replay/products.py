"""A build's system, which multiplies matrices of a host in simulation, at the pins of its UART."""

from openmxu_boards.host import BoardError, Host
from openmxu_boards.host.check import check
from openmxu_boards.simulated.pin_link import PinLink
from openmxu_boards.simulated.pins import CircuitPins

__all__ = ["multiply"]

_TRIES = 16


def multiply(pins: CircuitPins, products: int, *, clock: int, baud: int) -> tuple[int, str]:
    """Multiply random matrices; the cycles that it takes, and what was wrong, if anything was.

    Parameters
    ----------
    pins
        The circuit.
    products
        How many.
    clock, baud
        The system's.
    """
    link = PinLink(pins, clock=clock, baud=baud)
    try:
        found = check(Host(link, tries=_TRIES), products)
    except (BoardError, ValueError) as error:
        return link.cycles, str(error)
    return link.cycles, "" if found.right else f"{found.wrong} of {found.words} words of results are wrong"
