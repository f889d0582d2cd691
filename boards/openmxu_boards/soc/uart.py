"""A UART: 8 data bits, lowest first, no parity, one stop bit."""

import operator

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

LEAST_DIVISOR = 4
"""The fewest cycles of a bit: samples are within an eighth of a bit from its middle."""

_TOLERANCE = 0.02
"""Largest deviation of the baud rate, as a fraction: half a bit in ten is 5 %, and the other side deviates as much."""


class ReceivedByte(data.StructLayout):
    """A byte, and whether it is damaged: its stop bit was missing, by noise, another baud rate, or a break."""

    def __init__(self) -> None:
        super().__init__({"data": 8, "error": 1})


def divisor_of(frequency: int, baud: int) -> int:
    """Cycles of a bit, the ``divisor`` of receiver and transmitter."""
    divisor = round(frequency / baud)
    if divisor < LEAST_DIVISOR:
        raise ValueError(f"baud must be at most {frequency // LEAST_DIVISOR} at {frequency} Hz, not {baud}")
    if abs(frequency / divisor / baud - 1) > _TOLERANCE:
        raise ValueError(
            f"baud must be within 2 % of {frequency} Hz over an integer, such as {frequency // divisor}, not {baud}"
        )
    return divisor


def _check_divisor(divisor: int) -> int:
    divisor = operator.index(divisor)
    if divisor < LEAST_DIVISOR:
        raise ValueError(f"divisor must be >= {LEAST_DIVISOR}, not {divisor}")
    return divisor


class UartReceiver(wiring.Component):
    """Bytes from a pin.

    ::

        i ──▶[ ]─▶[ ]──▶ ‾‾‾╲___start___╱ bit 0 │ … │ bit 7 ╱‾‾stop‾‾‾
                                 ▲          ▲            ▲       ▲
                                 half a bit after the edge, then every bit: sampled

    A start bit that is high in its middle was noise. After a missing stop bit no byte begins until the pin is high.

    Latency: from the middle of the stop bit two cycles. Throughput: a byte in ten bits. Back-pressure: none; a byte
    is lost if the receiver is not ready in the one cycle of its ``valid``.
    """

    def __init__(self, divisor: int) -> None:
        self.divisor = _check_divisor(divisor)
        super().__init__({"i": In(1, init=1), "o": Out(stream.Signature(ReceivedByte()))})

    def elaborate(self, platform: object) -> Module:
        """A counter to the next sample, and a shift register whose lowest bit marks that it is full."""
        m = Module()
        pin = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.i, pin, init=1)
        left = Signal(range(self.divisor))
        bits = Signal(9)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [left.eq(self.divisor // 2 - 1), bits.eq(1 << 8)]
                with m.If(~pin):
                    m.next = "START"
            with m.State("START"):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.d.sync += left.eq(self.divisor - 1)
                    m.next = "BITS"
                    with m.If(pin):
                        m.next = "IDLE"
            with m.State("BITS"):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.d.sync += [left.eq(self.divisor - 1), bits.eq(Cat(bits[1:], pin))]
                    with m.If(bits[0]):  # eight bits have come: this is the stop bit
                        m.d.sync += bits.eq(bits)
                        m.d.comb += [self.o.valid.eq(1), self.o.payload.error.eq(~pin)]
                        m.next = "IDLE"
                        with m.If(~pin):
                            m.next = "LOW"
            with m.State("LOW"), m.If(pin):
                m.next = "IDLE"
        m.d.comb += self.o.payload.data.eq(bits[1:])
        return m


class UartTransmitter(wiring.Component):
    """Bytes to a pin, which is high when idle.

    Latency: the start bit begins in the cycle after a byte is taken. Throughput: a byte in ten bits. Back-pressure:
    ``i.ready`` is low as long as a byte is sent.
    """

    def __init__(self, divisor: int) -> None:
        self.divisor = _check_divisor(divisor)
        super().__init__({"i": In(stream.Signature(8)), "o": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        """A shift register of ten bits, filled up with ones; the last bit sent is the stop bit."""
        m = Module()
        bits = Signal(10, init=0x3FF)
        left = Signal(range(self.divisor))
        count = Signal(range(11))
        m.d.comb += [self.o.eq(bits[0]), self.i.ready.eq(count == 0)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [bits.eq(Cat(Const(0, 1), self.i.payload, Const(1, 1))), count.eq(10)]
            m.d.sync += left.eq(self.divisor - 1)
        with m.Elif(count != 0):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 0):
                m.d.sync += [left.eq(self.divisor - 1), bits.eq(Cat(bits[1:], Const(1, 1))), count.eq(count - 1)]
        return m
