"""Reads the rows of a command from the scratchpad, for the unit or for the pool.

::

    begin ─▶ [ command ]                                   tile of a matmul, or window of a pool: levels 0, 1
                  │                                        sum over tiles: levels 2 to 4; results n: level 5
              [ loop ] ── address ─▶ scratchpad ─▶ row ──▶ o_row
                  │                                          ▲
                  └── marks ─▶ [ ] ──────────────────────────┘ marks wait beside the memory's output register
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import STEP, LevelLayout, Loop
from openmxu.spec.accelerator import AcceleratorConfig

LEVELS = 6


class FeederCommand(data.StructLayout):
    """The part of a command that says what is read."""

    def __init__(self) -> None:
        super().__init__(
            {
                "reads": STEP,  # the first row
                "levels": data.ArrayLayout(LevelLayout(), LEVELS),
                "pool": 1,  # a pool; else a matmul with the flags that follow
                **dict.fromkeys(("add", "bias", "emit"), 1),
                "exchange": 1,  # rows lie in the memory of weights
            }
        )


class RowMarks(data.StructLayout):
    """The marks of a row: a beat's of activations; for a pool ``first`` and ``last`` mark a window."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(("pool", "first", "last", "add", "bias", "emit"), 1))


class Feeder(wiring.Component):
    """The rows of commands, in the order of their loops.

    Latency: the first row is there two cycles after ``i_begin``. Throughput: a row in a cycle, without a bubble between
    tiles. Back-pressure: a row stays until ``i_ready``.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_command": In(FeederCommand()),
                "i_begin": In(1),  # take the command; only while not o_busy
                "o_busy": Out(1),
                "o_done": Out(1),  # the last row of a command has been asked for
                "o_address": Out(STEP),  # row to read now, if o_read
                "o_read": Out(1),
                "o_marks": Out(RowMarks()),  # of the row that the scratchpad shows
                "o_valid": Out(1),
                "i_ready": In(1),
                # With these errors no row is asked for:
                "o_long": Out(1),  # a tile has more than depth rows
                "o_other": Out(1),  # a tile that is to be added to sums has not as many rows as they
                "o_outside": Out(1),  # the next row is not in its memory
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Ask for a row as the one before leaves; marks follow a cycle later, as the row does."""
        m = Module()
        m.submodules.loop = loop = Loop(LEVELS)
        command = Signal.like(self.i_command, reset_less=True)
        begun = Signal()  # the loop is on its first address
        with m.If(self.i_begin):
            m.d.sync += [command.eq(self.i_command), self.o_busy.eq(1)]
        m.d.sync += begun.eq(self.i_begin)
        m.d.comb += [
            loop.i_base.eq(command.reads),
            loop.i_levels.eq(command.levels),
            loop.i_begin.eq(begun),
            loop.i_next.eq(self.o_read),
            self.o_address.eq(loop.o_address),
        ]
        last, next_free = loop.o_last, ~self.o_valid | self.i_ready
        walking = self.o_busy & ~begun
        wrong = self._check(m, command, walking, last)
        m.d.comb += [self.o_read.eq(walking & next_free & ~wrong), self.o_done.eq(self.o_read & last.all())]
        first_row = Signal(init=1)  # of a tile or window
        first_tile = Signal(init=1)  # of a sum
        with m.If(self.o_done):
            m.d.sync += self.o_busy.eq(0)
        with m.If(self.o_read):
            m.d.sync += first_row.eq(last[:2].all())
            with m.If(last[:2].all()):
                m.d.sync += first_tile.eq(last[2:5].all())
        with m.If(next_free):
            m.d.sync += [
                self.o_valid.eq(self.o_read),
                self.o_marks.pool.eq(command.pool),
                self.o_marks.first.eq(first_row),
                self.o_marks.last.eq(last[:2].all()),
                self.o_marks.add.eq(command.add | ~first_tile),
                self.o_marks.bias.eq(command.bias & first_tile),
                self.o_marks.emit.eq(command.emit & last[2:5].all()),
            ]
        return m

    def _check(self, m: Module, command: Any, walking: Value, last: Value) -> Value:
        """Count the rows of a tile, remember those of sums that stay, and return whether the next row is wrong."""
        config = self.config
        wrong = Signal()
        rows = Signal(range(config.depth + 2), init=1)  # of this tile, with the next one
        kept = Signal.like(rows, reset_less=True)
        ends = last[:2].all()
        with m.If(self.o_read & ~command.pool):
            m.d.sync += rows.eq(rows + 1)
            with m.If(ends):
                m.d.sync += [rows.eq(1), kept.eq(rows)]
        tile = walking & ~command.pool
        m.d.comb += [
            self.o_long.eq(tile & (rows > config.depth)),
            self.o_other.eq(tile & command.add & ((rows > kept) | (ends & (rows != kept)))),
            self.o_outside.eq(walking & (self.o_address >= Mux(command.exchange, config.weights, config.rows))),
            wrong.eq(self.o_long | self.o_other | self.o_outside),
        ]
        return wrong
