"""Moves rows from the scratchpad to the bus.

::

    [ walk ] ─┬─ row ─▶ scratchpad ─▶ [ row ] ─▶ shift ─▶ [ beats ] ──▶ beats, each with its bytes that count
              └─▶ [ bursts ] ──────────────────────────────────────▶ requests

A burst is requested when all of its beats are in the queue, so that none of them keeps the bus waiting.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import STEP
from openmxu.accelerator.movers.bursts import ROOM
from openmxu.accelerator.movers.mover import Mover, lanes
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import BF16


class WrittenBeat(data.StructLayout):
    """A beat to write: ``data``, and which of its ``words`` count."""

    def __init__(self, width: int) -> None:
        super().__init__({"data": width, "words": width // BF16.width})


class Storer(Mover):
    """The engine of ``store``.

    Throughput: a row of n beats in n + 2 cycles, if it is read at once. Back-pressure: beats wait in a queue of
    :data:`ROOM`.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(
            config,
            {
                "i_quiet": In(1),  # all bursts that were requested are written
                "i_granted": In(1),  # the row is read now
                "o_read": Out(1),  # read o_row
                "o_row": Out(STEP),
                "i_data": In(config.size * BF16.width),  # the row, a cycle later
                "beats": Out(stream.Signature(WrittenBeat(config.beat))),
            },
        )

    def elaborate(self, platform: object) -> Module:
        """Read a row, cut it into beats, and take the next one."""
        m = Module()
        bursts, place, gives = self._walk(m), self.walk.payload.place, self.walk.ready
        m.submodules.queue = queue = SyncFIFOBuffered(width=len(self.beats.payload.as_value()), depth=ROOM)
        walks, asked, has = Signal(), Signal(), Signal()
        m.d.sync += [
            walks.eq(self.engine.begin | (walks & ~(gives & place.end))),
            asked.eq(self.o_read & self.i_granted),
            has.eq(asked | (has & ~(gives & place.last))),
        ]
        m.d.comb += [
            self.o_read.eq(self.walk.valid & ~self.i_stop & ~has & ~asked),
            self.o_row.eq(place.row),
            gives.eq(has & queue.w_rdy & bursts.o_ready & ~self.i_stop),
            bursts.i_flush.eq((~walks | ~queue.w_rdy) & ~self.i_stop),
            queue.w_en.eq(gives),
            self.beats.valid.eq(queue.r_rdy),
            self.beats.payload.eq(queue.r_data),
            queue.r_en.eq(self.beats.ready),
            self.o_quiet.eq(self.i_quiet & ~bursts.o.valid),
            self.engine.finished.eq(~self.engine.ready & ~walks & self.o_quiet & ~bursts.o_open),
        ]
        self._cut(m, asked, gives, queue.w_data)
        return m

    def _cut(self, m: Module, asked: Value, gives: Value, given: Value) -> None:
        """Hold a row behind a group without marks; shift it up for a beat, and down by a group behind it."""
        count, marked, shift = lanes(self.config), BF16.width + 1, self.walk.payload.place.shift
        words = [
            Cat(self.i_data.word_select(index, BF16.width), index < self.command.valid)
            for index in range(self.config.size)
        ]
        row = Signal((count + -(-len(words) // count) * count) * marked, reset_less=True)
        with m.If(asked):
            m.d.sync += row.eq(Cat(Const(0, count * marked), *words))
        with m.Elif(gives):
            m.d.sync += row.eq(row[count * marked :])
        shifted = [row.word_select(lane, marked) for lane in range(2 * count)]
        for level in range(len(shift)):
            lower = [0] * (1 << level) + shifted
            shifted = [Mux(shift[level], less, word) for less, word in zip(lower, shifted, strict=False)]
        m.d.comb += given.eq(Cat(*(word[:-1] for word in shifted[count:]), *(word[-1] for word in shifted[count:])))
