"""Source and sink of a stream: valid, ready and payload, a beat where valid and ready meet."""

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from openmxu_sim.cosim.clocking import cycle


def no_pauses() -> Iterator[bool]:
    """No pause, ever."""
    return itertools.repeat(False)


def random_pauses(seed: int) -> Iterator[bool]:
    """Yield whether to pause, cycle by cycle: busy spells, slow ones and everything between, without an end."""
    generator = random.Random(seed)
    while True:
        share = generator.choice([0.0, 0.1, 0.5, 0.9])
        for _ in range(generator.randint(1, 48)):
            yield generator.random() < share


class StreamSource:
    """Offers beats in order. An offered beat stays until it is taken; else the payload is garbage.

    Parameters
    ----------
    dut
        The design, with ``clk``.
    prefix
        Prefix of the ports ``prefix__valid``, ``prefix__ready``, ``prefix__payload``.
    pauses
        Whether to pause, asked in each cycle in which a new beat could be offered.
    """

    def __init__(self, dut: Any, prefix: str, pauses: Iterator[bool] | None = None) -> None:
        self._edge = RisingEdge(dut.clk)
        self._valid, self._ready, self._payload = _ports(dut, prefix)
        self._pauses = no_pauses() if pauses is None else pauses
        self._garbage = random.Random(0)
        self._beats: deque[int] = deque()
        self._task: Any = None
        self.taken: list[int] = []
        """Cycles in which beats were taken."""
        self._idle()

    def send(self, beats: Iterable[int]) -> None:
        """Append payloads to those to be sent."""
        self._beats.extend(beats)

    @property
    def pending(self) -> int:
        """Number of beats that have not been taken yet."""
        return len(self._beats)

    def start(self) -> None:
        """Begin, at a rising edge."""
        self._task = cocotb.start_soon(self._run())

    def stop(self) -> None:
        """End, at a rising edge, and forget what has not been taken."""
        self._task.cancel()
        self._beats.clear()
        self._idle()

    def _idle(self) -> None:
        self._valid.value = 0
        self._payload.value = self._garbage.getrandbits(len(self._payload))

    async def _run(self) -> None:
        while True:
            if next(self._pauses) or not self._beats:
                self._idle()
                await self._edge
                continue
            self._valid.value = 1
            self._payload.value = self._beats[0]
            await self._edge
            while not int(self._ready.value):
                await self._edge
            self._beats.popleft()
            self.taken.append(cycle())


class StreamSink:
    """Takes beats, and fails if one that is offered changes or vanishes before it is taken.

    Parameters
    ----------
    dut, prefix
        As for :class:`StreamSource`.
    pauses
        Whether not to be ready, asked in each cycle.
    receive
        Called with each beat's payload and cycle.
    """

    def __init__(
        self, dut: Any, prefix: str, receive: Callable[[int, int], None], pauses: Iterator[bool] | None = None
    ) -> None:
        self._edge = RisingEdge(dut.clk)
        self._prefix = prefix
        self._valid, self._ready, self._payload = _ports(dut, prefix)
        self._pauses = no_pauses() if pauses is None else pauses
        self._receive = receive
        self._task: Any = None
        self.taken: list[int] = []
        """Cycles in which beats were taken."""
        self._ready.value = 0

    def start(self) -> None:
        """Begin, at a rising edge."""
        self._task = cocotb.start_soon(self._run())

    def stop(self) -> None:
        """End, at a rising edge."""
        self._task.cancel()
        self._ready.value = 0

    async def _run(self) -> None:
        waiting: int | None = None
        while True:
            ready = not next(self._pauses)
            self._ready.value = ready
            await self._edge
            offered = int(self._payload.value) if int(self._valid.value) else None
            if waiting is not None and offered != waiting:
                now = "nothing" if offered is None else f"{offered:#x}"
                raise AssertionError(
                    f"{self._prefix} offered {waiting:#x} and, before it was taken, {now}, cycle {cycle()}"
                )
            waiting = None if ready else offered
            if ready and offered is not None:
                self.taken.append(cycle())
                self._receive(offered, cycle())


def _ports(dut: Any, prefix: str) -> tuple[Any, Any, Any]:
    """Return valid, ready and payload of a stream."""
    return getattr(dut, f"{prefix}__valid"), getattr(dut, f"{prefix}__ready"), getattr(dut, f"{prefix}__payload")
