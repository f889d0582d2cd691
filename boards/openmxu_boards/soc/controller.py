"""The board's side of the protocol in hardware; :mod:`openmxu_boards.protocol` specifies it."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu_boards.protocol import ANSWER, HEADER, Command, Status
from openmxu_boards.soc.frames import FrameByte
from openmxu_boards.soc.machine import Machine
from openmxu_boards.soc.network_machine import NetworkMachine

_ADDRESS = 2
_TILE = 6
_COUNTERS = 17
"""Bytes of an address, of a tile, and of the counters with the error code."""


class Controller(wiring.Component):
    """Takes requests, lets the machine carry them out, and replies.

    ::

        IDLE ─▶ HEADER ─▶ DECIDE ─┬─▶ ARGUMENTS ◀──▶ UNIT ─┐    UNIT: an address, beat or tile is complete
          ▲  (damaged frame: )    ├─▶ SKIP ────────────────┤
          │                       ▼                        ▼
          └── REPLY (header, then data) ◀────────────── FINISH    until the machine is idle

    Each path ends in a reply, and a machine that hangs is reset: so the controller always returns to IDLE.

    Latency, throughput: a byte a cycle, two more for each address, beat and tile. Back-pressure: on both streams.

    The machine's ports are driven from here; ``identity`` are the data of IDENTIFY. ``i_damaged`` is high for a cycle
    if a request was damaged, ``o_failed`` once a request of the session has failed, until the next one is opened.
    """

    def __init__(self, machine: Machine | NetworkMachine, identity: bytes) -> None:
        self.machine = machine
        self.identity = identity
        # Whole bytes of a beat of weights, of activations, of results.
        self._sizes = [-(-width // 8) for width in machine.widths]
        super().__init__(
            {
                "i": In(stream.Signature(FrameByte())),
                "i_damaged": In(1),
                "o": Out(stream.Signature(FrameByte())),
                "o_open": Out(1),
                "o_failed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The registers that states share; then the states."""
        m = Module()
        self._header = Signal(8 * HEADER)
        self._command, session, sequence = self._header[:8], self._header[8:24], self._header[24:40]
        self._status = Signal(Status)
        self._outcome = Signal(Status)
        self._open = Signal(16)
        self._last = Signal(16)
        self._arguments = Signal(8 * _TILE)
        self._beat = Signal(8 * max(self._sizes))
        self._count = Signal(range(max(HEADER + 1, _TILE, *self._sizes)))
        self._address = Signal(16)
        self._length = Signal(16)
        self._prefixed = Signal()
        self._ended = Signal()
        self._sent = Signal(range(HEADER + 1))
        self._index = Signal(range(max(len(self.identity), _COUNTERS)))
        damaged = Signal()
        m.d.sync += damaged.eq(damaged | self.i_damaged)
        m.d.comb += self.o_open.eq(self._open != 0)
        with m.If(self.machine.o_beyond):
            m.d.sync += self._outcome.eq(Status.ADDRESS)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [signal.eq(0) for signal in (self._count, self._prefixed, self._sent, self._index)]
                with m.If(self.i.valid):
                    m.next = "HEADER"
                with m.Elif(damaged):
                    m.d.sync += [damaged.eq(self.i_damaged), self._header.eq(0), self._status.eq(Status.FRAME)]
                    m.next = "REPLY"
            with m.State("HEADER"):
                self._take_byte(m, self._header)
                with m.If(self.i.valid & (self._count == HEADER - 1)):
                    m.d.sync += self._count.eq(0)
                    m.next = "DECIDE"
            with m.State("DECIDE"):
                self._decide(m, session, sequence)
            self._arguments_states(m)
            self._reply_states(m)
        return m

    def _is(self, *commands: Command) -> Value:
        return Cat(self._command == command for command in commands).any()

    def _take_byte(self, m: Module, *registers: Signal) -> None:
        """Shift a byte of the request into the upper end of registers."""
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.i.valid):
            m.d.sync += [register.eq(Cat(register[8:], self.i.payload.data)) for register in registers]
            m.d.sync += [self._ended.eq(self.i.payload.last), self._count.eq(self._count + 1)]

    def _decide(self, m: Module, session: Value, sequence: Value) -> None:
        """Decide whether the request is carried out, only answered, or refused."""
        known = self._is(*Command)
        same = (session == self._open) & (session != 0)
        follows, again = sequence == (self._last + 1)[:16], sequence == self._last
        accepted = Signal()
        m.d.sync += self._status.eq(Status.OK)
        with m.If(self._is(Command.IDENTIFY)):
            pass
        with m.Elif(self._is(Command.OPEN)):
            with m.If(session == 0):
                m.d.sync += self._status.eq(Status.SESSION)
            with m.Elif(~same):
                m.d.comb += self.machine.i_reset.eq(1)
                m.d.sync += [self._open.eq(session), self._last.eq(sequence), self.o_failed.eq(0)]
                m.d.sync += self._outcome.eq(Status.OK)
        with m.Elif(~known):
            m.d.sync += self._status.eq(Status.COMMAND)
        with m.Elif(~same):
            m.d.sync += self._status.eq(Status.SESSION)
        with m.Elif(follows):
            m.d.comb += accepted.eq(1)
            m.d.sync += [self._last.eq(sequence), self._outcome.eq(Status.OK)]
        with m.Elif(again):
            # Only commands without effect are repeated; the outcome of the others is remembered.
            m.d.comb += accepted.eq(self._is(Command.RESULTS))
            m.d.sync += self._status.eq(self._outcome)
        with m.Else():
            m.d.sync += self._status.eq(Status.SEQUENCE)
        wants = self._is(Command.WEIGHTS, Command.ACTIVATIONS, Command.RUN, Command.RESULTS)
        with m.If(self._ended):
            with m.If(accepted & wants):
                m.d.sync += [self._status.eq(Status.LENGTH), self._outcome.eq(Status.LENGTH)]
            m.next = "REPLY"
        with m.Elif(accepted & wants):
            m.next = "ARGUMENTS"
        with m.Else():
            m.next = "SKIP"

    def _arguments_states(self, m: Module) -> None:
        """ARGUMENTS, UNIT, SKIP, FINISH: the bytes after the header, and the commands to the machine."""
        machine = self.machine
        load, run = self._is(Command.WEIGHTS, Command.ACTIVATIONS), self._is(Command.RUN)
        size = Mux(run, _TILE, Mux(self._command == Command.WEIGHTS, self._sizes[0], self._sizes[1]))
        size = Mux(self._prefixed, size, Mux(load | run, _ADDRESS, 2 * _ADDRESS))
        whole = self._count == size - 1
        beat = [self._beat[-8 * width :] for width in self._sizes]
        m.d.comb += [
            machine.i_beat.eq(Mux(self._command == Command.WEIGHTS, beat[0], beat[1])),
            machine.i_address.eq(Mux(self._prefixed, self._address, self._arguments[-16:])),
            machine.tiles.payload.eq(self._arguments),
        ]
        with m.State("ARGUMENTS"):
            self._take_byte(m, self._arguments, self._beat)
            with m.If(self.i.valid & whole):
                m.d.sync += self._count.eq(0)
                m.next = "UNIT"
            with m.Elif(self.i.valid & self.i.payload.last):
                m.d.sync += self._outcome.eq(Status.LENGTH)
                m.next = "FINISH"
        self._unit_state(m)
        with m.State("SKIP"):
            self._take_byte(m)
            with m.If(self.i.valid & self.i.payload.last):
                m.next = "REPLY"
        with m.State("FINISH"):
            with m.If(machine.o_idle):
                m.d.sync += self._status.eq(self._outcome)
                m.next = "REPLY"
            with m.If(machine.o_hangs):
                self._give_up(m)

    def _unit_state(self, m: Module) -> None:
        """UNIT: an address, a beat or a tile is complete."""
        machine = self.machine
        load, run = self._is(Command.WEIGHTS, Command.ACTIVATIONS), self._is(Command.RUN)
        with m.State("UNIT"):
            done = Signal(init=1)
            with m.If(~self._prefixed):
                m.d.sync += [self._prefixed.eq(1), self._address.eq(self._arguments[-16:])]
                m.d.comb += machine.i_start.eq(run)
                with m.If(self._command == Command.RESULTS):
                    address, length = self._arguments[-32:-16], self._arguments[-16:]
                    m.d.sync += [self._address.eq(address), self._length.eq(length)]
                    with m.If(address + length > machine.buffers.results):
                        m.d.sync += self._outcome.eq(Status.ADDRESS)
            with m.Elif(run):
                m.d.comb += [machine.tiles.valid.eq(1), done.eq(machine.tiles.ready)]
            with m.Elif(load):
                m.d.comb += [
                    machine.i_weights.eq(self._command == Command.WEIGHTS),
                    machine.i_activations.eq(self._command == Command.ACTIVATIONS),
                ]
                m.d.sync += self._address.eq(self._address + 1)
            with m.If(done):
                m.next = "FINISH"
                with m.If(~self._ended):
                    m.next = "ARGUMENTS"
            with m.If(machine.o_hangs):
                self._give_up(m)

    def _give_up(self, m: Module) -> None:
        """Reset a machine that hangs, and forget the rest of the request."""
        m.d.comb += self.machine.i_reset.eq(1)
        m.d.sync += [self._status.eq(Status.HANG), self._outcome.eq(Status.HANG)]
        m.next = "REPLY"
        with m.If(~self._ended):
            m.next = "SKIP"

    def _reply_states(self, m: Module) -> None:
        """REPLY, and one state or more for each kind of data."""
        code = Mux(self._sent == HEADER, self._status, self._header[:8] | Mux(self._sent == 0, ANSWER, 0))
        machine = self.machine
        results = self._is(Command.RESULTS) & (self._length != 0)
        words = self._is(Command.IDENTIFY, Command.COUNTERS, Command.RUN)
        has_data = (self._status == Status.OK) & (results | words)
        with m.State("REPLY"):
            ends = self._sent == HEADER
            m.d.comb += [self.o.valid.eq(1), self.o.payload.data.eq(code), self.o.payload.last.eq(ends & ~has_data)]
            with m.If(self.o.ready):
                m.d.sync += self._sent.eq(self._sent + 1)
                with m.If(~ends):  # rotate once around: the command is still needed
                    m.d.sync += self._header.eq(Cat(self._header[8:], self._header[:8]))
                with m.Else():
                    m.d.sync += self.o_failed.eq(self.o_failed | (self._status != Status.OK))
                    m.next = "IDLE"
                    with m.If(has_data):
                        m.next = "WORDS"
                    with m.If(has_data & results):
                        m.next = "FETCH"
        self._words_state(m)
        m.d.comb += machine.i_read.eq(self._address)
        with m.State("FETCH"):
            m.next = "BEAT"
        with m.State("BEAT"):
            m.d.sync += [self._beat.eq(machine.o_result), self._count.eq(0)]
            m.d.sync += [self._address.eq(self._address + 1), self._length.eq(self._length - 1)]
            m.next = "BYTES"
        with m.State("BYTES"):
            final = self._count == self._sizes[2] - 1
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.payload.data.eq(self._beat[:8]),
                self.o.payload.last.eq(final & (self._length == 0)),
            ]
            with m.If(self.o.ready):
                m.d.sync += [self._beat.eq(self._beat[8:]), self._count.eq(self._count + 1)]
                with m.If(final):
                    m.next = "FETCH"
                    with m.If(self._length == 0):
                        m.next = "IDLE"

    def _words_state(self, m: Module) -> None:
        """WORDS: identity or counters, byte by byte."""
        # Small memories would become logic, which is scarcer on small devices than block memory.
        m.submodules.identity = rom = Memory(
            shape=8, depth=len(self.identity), init=self.identity, attrs={"rom_style": "block"}
        )
        text = rom.read_port()
        final = Mux(self._is(Command.IDENTIFY), len(self.identity), _COUNTERS) - 1
        moves = Signal()
        m.d.comb += text.addr.eq(self._index + moves)
        counters = self.machine.o_counters
        counted = counters.word_select(self._index, 8) if len(counters) else 0
        word = Mux(self._index == _COUNTERS - 1, self.machine.o_error, counted)
        with m.State("WORDS"):
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.payload.data.eq(Mux(self._is(Command.IDENTIFY), text.data, word)),
                self.o.payload.last.eq(self._index == final),
                moves.eq(self.o.ready),
            ]
            with m.If(moves):
                m.d.sync += self._index.eq(self._index + 1)
                with m.If(self._index == final):
                    m.next = "IDLE"
