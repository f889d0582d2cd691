"""Reads biases and weights from their memory, in the order in which they lie there.

::

    for each n    low halves of the biases ─▶ [ low ] ─┐
                  high halves ─────────────────────────┴─▶ o_biases, o_bias_write
                  N rows for each tile ───────────────▶ [ queue ] ─▶ the unit's weights, the last of a tile marked
    in an exchange    a row of the scratchpad, N times ─▶ [ queue ] ─▶ all words as the row's word N-1, N-2, ... 0
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import TRIPS, Loop
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import KINDS
from openmxu.spec.formats import BF16, FP32
from openmxu.unit.edge import WeightBeat
from openmxu.unit.queue import Queue

ADDRESS = KINDS["matmul"].fields["weights"].width
"""Bits of an address of weights."""

_ONE = BF16.bias << BF16.fraction_width


class WeightsCommand(data.StructLayout):
    """The part of a ``matmul`` that says which weights are used."""

    def __init__(self) -> None:
        super().__init__(
            {
                "weights": ADDRESS,  # the first row
                "bias": 1,
                "trips": data.ArrayLayout(TRIPS, 4),  # of kx, ky, block and n
                "exchange": 1,  # a tile is a row of the scratchpad; the first is ones without a row, if bias
            }
        )


class _Beat(data.StructLayout):
    """A beat before its word is chosen: a row, or in an ``exchange`` the word in ``lane`` or 1, in all columns."""

    def __init__(self, size: int) -> None:
        super().__init__({"row": size * BF16.width, "last": 1, "exchange": 1, "lane": size, "one": 1})


def _rows_of_biases(command: Any) -> Value:
    return Mux(command.bias & ~command.exchange, 2, 0)


class WeightReader(wiring.Component):
    """The weights of a ``matmul``.

    Latency: the first row is there four cycles after ``i_begin``. Throughput: a row in a cycle. Back-pressure: a row
    waits for the unit; biases never do.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_command": In(WeightsCommand()),
                "i_begin": In(1),  # take the command; only while not o_busy
                "o_busy": Out(1),
                "o_shown": Out(1),  # i_row is not taken yet
                "o_address": Out(ADDRESS),  # row to read now, if o_read
                "o_read": Out(1),
                "i_row": In(config.size * BF16.width),  # the row that was read last
                "o": Out(stream.Signature(WeightBeat(BF16, config.size))),
                "o_biases": Out(config.size * FP32.width),
                "o_bias_write": Out(1),
                "o_outside": Out(1),  # the next row is not in its memory; it is not asked for
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk the loops of tiles and rows; two rows of biases come first where a sum begins."""
        m = Module()
        m.submodules.loop = loop = Loop(5)  # rows of a tile, kx, ky, block, n
        # The unit decides late in a cycle whether it takes a row; the memory's reads need not wait for that.
        m.submodules.queue = queue = Queue(_Beat(self.config.size))
        command = Signal.like(self.i_command, reset_less=True)
        begun, is_ones = Signal(), Signal()
        biases = Signal(2)  # rows of biases that come before the next tile
        starts = Signal()  # a tile
        with m.If(self.i_begin):
            m.d.sync += [command.eq(self.i_command), self.o_busy.eq(1), starts.eq(1)]
            m.d.sync += biases.eq(_rows_of_biases(self.i_command))
            m.d.sync += is_ones.eq(self.i_command.bias & self.i_command.exchange)
        m.d.sync += begun.eq(self.i_begin)
        trips = [self.config.size, *command.trips]
        m.d.comb += [loop.i_begin.eq(begun), *(loop.i_levels[at].trips.eq(count) for at, count in enumerate(trips))]
        last, waits = loop.o_last, self.o_shown & ~queue.i.ready
        walking = self.o_busy & ~begun
        has_row, goes = Signal(), Signal()
        most = Mux(command.exchange, self.config.rows, self.config.weights)
        m.d.comb += [
            has_row.eq(~command.exchange | (starts & ~is_ones)),
            self.o_outside.eq(walking & has_row & (self.o_address >= most)),
            goes.eq(walking & ~waits & ~self.o_outside),
            self.o_read.eq(goes & has_row),
            loop.i_next.eq(goes & (biases == 0)),
        ]
        with m.If(begun):
            m.d.sync += self.o_address.eq(command.weights)
        with m.Elif(self.o_read):
            m.d.sync += self.o_address.eq(self.o_address + 1)
        with m.If(goes & (biases != 0)):
            m.d.sync += biases.eq(biases - 1)
        with m.If(loop.i_next):
            m.d.sync += [starts.eq(last[0]), is_ones.eq(is_ones & ~last[0])]
            with m.If(last[:4].all()):
                m.d.sync += [biases.eq(_rows_of_biases(command)), self.o_busy.eq(~last[4])]
        self._show(m, queue.i, command, loop, is_ones)
        self._give_biases(m, goes & (biases == 1))
        self._give(m, queue.o)
        return m

    def _show(self, m: Module, beats: Any, command: Any, loop: Loop, is_ones: Value) -> None:
        """Give the queue what was read a cycle ago, with its marks."""
        lane = Signal(self.config.size, init=1 << self.config.size - 1)  # of the next row of the array
        with m.If(loop.i_next):
            m.d.sync += lane.eq(lane.rotate_right(1))
        beat = beats.payload
        m.d.comb += [beat.row.eq(self.i_row), beat.exchange.eq(command.exchange), beats.valid.eq(self.o_shown)]
        with m.If(~self.o_shown | beats.ready):
            m.d.sync += [beat.last.eq(loop.o_last[0]), beat.lane.eq(lane), beat.one.eq(is_ones)]
            m.d.sync += self.o_shown.eq(loop.i_next)

    def _give(self, m: Module, beats: Any) -> None:
        """Give the rows; their words are chosen behind the queue, far from the memories."""
        size, beat = self.config.size, beats.payload
        chosen = [
            beat.row.word_select(index, BF16.width) & beat.lane[index].replicate(BF16.width) for index in range(size)
        ]
        word = Signal(BF16.width)
        m.d.comb += [
            word.eq(Mux(beat.one, _ONE, reduce(or_, chosen))),
            self.o.payload.data.as_value().eq(Mux(beat.exchange, word.replicate(size), beat.row)),
            self.o.payload.last.eq(beat.last),
            self.o.valid.eq(beats.valid),
            beats.ready.eq(self.o.ready),
        ]

    def _give_biases(self, m: Module, reads_high: Value) -> None:
        """Give both halves a cycle after the high one is read, which directly follows the low one."""
        size = self.config.size
        low = Signal(size * BF16.width, reset_less=True)
        m.d.sync += [low.eq(self.i_row), self.o_bias_write.eq(reads_high)]
        words = [Cat(half.word_select(index, BF16.width) for half in (low, self.i_row)) for index in range(size)]
        m.d.comb += self.o_biases.eq(Cat(words))
