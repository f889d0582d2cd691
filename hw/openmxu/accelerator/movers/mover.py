"""The beats of a ``load`` or ``store``: rows of a memory on chip, and the words of the bus that belong to each.

::

    beat of the bus, B words       │ . . 0 1 │ 2 3 4 5 │ 6 . . . │      a row of 7 words that begins at lane 2
                                   index 0     1         2             B = 4, shift 2
"""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.fetch import MOVER
from openmxu.accelerator.loop import STEP, LevelLayout, Loop, next_step
from openmxu.accelerator.movers.bursts import WORD, Burst, Bursts
from openmxu.spec.accelerator import MOST_LOADED, AcceleratorConfig
from openmxu.spec.commands import KINDS
from openmxu.spec.formats import BF16

_LEVELS = len(KINDS["load"].levels)


def lanes(config: AcceleratorConfig) -> int:
    """Words of a beat."""
    return config.beat // BF16.width


class MoveCommand(data.StructLayout):
    """A ``load`` or ``store``."""

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(
            {
                "rows": STEP,  # the first row
                "valid": range(config.size + 1),  # words of a row that are moved
                "address": WORD,  # the first word in the window of the bus
                "into_weights": 1,  # rows are those of the memory of weights
                "levels": data.ArrayLayout(LevelLayout(), _LEVELS),
                "others": data.ArrayLayout(WORD, _LEVELS),  # steps of the address
            }
        )


class Place(data.StructLayout):
    """Where the words of a beat belong."""

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(
            {
                "row": range(max(config.rows, config.weights)),
                "index": range(-(-config.size // lanes(config)) + 1),  # of the beat in its row
                "shift": range(lanes(config)),  # lane of the row's first word, in the first beat
                "last": 1,  # the last beat of its row
                "end": 1,  # and of the command
            }
        )


class MoveBeat(data.StructLayout):
    """A beat to move: its ``address``, counted in beats from the start of the window, and its :class:`Place`."""

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__({"address": WORD, "place": Place(config)})


class Mover(wiring.Component):
    """The walk of both movers over the beats of a command, row by row, and the bursts of those that are taken.

    Latency: the first beat is there four cycles after ``engine.begin``. Throughput: a beat a cycle. Back-pressure: a
    beat waits for ``walk.ready``.
    """

    def __init__(self, config: AcceleratorConfig, ports: Mapping[str, Any]) -> None:
        self.config = config
        super().__init__(
            {
                "i_command": In(MoveCommand(config)),
                "engine": In(MOVER),  # a command is finished when all of its words are written
                "i_stop": In(1),  # ask for nothing more, and write nothing more on chip
                "i_window": In(WORD),  # words of the window
                "o_quiet": Out(1),  # the bus has answered all that was asked
                # The next row is not in its memory; a word of it is not in the window. Its beats are not offered.
                **dict.fromkeys(("o_absent", "o_outside"), Out(1)),
                "requests": Out(stream.Signature(Burst())),
                **ports,
            }
        )
        self.command = Signal(MoveCommand(config))  # the one that was taken last
        self.walk = stream.Signature(MoveBeat(config)).create()

    def _walk(self, m: Module) -> Bursts:
        """Step both addresses behind the last beat of a row; a register holds the beat that is offered."""
        m.submodules.rows = rows = Loop(_LEVELS)
        m.submodules.bursts = bursts = Bursts(self.config)
        wiring.connect(m, bursts.o, wiring.flipped(self.requests))
        command, place = self.command, self.walk.payload.place
        word, index, last = Signal(WORD), Signal.like(place.index), Signal()  # of the row's words, the first one
        busy, walking, taken, begun, goes, holds = Signal(), Signal(), Signal(), Signal(), Signal(), Signal()
        ends = last & rows.o_last.all()
        m.d.comb += [
            last.eq(index == (word[: len(place.shift)] + command.valid - 1) >> len(place.shift)),
            goes.eq(walking & (~holds | self.walk.ready)),
            self.engine.ready.eq(~busy),
            rows.i_base.eq(command.rows),
            rows.i_levels.eq(command.levels),
            rows.i_begin.eq(begun),
            rows.i_next.eq(goes & last),
            bursts.i_address.eq(self.walk.payload.address),
            bursts.i_valid.eq(self.walk.ready),
        ]
        begin, finished = self.engine.begin, self.engine.finished
        m.d.sync += [busy.eq(begin | (busy & ~finished)), taken.eq(begin), begun.eq(taken)]
        with m.If(begin):
            m.d.sync += command.eq(self.i_command)
        with m.If(begun):
            m.d.sync += [walking.eq(1), index.eq(0), word.eq(command.address)]
        with m.Elif(rows.i_next):
            m.d.sync += word.eq(word + next_step(rows.o_last, command.others))
        with m.If(self.walk.ready):
            m.d.sync += holds.eq(0)
        with m.If(goes):
            m.d.sync += [holds.eq(1), walking.eq(~ends), index.eq(Mux(last, 0, index + 1))]
            m.d.sync += [place.index.eq(index), place.last.eq(last), place.end.eq(ends)]
        self._offer(m, goes, holds, index, rows.o_address, word)
        return bursts

    def _offer(self, m: Module, goes: Value, holds: Value, index: Value, row: Value, word: Value) -> None:
        """Say where a beat is, and offer it if its row may be moved."""
        command, beat = self.command, self.walk.payload
        low = len(beat.place.shift)
        absent, outside, end = Signal(), Signal(), Signal(WORD + 1)
        m.d.comb += [
            end.eq(word + command.valid),
            self.walk.valid.eq(holds & ~absent & ~outside),
            self.o_absent.eq(holds & absent),
            self.o_outside.eq(holds & outside),
        ]
        with m.If(goes):
            m.d.sync += [
                beat.address.eq(word[low:] + index),
                beat.place.row.eq(row),
                beat.place.shift.eq(word[:low]),
                absent.eq(row >= Mux(command.into_weights, min(self.config.weights, MOST_LOADED), self.config.rows)),
                outside.eq(end > self.i_window),
            ]
