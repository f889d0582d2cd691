"""Moves rows from the bus into the scratchpad, or into the memory of weights.

::

    [ walk ] ─┬─▶ [ bursts ] ──▶ requests             asked only with room for every beat of the longest burst
              └─▶ [ places ] ─┐                       row, shift, index of each beat that was asked for
    beats ──────▶ [ beats  ] ─┴▶ rotate ─▶ [ row ] ─▶ a memory

Rotated by ``shift``, a beat has each word in its lane modulo B: lanes before B - shift are of group ``index`` of the
row, those behind of the group before.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import STEP
from openmxu.accelerator.movers.bursts import MOST, ROOM
from openmxu.accelerator.movers.mover import Mover, Place, lanes
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import BF16


class ReadBeat(data.StructLayout):
    """``valid``: ``data`` was asked for, and must be taken. ``error``: a beat is wrong, or was not asked for."""

    def __init__(self, width: int) -> None:
        super().__init__({"data": width, "error": 1, "valid": 1})


class Loader(Mover):
    """The engine of ``load``.

    Throughput: a beat a cycle, if rows are taken. Back-pressure: a row waits for ``i_taken``; beats never wait.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(
            config,
            {
                "i_beat": In(ReadBeat(config.beat)),
                "i_taken": In(1),  # the row is written now
                **dict.fromkeys(("o_write", "o_into_weights"), Out(1)),  # a row is there, for which memory
                "o_row": Out(STEP),
                "o_data": Out(config.size * BF16.width),
            },
        )

    def elaborate(self, platform: object) -> Module:
        """Ask for beats while there is room, and put together rows from those that come."""
        m = Module()
        bursts, place, asks = self._walk(m), self.walk.payload.place, self.walk.ready
        m.submodules.places = places = SyncFIFOBuffered(width=len(place.as_value()), depth=ROOM)
        m.submodules.beats_read = beats = SyncFIFOBuffered(width=self.config.beat, depth=ROOM)
        room, uses = Signal(range(ROOM + 1), init=ROOM), Signal()
        m.d.comb += [
            asks.eq(self.walk.valid & ~self.i_stop & bursts.o_ready & (bursts.o_joins | (room >= MOST))),
            bursts.i_flush.eq(~asks),
            places.w_data.eq(place),
            places.w_en.eq(asks),
            beats.w_data.eq(self.i_beat.data),
            beats.w_en.eq(self.i_beat.valid),
            self.o_quiet.eq((room == ROOM) & ~bursts.o.valid & ~bursts.o_open),
        ]
        m.d.sync += room.eq(room - asks + uses)
        self._assemble(m, places, beats, uses)
        return m

    def _assemble(self, m: Module, places: Any, beats: Any, uses: Signal) -> None:
        """Put the words of each beat into their lanes; a row is complete with its last beat."""
        size, count = self.config.size, lanes(self.config)
        place = data.View(Place(self.config), places.r_data)
        row = Signal(size * BF16.width, reset_less=True)
        end = Signal()
        m.d.comb += [
            uses.eq(places.r_rdy & beats.r_rdy & (~self.o_write | self.i_taken | self.i_stop)),
            places.r_en.eq(uses),
            beats.r_en.eq(uses),
            self.o_into_weights.eq(self.command.into_weights),
            self.engine.finished.eq(self.o_write & self.i_taken & end),
        ]
        rotated = _rotated(beats.r_data, place.shift, count)
        for index in range(size):
            group, lane = divmod(index, count)
            is_behind = lane + place.shift >= count  # of the beat that follows
            with m.If(uses & (place.index == group + is_behind)):
                m.d.sync += row.word_select(index, BF16.width).eq(rotated[lane])
        with m.If(uses | self.i_taken):
            m.d.sync += self.o_write.eq(uses & place.last & ~self.i_stop)
        with m.If(uses):
            m.d.sync += [self.o_row.eq(place.row), end.eq(place.end)]
        m.d.comb += self.o_data.eq(
            Cat(Mux(index < self.command.valid, row.word_select(index, BF16.width), 0) for index in range(size))
        )


def _rotated(beat: Value, shift: Value, count: int) -> list[Value]:
    """The words of a beat, so many lanes lower."""
    words = [beat.word_select(lane, BF16.width) for lane in range(count)]
    for level in range(len(shift)):
        words = [Mux(shift[level], words[(lane + (1 << level)) % count], words[lane]) for lane in range(count)]
    return words
