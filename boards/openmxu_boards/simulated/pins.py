"""A board's UART at the level of its pins: the levels of bytes, and a design that is clocked from Python."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from amaranth.sim import Simulator

from openmxu_boards.simulated.verilated import Levels, Simulation


class Pins(Protocol):
    """A design with the pins rx and tx."""

    def play(self, rx: Levels) -> Levels:
        """Clock the design once for each level of rx; returns the levels of tx in these cycles."""
        ...


class CircuitPins:
    """Two pins of a simulated circuit."""

    def __init__(
        self, simulation: Simulation, rx: str = "rx", tx: str = "tx", inverted: tuple[bool, bool] = (False, False)
    ) -> None:
        self._simulation, self._rx, self._tx, self._inverted = simulation, rx, tx, inverted

    def play(self, rx: Levels) -> Levels:
        return self._simulation.play(self._rx, rx ^ self._inverted[0], self._tx) ^ self._inverted[1]


class AmaranthPins:
    """A component with the members rx and tx in Amaranth's simulator: thousands of times slower than Verilator."""

    def __init__(self, design: Any) -> None:
        self._given: Levels = np.empty(0, dtype=np.uint8)
        self._taken: list[int] = []
        self._simulator = Simulator(design)
        self._simulator.add_clock(1e-6)
        self._cycles = 0

        async def clock(ctx: Any) -> None:
            while True:
                ctx.set(design.rx, int(self._given[len(self._taken)]) if len(self._taken) < len(self._given) else 1)
                *_, level = await ctx.tick().sample(design.tx)
                self._taken.append(level)

        self._simulator.add_process(clock)

    def play(self, rx: Levels) -> Levels:
        self._given, self._taken = rx, []
        while len(self._taken) < len(rx):
            self._simulator.advance()
        return np.array(self._taken[: len(rx)], dtype=np.uint8)


def levels_of(data: bytes, divisor: float) -> Levels:
    """A pin's levels while bytes are sent."""
    bits = np.ones((len(data), 10), dtype=np.uint8)
    bits[:, 0] = 0
    bits[:, 1:9] = np.unpackbits(np.frombuffer(data, dtype=np.uint8)[:, np.newaxis], axis=1, bitorder="little")
    edges = np.rint(np.arange(bits.size + 1) * divisor).astype(np.int64)
    return np.repeat(bits.ravel(), np.diff(edges))


class UartReader:
    """Bytes from the levels of a pin, which come in pieces of any size."""

    def __init__(self, divisor: float) -> None:
        self._divisor = divisor
        self._pending: Levels = np.empty(0, dtype=np.uint8)

    @property
    def idle(self) -> bool:
        return not len(self._pending)

    def feed(self, levels: Levels) -> bytes:
        """The bytes that end in ``levels``; one without a stop bit is lost."""
        self._pending = np.concatenate([self._pending, levels])
        return bytes(self._bytes())

    def _bytes(self) -> Iterator[int]:
        middles = np.rint((np.arange(10) + 0.5) * self._divisor).astype(np.int64)
        while True:
            low = np.flatnonzero(self._pending == 0)
            start = int(low[0]) if len(low) else len(self._pending)
            self._pending = self._pending[start:]
            if len(self._pending) <= middles[-1]:
                return
            bits = self._pending[middles]
            if bits[9]:
                yield int(np.packbits(bits[1:9], bitorder="little")[0])
            self._pending = self._pending[middles[-1] :]
            if not bits[9]:  # no start before the line is high again
                high = np.flatnonzero(self._pending)
                self._pending = self._pending[int(high[0]) if len(high) else len(self._pending) :]
