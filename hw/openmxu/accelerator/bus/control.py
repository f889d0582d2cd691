"""Registers of an accelerator on a bus: what it is, how a program is written and started, how it ended."""

from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.bus.register_ports import RegisterPort
from openmxu.accelerator.errors import Stop
from openmxu.accelerator.fetch import INDEX
from openmxu.accelerator.movers.bursts import PAGE_BITS
from openmxu.accelerator.movers.port import BASE
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.unit.axi import version_bits

IDENTITY = int.from_bytes(b"MXA1", "big")
"""The value of register ``ID``."""

_WORD = 32


class Register(IntEnum):
    """Byte addresses of the registers, each of 32 bits. Those up to ``VERSION``, and all that count, are read only."""

    ID = 0x00
    """0x4D584131, "MXA1"."""
    SIZE = 0x04
    """Rows and columns of the array in bits 15 to 0, stages in 19 to 16, bytes of a beat of the bus in 31 to 24."""
    DEPTH = 0x08
    """Rows of the accumulator bank: the most rows of a tile."""
    ROWS = 0x0C
    """Rows of the scratchpad."""
    WEIGHTS = 0x10
    """Rows of the memory of weights."""
    PROGRAM = 0x14
    """Words of the memory of commands."""
    VERSION = 0x18
    """This project's version, 0.12.3 as 0x000C03: a later version is a larger number."""
    CONTROL = 0x20
    """Written, bit 0 starts the program at ``START``, bit 1 stops it, and bit 2 resets all but these registers, as soon
    as the bus has answered what is under way. Reads as 0."""
    STATUS = 0x24
    """Bit 0: a program runs; 1: it ended, and ``TAG`` holds; 2: it stopped, see ``STOP``; 3: the bus has answered all;
    4: a reset waits for the bus."""
    TAG = 0x28
    """Tag of the command ``end`` that was reached."""
    STOP = 0x2C
    """A :class:`~openmxu.accelerator.errors.Stop` in bits 7 to 0, the index of the command in bits 31 to 16."""
    START = 0x30
    """Word of the memory of commands at which a program starts."""
    INTERRUPT = 0x34
    """Bit 0: a program ended; 1: it stopped. A 1 that is written clears its bit."""
    ENABLE = 0x38
    """Bits of ``INTERRUPT`` that raise the interrupt."""
    WINDOW = 0x3C
    """First byte of the window of the bus; bits 11 to 0 are 0."""
    LENGTH = 0x40
    """Bytes of the window; bits 11 to 0 are 0. Nothing outside of it is read or written."""
    ADDRESS = 0x44
    """Word of the memory of commands that ``DATA`` writes; it goes on by one with each, up to ``PROGRAM``."""
    DATA = 0x48
    """Write only, while no program runs: a word of a command."""
    CYCLES = 0x4C
    """Cycles of the program that runs, or ran last."""


class Control(wiring.Component):
    """The registers, as a memory of words.

    Latency: none for reading; a write is done a cycle later.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "port": In(RegisterPort()),
                "o_program": Out(range(config.program)),  # word at which a program starts
                "o_address": Out(range(config.program + 1)),  # word that o_write writes; the last: there is none
                "o_data": Out(_WORD),  # what it writes
                "o_window": Out(_WORD),  # in words
                **dict.fromkeys(("i_running", "i_ended", "i_quiet"), In(1)),
                "o_interrupt": Out(1),
                **dict.fromkeys(("o_start", "o_halt", "o_reset", "o_write"), Out(1)),
                "o_base": Out(BASE),
                **dict.fromkeys(("i_tag", "i_index"), In(INDEX)),
                "i_stop": In(Stop),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep what is written, and count."""
        m = Module()
        port, pending, was = self.port, Signal(2), Signal(2)
        cycles, resets = Signal(_WORD), Signal()
        stopped = self.i_stop != Stop.NONE
        kept, written = self._write(m)
        enabled, length = kept[Register.ENABLE][0], kept[Register.LENGTH][0]
        shown = {
            **{register: Const(value, _WORD) for register, value in constants(self.config).items()},
            **{register: Cat(Const(0, low), signal) for register, (signal, low) in kept.items()},
            Register.CONTROL: Const(0, _WORD),
            Register.STATUS: Cat(self.i_running, self.i_ended, stopped, self.i_quiet, resets),
            Register.TAG: self.i_tag,
            Register.STOP: Cat(self.i_stop, Const(0, 16 - len(self.i_stop)), self.i_index),
            Register.INTERRUPT: pending,
            Register.CYCLES: cycles,
        }
        with m.Switch(port.read):
            for register, value in shown.items():
                with m.Case(register):
                    m.d.comb += [port.shown.eq(value), port.readable.eq(1)]
        m.d.comb += [
            self.o_window.eq(Cat(Const(0, PAGE_BITS - 1), length)),
            self.o_interrupt.eq((pending & enabled).any()),
            self.o_start.eq(written[Register.CONTROL] & port.data[0] & ~resets),
            self.o_halt.eq((written[Register.CONTROL] & port.data[1]) | resets),
            self.o_reset.eq(resets & ~self.i_running & self.i_quiet),
            self.o_data.eq(port.data),
            self.o_write.eq(written[Register.DATA]),
        ]
        now = Cat(self.i_ended, stopped)
        m.d.sync += [
            was.eq(now),
            pending.eq((pending & ~(port.data[:2] & written[Register.INTERRUPT].replicate(2))) | (now & ~was)),
            resets.eq((resets | (written[Register.CONTROL] & port.data[2])) & ~self.o_reset),
            cycles.eq(Mux(self.o_start, 0, cycles + self.i_running)),
        ]
        with m.If(written[Register.DATA]):
            m.d.sync += self.o_address.eq(self.o_address + 1)
        return m

    def _write(self, m: Module) -> tuple[dict[Register, tuple[Signal, int]], dict[Register, Value]]:
        """Keep words that are written; return what is kept, from which bit on, and which register is written now."""
        port, written = self.port, dict[Register, Value]()
        kept = {
            Register.START: (self.o_program, 0),
            Register.ADDRESS: (self.o_address, 0),
            Register.ENABLE: (Signal(2, name="enabled"), 0),
            Register.WINDOW: (self.o_base, PAGE_BITS),
            Register.LENGTH: (Signal(BASE, name="length"), PAGE_BITS),
        }
        idle, most = ~self.i_running, self.config.program
        conditions = dict.fromkeys((Register.START, Register.ADDRESS), port.data < most)
        conditions |= {
            **dict.fromkeys((Register.WINDOW, Register.LENGTH), idle),
            Register.DATA: idle & (self.o_address < most),
        }
        for register in (*kept, Register.CONTROL, Register.INTERRUPT, Register.DATA):
            written[register] = now = Signal(name=f"writes_{register.name.lower()}")
            with m.If((port.written == register) & conditions.get(register, 1)):
                m.d.comb += [port.writable.eq(1), now.eq(port.write)]
        for register, (signal, low) in kept.items():
            with m.If(written[register]):
                m.d.sync += signal.eq(port.data[low:])
        return kept, written


def constants(config: AcceleratorConfig) -> dict[Register, int]:
    """The registers that describe an accelerator, and their values."""
    return {
        Register.ID: IDENTITY,
        Register.SIZE: config.size | config.stages << 16 | config.beat // 8 << 24,
        Register.DEPTH: config.depth,
        Register.ROWS: config.rows,
        Register.WEIGHTS: config.weights,
        Register.PROGRAM: config.program,
        Register.VERSION: version_bits(),
    }
