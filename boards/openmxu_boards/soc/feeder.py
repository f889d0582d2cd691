"""From a buffer into a stream of the unit."""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["ADDRESS", "Feed", "Feeder"]

ADDRESS = 16
"""Bits of an address in requests, whatever the buffer's size."""


class Feed(data.StructLayout):
    """Beats of a buffer.

    Members
    -------
    address : 16
        The first one.
    count : as many bits as ``most`` takes
        How many; not 0.
    marks : any width
        What goes with each of them.
    """

    def __init__(self, most: int, marks: int) -> None:
        super().__init__({"address": ADDRESS, "count": range(most + 1), "marks": marks})


class Feeder(wiring.Component):
    """A buffer of beats that is written by address, and read as a stream.

    Latency: two cycles from a feed to its first beat. Throughput: a beat a cycle, feed after feed. Back-pressure: on
    both streams, for any time; a beat that is offered stays so until it is taken.

    Parameters
    ----------
    width
        Bits of a beat.
    depth
        Beats in the buffer, a power of two.
    most
        Beats of a feed.
    marks
        Bits of the marks.

    Members
    -------
    i_write : In(1)
    i_address : In(16)
    i_beat : In(width)
        Where ``i_write`` is high, the beat goes to this address. Not while a feed reads it.
    i : In(stream of Feed)
        What to read.
    o : Out(stream of width + 2 + marks bits)
        Beat, whether it is the first and the last one of its feed, and the feed's marks, from the low end.
    o_busy : Out(1)
        Something is still to be read or taken.
    o_beyond : Out(1)
        An address is not in the buffer; it wraps.
    """

    i_write: Value
    i_address: Value
    i_beat: Value
    i: Any
    o: Any
    o_busy: Value
    o_beyond: Value

    def __init__(self, width: int, depth: int, *, most: int, marks: int = 0) -> None:
        self.width, self.depth, self.most, self.marks = width, depth, most, marks
        super().__init__(
            {
                "i_write": In(1),
                "i_address": In(ADDRESS),
                "i_beat": In(width),
                "i": In(stream.Signature(Feed(most, marks))),
                "o": Out(stream.Signature(data.StructLayout({"beat": width, "first": 1, "last": 1, "marks": marks}))),
                "o_busy": Out(1),
                "o_beyond": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The memory's output register holds the beat; its marks are a cycle behind those of the feed."""
        m = Module()
        m.submodules.buffer = buffer = Memory(shape=self.width, depth=self.depth, init=[])
        write, read = buffer.write_port(), buffer.read_port()
        address, left = Signal(range(2 * self.depth)), Signal(range(self.most + 1))
        first, marks, fetch = Signal(), Signal(self.marks), Signal()
        m.d.comb += [
            write.addr.eq(self.i_address),
            write.data.eq(self.i_beat),
            write.en.eq(self.i_write),
            fetch.eq((left != 0) & (self.o.ready | ~self.o.valid)),
            read.addr.eq(address),
            read.en.eq(fetch),
            self.o.payload.beat.eq(read.data),
            self.i.ready.eq(left == 0),
            self.o_busy.eq((left != 0) | self.o.valid),
            self.o_beyond.eq(
                (fetch & address[-1])
                | (self.i_write & (self.i_address >= self.depth))
                | (self.i.valid & (self.i.payload.address >= self.depth))
            ),
        ]
        with m.If(fetch):
            m.d.sync += [address.eq(address + 1), left.eq(left - 1), first.eq(0), self.o.payload.marks.eq(marks)]
            m.d.sync += [self.o.payload.first.eq(first), self.o.payload.last.eq(left == 1)]
        with m.If(fetch | self.o.ready):
            m.d.sync += self.o.valid.eq(fetch)
        with m.If(self.i.valid & self.i.ready):
            feed = self.i.payload
            m.d.sync += [
                address.eq(feed.address[: len(address) - 1]),
                left.eq(feed.count),
                first.eq(1),
                marks.eq(feed.marks),
            ]
        return m
