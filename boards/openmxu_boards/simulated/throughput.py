"""Speed of a board that multiplies a host's matrices, and its limits, measured at its simulated pins."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from openmxu.spec.formats import FP32
from openmxu_boards.devices.boards import Board
from openmxu_boards.host import Host
from openmxu_boards.simulated import simulated_link
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import stimulus

SIDE = 64
"""Rows and columns of the matrices that boards are compared by."""

_BITS = 10
"""Bits of a byte on a UART."""


@dataclass(frozen=True)
class Throughput:
    """A product on a board, from the host's first byte to its last."""

    side: int
    clock: int
    baud: int
    """Clock and baud rate of the board, in Hz and in bits per second."""
    cycles: int
    """Duration in cycles of the board's clock."""
    sent: int
    received: int
    """Bytes to the board and from it."""
    busy: int
    """Beats of activations, in each of which a row of the array multiplies."""

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock

    @property
    def flops(self) -> float:
        """Floating-point operations per second: a multiplication and an addition for each product."""
        return 2 * self.side**3 / self.seconds

    @property
    def line(self) -> float:
        """Fraction of the time in which bytes are on the line in either direction: 1 means that the UART limits."""
        return _BITS * (self.sent + self.received) / self.baud / self.seconds

    @property
    def unit(self) -> float:
        """Fraction of the time in which the array is fed."""
        return self.busy / self.cycles


def measure(board: Board, side: int = SIDE, *, tell: Callable[[str], None] = lambda _: None) -> Throughput:
    """Multiply two random matrices on a simulated board.

    The host takes no time, and a USB converter's delays are left out.
    """
    link = simulated_link(board.system(board.config, board.frequency), tell=tell)
    host = Host(link)
    config = replace(board.config, source=FP32, status=True)
    a, b = (vectors.matrix((side, side), "fp32", seed, kind="normal") for seed in (1, 2))
    start, sent, received = link.cycles, link.sent, link.received
    inputs = stimulus(config, a, np.ascontiguousarray(b.T))
    host.run(inputs)
    host.close()
    return Throughput(
        side=side,
        clock=board.frequency,
        baud=board.baud,
        cycles=link.cycles - start,
        sent=link.sent - sent,
        received=link.received - received,
        busy=sum(len(tile.activations) for tile in inputs.tiles),
    )
