"""Frames in hardware: the flags, escapes and the CRC of :mod:`openmxu_boards.protocol`."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from openmxu_boards.protocol import ESCAPE, FLAG, FLIP, HEADER
from openmxu_boards.soc.uart import ReceivedByte

_CHECK = 4
"""Bytes of a CRC."""


class FrameByte(data.StructLayout):
    """A byte of a frame's body, and whether the body ends with it."""

    def __init__(self) -> None:
        super().__init__({"data": 8, "last": 1})


class FrameReceiver(wiring.Component):
    """The bodies of sound frames, and a pulse for each damaged one.

    A frame is stored as it arrives, and passed on if its CRC is right; otherwise it is dropped::

                    committed     written
                         ▼           ▼
        [ . . | frame, frame | frame … . . . ]      a damaged frame: written = committed
               ▲
              read

    Invariant: only committed bytes are read, so no byte of a damaged frame has any effect.

    Latency: from the closing flag to the first byte of the body three cycles. Throughput: a byte a cycle in, a byte in
    two cycles out. Back-pressure: none on ``i``; a frame that finds no room is damaged.

    Parameters
    ----------
    depth
        Bytes of the buffer, a power of two: the longest frame has one less, its CRC included.

    Members
    -------
    o_damaged : Out(1)
        For a cycle: a frame ended that was damaged, too short, or too long.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {"i": In(stream.Signature(ReceivedByte())), "o": Out(stream.Signature(FrameByte())), "o_damaged": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """A ring of bytes, and a ring of their ``last`` marks: the end of a body is known only four bytes later."""
        m = Module()
        m.submodules.crc = self._crc = catalog.CRC32_ISO_HDLC(8).create()
        m.submodules.bytes = stored = Memory(shape=8, depth=self.depth, init=[])
        m.submodules.ends = ends = Memory(shape=1, depth=self.depth, init=[])
        self._written = Signal(range(self.depth))
        self._read = Signal(range(self.depth))
        committed = Signal.like(self._written)
        store = stored.write_port()
        end = ends.write_port()
        self._escaped = Signal()
        self._damaged = Signal()
        self._length = Signal(range(HEADER + _CHECK + 1))
        byte = self.i.payload.data
        m.d.comb += [
            self.i.ready.eq(1),
            store.addr.eq(self._written),
            store.data.eq(byte ^ Mux(self._escaped, FLIP, 0)),
            end.addr.eq(self._written),
            self._crc.data.eq(store.data),
        ]
        with m.If(self.i.valid):
            m.d.sync += self._damaged.eq(self._damaged | self.i.payload.error)
            with m.If(byte == FLAG):
                self._end_frame(m, end, committed)
            with m.Elif(byte == ESCAPE):
                m.d.sync += [
                    self._escaped.eq(1),
                    self._damaged.eq(self._damaged | self._escaped | self.i.payload.error),
                ]
            with m.Else():
                self._store_byte(m, store, end)
        self._connect_reader(m, stored, ends, committed)
        return m

    def _end_frame(self, m: Module, end: WritePort, committed: Signal) -> None:
        """Commit the bytes that were written, without their CRC, or drop them."""
        whole = (self._length == HEADER + _CHECK) & self._crc.match_detected & ~self._escaped
        behind = (self._written - _CHECK)[: len(committed)]
        m.d.comb += self._crc.start.eq(1)
        m.d.sync += [signal.eq(0) for signal in (self._length, self._escaped, self._damaged)]
        m.d.sync += self._written.eq(committed)
        with m.If(whole & ~self._damaged & ~self.i.payload.error):
            m.d.comb += [end.addr.eq(behind - 1), end.data.eq(1), end.en.eq(1)]
            m.d.sync += [self._written.eq(behind), committed.eq(behind)]
        with m.Elif((self._length != 0) | self._escaped | self._damaged):
            m.d.comb += self.o_damaged.eq(1)

    def _store_byte(self, m: Module, store: WritePort, end: WritePort) -> None:
        """Store a byte after the last one, if there is room."""
        m.d.comb += self._crc.valid.eq(1)
        m.d.sync += [self._escaped.eq(0), self._length.eq(self._length + (self._length != HEADER + _CHECK))]
        following = (self._written + 1)[: len(self._written)]
        with m.If(following == self._read):
            m.d.sync += self._damaged.eq(1)
        with m.Else():
            m.d.comb += [store.en.eq(1), end.en.eq(1)]
            m.d.sync += self._written.eq(following)

    def _connect_reader(self, m: Module, stored: Memory, ends: Memory, committed: Signal) -> None:
        """Read through another register after the memories' output registers, which are slow."""
        read = self._read
        fetch = Signal()
        fetched = Signal()
        moves = Signal()
        byte = stored.read_port()
        end = ends.read_port()
        m.d.comb += [
            fetch.eq((read != committed) & ~fetched),
            moves.eq(fetched & (self.o.ready | ~self.o.valid)),
            byte.addr.eq(read),
            byte.en.eq(fetch),
            end.addr.eq(read),
            end.en.eq(fetch),
        ]
        with m.If(fetch):
            m.d.sync += read.eq(read + 1)
        m.d.sync += fetched.eq(fetch | (fetched & ~moves))
        with m.If(moves | self.o.ready):
            m.d.sync += self.o.valid.eq(moves)
        with m.If(moves):
            m.d.sync += [self.o.payload.data.eq(byte.data), self.o.payload.last.eq(end.data)]


class FrameSender(wiring.Component):
    """Makes frames from bodies: flags, escapes, CRC.

    A byte is held before it is decoded, so that no path leads from ``i``'s payload to its ``ready``.

    Latency: the flag is offered in the cycle in which the first byte of a body is. Throughput: a byte in two cycles,
    six more for each frame and one more for each escape. Back-pressure: on both sides, for any time.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(FrameByte())), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        """Bytes of the body and of the CRC take the same path through the escapes."""
        m = Module()
        m.submodules.crc = crc = catalog.CRC32_ISO_HDLC(8).create()
        held, byte = Signal(FrameByte(), name="held"), Signal(8, name="byte")
        special = (byte == FLAG) | (byte == ESCAPE)
        offered, passed, full, escaped = (Signal(name=name) for name in ("offered", "passed", "full", "escaped"))
        number = Signal(2)
        m.d.comb += crc.data.eq(held.data)
        with m.If(offered):
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.payload.eq(Mux(special, Mux(escaped, byte ^ FLIP, ESCAPE), byte)),
                passed.eq(self.o.ready & (escaped | ~special)),
            ]
            with m.If(self.o.ready):
                m.d.sync += escaped.eq(special & ~escaped)
        with m.FSM():
            with m.State("OPEN"):
                m.d.comb += [self.o.valid.eq(self.i.valid), self.o.payload.eq(FLAG), crc.start.eq(1)]
                with m.If(self.i.valid & self.o.ready):
                    m.next = "BODY"
            with m.State("BODY"):
                m.d.comb += [self.i.ready.eq(~full), offered.eq(full), byte.eq(held.data)]
                m.d.comb += crc.valid.eq(passed)
                with m.If(self.i.valid & ~full):
                    m.d.sync += [held.eq(self.i.payload), full.eq(1)]
                with m.If(passed):
                    m.d.sync += full.eq(0)
                    with m.If(held.last):
                        m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [offered.eq(1), byte.eq(crc.crc.word_select(number, 8))]
                with m.If(passed):
                    m.d.sync += number.eq(number + 1)
                    with m.If(number == _CHECK - 1):
                        m.next = "CLOSE"
            with m.State("CLOSE"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(FLAG)]
                with m.If(self.o.ready):
                    m.next = "OPEN"
        return m
