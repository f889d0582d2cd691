# amaranth: UnusedElaboratable=no
# (a netlist may leave a component out of which a simulator has its own)
"""Memories as modules of their own, which another memory can replace.

Components use Amaranth's memories. The export changes each of them through Amaranth's hook for platforms: a memory
that can be wrapped becomes an instance of a module that contains nothing else.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Instance, Module, Shape, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

MEMORIES = ("inline", "wrapped")
"""Places of memories in an exported file: in the modules that use them, or in modules of their own."""


def check_memories(memories: str) -> str:
    """Return ``memories`` if it is one of :data:`MEMORIES`."""
    if memories not in MEMORIES:
        raise ValueError(f"memories must be one of {', '.join(MEMORIES)}, not {memories!r}")
    return memories


class WrappedMemory(wiring.Component):
    """A memory and its ports, and nothing else.

    Word ``write_N_addr`` becomes ``write_N_data`` at a clock edge with ``write_N_en``. ``read_N_data`` becomes word
    ``read_N_addr`` at a clock edge with ``read_N_en``, and holds it until the next one. A read of a word at the edge at
    which it is written gives the old word; a :class:`~openmxu.unit.mxu.Mxu` never does that.

    Latency: one cycle from ``read_N_addr`` to ``read_N_data``. Throughput: one access per port and cycle. There is no
    reset: words are zero until they are written, which a unit does not need either.

    Parameters
    ----------
    depth
        Words.
    width
        Bits of a word.
    reads, writes
        Number of ports of each kind.

    Members
    -------
    clk : In(1)
        Rising edges count.
    read_N_en, write_N_en : In(1)
    read_N_addr, write_N_addr : In(log2(depth))
    read_N_data : Out(width)
    write_N_data : In(width)
        N counts the ports of a kind from 0.
    """

    def __init__(self, depth: int, width: int, reads: int, writes: int) -> None:
        self.depth = depth
        self.width = width
        self.reads = reads
        self.writes = writes
        ports: dict[str, Any] = {"clk": In(1)}
        for kind, count, data in (("read", reads, Out), ("write", writes, In)):
            for number in range(count):
                port = f"{kind}_{number}"
                ports |= {
                    f"{port}_en": In(1),
                    f"{port}_addr": In((depth - 1).bit_length()),
                    f"{port}_data": data(width),
                }
        super().__init__(ports)

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"memory_d{self.depth}_w{self.width}_r{self.reads}w{self.writes}"

    def elaborate(self, platform: object) -> Module:
        """Amaranth's memory, in a clock domain with a port for the clock and without reset."""
        m = Module()
        m.domains.sync = domain = ClockDomain("sync", reset_less=True)
        domain.clk = self.clk
        m.submodules.words = memory = Memory(shape=self.width, depth=self.depth, init=[])
        for number in range(self.writes):
            port = memory.write_port()
            m.d.comb += port.data.eq(getattr(self, f"write_{number}_data"))
            self._address(m, port, f"write_{number}")
        for number in range(self.reads):
            port = memory.read_port()
            m.d.comb += getattr(self, f"read_{number}_data").eq(port.data)
            self._address(m, port, f"read_{number}")
        return m

    def _address(self, m: Module, port: Any, name: str) -> None:
        """Connect a port's address and enable."""
        m.d.comb += [port.addr.eq(getattr(self, f"{name}_addr")), port.en.eq(getattr(self, f"{name}_en"))]

    def comment(self, name: str) -> str:
        """The comment above the module in Verilog, where it is called ``name``."""
        return f"""\
/* {name}: {self.depth} words of width {self.width}, {self.reads} read, {self.writes} write.

   At a rising edge of clk with write_N_en, word write_N_addr becomes write_N_data. At one with read_N_en, read_N_data
   becomes word read_N_addr, and holds it until the next one. A read of a word at the edge at which it is written gives
   the old word; an OpenMXU unit never does that. Nor does it need words that have not been written.

   Another memory may take its place: define the macro of this name, which leaves this module out. */
"""


def wrap(memory: Memory) -> WrappedMemory | None:
    """The module for a memory; ``None`` if it cannot stand for it: initial contents, or ports of another kind."""
    reads, writes = memory.read_ports, memory.write_ports
    plain = (
        memory.depth > 1
        and not memory.attrs
        and reads
        and writes
        and len({port.domain for port in (*reads, *writes)}) == 1
        and not any(port.transparent_for for port in reads)
        and all(len(port.en) == 1 for port in writes)
        and not any(  # mostly a large number of zeros
            word if isinstance(word, int) else Const.cast(Const(word, memory.shape)).value for word in memory.init[:]
        )
    )
    return WrappedMemory(memory.depth, Shape.cast(memory.shape).width, len(reads), len(writes)) if plain else None


def reference(memory: Memory, name: str) -> Instance:
    """An instance of the module called ``name`` in place of a memory that :func:`wrap` takes."""
    return Instance(name, i_clk=ClockSignal(memory.write_ports[0].domain), **dict(_connections(memory)))


def _connections(memory: Memory) -> Iterator[tuple[str, Value]]:
    """Ports of the module, with the prefix of their direction, and the values connected to them."""
    for kind, ports, direction in (("read", memory.read_ports, "o"), ("write", memory.write_ports, "i")):
        for number, port in enumerate(ports):
            yield f"i_{kind}_{number}_en", port.en
            yield f"i_{kind}_{number}_addr", port.addr
            yield f"{direction}_{kind}_{number}_data", Value.cast(port.data)
