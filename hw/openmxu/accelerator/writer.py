"""Writes results to the scratchpad: sums of the unit, rounded to bf16, behind ReLU and clip, or those of the pool.

::

    unit ─┐
    pool ─┴─▶ [ ] ─▶ round ─▶ relu ─▶ clip ─▶ [ ] ─▶ scratchpad
    [ loop ] ─▶ [ ] ────────────────── row ─▶ [ ]
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import STEP, LevelLayout, Loop
from openmxu.arith.converter import Converter
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import BF16, FP32
from openmxu.unit.accumulator import ResultBeat

LEVELS = 3


class WriterCommand(data.StructLayout):
    """The part of a command that says what is written."""

    def __init__(self) -> None:
        super().__init__(
            {
                "writes": STEP,  # the first row
                "levels": data.ArrayLayout(LevelLayout(), LEVELS),
                "pool": 1,  # results of the pool; else of the unit
                "emit": 1,  # there are results
                "relu": 1,  # negative words become +0; not for a pool, nor is clip
                "clip": 1,  # words above high become high
                "exchange": 1,  # of result i word i modulo N alone is written
                "high": BF16.width,
            }
        )


def _activated(word: Value, command: Any) -> Value:
    negative = command.relu & word[-1]
    too_large = command.clip & ~word[-1] & (word > command.high) & (word <= BF16.overflow)
    return Mux(negative, 0, Mux(too_large, command.high, word))


class Writer(wiring.Component):
    """The rows that commands write.

    A command is finished when its last row is in the scratchpad; one without results when all of its rows are fed.

    Latency: a row is written two cycles after it is taken. Throughput: a row in a cycle. Back-pressure: results of
    the unit wait only for those of earlier commands.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        row = config.size * BF16.width
        super().__init__(
            {
                "i_command": In(WriterCommand()),
                "i_begin": In(1),  # take the command; only while o_ready
                "i_fed": In(1),  # the rows of a command have all been asked for
                "i_stop": In(1),  # write nothing
                "o_ready": Out(1),
                "unit": In(stream.Signature(ResultBeat(FP32, config.size))),
                "pool": In(stream.Signature(row)),
                "o_row": Out(STEP),  # row that is written now, if o_write
                "o_data": Out(row),
                "o_lanes": Out(config.size),  # words to write
                "o_write": Out(1),
                "o_done": Out(1),  # a command is finished
                "o_outside": Out(1),  # the next row is not in the scratchpad; it is not written
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Take commands in their order, and the results of each from where they come."""
        m = Module()
        m.submodules.loop = loop = Loop(LEVELS)
        command = Signal.like(self.i_command, reset_less=True)
        following = Signal.like(self.i_command, reset_less=True)  # the command behind it
        busy, begun, waits = Signal(), Signal(), Signal()
        begins, ends = Signal(), Signal()
        m.d.comb += [
            self.o_ready.eq(~waits),
            begins.eq(waits & ~busy),
            loop.i_base.eq(command.writes),
            loop.i_levels.eq(command.levels),
            loop.i_begin.eq(begun),
        ]
        with m.If(self.i_begin):
            m.d.sync += following.eq(self.i_command)
        with m.If(begins):
            m.d.sync += command.eq(following)
        ended = Signal()
        m.d.sync += [
            waits.eq(self.i_begin | (waits & ~begins)),
            busy.eq(begins | (busy & ~ends)),
            begun.eq(begins),
            ended.eq(ends),
            self.o_done.eq(ended),
        ]
        self._write(m, command, loop, busy & ~begun, ends)
        return m

    def _write(self, m: Module, command: Any, loop: Loop, walking: Value, ends: Signal) -> None:
        """Take the results of the command, and write each after two cycles: it is rounded in the second."""
        fed = Signal(2)  # commands, of the two here, that are fed
        m.d.sync += fed.eq(fed + self.i_fed - ends)
        goes = walking & command.emit & ~self.i_stop & ~self.o_outside
        valid = Mux(command.pool, self.pool.valid, self.unit.valid)
        taken = Signal()
        m.d.comb += [
            self.o_outside.eq(walking & command.emit & (loop.o_address >= self.config.rows)),
            self.unit.ready.eq(goes & ~command.pool),
            self.pool.ready.eq(goes & command.pool),
            taken.eq(goes & valid),
            loop.i_next.eq(taken),
            ends.eq(Mux(command.emit, taken & loop.o_last.all(), walking & (fed != 0)) & ~self.i_stop),
        ]
        took, lanes = Signal(), Signal(self.config.size)
        lane = Signal(self.config.size, init=1)  # of the next result
        with m.If(loop.i_begin):
            m.d.sync += lane.eq(1)
        with m.Elif(taken):
            m.d.sync += lane.eq(lane.rotate_left(1))
        row = Signal.like(self.o_row)
        sums, largest = Signal.like(self.unit.payload.data), Signal.like(self.pool.payload)
        how = Signal.like(command)
        activated = []
        for index in range(self.config.size):
            m.submodules[f"rounded_{index}"] = rounded = Converter(FP32, BF16)
            m.d.comb += rounded.i.eq(sums[index])
            activated.append(Mux(how.pool, largest.word_select(index, BF16.width), _activated(rounded.o, how)))
        m.d.sync += [
            took.eq(taken),
            row.eq(loop.o_address),
            sums.eq(self.unit.payload.data),
            largest.eq(self.pool.payload),
            how.eq(command),
            self.o_write.eq(took & ~self.i_stop),
            lanes.eq(lane | (~command.exchange).replicate(self.config.size)),
            self.o_lanes.eq(lanes),
            self.o_row.eq(row),
            self.o_data.eq(Cat(activated)),
        ]
