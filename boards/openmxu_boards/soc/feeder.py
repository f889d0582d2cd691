"""Buffers whose beats feed a stream of the unit."""

from typing import Any

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.unit.queue import Queue

ADDRESS = 16
"""Bits of an address in requests, whatever the buffer's size."""


class Feed(data.StructLayout):
    """A request for consecutive beats of a buffer, at least one, and the marks that go with each of them."""

    def __init__(self, most: int, marks: int) -> None:
        super().__init__({"address": ADDRESS, "count": range(most + 1), "marks": marks})


class Feeder(wiring.Component):
    """A buffer of beats that is written by address, and read as a stream.

    Latency: two cycles from a feed to its first beat, three with a queue. Throughput: a beat a cycle, feed after feed.
    Back-pressure: on both streams, for any time; a beat that is offered stays so until it is taken.

    Parameters
    ----------
    width, marks
        Bits of a beat, and of its marks.
    depth, most
        Beats in the buffer, a power of two, and the most of a feed.
    queue
        Whether a :class:`~openmxu.unit.queue.Queue` follows the buffer, for a receiver that decides late in a cycle:
        without one, the decision reaches the buffer's read in the same cycle.

    Members
    -------
    i_write : In(1)
        ``i_beat`` goes to ``i_address``. Not while a feed reads it.
    o_busy : Out(1)
        A beat is still to be read or taken.
    o_beyond : Out(1)
        An address is not in the buffer; it wraps.
    """

    def __init__(self, width: int, depth: int, *, most: int, marks: int = 0, queue: bool = False) -> None:
        self.width, self.depth, self.most, self.marks, self.queue = width, depth, most, marks, queue
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
        write = buffer.write_port()
        read = buffer.read_port()
        address = Signal(range(2 * self.depth))
        left = Signal(range(self.most + 1))
        first = Signal()
        marks = Signal(self.marks)
        fetch = Signal()
        o, queued = self._output(m)
        m.d.comb += [
            write.addr.eq(self.i_address),
            write.data.eq(self.i_beat),
            write.en.eq(self.i_write),
            fetch.eq((left != 0) & (o.ready | ~o.valid)),
            read.addr.eq(address),
            read.en.eq(fetch),
            o.payload.beat.eq(read.data),
            self.i.ready.eq(left == 0),
            self.o_busy.eq((left != 0) | o.valid | queued),
            self.o_beyond.eq(
                ((left != 0) & address[-1])
                | (self.i_write & (self.i_address >= self.depth))
                | (self.i.valid & (self.i.payload.address >= self.depth))
            ),
        ]
        with m.If(fetch):
            m.d.sync += [address.eq(address + 1), left.eq(left - 1), first.eq(0), o.payload.marks.eq(marks)]
            m.d.sync += [o.payload.first.eq(first), o.payload.last.eq(left == 1)]
        with m.If(fetch | o.ready):
            m.d.sync += o.valid.eq(fetch)
        with m.If(self.i.valid & self.i.ready):
            feed = self.i.payload
            m.d.sync += [address.eq(feed.address[: len(address) - 1]), left.eq(feed.count)]
            m.d.sync += [first.eq(1), marks.eq(feed.marks)]
        return m

    def _output(self, m: Module) -> tuple[Any, Value]:
        """The stream that beats of the buffer enter, and whether a beat is in the queue behind it."""
        if not self.queue:
            return self.o, Const(0)
        m.submodules.queue = queue = Queue(self.o.payload.shape())
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        beat = stream.Signature(self.o.payload.shape()).create()
        wiring.connect(m, beat, queue.i)
        return beat, queue.o.valid
