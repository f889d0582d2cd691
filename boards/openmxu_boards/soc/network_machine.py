"""The accelerator in the unit's place: the host writes its memories, and starts programs."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring

from openmxu.accelerator import Accelerator, Stop
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import BF16
from openmxu_boards.protocol import KEEP, START
from openmxu_boards.soc.machine import Buffers, controlled

PATIENCE = 32
"""Bits of the number of cycles after which a program is given up."""


class NetworkMachine(wiring.Component):
    """An accelerator behind the ports of a :class:`~openmxu_boards.soc.machine.Machine`.

    ::

        i_weights ─────▶ [ weights ] ────▶┐
        tiles ─────────▶ [ program ] ────▶[ accelerator ]
        i_activations ─▶ [ scratchpad ] ◀▶┘
                                └─────────▶ o_result

    A tile is a word of the program with its address, or the index of the word to start from with the address
    :data:`~openmxu_boards.protocol.START`, or a word to keep with the address :data:`~openmxu_boards.protocol.KEEP`.
    Each run begins with a reset of the accelerator; memories keep their contents. The word that is kept is 0 after
    any later beat or tile: a host that finds its word again knows that nothing was written or started since.

    Latency: that of the program and two cycles. Back-pressure: on tiles, while a program runs. ``o_counters`` are the
    cycles of the run's last program; tag and index, 16 bits each; whether it ended, 32 bits; the word kept.
    """

    counters = True

    def __init__(self, config: AcceleratorConfig) -> None:
        if config.program > KEEP:
            raise ValueError(f"program must be at most {KEEP} on a board, not {config.program}")
        self.accelerator, self.config = config, config.unit
        self.buffers = Buffers(weights=config.weights, activations=config.rows, results=config.rows)
        self.widths = (config.size * BF16.width,) * 3
        super().__init__(controlled(self.widths, 48, 128, Stop))

    def elaborate(self, platform: object) -> Module:
        """The accelerator, whose memories are the controller's while nothing runs."""
        m = Module()
        resets = Signal()
        m.d.sync += resets.eq(self.i_reset | self.i_start)
        m.submodules.accelerator = accelerator = ResetInserter(resets)(Accelerator(self.accelerator))
        tile, loads = self.tiles, self.i_weights | self.i_activations
        address, word = tile.payload[:16], tile.payload[16:]
        starts, keeps = address == START, address == KEEP
        kept = Signal(32)
        with m.If(loads | tile.valid):
            m.d.sync += kept.eq(Mux(tile.valid & tile.ready & keeps, word, 0))
        cycles = Signal(32)
        with m.If(resets | accelerator.o_running):
            m.d.sync += cycles.eq(Mux(resets, 0, cycles + 1))
        m.d.comb += [
            tile.ready.eq(~accelerator.o_running),
            accelerator.i_start.eq(tile.valid & starts),
            accelerator.i_program.eq(word),
            accelerator.i_write.eq(Cat(tile.valid & ~starts & ~keeps, self.i_weights, self.i_activations)),
            accelerator.i_address.eq(Mux(tile.valid, address, Mux(loads, self.i_address, self.i_read))),
            accelerator.i_data.eq(Mux(tile.valid, word, self.i_beat)),
            self.o_idle.eq(~accelerator.o_running),
            self.o_hangs.eq(accelerator.o_running & cycles[:PATIENCE].all()),
            self.o_beyond.eq(
                (self.i_weights & (self.i_address >= self.buffers.weights))
                | (self.i_activations & (self.i_address >= self.buffers.activations))
                | (tile.valid & ~keeps & (Mux(starts, word, address) >= self.accelerator.program))
            ),
            self.o_counters.eq(Cat(cycles, accelerator.o_tag, accelerator.o_index, accelerator.o_ended, kept << 31)),
            self.o_error.eq(accelerator.o_stop),
            self.o_result.eq(accelerator.o_data),
        ]
        return m
