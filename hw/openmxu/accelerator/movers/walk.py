"""The beats of a ``load`` or ``store``: rows of a memory on chip, and the words of the bus that belong to each.

::

    beat of the bus, B words       │ . . 0 1 │ 2 3 4 5 │ 6 . . . │      a row of 7 words that begins at lane 2
                                   index 0     1         2             B = 4, shift 2
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import STEP, LevelLayout, Loop
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import KINDS
from openmxu.spec.formats import BF16

WORD = KINDS["load"].fields["address"].width
"""Bits of a word's address."""

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
                # Trips are the same in both.
                "rows_levels": data.ArrayLayout(LevelLayout(), _LEVELS),
                "address_levels": data.ArrayLayout(LevelLayout(WORD), _LEVELS),
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


def mover_ports(config: AcceleratorConfig) -> dict[str, Any]:
    """The ports that both movers have."""
    return {
        "i_command": In(MoveCommand(config)),
        "i_begin": In(1),  # take the command; only while not o_busy
        "i_stop": In(1),  # ask for nothing more, and write nothing more on chip
        "i_window": In(WORD),  # words of the window
        "o_busy": Out(1),
        "o_done": Out(1),  # a command is finished: all of its words are written
        "o_quiet": Out(1),  # the bus has answered all that was asked
        # The next row is not in its memory; a word of it is not in the window.
        **dict.fromkeys(("o_absent", "o_outside"), Out(1)),
    }


class Walk(wiring.Component):
    """The beats of a command, row by row.

    Latency: the first beat is there four cycles after ``i_begin``. Throughput: a beat a cycle. Back-pressure: a beat
    waits for ``o.ready``.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_command": In(MoveCommand(config)),
                "i_begin": In(1),  # take the command
                "o_command": Out(MoveCommand(config)),  # the one that was taken last
                "i_window": In(WORD),  # words of the window
                "o": Out(stream.Signature(MoveBeat(config))),
                # As of :func:`mover_ports`, of the next beat, which is not offered then.
                **dict.fromkeys(("o_absent", "o_outside"), Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step both loops behind the last beat of a row; a register holds the beat that is offered."""
        m = Module()
        m.submodules.rows = rows = Loop(_LEVELS)
        m.submodules.words = words = Loop(_LEVELS, WORD)
        command, place = self.o_command, self.o.payload.place
        index, last = Signal.like(place.index), Signal()
        walking, taken, begun, goes, holds = Signal(), Signal(), Signal(), Signal(), Signal()
        ends = last & rows.o_last.all()
        m.d.comb += goes.eq(walking & (~holds | self.o.ready))
        for loop, base in ((rows, "rows"), (words, "address")):
            m.d.comb += [
                loop.i_base.eq(command[base]),
                loop.i_levels.eq(command[f"{base}_levels"]),
                loop.i_begin.eq(begun),
                loop.i_next.eq(goes & last),
            ]
        m.d.sync += [taken.eq(self.i_begin), begun.eq(taken)]
        with m.If(self.i_begin):
            m.d.sync += command.eq(self.i_command)
        with m.If(begun):
            m.d.sync += [walking.eq(1), index.eq(0)]
        with m.If(self.o.ready):
            m.d.sync += holds.eq(0)
        with m.If(goes):
            m.d.sync += [holds.eq(1), walking.eq(~ends), index.eq(Mux(last, 0, index + 1))]
            m.d.sync += [place.index.eq(index), place.last.eq(last), place.end.eq(ends)]
        m.d.comb += last.eq(index == (words.o_address[: len(place.shift)] + command.valid - 1) >> len(place.shift))
        self._offer(m, goes, holds, index, rows.o_address, words.o_address)
        return m

    def _offer(self, m: Module, goes: Value, holds: Value, index: Value, row: Value, word: Value) -> None:
        """Say where a beat is, and offer it if its row may be moved."""
        command, beat = self.o_command, self.o.payload
        low = len(beat.place.shift)
        absent, outside, end = Signal(), Signal(), Signal(WORD + 1)
        m.d.comb += [
            end.eq(word + command.valid),
            self.o.valid.eq(holds & ~absent & ~outside),
            self.o_absent.eq(holds & absent),
            self.o_outside.eq(holds & outside),
        ]
        with m.If(goes):
            m.d.sync += [
                beat.address.eq(word[low:] + index),
                beat.place.row.eq(row),
                beat.place.shift.eq(word[:low]),
                absent.eq(row >= Mux(command.into_weights, self.config.weights, self.config.rows)),
                outside.eq(end > self.i_window),
            ]
