"""A host's end of the protocol on links that lose, damage, repeat and delay, and the ports that may be a board's."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from openmxu_boards.host.link import candidates
from openmxu_boards.host.session import BoardError, Session
from openmxu_boards.protocol import Command, Decoder, Status, encode


def body_of(frame: bytes) -> bytes:
    [body] = Decoder().feed(frame)
    assert body is not None
    return body


def reply_to(frame: bytes, status: int = Status.OK, data: bytes = b"") -> bytes:
    body = body_of(frame)
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


def right(frame: bytes) -> bytes:
    return reply_to(frame, data=b"right")


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def damaged(frame: bytes) -> bytes:
    return flipped(right(frame), 4)


def refused(frame: bytes) -> bytes:
    return encode(bytes([0x80, 0, 0, 0, 0, Status.FRAME]))


def opened(*answers: Callable[[bytes], bytes]) -> tuple[Session, Script]:
    """An open session, and its link, which has sent nothing yet."""
    link = Script(right, right, *answers)
    session = Session(link)
    session.open()
    link.sent.clear()
    return session, link


@pytest.mark.parametrize(
    ("first", "retries"),
    [
        (lambda frame: b"", 1),
        (damaged, 1),
        (refused, 1),
        (lambda frame: b"\x7e\x12\x7e\x7e", 1),
        (lambda frame: frame, 1),
        (lambda frame: refused(frame) * 5 + damaged(frame), 1),
        (lambda frame: damaged(frame) + right(frame), 0),
    ],
)
def test_asks_again(first: Callable[[bytes], bytes], retries: int) -> None:
    """Damaged frames in a row are one reason; the answer may come behind one."""
    session, link = opened(first, right)
    assert session.ask(Command.COUNTERS) == b"right"
    assert link.sent == [link.sent[0]] * (1 + retries)
    assert session.retries == retries


def test_answers_to_other_requests_are_thrown_away() -> None:
    session, link = opened(right, lambda frame: reply_to(link.sent[0], data=b"old") + right(frame))
    session.ask(Command.COUNTERS)
    assert session.ask(Command.COUNTERS) == b"right"
    # Of another session, and to another command.
    others = [lambda frame, at=at: reply_to(encode(flipped(body_of(frame), at)), data=b"x") for at in (0, 1, 3)]
    session, _ = opened(lambda frame: b"".join(other(frame) for other in others) + right(frame))
    assert session.ask(Command.COUNTERS) == b"right"


def test_gives_up_with_one_line() -> None:
    link, said = Script(), r"the board on the script does not answer at 1000000 baud \(16 tries of 0.3 s\)"
    with pytest.raises(BoardError, match=said):
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
    with pytest.raises(BoardError, match=rf"the board on the script refuses: {reason} \(COUNTERS\)"):
        opened(lambda frame: reply_to(frame, status))[0].ask(Command.COUNTERS)


def test_numbers_follow_and_begin_anywhere() -> None:
    session, link = opened(*[right] * 65_540)
    for _ in range(65_540):
        session.ask(Command.COUNTERS)
    numbers = [int.from_bytes(body_of(frame)[3:5], "little") for frame in link.sent]
    assert numbers == [(numbers[0] + count) % 65_536 for count in range(65_540)]
    others = [opened(right) for _ in range(8)]
    for session, _ in others:
        session.ask(Command.COUNTERS)
    assert len({link.sent[0] for _, link in others}) > 1


def test_a_session_that_is_open_already_is_left_for_another_one() -> None:
    """The board answers OPEN, and has other sequence numbers."""
    link = Script(right, lambda frame: reply_to(frame, Status.SEQUENCE), right, right)
    session = Session(link)
    session.open()
    assert [frame[1] for frame in link.sent] == [2, 7, 2, 7]
    assert link.sent[0] != link.sent[2]


def test_after_a_failure_there_is_a_new_session() -> None:
    session, link = opened(lambda frame: reply_to(frame, Status.ADDRESS), right, right, right)
    with pytest.raises(BoardError):
        session.ask(Command.COUNTERS)
    assert session.ask(Command.COUNTERS) == b"right"
    assert [frame[1] for frame in link.sent] == [7, 2, 7, 7]


def test_known_converters_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelier ones first; of a converter with two ports, the second is the UART."""
    ports = [("S0", None, None), ("ACM0", 0x1209, 0xC0CA), ("USB0", 0x0403, 0x6010), ("USB1", 0x0403, 0x6010)]
    ports += [("USB2", 0x0403, 0x6001), ("USB10", 0x0403, 0x6015), ("USB3", 0x0403, 0x6015), ("ACM1", 0x2341, 0x0043)]
    plugged = [SimpleNamespace(device=f"/dev/tty{name}", vid=vendor, pid=product) for name, vendor, product in ports]
    monkeypatch.setattr(list_ports, "comports", lambda: plugged)
    likely = ("USB1", "USB0", "USB10", "USB3", "ACM0", "USB2")
    assert candidates() == [f"/dev/tty{name}" for name in likely]
