"""Bursts of a bus from the addresses of single beats: those that follow one another, within 4 kB, are one burst."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import KINDS

WORD = KINDS["load"].fields["address"].width
"""Bits of a word's address."""

MOST = 16
"""Beats of the longest burst."""

ROOM = 2 * MOST
"""Beats that are asked for or wait, at most."""

PAGE_BITS = 12
"""Bits of an address within 4 kB, beyond which no burst goes."""


class Burst(data.StructLayout):
    """A burst: ``address`` of its first beat, in beats from the start of the window, and ``length`` less one."""

    def __init__(self) -> None:
        super().__init__({"address": WORD, "length": range(MOST)})


class Bursts(wiring.Component):
    """Joins beats into bursts.

    A burst is offered when the next beat does not belong to it, when it is full, or with ``i_flush``.

    Latency: a cycle. Throughput: a beat a cycle. Back-pressure: no beat is taken while a burst waits.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self._page = PAGE_BITS - ((config.beat // 8).bit_length() - 1)  # bits of a beat's address within 4 kB
        super().__init__(
            {
                "i_address": In(WORD),  # of a beat, in beats
                "i_valid": In(1),  # a beat; only with o_ready
                "i_flush": In(1),  # offer the burst that is open
                "o_ready": Out(1),
                "o_open": Out(1),  # beats wait for others
                "o_joins": Out(1),  # the beat at i_address belongs to them
                "o": Out(stream.Signature(Burst())),
            }
        )
        self.burst = Signal(Burst())  # the open one
        self.following = Signal(WORD)  # the address behind it

    def elaborate(self, platform: object) -> Module:
        """Extend the open burst, or offer it and open another."""
        m = Module()
        open_burst, following = self.burst, self.following
        offers = Signal()
        m.d.comb += [
            self.o_ready.eq(~self.o.valid),
            self.o_joins.eq(
                self.o_open
                & (open_burst.length != MOST - 1)
                & (self.i_address == following)
                & self.i_address[: self._page].any()
            ),
            offers.eq(self.o_open & ~self.o.valid & ((self.i_valid & ~self.o_joins) | self.i_flush)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(offers):
            m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(open_burst), self.o_open.eq(0)]
        with m.If(self.i_valid):
            m.d.sync += [self.o_open.eq(1), following.eq(self.i_address + 1)]
            with m.If(self.o_open & ~offers):
                m.d.sync += open_burst.length.eq(open_burst.length + 1)
            with m.Else():
                m.d.sync += [open_burst.address.eq(self.i_address), open_burst.length.eq(0)]
        return m
