"""A queue of wide words."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

_CHUNK = 32


class WideFifo(wiring.Component):
    """Queues of at most 32 bits side by side, as memories in the simulated netlist have no wider words; the
    ports are those of :class:`amaranth.lib.fifo.SyncFIFOBuffered`.

    Latency: two cycles. Throughput: a word a cycle.
    """

    def __init__(self, width: int, depth: int) -> None:
        self._depth = depth
        super().__init__(
            {
                "w_data": In(width),
                **dict.fromkeys(("w_en", "r_en"), In(1)),
                "r_data": Out(width),
                **dict.fromkeys(("w_rdy", "r_rdy"), Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """All queues take and give a word at the same time."""
        m = Module()
        chunks = []
        for low in range(0, len(self.w_data), _CHUNK):
            given = self.w_data[low : low + _CHUNK]
            m.submodules[f"chunk_{low}"] = chunk = SyncFIFOBuffered(width=len(given), depth=self._depth)
            m.d.comb += [chunk.w_data.eq(given), chunk.w_en.eq(self.w_en), chunk.r_en.eq(self.r_en)]
            chunks.append(chunk)
        m.d.comb += [
            self.r_data.eq(Cat(chunk.r_data for chunk in chunks)),
            self.w_rdy.eq(chunks[0].w_rdy),
            self.r_rdy.eq(chunks[0].r_rdy),
        ]
        return m
