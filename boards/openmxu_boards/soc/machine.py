"""The unit between buffers: it runs tiles whose operands are in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.marks import TILE_MARKS
from openmxu.unit.mxu import Mxu
from openmxu.unit.status import COUNTERS, Error
from openmxu_boards.protocol import MOST_BEATS as _MOST
from openmxu_boards.soc.feeder import ADDRESS, Feeder

PATIENCE = 1 << 16
"""Cycles without any movement after which a run is given up. A sound unit never waits that long."""


@dataclass(frozen=True)
class Buffers:
    """Sizes of the buffers around a unit, in beats, powers of two from 2 to 65536."""

    weights: int = 256
    activations: int = 256
    results: int = 256
    """The buffers."""
    queue: bool = True
    """Whether activations go through a :class:`~openmxu.unit.queue.Queue`. The unit decides late in a cycle
    whether it takes a beat: without a queue, that decision starts the buffer's next read in the same cycle."""

    def __post_init__(self) -> None:
        for name in ("weights", "activations", "results"):
            size = getattr(self, name)
            if size not in {1 << bits for bits in range(1, ADDRESS + 1)}:
                raise ValueError(f"{name} must be a power of two from 2 to {1 << ADDRESS}, not {size!r}")


class Tile(data.StructLayout):
    """A tile of a run, see :class:`openmxu_boards.protocol.TileJob`; ``count`` is the number of its beats, less one."""

    def __init__(self) -> None:
        marks: Mapping[str, int] = dict.fromkeys(TILE_MARKS, 1)
        super().__init__({"weights": ADDRESS, "activations": ADDRESS, "count": 8, **marks, "padding": 4})


def controlled(widths: Sequence[int], tile: Any, counters: int, error: type[Enum]) -> dict[str, Any]:
    """The members through which the controller drives a machine."""
    return (
        dict.fromkeys(("i_reset", "i_weights", "i_activations", "i_start"), In(1))
        | {"i_address": In(ADDRESS), "i_beat": In(max(widths[:2])), "tiles": In(stream.Signature(tile))}
        | dict.fromkeys(("o_idle", "o_hangs", "o_beyond"), Out(1))
        | {"o_counters": Out(counters), "o_error": Out(error), "i_read": In(ADDRESS), "o_result": Out(widths[2])}
    )


class Machine(wiring.Component):
    """A unit, its operands and its results in memories.

    ::

        i_weights ────▶ [ weights ] ──▶┐
                              ▲        │
        tiles ─────▶( )───────┤        ├─▶ [ unit ] ──▶ [ results ] ──▶ o_result
                              ▼        │
        i_activations ▶ [activations]─▶┘

    The weights of a tile go to the unit while the previous tile runs; nothing is sent twice, and no result waits.

    Latency: that of the unit and ten cycles. Throughput: a beat a cycle, tile after tile, if tiles come fast enough.
    Back-pressure: on tiles.

    The unit gets an error code if it has none, which can be read without its ``counters``, too.

    Members
    -------
    i_reset : In(1)
        Reset unit and feeders, a cycle later. The buffers keep their contents.
    i_weights, i_activations : In(1)
        Write ``i_beat`` to ``i_address`` of this buffer. Not during a run.
    i_start : In(1)
        A run begins: its results go to ``i_address`` and the following addresses; counters are cleared.
    tiles : In(stream of Tile)
        Tiles to run, in order.
    o_idle : Out(1)
        All beats of the taken tiles are in the unit, and all of their results are written.
    o_hangs : Out(1)
        Nothing has moved for 65,536 cycles while ``o_idle`` is low.
    o_beyond : Out(1)
        An address that is used now is not in its buffer.
    o_counters : Out(4 · 32)
        Counters of this run: cycles in which ``o_idle`` was low, and the unit's own busy, input stalls and output
        stalls; no bits without ``counters``.
    o_error : Out(3)
        The first mistake in this run, see :class:`openmxu.unit.status.Error`.
    o_result : Out(width of a result beat)
        The result at ``i_read``, a cycle later.
    """

    def __init__(self, config: MxuConfig, buffers: Buffers, *, counters: bool = True) -> None:
        self.counters = counters
        if config.splitter:
            raise ValueError("config must have no splitter, as the host splits")
        if config.depth > _MOST:
            raise ValueError(f"depth must be at most {_MOST}, as a tile's count has one byte, not {config.depth}")
        self.config = config = replace(config, status=True)
        self.buffers = buffers
        self.widths = (
            config.columns * config.source.width,
            config.rows * config.source.width,
            config.columns * config.result.width,
        )
        super().__init__(controlled(self.widths, Tile(), len(COUNTERS) * 32 * counters, Error))

    def elaborate(self, platform: object) -> Module:
        """Feeders, unit, results, and the watchdog."""
        m = Module()
        config = self.config
        # These reach every register of the unit: so they are registered, and still come before the first tile.
        resets = Signal()
        starts = Signal()
        m.d.sync += [resets.eq(self.i_reset), starts.eq(self.i_start)]
        reset = ResetInserter(resets)
        m.submodules.weights = weights = reset(Feeder(self.widths[0], self.buffers.weights, most=config.rows))
        m.submodules.activations = activations = reset(
            Feeder(
                self.widths[1], self.buffers.activations, most=_MOST, marks=len(TILE_MARKS), queue=self.buffers.queue
            )
        )
        m.submodules.unit = unit = reset(Mxu(config))
        for feeder, write in ((weights, self.i_weights), (activations, self.i_activations)):
            m.d.comb += [feeder.i_write.eq(write), feeder.i_address.eq(self.i_address), feeder.i_beat.eq(self.i_beat)]
        # The unit counts cycles to its last result, but not every run has one.
        cycles = Signal(32)
        with m.If(starts | ~self.o_idle):
            m.d.sync += cycles.eq(Mux(starts, 0, cycles + 1))
        counts = [cycles, *(getattr(unit.status, name) for name in COUNTERS[1:])]
        m.d.comb += [
            unit.weights.valid.eq(weights.o.valid),
            unit.weights.payload.data.eq(weights.o.payload.beat),
            unit.weights.payload.last.eq(weights.o.payload.last),
            weights.o.ready.eq(unit.weights.ready),
            unit.activations.valid.eq(activations.o.valid),
            Value.cast(unit.activations.payload).eq(Value.cast(activations.o.payload)),
            activations.o.ready.eq(unit.activations.ready),
            unit.status.clear.eq(starts),
            self.o_error.eq(unit.status.error),
            self.o_counters.eq(Cat(counts)),
        ]
        self._connect_tiles(m, resets, weights, activations)
        self._store_results(m, resets, unit, weights, activations)
        moved = weights.o.valid & weights.o.ready | activations.o.valid & activations.o.ready | unit.results.valid
        idle = Signal(range(PATIENCE))
        m.d.sync += idle.eq(Mux(moved | self.o_idle, 0, idle + ~self.o_hangs))
        m.d.comb += self.o_hangs.eq(idle == PATIENCE - 1)
        return m

    def _connect_tiles(self, m: Module, resets: Value, weights: Feeder, activations: Feeder) -> None:
        """A tile is taken when both feeders have it; each feeder takes it when it has room."""
        tile, feeds = self.tiles.payload, ((weights, "weights"), (activations, "activations"))
        given = Signal(2)
        gives = Signal(2)
        for number, (feeder, name) in enumerate(feeds):
            wanted = ~given[number] & ~(tile.keep if feeder is weights else 0)
            m.d.comb += [
                feeder.i.valid.eq(self.tiles.valid & wanted),
                feeder.i.payload.address.eq(tile[name]),
                gives[number].eq(feeder.i.ready | ~wanted),
            ]
        m.d.comb += [
            weights.i.payload.count.eq(self.config.rows),
            activations.i.payload.count.eq(tile.count + 1),
            activations.i.payload.marks.eq(Cat(tile[mark] for mark in TILE_MARKS)),
            self.tiles.ready.eq(gives.all()),
        ]
        with m.If(self.tiles.valid):
            m.d.sync += given.eq(Mux(gives.all(), 0, gives))
        with m.If(resets):
            m.d.sync += given.eq(0)

    def _store_results(self, m: Module, resets: Value, unit: Mxu, weights: Feeder, activations: Feeder) -> None:
        """Store results one after the other, and count those that the taken tiles still owe."""
        m.submodules.results = results = Memory(shape=self.widths[2], depth=self.buffers.results, init=[])
        write = results.write_port()
        read = results.read_port()
        # A tile waits in the feeders, another one moves through them, and the sums of a third are in the unit.
        address = Signal(range(2 * self.buffers.results))
        outstanding = Signal(range(4 * _MOST))
        tile, arrives = self.tiles.payload, unit.results.valid
        awaited = Mux(self.tiles.valid & self.tiles.ready & tile.emit, tile.count + 1, 0)
        beyond = weights.o_beyond | activations.o_beyond | (arrives & address[-1])
        m.d.comb += [
            unit.results.ready.eq(1),
            write.addr.eq(address),
            write.data.eq(unit.results.payload.data),
            write.en.eq(arrives),
            read.addr.eq(self.i_read),
            self.o_result.eq(read.data),
            self.o_idle.eq(~weights.o_busy & ~activations.o_busy & (outstanding == 0)),
        ]
        m.d.sync += [address.eq(address + arrives), outstanding.eq(outstanding + awaited - arrives)]
        m.d.comb += self.o_beyond.eq(beyond)
        with m.If(self.i_start):
            inside = len(address) - 1
            m.d.sync += address.eq(Cat(self.i_address[:inside], self.i_address[inside:].any()))
        with m.If(resets):
            m.d.sync += outstanding.eq(0)
