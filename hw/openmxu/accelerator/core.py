"""The accelerator: the unit, and what runs a program of commands on it without a host.

::

    program ─▶ [ fetch ] ── command ─┬───────────────┬──────────────┐
                                     ▼               ▼              ▼
    weights ─────────────────▶ [ weights ]      [ feeder ]      [ writer ]
                                     │ biases        │ rows         │
                                     ▼               ▼              │
    scratchpad ──▶ row ──────▶ [          unit          ] ──────────┤
        ▲           └────────▶ [          pool          ] ──────────┤
        └───────────────────────────────────────────────────────────┘

Memories have one port for reading and one for writing, a row in a cycle. While no program runs, they are the host's.
With a bus, a loader and a storer share the scratchpad with the unit, which goes before.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.errors import Stop
from openmxu.accelerator.feeder import Feeder
from openmxu.accelerator.fetch import Fetch, host_ports
from openmxu.accelerator.loop import STEP
from openmxu.accelerator.movers.bursts import WORD
from openmxu.accelerator.movers.loader import Loader
from openmxu.accelerator.movers.port import BusPort
from openmxu.accelerator.movers.storer import Storer
from openmxu.accelerator.pool import Pool
from openmxu.accelerator.scratchpad import Scratchpad, memory_of_lanes
from openmxu.accelerator.weights import WeightReader
from openmxu.accelerator.writer import Writer
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import KINDS
from openmxu.spec.formats import BF16
from openmxu.unit.axi import connect_ports
from openmxu.unit.mxu import Mxu
from openmxu.unit.queue import Queue

MEMORIES = ("program", "weights", "scratchpad")

_LOAD, _STORE = 1, 2

_PATIENCE = 16
"""Bits of the cycles in which nothing moves, until a program stops."""


def _give(m: Module, command: Any, words: Any, **others: ValueLike) -> None:
    """Assign an engine's command: fields of the same name in the words, but for others."""
    for name in command.shape().members:
        m.d.comb += command[name].eq(others[name] if name in others else words[name])


class Accelerator(wiring.Component):
    """Runs programs of :mod:`openmxu.spec.commands`; without a bus ``load`` and ``store`` stop it.

    Cycles: a ``matmul`` of T tiles of m rows takes ``T · max(m, shortest_tile)`` cycles, if its weights are read
    meanwhile. A command that waits for another one begins ``config.unit.latency`` + 6 cycles after its last row.

    Parameters
    ----------
    config
        Sizes.

    Members
    -------
    i_start : In(1)
    i_program : In(log2(program))
        See :func:`~openmxu.accelerator.fetch.host_ports`, as for the outputs of the same name.
    o_running, o_ended : Out(1)
    o_tag, o_index : Out(16)
    o_stop : Out(Stop)
    i_write : In(3)
        Write ``i_data`` at ``i_address``: to the program, the weights, the scratchpad. Only while not ``o_running``.
    i_address : In(24)
    i_data : In(the widest row)
    o_data : Out(size · 16)
        The row of the scratchpad at ``i_address`` of the cycle before; only while not ``o_running``.
    bus : Out(BusPort)
        With a bus, as those that follow.
    i_halt : In(1)
        Stop now.
    i_window : In(32)
        Words of the window of the bus, at most 2^31; outside it nothing is read or written.
    o_quiet : Out(1)
        Nothing is asked of the bus that it has not answered.
    """

    module_name = "accelerator"
    """Name of the exported module."""

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        row = config.size * BF16.width
        super().__init__(
            {
                **host_ports(config),
                "i_write": In(len(MEMORIES)),
                "i_address": In(KINDS["matmul"].fields["weights"].width),
                "i_data": In(max(row, 32)),
                "o_data": Out(row),
                **({"bus": Out(BusPort(config)), "i_window": In(WORD)} if config.beat else {}),
                **({"i_halt": In(1), "o_quiet": Out(1)} if config.beat else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the parts."""
        m = Module()
        config = self.config
        m.submodules.fetch = fetch = Fetch(config)
        m.submodules.weights = weights = WeightReader(config)
        m.submodules.feeder = feeder = Feeder(config)
        m.submodules.mxu = mxu = Mxu(config.unit, biased=True)
        m.submodules.pool = pool = Pool(config)
        m.submodules.writer = writer = Writer(config)
        m.submodules.scratchpad = Scratchpad(config)
        if config.beat:
            m.submodules.loader = Loader(config)
            m.submodules.storer = Storer(config)
            self._connect_movers(m)
        connect_ports(m, self, fetch, host_ports(config))
        self._begin(m)
        self._stop(m)
        self._connect_scratchpad(m)
        rows = self._connect_memories(m)
        # The unit decides late in a cycle whether it takes a row; the scratchpad's reads need not wait for that.
        m.submodules.queue = queue = Queue(mxu.activations.payload.shape())
        wiring.connect(m, weights.o, mxu.weights)
        wiring.connect(m, queue.o, mxu.activations)
        wiring.connect(m, mxu.results, writer.unit)
        wiring.connect(m, pool.o, writer.pool)
        marks = feeder.o_marks
        m.d.comb += [
            mxu.i_biases.eq(weights.o_biases),
            mxu.i_bias_write.eq(weights.o_bias_write),
            queue.i.payload.data.eq(rows),
            *(queue.i.payload[mark].eq(marks[mark]) for mark in ("first", "last", "add", "bias", "emit")),
            queue.i.valid.eq(feeder.o_valid & ~marks.pool),
            pool.i_row.eq(self.o_data),
            *(getattr(pool, f"i_{mark}").eq(marks[mark]) for mark in ("first", "last")),
            pool.i_valid.eq(feeder.o_valid & marks.pool),
            feeder.i_ready.eq(Mux(marks.pool, pool.o_ready, queue.i.ready)),
            writer.i_fed.eq(feeder.o_done),
        ]
        return m

    def _begin(self, m: Module) -> None:
        """Give each engine its part of the command that begins; levels are those of a matmul, or of a pool."""
        parts, matmul, pool = m.submodules, KINDS["matmul"], KINDS["pool"]
        fetch, weights, feeder, writer = parts.fetch, parts.weights, parts.feeder, parts.writer
        words, levels, is_pool = fetch.o_words, fetch.o_words.levels, fetch.is_a("pool")
        m.d.comb += [
            fetch.i_ready.eq(~feeder.o_busy & writer.o_ready),
            fetch.i_ready_weights.eq(~weights.o_busy),
            fetch.i_drained.eq(~(feeder.o_valid | weights.o_busy | weights.o_shown)),
            fetch.i_finished.eq(writer.o_done),
            feeder.i_begin.eq(fetch.o_begin),
            weights.i_begin.eq(fetch.o_begin_weights),
            writer.i_begin.eq(fetch.o_begin),
            writer.i_stop.eq(fetch.o_stop != Stop.NONE),
        ]
        # A pool has one level less than a matmul: its last word is 0, and stands for a loop of one trip. `Cat` joins
        # the bits of the feeder's array of levels, in each of which trips come before the step.
        read = Cat(levels[:-1], Mux(is_pool, 1, levels[-1].trips), levels[-1].step)
        # The writer walks the levels along which results differ. Their trips stand at other levels in a pool than in a
        # matmul, their steps in the same words of both.
        written = [
            Cat(Mux(is_pool, levels[pool.levels.index(b)].trips, levels[matmul.levels.index(a)].trips), step[:STEP])
            for a, b, step in zip(matmul.others, pool.others, words.others, strict=True)
        ]
        _give(m, feeder.i_command, words, pool=is_pool, bias=words.bias & ~words.exchange, levels=read)
        _give(m, writer.i_command, words, pool=is_pool, emit=words.emit | is_pool, levels=Cat(written))
        _give(m, weights.i_command, words, trips=Cat(level.trips for level in levels[2:]))

    def _stop(self, m: Module) -> None:
        """Stop all when a part finds something wrong; a later row goes before. A number says which mover did."""
        parts, rows = m.submodules, list[tuple[Stop, Value, int]]()
        if self.config.beat:
            loader, storer = parts.loader, parts.storer
            rows += [
                (Stop.HOST, self.i_halt, 0),
                (Stop.TIME, self._stands_still(m), 0),
                (Stop.BUS, self.bus.error, _STORE),
                (Stop.BUS, self.bus.read.error, _LOAD),
                (Stop.WINDOW, storer.o_outside, _STORE),
                (Stop.WINDOW, loader.o_outside, _LOAD),
                (Stop.WRITE, loader.o_absent, _LOAD),
                (Stop.READ, storer.o_absent, _STORE),
            ]
        rows += [
            (Stop.WEIGHTS, parts.weights.o_outside, 0),
            (Stop.WRITE, parts.writer.o_outside, 0),
            (Stop.READ, parts.feeder.o_outside, 0),
            (Stop.TILE, parts.feeder.o_long, 0),
            (Stop.SUMS, parts.feeder.o_other, 0),
        ]
        for stop, seen, mover in rows:
            with m.If(seen):
                m.d.comb += [parts.fetch.i_stop.eq(stop), parts.fetch.i_movers.eq(mover)]

    def _stands_still(self, m: Module) -> Value:
        """Return whether nothing has moved for so long that it never will."""
        still = Signal(_PATIENCE)
        bus, parts = self.bus, m.submodules
        taken = Cat(burst.valid & burst.ready for burst in (bus.reads, bus.writes, bus.written)).any()
        moves = parts.fetch.o_begin | taken | bus.read.valid | parts.feeder.o_read | parts.weights.o_read
        m.d.sync += still.eq(Mux(moves | ~self.o_running, 0, still + 1))
        return still.all()

    def _connect_scratchpad(self, m: Module) -> None:
        """Give the scratchpad to the host, or to the engine that reads it, and to the writer."""
        parts, scratchpad = m.submodules, m.submodules.scratchpad
        weights, feeder, writer = parts.weights, parts.feeder, parts.writer
        host, exchanged = ~self.o_running, parts.fetch.o_exchanged
        m.d.comb += [
            scratchpad.i_row.eq(Mux(host, self.i_address, Mux(exchanged, weights.o_address, feeder.o_address))),
            scratchpad.i_read.eq(Mux(exchanged, weights.o_read, feeder.o_read) | host),
            scratchpad.i_holds.eq(Mux(exchanged, weights.o_busy | weights.o_shown, feeder.o_valid & ~feeder.i_ready)),
            self.o_data.eq(scratchpad.o_data),
            scratchpad.i_written.eq(Mux(writer.o_write, writer.o_row, self.i_address)),
            scratchpad.i_data.eq(Mux(writer.o_write, writer.o_data, self.i_data)),
            scratchpad.i_write.eq(Mux(writer.o_write, writer.o_lanes, self._writes("scratchpad", self.config.size))),
        ]

    def _connect_movers(self, m: Module) -> None:
        """Give the movers their commands, rows and bus."""
        parts, words = m.submodules, m.submodules.fetch.o_words
        scratchpad, loader, storer = parts.scratchpad, parts.loader, parts.storer
        for engine, mover in ((parts.fetch.load, loader), (parts.fetch.store, storer)):
            wiring.connect(m, engine, mover.engine)
            m.d.comb += [mover.i_window.eq(self.i_window), mover.i_stop.eq(self.o_stop != Stop.NONE)]
        _give(m, loader.i_command, words)
        _give(m, storer.i_command, words, into_weights=0)
        wiring.connect(m, wiring.flipped(self.bus.reads), loader.requests)
        wiring.connect(m, wiring.flipped(self.bus.writes), storer.requests)
        wiring.connect(m, wiring.flipped(self.bus.written), storer.beats)
        m.d.comb += [
            scratchpad.i_load.eq(loader.o_write & ~loader.o_into_weights),
            scratchpad.i_load_row.eq(loader.o_row),
            scratchpad.i_load_data.eq(loader.o_data),
            loader.i_taken.eq(scratchpad.o_loaded | (loader.o_write & loader.o_into_weights)),
            scratchpad.i_store.eq(storer.o_read),
            scratchpad.i_store_row.eq(storer.o_row),
            storer.i_granted.eq(scratchpad.o_stored),
            storer.i_data.eq(scratchpad.o_store_data),
            storer.i_quiet.eq(self.bus.quiet),
            self.o_quiet.eq(loader.o_quiet & storer.o_quiet),
            loader.i_beat.eq(self.bus.read),
        ]

    def _connect_memories(self, m: Module) -> Value:
        """Make the other memories, and return the row that the feeder has read."""
        parts, config, exchanged = m.submodules, self.config, m.submodules.fetch.o_exchanged
        weights, feeder, scratchpad = parts.weights, parts.feeder, parts.scratchpad
        written = self.i_address, self.i_data[:32], self._writes("program")
        program = memory_of_lanes(m, "program", config.program, (parts.fetch.o_address, Const(1)), written)
        read = (Mux(exchanged, getattr(feeder, port), getattr(weights, port)) for port in ("o_address", "o_read"))
        row, words, lanes = self.i_address, self.i_data[: len(self.o_data)], self._writes("weights", config.size)
        if config.beat:
            loader = parts.loader
            loads = loader.o_write & loader.o_into_weights
            row, words = Mux(loads, loader.o_row, row), Mux(loads, loader.o_data, words)
            lanes |= loads.replicate(config.size)
        tile = memory_of_lanes(m, "weights", config.weights, tuple(read), (row, words, lanes))
        m.d.comb += [parts.fetch.i_word.eq(program), weights.i_row.eq(Mux(exchanged, scratchpad.o_data, tile))]
        return Mux(exchanged, tile, scratchpad.o_data)

    def _writes(self, memory: str, lanes: int = 1) -> Value:
        """Return which lanes of a memory the host writes."""
        return (self.i_write[MEMORIES.index(memory)] & ~self.o_running).replicate(lanes)
