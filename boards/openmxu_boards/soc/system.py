"""A unit that answers a host."""

import hashlib
from importlib.metadata import version
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.runtime.sources import digest_all
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.config import MxuConfig
from openmxu_boards.protocol import LOAD, Identity
from openmxu_boards.soc.controller import Controller
from openmxu_boards.soc.frames import FrameReceiver, FrameSender
from openmxu_boards.soc.machine import Buffers, Machine
from openmxu_boards.soc.network_machine import NetworkMachine
from openmxu_boards.soc.uart import ReceivedByte, UartReceiver, UartTransmitter, divisor_of
from openmxu_boards.sources import SOURCES

FRAME = 512
"""Bytes of the buffer for requests."""


class Soc(wiring.Component):
    """A unit with buffers, behind two streams of bytes that carry :mod:`openmxu_boards.protocol`.

    ::

        i ─▶ [ frame receiver ] ─▶ [ controller ] ─▶ [ frame sender ] ─▶ o
                                     │        ▲
                                     ▼        │
                               [ machine: unit and buffers ]

    Any carrier of bytes may replace the UART of :class:`UartSoc`: SPI, USB, Ethernet.

    Parameters
    ----------
    config
        The unit, or an accelerator, which has its own buffers.
    buffers
        Sizes of a unit's buffers.
    frame
        Bytes of the buffer for requests, a power of two from 64 to 65536.
    counters
        Whether the unit's counters can be read.
    clock, baud
        Their values in the :class:`~openmxu_boards.protocol.Identity`.

    Members
    -------
    i : In(stream of ReceivedByte)
        Always ready.
    o : Out(stream of 8)
    o_open : Out(1)
        A host has opened a session.
    o_busy : Out(1)
        Tiles run.
    o_failed : Out(1)
        A request has failed since the session was opened.
    """

    def __init__(
        self,
        config: MxuConfig | AcceleratorConfig,
        buffers: Buffers | None = None,
        *,
        frame: int = FRAME,
        counters: bool = True,
        clock: int = 0,
        baud: int = 0,
    ) -> None:
        unit = config.unit if isinstance(config, AcceleratorConfig) else config
        if frame not in {1 << bits for bits in range(6, 17)}:
            raise ValueError(f"frame must be a power of two from 64 to 65536, not {frame!r}")
        widest = -(-unit.source.width * max(unit.rows, unit.columns) // 8)
        if frame <= LOAD + widest:
            raise ValueError(f"frame must be more than {LOAD + widest} for beats of {widest} bytes, not {frame}")
        self.machine = (
            NetworkMachine(config)
            if isinstance(config, AcceleratorConfig)
            else Machine(config, buffers or Buffers(), counters=counters)
        )
        buffers = self.machine.buffers
        self.identity = Identity(
            config=self.machine.config,
            weights=buffers.weights,
            activations=buffers.activations,
            results=buffers.results,
            frame=frame - 1,
            counters=counters,
            clock=clock,
            baud=baud,
            package=version("openmxu"),
            build=_digest(),
            program=config.program if isinstance(config, AcceleratorConfig) else 0,
        )
        super().__init__(
            {
                "i": In(stream.Signature(ReceivedByte())),
                "o": Out(stream.Signature(8)),
                "o_open": Out(1),
                "o_busy": Out(1),
                "o_failed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Four parts in a row, and the machine beside them."""
        m = Module()
        m.submodules.receiver = receiver = FrameReceiver(self.identity.frame + 1)
        m.submodules.controller = controller = Controller(self.machine, self.identity.to_bytes())
        m.submodules.sender = sender = FrameSender()
        m.submodules.machine = self.machine
        wiring.connect(m, wiring.flipped(self.i), receiver.i)
        wiring.connect(m, receiver.o, controller.i)
        wiring.connect(m, controller.o, sender.i)
        wiring.connect(m, sender.o, wiring.flipped(self.o))
        m.d.comb += [
            controller.i_damaged.eq(receiver.o_damaged),
            self.o_open.eq(controller.o_open),
            self.o_busy.eq(~self.machine.o_idle),
            self.o_failed.eq(controller.o_failed),
        ]
        return m


def _digest() -> str:
    """Digest of the sources of the hardware and of this package; empty where they cannot be read."""
    digest = digest_all(SOURCES)
    return "" if digest is None else hashlib.sha256(digest.encode()).hexdigest()[:16]


class UartSoc(wiring.Component):
    """:class:`Soc` on a UART.

    Parameters
    ----------
    config, buffers, options
        See :class:`Soc`.
    clock
        Frequency in Hz.
    baud
        Bits per second.

    Members
    -------
    rx : In(1)
        From the host; asynchronous.
    tx : Out(1)
        To the host.
    pass_ : Out(1)
        A host has opened a session, and none of its requests has failed.
    fail : Out(1)
        A request of the open session has failed.
    heartbeat : Out(1)
        Changes with each run of tiles.

    Raises
    ------
    ValueError
        A parameter is outside its domain, or the clock cannot make the baud rate.
    """

    def __init__(
        self,
        config: MxuConfig | AcceleratorConfig,
        buffers: Buffers | None = None,
        *,
        clock: int,
        baud: int,
        **options: Any,
    ) -> None:
        self.divisor = divisor_of(clock, baud)
        self.soc = Soc(config, buffers, clock=clock, baud=baud, **options)
        super().__init__(
            {"rx": In(1, init=1), "tx": Out(1, init=1), "pass_": Out(1), "fail": Out(1), "heartbeat": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """Bytes from one pin, bytes to the other."""
        m = Module()
        m.submodules.soc = soc = self.soc
        m.submodules.receiver = receiver = UartReceiver(self.divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(self.divisor)
        wiring.connect(m, receiver.o, soc.i)
        wiring.connect(m, soc.o, transmitter.i)
        m.d.comb += [
            receiver.i.eq(self.rx),
            self.tx.eq(transmitter.o),
            self.pass_.eq(soc.o_open & ~soc.o_failed),
            self.fail.eq(soc.o_failed),
        ]
        busy = Signal()
        m.d.sync += [busy.eq(soc.o_busy), self.heartbeat.eq(self.heartbeat ^ (soc.o_busy & ~busy))]
        return m
