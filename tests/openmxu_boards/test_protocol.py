"""Frames and messages, against CRC and escapes written out by hand."""

import binascii
import json
import re
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP16
from openmxu_boards.protocol import Decoder, Identity, Reply, TileJob, encode, request

from ..conftest import Said


@pytest.mark.parametrize("length", [0, 1, 5, 300])
def test_frames_are_as_documented(length: int) -> None:
    body = bytes((0x7A + 3 * index) % 256 for index in range(length))
    content = body + binascii.crc32(body).to_bytes(4, "little")
    escaped = re.sub(b"[\x7d\x7e]", lambda found: bytes([0x7D, found[0][0] ^ 0x20]), content)
    assert encode(body) == b"\x7e" + escaped + b"\x7e"


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_decoder_takes_any_pieces(piece: int) -> None:
    bodies = [b"one", bytes(range(256)), b"\x7e\x7d\x7e", b"four"]
    # A flag may end a frame and begin the next one; noise in between is no frame of ours.
    stream = b"xyz" + encode(bodies[0]) + encode(bodies[1])[1:] + b"\x7e" + encode(bodies[2]) + encode(bodies[3])
    stream += b"\x7d\x7d\x5eabcdef\x7e"  # two escapes are no byte
    decoder = Decoder()
    found = [body for start in range(0, len(stream), piece) for body in decoder.feed(stream[start : start + piece])]
    assert found == [None, *bodies, None]


def test_no_single_wrong_bit_goes_unseen() -> None:
    frame = request(6, 0x7E7D, 0x1234, b"\x7e\x00\x7d")
    for bit in range(8 * len(frame)):
        spoilt = bytearray(frame)
        spoilt[bit // 8] ^= 1 << bit % 8
        assert not any(body is not None for body in Decoder().feed(bytes(spoilt))), bit


def test_request_reply_and_tile() -> None:
    assert [*Decoder().feed(request(3, 0x0201, 0x0403, b"abc"))] == [b"\x03\x01\x02\x03\x04abc"]
    assert Reply.parse(b"\x83\x01\x02\x03\x04\x05abc") == Reply(3, 0x0201, 0x0403, 5, b"abc")
    assert Reply.parse(b"\x03\x01\x02\x03\x04\x05abc") is None
    assert Reply.parse(b"\x83\x01\x02\x03\x04") is None
    tile = TileJob(0x0102, 0x0304, 256, add=True, clear_nan=False, emit=False, keep=True)
    assert tile.to_bytes() == bytes([2, 1, 4, 3, 255, 0b1001])


IDENTITY = Identity(
    MxuConfig(rows=2, columns=3, stages=4, operand=FP16, source=FP16, subnormals="ieee", depth=8, status=True),
    *(16, 32, 64, 511, True, 12_000_000, 1_000_000),
    package="0.1.0",
    build="0123456789abcdef",
)


def test_identity_is_json_and_comes_back() -> None:
    fields = json.loads(IDENTITY.to_bytes())["openmxu"]
    assert fields["unit"]["operand"] == "fp16"
    assert "2x3 unit, fp16 operands, fp16 in, fp32 out" in str(IDENTITY)
    beats = dict.fromkeys(("weights", "activations", "results", "frame"), 65536)
    largest = replace(IDENTITY, config=replace(IDENTITY.config, depth=256), baud=10**9, **beats)
    for identity in (IDENTITY, largest):
        assert Identity.parse(identity.to_bytes()) == identity


NO_OBJECTS = [b"", b"\xff\xfe", b"[]", b'{"openmxu":{}}', b'{"openmxu":{"protocol":1,"unit":{}}}']
NO_OBJECTS += [b"[" * 100_000, b'{"openmxu":' * 100_000, b'{"openmxu":[["protocol",1]]}']


def _changed(old: bytes, new: bytes) -> bytes:
    assert old in IDENTITY.to_bytes()
    return IDENTITY.to_bytes().replace(old, new)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_changed(b'"protocol":1', b'"protocol":9'), "the board must have protocol version 1, not 9: build it anew"),
        (_changed(b'"rows":2', b'"rows":0'), "rows must be"),
        (_changed(b'"depth":8', b'"depth":512'), "the board must say depth from 2 to 256, not 512$"),
        (_changed(b'"results":64', b'"results":65537'), "the board must say results from 1 to 65536, not 65537$"),
        *((data, "the board must say what it is, not b") for data in NO_OBJECTS),
    ],
)
def test_what_is_no_identity(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Identity.parse(data)


ABSURD = (
    *("null", '"1"', "1.5", "NaN", "-Infinity", "true", "[]", "{}", '"\\u001b[2J"', "[" * 900 + "]" * 900),
    *("-1", str(2**31), str(2**63), "1" + 400 * "0", "1" + 5000 * "0"),
)
NUMBERS = ("weights", "activations", "results", "frame", "clock", "baud", "protocol")
OTHERS = ("counters", "package", "build", "unit", "rows", "columns", "stages", "operand", "depth", "status")


@pytest.mark.parametrize("field", NUMBERS + OTHERS)
@pytest.mark.parametrize("value", ABSURD)
def test_absurd_identities(field: str, value: str) -> None:
    """What is no number of beats, bytes or hertz is refused in a line before anything relies on it."""
    fields = json.loads(IDENTITY.to_bytes())["openmxu"]
    (fields if field in fields else fields["unit"])[field] = "here"
    data = json.dumps({"openmxu": fields}).replace('"here"', value).encode()
    allowed = value == "true" and field in ("counters", "status", "rows", "columns")  # 1 for Python
    if allowed or (value.startswith('"') and field in ("package", "build")):
        Identity.parse(data)
        return
    with pytest.raises(ValueError, match="^the board must " if field in NUMBERS else "must") as found:
        Identity.parse(data)
    assert len(str(found.value)) < 200 or field in OTHERS


def test_an_identity_on_the_terminal(monkeypatch: pytest.MonkeyPatch, shown: Said) -> None:
    """Nothing that a board calls itself acts on it."""
    host = SimpleNamespace(identity=replace(IDENTITY, build="\x1b[2J"), port="tty\x1b]0;t\x07")
    monkeypatch.setattr("openmxu_boards.host.connect", lambda port: nullcontext(host))
    out = shown("board info --port here")
    assert all(line.isprintable() for line in out.split("\n"))
    assert r"build \x1b[2J" in out
