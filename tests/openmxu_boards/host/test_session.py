"""A host's end of the protocol on links that lose, damage, repeat and delay."""

from collections.abc import Callable

import pytest

from openmxu_boards.host.session import BoardError, Session
from openmxu_boards.protocol import Command, Decoder, Status, encode


def reply_to(frame: bytes, status: int = Status.OK, data: bytes = b"") -> bytes:
    [body] = Decoder().feed(frame)
    assert body is not None
    return encode(bytes([body[0] | 0x80]) + body[1:5] + bytes([status]) + data)


class Script:
    """A link on which each request gets what a script says, in its own time."""

    name, baud = "the script", 1_000_000

    def __init__(self, *answers: Callable[[bytes], bytes]) -> None:
        self._answers = list(answers)
        self._coming = b""
        self._now = 0.0
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        self._coming += self._answers.pop(0)(data) if self._answers else b""

    def receive(self, seconds: float) -> bytes:
        self._now += 0.001 if self._coming else seconds
        data, self._coming = self._coming[:7], self._coming[7:]
        return data

    def now(self) -> float:
        return self._now

    def close(self) -> None:
        pass


def nothing(frame: bytes) -> bytes:
    return b""


def right(frame: bytes) -> bytes:
    return reply_to(frame, data=b"right")


def damaged(frame: bytes) -> bytes:
    spoilt = bytearray(right(frame))
    spoilt[4] ^= 1
    return bytes(spoilt)


def refused(frame: bytes) -> bytes:
    return encode(bytes([0x80, 0, 0, 0, 0, Status.FRAME]))


@pytest.mark.parametrize("first", [nothing, damaged, refused, lambda frame: b"\x7e\x12\x7e\x7e", lambda frame: frame])
def test_asks_again(first: Callable[[bytes], bytes]) -> None:
    link = Script(first, right)
    session = Session(link)
    assert session.ask(Command.COUNTERS) == b"right"
    assert link.sent[0] == link.sent[1]
    assert session.retries == 1


def test_damaged_frames_in_a_row_are_one_reason_to_ask_again() -> None:
    link = Script(lambda frame: refused(frame) * 5 + damaged(frame), right)
    assert Session(link).ask(Command.COUNTERS) == b"right"
    assert len(link.sent) == 2


def test_the_answer_may_come_behind_a_damaged_frame() -> None:
    link = Script(lambda frame: damaged(frame) + right(frame))
    assert Session(link).ask(Command.COUNTERS) == b"right"
    assert len(link.sent) == 1


def test_answers_to_other_requests_are_thrown_away() -> None:
    link = Script(right, lambda frame: reply_to(link.sent[0], data=b"old") + right(frame))
    session = Session(link)
    session.ask(Command.COUNTERS)
    assert session.ask(Command.COUNTERS) == b"right"
    # Of another session, and to another command.
    other = Script(
        lambda frame: b"".join(reply_to(changed(frame, place), data=b"x") for place in (0, 1, 3)) + right(frame)
    )
    assert Session(other).ask(Command.COUNTERS) == b"right"


def changed(frame: bytes, place: int) -> bytes:
    [body] = Decoder().feed(frame)
    assert body is not None
    spoilt = bytearray(body)
    spoilt[place] ^= 1
    return encode(bytes(spoilt))


def test_gives_up_with_one_line() -> None:
    link = Script()
    with pytest.raises(
        BoardError, match=r"the board on the script does not answer at 1000000 baud \(16 tries of 0.3 s\)"
    ):
        Session(link).ask(Command.COUNTERS)
    assert len(link.sent) == 16


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.COMMAND, "it does not know the command"),
        (Status.SESSION, "it was reset, or another host has opened a session on it"),
        (Status.SEQUENCE, "it has lost track of requests; another host may use it"),
        (Status.LENGTH, "a request was cut off within a beat or tile"),
        (Status.ADDRESS, "a request goes beyond a buffer"),
        (Status.HANG, "its unit hung and was reset"),
        (99, "status 99"),
    ],
)
def test_refusals(status: int, reason: str) -> None:
    with pytest.raises(BoardError, match=rf"the board on the script refuses: {reason} \(COUNTERS, request 1\)"):
        Session(Script(lambda frame: reply_to(frame, status))).ask(Command.COUNTERS)


def test_sessions_are_new_and_numbers_follow() -> None:
    links = [Script(*[right] * 70_000) for _ in range(3)]
    for link in links:
        session = Session(link)
        session.open()
    opened = {link.sent[0][2:4] for link in links}
    assert len(opened) > 1
    for _ in range(65_537):
        session.ask(Command.COUNTERS)
    bodies = [body for frame in links[-1].sent for body in Decoder().feed(frame)]
    assert [int.from_bytes(body[3:5], "little") for body in bodies if body] == [*range(65_536), 0, 1]
