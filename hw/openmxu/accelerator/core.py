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

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.errors import Stop
from openmxu.accelerator.feeder import Feeder
from openmxu.accelerator.fetch import INDEX, Fetch
from openmxu.accelerator.movers.loader import Loader
from openmxu.accelerator.movers.port import BusPort
from openmxu.accelerator.movers.storer import Storer
from openmxu.accelerator.movers.walk import WORD
from openmxu.accelerator.pool import Pool
from openmxu.accelerator.scratchpad import Scratchpad
from openmxu.accelerator.weights import WeightReader
from openmxu.accelerator.writer import Writer
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import KINDS
from openmxu.spec.formats import BF16
from openmxu.unit.mxu import Mxu
from openmxu.unit.queue import Queue

MEMORIES = ("program", "weights", "scratchpad")

_LOAD, _STORE = 1, 2

_PATIENCE = 16
"""Bits of the cycles in which nothing moves, until a program stops."""


class _Parts(NamedTuple):
    fetch: Fetch
    weights: WeightReader
    feeder: Feeder
    writer: Writer


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
        See :class:`~openmxu.accelerator.fetch.Fetch`, as for the outputs of the same name.
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
                "i_start": In(1),
                "i_program": In(range(config.program)),
                **dict.fromkeys(("o_running", "o_ended"), Out(1)),
                **dict.fromkeys(("o_tag", "o_index"), Out(INDEX)),
                "o_stop": Out(Stop),
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
        m.submodules.scratchpad = scratchpad = Scratchpad(config)
        movers = self._connect_movers(m, fetch, scratchpad) if config.beat else None
        self._connect_host(m, fetch)
        parts = _Parts(fetch, weights, feeder, writer)
        self._split_command(m, parts)
        self._stop(m, parts, movers)
        self._connect_scratchpad(m, scratchpad, parts)
        rows = self._connect_memories(m, scratchpad, parts, movers[0] if movers else None)
        # The unit decides late in a cycle whether it takes a row; the scratchpad's reads need not wait for that.
        m.submodules.queue = queue = Queue(mxu.activations.payload.shape())
        wiring.connect(m, weights.o, mxu.weights)
        wiring.connect(m, queue.o, mxu.activations)
        marks = feeder.o_marks
        m.d.comb += [
            mxu.i_biases.eq(weights.o_biases),
            mxu.i_bias_write.eq(weights.o_bias_write),
            queue.i.payload.data.as_value().eq(rows),
            *(queue.i.payload[mark].eq(marks[mark]) for mark in ("first", "last", "add", "bias", "emit")),
            queue.i.valid.eq(feeder.o_valid & ~marks.pool),
            pool.i_row.eq(self.o_data),
            *(getattr(pool, f"i_{mark}").eq(marks[mark]) for mark in ("first", "last")),
            pool.i_valid.eq(feeder.o_valid & marks.pool),
            feeder.i_ready.eq(Mux(marks.pool, pool.o_ready, queue.i.ready)),
            writer.i_unit.eq(Value.cast(mxu.results.payload.data)),
            writer.i_unit_valid.eq(mxu.results.valid),
            mxu.results.ready.eq(writer.o_unit_ready),
            writer.i_pool.eq(pool.o_row),
            writer.i_pool_valid.eq(pool.o_valid),
            pool.i_taken.eq(writer.o_pool_ready),
            writer.i_fed.eq(feeder.o_done),
        ]
        return m

    def _connect_host(self, m: Module, fetch: Fetch) -> None:
        m.d.comb += [fetch.i_start.eq(self.i_start), fetch.i_program.eq(self.i_program)]
        for name in ("running", "ended", "tag", "index", "stop"):
            m.d.comb += getattr(self, f"o_{name}").eq(getattr(fetch, f"o_{name}"))

    def _split_command(self, m: Module, parts: _Parts) -> None:
        """Give each engine its part of the command that begins."""
        fetch, weights, feeder, writer = parts
        matmul = KINDS["matmul"]
        is_pool, field = Signal(), fetch.field
        m.d.comb += [
            is_pool.eq(fetch.is_a("pool")),
            fetch.i_ready.eq(~feeder.o_busy & writer.o_ready),
            fetch.i_ready_weights.eq(~weights.o_busy),
            fetch.i_drained.eq(~(feeder.o_valid | weights.o_busy | weights.o_shown)),
            fetch.i_finished.eq(writer.o_done),
            feeder.i_begin.eq(fetch.o_begin),
            weights.i_begin.eq(fetch.o_begin_weights),
            writer.i_begin.eq(fetch.o_begin),
            writer.i_stop.eq(fetch.o_stop != Stop.NONE),
            feeder.i_command.base.eq(field(matmul.fields["reads"])),
            feeder.i_command.pool.eq(is_pool),
            writer.i_command.base.eq(field(matmul.fields["writes"])),
            writer.i_command.pool.eq(is_pool),
            writer.i_command.emit.eq(field(matmul.fields["emit"]) | is_pool),
            *(feeder.i_command[name].eq(field(matmul.fields[name])) for name in ("add", "emit", "exchange")),
            feeder.i_command.bias.eq(field(matmul.fields["bias"]) & ~field(matmul.fields["exchange"])),
            *(writer.i_command[name].eq(field(matmul.fields[name])) for name in ("relu", "clip", "high", "exchange")),
            weights.i_command.address.eq(field(matmul.fields["weights"])),
            *(weights.i_command[name].eq(field(matmul.fields[name])) for name in ("bias", "exchange")),
        ]
        self._split_loops(m, parts)

    def _stop(self, m: Module, parts: _Parts, movers: tuple[Loader, Storer] | None) -> None:
        """Stop all when a part finds something wrong; a later row goes before. A number says which mover did."""
        fetch, weights, feeder, writer = parts
        rows: list[tuple[Stop, Value, int]] = []
        if movers is not None:
            loader, storer = movers
            rows += [
                (Stop.HOST, self.i_halt, 0),
                (Stop.TIME, self._stands_still(m, parts), 0),
                (Stop.BUS, self.bus.error, _STORE),
                (Stop.BUS, loader.o_error, _LOAD),
                (Stop.WINDOW, storer.o_outside, _STORE),
                (Stop.WINDOW, loader.o_outside, _LOAD),
                (Stop.WRITE, loader.o_absent, _LOAD),
                (Stop.READ, storer.o_absent, _STORE),
            ]
        rows += [
            (Stop.WEIGHTS, weights.o_outside, 0),
            (Stop.WRITE, writer.o_outside, 0),
            (Stop.READ, feeder.o_outside, 0),
            (Stop.TILE, feeder.o_long, 0),
            (Stop.SUMS, feeder.o_other, 0),
        ]
        for stop, seen, mover in rows:
            with m.If(seen):
                m.d.comb += fetch.i_stop.eq(stop)
                if movers is not None:
                    m.d.comb += Cat(fetch.i_stop_load, fetch.i_stop_store).eq(mover)

    def _split_loops(self, m: Module, parts: _Parts) -> None:
        """Give each engine its levels: a matmul's names of them, or a pool's."""
        fetch, weights, feeder, writer = parts
        matmul, pool = KINDS["matmul"], KINDS["pool"]
        is_pool = fetch.is_a("pool")
        trips = [fetch.field(place) for place in matmul.trips().values()]
        for level, place in enumerate(matmul.steps(1).values()):
            # A pool has a level less.
            some = trips[level] if level < len(pool.levels) else Mux(is_pool, 1, trips[level])
            m.d.comb += [
                feeder.i_command.levels[level].trips.eq(some),
                feeder.i_command.levels[level].step.eq(fetch.field(place)),
            ]
        m.d.comb += [count.eq(trips[2 + index]) for index, count in enumerate(weights.i_command.trips)]
        for index, place in enumerate(matmul.steps(2).values()):
            written = [trips[kind.levels.index(kind.others[index])] for kind in (matmul, pool)]
            level = writer.i_command.levels[index]
            m.d.comb += [level.trips.eq(Mux(is_pool, written[1], written[0])), level.step.eq(fetch.field(place))]

    def _connect_scratchpad(self, m: Module, scratchpad: Scratchpad, parts: _Parts) -> None:
        """Give the scratchpad to the host, or to the engine that reads it, and to the writer."""
        fetch, weights, feeder, writer = parts
        host, exchanged = ~self.o_running, fetch.o_exchanged
        m.d.comb += [
            scratchpad.i_row.eq(Mux(host, self.i_address, Mux(exchanged, weights.o_address, feeder.o_address))),
            scratchpad.i_read.eq(Mux(exchanged, weights.o_read, feeder.o_read) | host),
            scratchpad.i_holds.eq(Mux(exchanged, weights.o_busy | weights.o_shown, feeder.o_valid & ~feeder.i_ready)),
            self.o_data.eq(scratchpad.o_data),
            scratchpad.i_written.eq(self.i_address),
            scratchpad.i_data.eq(self.i_data),
            scratchpad.i_write.eq(self._writes("scratchpad").replicate(self.config.size)),
        ]
        with m.If(writer.o_write):
            m.d.comb += [
                scratchpad.i_written.eq(writer.o_row),
                scratchpad.i_data.eq(writer.o_data),
                scratchpad.i_write.eq(writer.o_lanes),
            ]

    def _connect_movers(self, m: Module, fetch: Fetch, scratchpad: Scratchpad) -> tuple[Loader, Storer]:
        """Make the movers, and give them their commands, rows and bus."""
        m.submodules.loader = loader = Loader(self.config)
        m.submodules.storer = storer = Storer(self.config)
        self._begin_mover(m, fetch, "load", loader)
        self._begin_mover(m, fetch, "store", storer)
        wiring.connect(m, wiring.flipped(self.bus.reads), loader.requests)
        wiring.connect(m, wiring.flipped(self.bus.writes), storer.requests)
        wiring.connect(m, wiring.flipped(self.bus.written), storer.beats)
        m.d.comb += [
            loader.i_command.into_weights.eq(fetch.field(KINDS["load"].fields["into_weights"])),
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
        return loader, storer

    def _begin_mover(self, m: Module, fetch: Fetch, name: str, mover: Loader | Storer) -> None:
        """Give a mover its part of the command that begins."""
        kind, command = KINDS[name], mover.i_command
        m.d.comb += [
            *(command[field].eq(fetch.field(kind.fields[field])) for field in ("rows", "valid", "address")),
            mover.i_begin.eq(getattr(fetch, f"o_begin_{name}")),
            mover.i_window.eq(self.i_window),
            mover.i_stop.eq(fetch.o_stop != Stop.NONE),
            getattr(fetch, f"i_ready_{name}").eq(~mover.o_busy),
            getattr(fetch, f"i_finished_{name}").eq(mover.o_done),
        ]
        for part, levels in ((1, command.rows_levels), (2, command.address_levels)):
            for level, (trips, step) in enumerate(zip(kind.trips().values(), kind.steps(part).values(), strict=True)):
                m.d.comb += [levels[level].trips.eq(fetch.field(trips)), levels[level].step.eq(fetch.field(step))]

    def _stands_still(self, m: Module, parts: _Parts) -> Value:
        """Return whether nothing has moved for so long that it never will."""
        still, bus = Signal(_PATIENCE), self.bus
        taken = Cat(burst.valid & burst.ready for burst in (bus.reads, bus.writes, bus.written)).any()
        moves = parts.fetch.o_begin | taken | bus.read.valid | parts.feeder.o_read | parts.weights.o_read
        m.d.sync += still.eq(Mux(moves | ~self.o_running, 0, still + 1))
        return still.all()

    def _connect_memories(self, m: Module, scratchpad: Scratchpad, parts: _Parts, loader: Loader | None) -> Value:
        """Make the other memories, one for each lane, and return the row that the feeder has read."""
        fetch, weights, feeder, _ = parts
        config, exchanged = self.config, fetch.o_exchanged
        program = self._memory(m, "program", 0, 32, config.program)[0]
        m.d.comb += [program.addr.eq(fetch.o_address), fetch.i_word.eq(program.data)]
        tiles = []
        for lane in range(config.size):
            weight, write = self._memory(m, "weights", lane, BF16.width, config.weights)
            m.d.comb += [
                weight.addr.eq(Mux(exchanged, feeder.o_address, weights.o_address)),
                weight.en.eq(Mux(exchanged, feeder.o_read, weights.o_read)),
            ]
            if loader is not None:
                with m.If(loader.o_write & loader.o_into_weights):
                    word = loader.o_data.word_select(lane, BF16.width)
                    m.d.comb += [write.addr.eq(loader.o_row), write.data.eq(word), write.en.eq(1)]
            tiles.append(weight.data)
        m.d.comb += weights.i_row.eq(Mux(exchanged, scratchpad.o_data, Cat(tiles)))
        return Mux(exchanged, Cat(tiles), scratchpad.o_data)

    def _memory(self, m: Module, name: str, lane: int, width: int, depth: int) -> tuple[ReadPort, WritePort]:
        """Make a memory that the host writes while nothing runs, and return its ports."""
        memory = m.submodules[f"{name}_{lane}"] = Memory(shape=width, depth=depth, init=[])
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            write.addr.eq(self.i_address),
            write.data.eq(self.i_data.word_select(lane, width)),
            write.en.eq(self._writes(name)),
        ]
        return read, write

    def _writes(self, name: str) -> Value:
        return self.i_write[MEMORIES.index(name)] & ~self.o_running
