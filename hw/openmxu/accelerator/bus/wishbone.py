"""The movers' bursts on Wishbone: registered feedback, addresses that count up, one burst at a time."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.bus.axi4 import physical
from openmxu.accelerator.bus.register_ports import wishbone
from openmxu.accelerator.movers.bursts import Burst
from openmxu.accelerator.movers.port import ADDRESS, BASE, BusPort
from openmxu.spec.accelerator import AcceleratorConfig

_INCREMENTS, _ENDS = 2, 7


class _State(enum.Enum):
    IDLE = 0
    READ = 1
    WRITE = 2


class WishboneMaster(wiring.Component):
    """A bus port as a manager of Wishbone. Bursts that are written go before those that are read.

    Throughput: a beat a cycle; between bursts, a cycle passes.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        # i_base: bits 31 to 12 of the window's first byte.
        super().__init__({"i_base": In(BASE), "port": In(BusPort(config)), **wishbone(config.beat, ADDRESS, Out)})

    def elaborate(self, platform: object) -> Module:
        """Take a burst, count its beats, and take the next one."""
        m = Module()
        port, size = self.port, (self.config.beat // 8).bit_length() - 1
        state, burst = Signal(_State), Signal(Burst(), reset_less=True)
        writes, moves, last = Signal(), Signal(), Signal()
        m.d.comb += [
            writes.eq(state == _State.WRITE),
            self.adr.eq(physical(self.i_base, burst, size)[size:]),
            self.cyc.eq(state != _State.IDLE),
            self.stb.eq((state == _State.READ) | (writes & port.written.valid)),
            self.we.eq(writes),
            self.dat_w.eq(port.written.payload.data),
            self.sel.eq(Mux(writes, Cat(word.replicate(2) for word in port.written.payload.words), -1)),
            last.eq(burst.length == 0),
            self.cti.eq(Mux(last, _ENDS, _INCREMENTS)),
            moves.eq(self.stb & (self.ack | self.err)),
            port.read.data.eq(self.dat_r),
            port.read.valid.eq(moves & ~writes),
            Cat(port.read.error, port.error).eq((moves & self.err).replicate(2) & Cat(~writes, writes)),
            port.written.ready.eq(moves & writes),
            port.writes.ready.eq(state == _State.IDLE),
            port.reads.ready.eq((state == _State.IDLE) & ~port.writes.valid),
            port.quiet.eq(~writes),
        ]
        with m.If(state == _State.IDLE):
            with m.If(port.writes.valid):
                m.d.sync += [state.eq(_State.WRITE), burst.eq(port.writes.payload)]
            with m.Elif(port.reads.valid):
                m.d.sync += [state.eq(_State.READ), burst.eq(port.reads.payload)]
        with m.Elif(moves):
            m.d.sync += [burst.address.eq(burst.address + 1), burst.length.eq(burst.length - 1)]
            with m.If(last):
                m.d.sync += state.eq(_State.IDLE)
        return m
