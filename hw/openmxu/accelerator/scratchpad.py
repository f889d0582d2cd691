"""The scratchpad: rows of operands and results, in two banks where a bus reads and writes, too.

::

    unit or host ─▶ row ─┬─▶ [ even rows ] ─┬─▶ row that the unit has read: stays until it reads another
    store ────────▶ row ─┴─▶ [ odd rows  ] ─┴─▶ row for store

The unit goes before: a store reads a bank that the unit neither reads now nor shows, a load writes one that the unit
does not write. Rows that follow one another are in both banks in turn, so that both go on side by side.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.loop import STEP
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import BF16


def memory_of_lanes(
    m: Module, name: str, depth: int, read: tuple[Value, Value], written: tuple[Value, Value, Value]
) -> Value:
    """Make a memory for each lane, and return what they show.

    They read a row, if it is read, and write a row: its number, its words, and which of them to write.
    """
    shows, count = [], len(written[2])
    for lane in range(count):
        width = len(written[1]) // count
        memory = m.submodules[f"{name}_{lane}"] = Memory(shape=width, depth=depth, init=[])
        reads, writes = memory.read_port(), memory.write_port()
        m.d.comb += [
            reads.addr.eq(read[0]),
            reads.en.eq(read[1]),
            writes.addr.eq(written[0]),
            writes.data.eq(written[1].word_select(lane, width)),
            writes.en.eq(written[2][lane]),
        ]
        shows.append(reads.data)
    return Cat(shows)


class Scratchpad(wiring.Component):
    """A memory of rows, a lane for each word.

    Latency: a row that is read is there a cycle later. Throughput: a row read and a row written in each bank and cycle.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        row = config.size * BF16.width
        super().__init__(
            {
                **dict.fromkeys(("i_row", "i_written", "i_store_row", "i_load_row"), In(STEP)),
                "i_read": In(1),  # read i_row for the unit
                "i_holds": In(1),  # the unit has not taken the row that it read last
                "i_store": In(1),  # read i_store_row for a store, if o_stored
                "i_load": In(1),  # write i_load_row for a load, if o_loaded
                **dict.fromkeys(("i_data", "i_load_data"), In(row)),
                "i_write": In(config.size),  # words of i_data to write at i_written
                **dict.fromkeys(("o_data", "o_store_data"), Out(row)),  # rows that were read last
                **dict.fromkeys(("o_stored", "o_loaded"), Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Give each bank's ports to the unit, or to what moves rows."""
        m = Module()
        if not self.config.beat:
            read, written = (self.i_row, self.i_read), (self.i_written, self.i_data, self.i_write)
            m.d.comb += self.o_data.eq(memory_of_lanes(m, "bank_0", self.config.rows, read, written))
            return m
        rows, shown, stored = [], Signal(), Signal()
        for bank in range(2):
            reads, writes, stores, loads = (
                Signal(name=f"{name}_{bank}") for name in ("reads", "writes", "stores", "loads")
            )
            m.d.comb += [
                reads.eq(self.i_read & (self.i_row[0] == bank)),
                writes.eq(self.i_write.any() & (self.i_written[0] == bank)),
                stores.eq(self.i_store & (self.i_store_row[0] == bank) & ~reads & ~(self.i_holds & (shown == bank))),
                loads.eq(self.i_load & (self.i_load_row[0] == bank) & ~writes),
            ]
            read = Mux(reads, self.i_row, self.i_store_row)[1:], reads | stores
            lanes = Mux(writes, self.i_write, loads.replicate(self.config.size))
            row, data = Mux(writes, self.i_written, self.i_load_row)[1:], Mux(writes, self.i_data, self.i_load_data)
            rows.append(memory_of_lanes(m, f"bank_{bank}", -(-self.config.rows // 2), read, (row, data, lanes)))
            with m.If(reads):
                m.d.sync += shown.eq(bank)
            with m.If(stores):
                m.d.comb += self.o_stored.eq(1)
                m.d.sync += stored.eq(bank)
            with m.If(loads):
                m.d.comb += self.o_loaded.eq(1)
        m.d.comb += [self.o_data.eq(Mux(shown, rows[1], rows[0])), self.o_store_data.eq(Mux(stored, rows[1], rows[0]))]
        return m
