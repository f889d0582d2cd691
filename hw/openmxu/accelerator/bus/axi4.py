"""The movers' bursts on AXI4: ``load`` asks on AR, ``store`` on AW and W.

::

    reads   ─────────────▶ AR          the movers have room for every beat that they ask for: R and B are always taken
    read    ◀─ [ ends ] ◀─ R           a bit for each beat that is to come: whether it is the last of its burst
    writes  ─▶ [ ] ──────▶ AW          the beats of a burst follow it, and another one follows these
    written ─▶ [ left ] ─▶ W
    o_quiet ◀─ [ answers missing ] ◀─ B
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.movers.bursts import MOST, PAGE_BITS, ROOM
from openmxu.accelerator.movers.port import ADDRESS, BASE, BusPort
from openmxu.spec.accelerator import AcceleratorConfig

_ANSWERS = 15
"""Bursts that are written and not answered, at most."""

_INCREMENTS, _BUFFERABLE = 1, 3


def axi4(config: AcceleratorConfig) -> dict[str, Any]:
    """The ports of an AXI4 manager."""
    widths = {"id": 1, "addr": ADDRESS, "len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4, "prot": 3, "qos": 4}
    request = {**{name: Out(width) for name, width in widths.items()}, "valid": Out(1), "ready": In(1)}
    written = {"data": Out(config.beat), "strb": Out(config.beat // 8), "last": Out(1), "valid": Out(1), "ready": In(1)}
    answer = {"id": In(1), "resp": In(2), "valid": In(1), "ready": Out(1)}
    read = {"id": In(1), "data": In(config.beat), "resp": In(2), "last": In(1), "valid": In(1), "ready": Out(1)}
    channels = {"aw": request, "w": written, "b": answer, "ar": request, "r": read}
    return {f"{channel}{name}": port for channel, ports in channels.items() for name, port in ports.items()}


class AxiMaster(wiring.Component):
    """A bus port as a manager of AXI4.

    One ID, so that all answers come in order; addresses that count up; normal memory, bufferable, not cacheable. No
    burst crosses 4 kB. No output follows an input within the cycle.

    Latency: none. Throughput: a beat a cycle each way; between bursts that are written, a cycle passes. Back-pressure:
    on AR, AW and W; R and B are always taken.

    An answer that comes too early stops the program; the right one, if it comes after the reset, stops the next program
    as ``BUS``.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        # i_base: bits 31 to 12 of the window's first byte.
        super().__init__({"i_base": In(BASE), "port": In(BusPort(config)), **axi4(config)})
        self.left = Signal(range(MOST + 1))  # beats of the burst that is written which have not gone
        self.missing = Signal(range(_ANSWERS + 1))

    def elaborate(self, platform: object) -> Module:
        """A counter of beats left in the burst that is written, and one of answers missing, this burst's too."""
        m = Module()
        port, size = self.port, (self.config.beat // 8).bit_length() - 1
        left, missing = self.left, self.missing
        requested, sent, unfinished = Signal(), Signal(), Signal()
        for channel, burst in (("ar", port.reads.payload), ("aw", port.writes.payload)):
            m.d.comb += [
                getattr(self, f"{channel}addr").eq(physical(self.i_base, burst, size)),
                getattr(self, f"{channel}len").eq(burst.length),
                getattr(self, f"{channel}size").eq(size),
                getattr(self, f"{channel}burst").eq(_INCREMENTS),
                getattr(self, f"{channel}cache").eq(_BUFFERABLE),
            ]
        m.d.comb += [
            self.arvalid.eq(port.reads.valid),
            port.reads.ready.eq(self.arready),
            Cat(self.rready, self.bready).eq(3),
            self.awvalid.eq(port.writes.valid & (left == 0) & (missing != _ANSWERS)),
            port.writes.ready.eq(self.awready & (left == 0) & (missing != _ANSWERS)),
            requested.eq(self.awvalid & self.awready),
            self.wdata.eq(port.written.payload.data),
            self.wstrb.eq(Cat(word.replicate(2) for word in port.written.payload.words)),
            self.wlast.eq(left == 1),
            self.wvalid.eq(port.written.valid & (left != 0)),
            port.written.ready.eq(self.wready & (left != 0)),
            sent.eq(self.wvalid & self.wready),
            unfinished.eq((left != 0) & ~(sent & self.wlast)),
            port.quiet.eq((missing == 0) & (left == 0)),  # not the same: an answer may come too early
            port.error.eq(self.bvalid & (self.bresp[1] | (missing <= unfinished))),
        ]
        with m.If(requested):
            m.d.sync += left.eq(port.writes.payload.length + 1)
        with m.Elif(sent):
            m.d.sync += left.eq(left - 1)
        m.d.sync += missing.eq(missing + requested - (self.bvalid & (missing != 0)))
        self._take(m, self.port.read)
        return m

    def _take(self, m: Module, read: Any) -> None:
        """Count the beats that are to come, and compare the mark of each."""
        coming, ends = Signal(range(ROOM + 1)), Signal(ROOM)
        last, asks, came = Signal(range(ROOM)), Signal(), Signal()
        m.d.comb += [
            asks.eq(self.arvalid & self.arready),
            last.eq(coming + self.port.reads.payload.length),  # of the burst that is asked for, its place among them
            came.eq(self.rvalid & (coming != 0)),
            read.valid.eq(came),
            read.data.eq(self.rdata),
            read.error.eq(self.rvalid & (~came | self.rresp[1] | (self.rlast != ends[0]))),
        ]
        m.d.sync += [coming.eq(Mux(asks, last + 1, coming) - came), ends.eq((ends | asks << last) >> came)]


def physical(base: Signal, burst: Any, size: int) -> Cat:
    """The byte address of a burst of beats of 2^size bytes."""
    offset = Cat(Const(0, size), burst.address)[:ADDRESS]
    return Cat(offset[:PAGE_BITS], (offset[PAGE_BITS:] + base)[:BASE])
