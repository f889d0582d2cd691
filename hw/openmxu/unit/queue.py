"""A queue before a receiver that decides late in a cycle."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Queue(wiring.Component):
    """Two places between a sender and a receiver that decides late in a cycle.

    ::

        i ─┬─▶[ place 0 ]─▶╲
           │                ▶─▶ o      o.ready reaches three registers: the next place, and which places are full
           └─▶[ place 1 ]─▶╱

    ``i.ready`` depends on registers alone.

    Latency: one cycle. Throughput: a beat a cycle. Back-pressure: on both streams, for any time.
    """

    def __init__(self, shape: Any) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """Places are filled in turn, and emptied in turn."""
        m = Module()
        full = Signal(2)
        fills, empties = Signal(name="fills"), Signal(name="empties")
        payload = Value.cast(self.i.payload)
        places = [Signal(len(payload), name=f"place_{number}") for number in range(2)]
        m.d.comb += [
            self.i.ready.eq(~full.all()),
            self.o.valid.eq(full.any()),
            Value.cast(self.o.payload).eq(Mux(empties, places[1], places[0])),
        ]
        for number, place in enumerate(places):
            with m.If(self.o.ready & (empties == number)):
                m.d.sync += full[number].eq(0)
            with m.If(~full[number]):
                m.d.sync += place.eq(payload)
            with m.If(self.i.valid & self.i.ready & (fills == number)):
                m.d.sync += full[number].eq(1)
        m.d.sync += [
            fills.eq(fills ^ (self.i.valid & self.i.ready)),
            empties.eq(empties ^ (self.o.ready & self.o.valid)),
        ]
        return m
