"""A build's system, which multiplies matrices of a host in simulation, at the pins of its UART."""

import numpy as np

from openmxu_boards.host import BoardError, Host
from openmxu_boards.host.check import check
from openmxu_boards.replay.folder import Pin
from openmxu_boards.replay.simulator import Simulation
from openmxu_boards.simulated.link import PinLink
from openmxu_boards.simulated.pins import Levels

__all__ = ["ReplayPins", "multiply"]

_TRIES = 16


class ReplayPins:
    """The UART of a simulated circuit; see :class:`openmxu_boards.simulated.pins.Pins`.

    Parameters
    ----------
    simulation
        At power-up.
    rx, tx
        The pins.
    """

    def __init__(self, simulation: Simulation, rx: Pin, tx: Pin) -> None:
        self._simulation, self._rx, self._tx = simulation, rx, tx
        simulation.drive(rx.name, 1 ^ rx.inverted)

    def play(self, rx: Levels) -> Levels:
        """As of :class:`openmxu_boards.simulated.pins.Pins`; between two changes the simulation runs by itself."""
        tx = np.empty_like(rx)
        changes = [*(np.flatnonzero(np.diff(rx)) + 1).tolist(), len(rx)]
        cycle = 0
        for end in changes:
            self._simulation.drive(self._rx.name, int(rx[cycle]) ^ self._rx.inverted)
            while cycle < end:
                before = self._level()
                ran = self._simulation.run(end - cycle, [self._tx.name])
                tx[cycle : cycle + ran - 1] = before
                tx[cycle + ran - 1] = self._level()
                cycle += ran
        return tx

    def _level(self) -> int:
        level = self._simulation.read(self._tx.name)
        return 1 if level is None else level ^ self._tx.inverted

    def close(self) -> None:
        """Nothing to give back."""


def multiply(pins: ReplayPins, products: int, *, clock: int, baud: int) -> tuple[int, str]:
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
