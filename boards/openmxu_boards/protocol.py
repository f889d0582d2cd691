"""The protocol between host and board, byte by byte; the board's side in hardware is :mod:`openmxu_boards.soc`.

::

    frame     7E │ body, CRC-32 │ 7E

    request   command   session   sequence             arguments
    reply     command   session   sequence   status    data
              +128
              1 byte    2 bytes   2 bytes    1 byte

Inside a frame, a byte that is 7E or 7D is sent as 7D and that byte with bit 5 inverted, as in HDLC-like framing (RFC
1662). Numbers begin with their lowest byte. The CRC is that of zlib and Ethernet, over the body.

The host asks, the board answers, once for each request. The board carries out a request of the open session whose
sequence number follows that of the last request; for the last request itself it only repeats the answer. So a host may
repeat any request without an answer, and nothing is done twice. A frame that arrives damaged changes nothing.
"""

import json
import reprlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import WORDS
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.stages import STAGES

VERSION = 1
"""Version of this protocol. A board of another version is refused."""

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20

HEADER = 5
"""Bytes of a request before its arguments."""

LOAD = HEADER + 2 + 4
"""Bytes of a request to load beats or to run tiles, without the beats or tiles: header, address, CRC."""

ANSWER = 0x80
"""The number that a reply adds to the command."""

MOST_SEQUENCE = 0xFFFF
"""After this sequence number comes 0."""

START = 0xFFFF
"""The address of a word that starts a program, in place of one that is written."""

KEEP = 0xFFFE
"""The address of a word that the board keeps, in place of one that is written."""

MOST_BEATS = 256
"""The most beats of activations of a tile: their count has one byte."""


class Command(IntEnum):
    """Requests of a host; RUN and those before it take effect once, the others may be repeated at will."""

    IDENTIFY = 1
    """No arguments, any session and sequence number. The data are the :class:`Identity`, as JSON."""
    OPEN = 2
    """No arguments. Resets the unit and makes the session and the sequence number of this request those that count. A
    request to open the session that is open changes nothing."""
    WEIGHTS = 3
    """Address in the weight buffer (2 bytes, in beats), and beats, which go there one after the other."""
    ACTIVATIONS = 4
    """Address in the activation buffer, and beats, as in ``WEIGHTS``."""
    RUN = 5
    """Address in the result buffer (2 bytes, in beats), and tiles (6 bytes each, see :class:`TileJob`), which run one
    after the other, and whose results go there. The data are :data:`openmxu.unit.status.COUNTERS` for this run (4 bytes
    each; 0 on a board without counters) and the :class:`openmxu.unit.status.Error` (1 byte). On a board with an
    accelerator, buffers of activations and results are its scratchpad, and a tile is an address in the program and a
    word for it (2 and 4 bytes), or :data:`START` and the index of the word from which the program runs now, or
    :data:`KEEP` and a word that the board keeps until it writes a memory or starts a program. The data are the cycles
    (4 bytes), tag and index of the end (2 bytes each), whether it was reached (4 bytes), the word that is kept, or 0,
    (4 bytes) and the :class:`openmxu.accelerator.Stop` (1 byte)."""
    RESULTS = 6
    """Address in the result buffer and number of beats (2 bytes each). The data are the beats."""
    COUNTERS = 7
    """No arguments. The data are those that the last RUN returned, on an accelerator with the word kept now."""


class Status(IntEnum):
    """The outcome of a request. Data follow only after OK."""

    OK = 0
    FRAME = 1
    """A frame arrived that was damaged, too short, or too long for the board's buffer. Its header is not known, so
    command, session and sequence in this reply mean nothing."""
    COMMAND = 2
    """There is no such command."""
    SESSION = 3
    """The request is not of the open session, as where the board was reset, or another host has opened one. Session 0
    cannot be opened."""
    SEQUENCE = 4
    """The sequence number neither is that of the last request nor follows it."""
    LENGTH = 5
    """The arguments end too early or within a beat or tile. The complete beats or tiles were carried out."""
    ADDRESS = 6
    """The request went beyond the end of a buffer; addresses wrap."""
    HANG = 7
    """Nothing moved for 65,536 cycles in a run, or a program took 2^32. The unit was reset."""


class TileJob(NamedTuple):
    """A tile of a RUN."""

    weights: int
    """Address of the first of its R beats of weights, the last row first."""
    activations: int
    """Address of its first beat of activations."""
    beats: int
    """Beats of activations, 1 to 256 and at most the unit's depth."""
    add: bool
    clear_nan: bool
    emit: bool
    keep: bool
    """Marks on its activations, see :class:`openmxu.unit.edge.ActivationBeat`. Sums that have been emitted cannot be
    added to."""

    def to_bytes(self) -> bytes:
        """The tile's bytes in RUN: both addresses, ``beats - 1``, and the marks, ``add`` lowest."""
        marks = self.add | self.clear_nan << 1 | self.emit << 2 | self.keep << 3
        return _pair(self.weights) + _pair(self.activations) + bytes([self.beats - 1, marks])


def _pair(number: int) -> bytes:
    return number.to_bytes(2, "little")


def encode(body: bytes) -> bytes:
    """A frame: ``body`` and its CRC between flags."""
    content = body + zlib.crc32(body).to_bytes(4, "little")
    escaped = content.replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e")
    return b"\x7e" + escaped + b"\x7e"


def request(command: int, session: int, sequence: int, arguments: bytes = b"") -> bytes:
    """The frame of a request."""
    return encode(bytes([command]) + _pair(session) + _pair(sequence) + arguments)


class Decoder:
    """Finds frames in the bytes that arrive, in pieces of any size."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, arrived: bytes) -> Iterator[bytes | None]:
        """The bodies of the frames that end in ``arrived``; ``None`` for one that is damaged."""
        self._pending += arrived
        while (end := self._pending.find(FLAG)) >= 0:
            content = bytes(self._pending[:end])
            del self._pending[: end + 1]
            if content:
                yield _body(content)


def _body(content: bytes) -> bytes | None:
    """The body between two flags, without escapes and CRC; ``None`` if it is damaged."""
    plain, escaped = bytearray(), False
    for byte in content:
        if byte == ESCAPE:
            if escaped:
                return None
            escaped = True
            continue
        plain.append(byte ^ FLIP if escaped else byte)
        escaped = False
    body, check = bytes(plain[:-4]), bytes(plain[-4:])
    sound = not escaped and len(check) == 4 and zlib.crc32(body).to_bytes(4, "little") == check
    return body if sound else None


class Reply(NamedTuple):
    """A reply's parts."""

    command: int
    session: int
    sequence: int
    status: int
    data: bytes

    @classmethod
    def parse(cls, body: bytes) -> "Reply | None":
        """The reply in a body; ``None`` if it is no reply."""
        if len(body) <= HEADER or not body[0] & ANSWER:
            return None
        session, sequence = (int.from_bytes(body[start : start + 2], "little") for start in (1, 3))
        return cls(body[0] & ~ANSWER, session, sequence, body[HEADER], body[HEADER + 1 :])


@dataclass(frozen=True)
class Identity:
    """A board's description of itself."""

    config: MxuConfig
    """Its unit."""
    weights: int
    activations: int
    results: int
    """Beats that its buffers hold."""
    frame: int
    """Bytes of the longest frame that it takes, without flags and escapes."""
    counters: bool
    """Whether it can read the unit's counters."""
    clock: int
    """Its frequency in Hz."""
    baud: int
    """Bits per second of its UART; 0 if it has none."""
    package: str
    """Version of OpenMXU that made it."""
    build: str
    """Digest of all sources that it was made from."""
    protocol: int = VERSION
    """:data:`VERSION`."""
    program: int = 0
    """Words that the program of its accelerator may have; 0 if it has none."""

    @property
    def accelerator(self) -> AcceleratorConfig | None:
        """Its accelerator, if it has one."""
        unit = self.config
        sizes = {"rows": self.activations, "weights": self.weights, "program": self.program}
        return AcceleratorConfig(unit.rows, unit.stages, unit.depth, **sizes) if self.program else None

    def to_bytes(self) -> bytes:
        """The identity as JSON."""
        own = {name: value for name, value in vars(self).items() if name != "config"}
        unit = {
            name: value if isinstance(value, int | str) else value.name
            for name, value in vars(self.config).items()
            if value is not None
        }
        return json.dumps({"openmxu": own | {"unit": unit}}, separators=(",", ":")).encode()

    def __str__(self) -> str:
        unit = self.config
        clock = f"{self.clock / 1e6:g} MHz, " if self.clock else ""
        memories = (
            f"accelerator: {self.program // WORDS} commands, {self.weights} rows of weights, {self.activations} of data"
            if self.program
            else f"buffers: {self.weights} beats of weights, {self.activations} of activations, "
            f"{self.results} of results"
        )
        return (
            f"{unit.rows}x{unit.columns} unit, {unit.operand} operands, {unit.source} in, {unit.result} out, "
            f"stages={unit.stages}, terms={unit.terms}, depth={unit.depth}, subnormals={unit.subnormals}\n"
            f"{memories}\n"
            f"{clock}{self.baud} baud, frames of up to {self.frame} bytes, "
            f"{'counters' if self.counters else 'no counters'}\n"
            f"OpenMXU {self.package}, build {self.build or 'unknown'}, protocol {self.protocol}"
        )

    @classmethod
    def parse(cls, data: bytes) -> "Identity":
        """The identity in a reply.

        Raises
        ------
        ValueError
            The data are no identity of this version.
        """
        refusal = ValueError(f"the board must say what it is, not {data[:40]!r}")
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError):
            raise refusal from None
        try:
            fields = dict(fields["openmxu"])
            protocol = fields["protocol"]
            if protocol != VERSION:
                raise ValueError(
                    f"the board must have protocol version {VERSION}, not {reprlib.repr(protocol)}: build it anew"
                )
            identity = cls(config=_config(fields.pop("unit")), **fields)
        except (KeyError, TypeError, RecursionError):
            raise refusal from None
        identity._check()
        return identity

    def _check(self) -> None:
        """Refuse values that no board of ours has: they are trusted from here on."""
        fields = {**vars(self), **vars(self.config)}
        for name, (low, high) in _BOUNDS.items():
            if type(fields[name]) is not int or not low <= fields[name] <= high:
                raise ValueError(f"the board must say {name} from {low} to {high}, not {reprlib.repr(fields[name])}")
        for name, kind in (("counters", bool), ("package", str), ("build", str)):
            if type(fields[name]) is not kind:
                raise ValueError(f"the board must say {name} as {kind.__name__}, not {reprlib.repr(fields[name])}")


_BOUNDS = {
    **dict.fromkeys(("weights", "activations", "results", "frame", "rows", "columns"), (1, 1 << 16)),
    **dict.fromkeys(("clock", "baud"), (0, 10**9)),
    "depth": (2, MOST_BEATS),
    "stages": (STAGES.start, STAGES.stop - 1),
    "protocol": (VERSION, VERSION),
    "program": (0, KEEP),
}
"""Ranges of an identity's integers: addresses of beats and of bytes in a frame have 16 bits. Its unit checks more."""


def _config(unit: Mapping[str, Any]) -> MxuConfig:
    formats = {name: FloatFormat.parse(unit[name]) for name in ("operand", "source", "result")}
    return MxuConfig(**dict(unit) | formats)
