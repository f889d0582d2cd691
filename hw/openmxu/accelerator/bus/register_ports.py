"""Ways to the registers of an accelerator: AXI4-Lite and Wishbone. Both answer one request at a time."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.unit.axi import axi_lite

ADDRESS = 8
"""Bits of a register's byte address."""

_OKAY, _SLVERR = 0, 2


class RegisterPort(wiring.Signature):
    """Reads and writes of registers, by a host."""

    def __init__(self) -> None:
        super().__init__(
            {
                **dict.fromkeys(("read", "written"), Out(ADDRESS)),  # byte addresses
                "data": Out(32),
                "write": Out(1),  # write data at written; only if writable
                "shown": In(32),  # what is at read
                "readable": In(1),  # there is a register at read
                "writable": In(1),  # the register at written can be written now
            }
        )


class AxiLite(wiring.Component):
    """Registers on AXI4-Lite.

    A write without all of its bytes, and any request of an address without a register, is answered with SLVERR and does
    nothing. Address and data of a write may come in any order. No output follows an input within the cycle.

    Latency: a cycle. Throughput: a request in two cycles. Back-pressure: on all channels.
    """

    def __init__(self) -> None:
        super().__init__({"port": Out(RegisterPort()), **axi_lite(ADDRESS)})

    def elaborate(self, platform: object) -> Module:
        """Hold an address and a word until both are there and the answer before has been taken."""
        m = Module()
        port = self.port
        word, strobes = Signal.like(self.wdata, reset_less=True), Signal.like(self.wstrb, reset_less=True)
        writes, known = Signal(), Signal()
        m.d.comb += [
            port.read.eq(self.araddr),
            port.data.eq(word),
            writes.eq(~self.awready & ~self.wready & ~self.bvalid),
            known.eq(port.writable & strobes.all()),
            port.write.eq(writes & known),
        ]
        m.d.sync += [
            self.awready.eq(Mux(self.awready, ~self.awvalid, writes)),
            self.wready.eq(Mux(self.wready, ~self.wvalid, writes)),
            self.bvalid.eq(Mux(self.bvalid, ~self.bready, writes)),
            self.arready.eq(Mux(self.arready, ~self.arvalid, self.rvalid & self.rready)),
            self.rvalid.eq(Mux(self.rvalid, ~self.rready, self.arvalid & self.arready)),
        ]
        with m.If(self.awready):
            m.d.sync += port.written.eq(self.awaddr)
        with m.If(self.wready):
            m.d.sync += [word.eq(self.wdata), strobes.eq(self.wstrb)]
        with m.If(writes):
            m.d.sync += self.bresp.eq(Mux(known, _OKAY, _SLVERR))
        with m.If(self.arready):
            m.d.sync += [self.rdata.eq(port.shown), self.rresp.eq(Mux(port.readable, _OKAY, _SLVERR))]
        return m


def wishbone(width: int, address: int, flow: Any) -> dict[str, Any]:
    """The ports of a Wishbone manager (flow Out) or subordinate (In), with addresses of words."""
    against = In if flow is Out else Out
    granularity = (width // 8).bit_length() - 1
    return {
        "adr": flow(address - granularity),
        "dat_w": flow(width),
        "dat_r": against(width),
        "sel": flow(width // 8),
        **{name: flow(1) for name in ("cyc", "stb", "we")},
        **{name: against(1) for name in ("ack", "err")},
        "cti": flow(3),
        "bte": flow(2),
    }


class WishboneRegisters(wiring.Component):
    """Registers on Wishbone, 32 bits wide, classic cycles.

    A write without all of its bytes, and any request of an address without a register, is answered with ``err``.

    Latency: a cycle. Throughput: a request in two cycles.
    """

    def __init__(self) -> None:
        super().__init__({"port": Out(RegisterPort()), **wishbone(32, ADDRESS, In)})

    def elaborate(self, platform: object) -> Module:
        """Answer in the cycle behind the request."""
        m = Module()
        port = self.port
        asked, known = Signal(), Signal()
        m.d.comb += [
            Cat(port.read[:2], port.written[:2]).eq(0),
            port.read[2:].eq(self.adr),
            port.written[2:].eq(self.adr),
            port.data.eq(self.dat_w),
            asked.eq(self.cyc & self.stb & ~self.ack & ~self.err),
            known.eq(Mux(self.we, port.writable & self.sel.all(), port.readable)),
            port.write.eq(asked & self.we & known),
        ]
        m.d.sync += [self.ack.eq(asked & known), self.err.eq(asked & ~known), self.dat_r.eq(port.shown)]
        return m
