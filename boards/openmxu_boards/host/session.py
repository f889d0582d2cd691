"""Requests and their answers over a link that may damage or lose bytes."""

import secrets

from openmxu_boards.host.link import Link
from openmxu_boards.protocol import MOST_SEQUENCE, Command, Decoder, Identity, Reply, Status, request

_TRIES = 16
"""Number of times that a request is sent before the board is given up."""

_PATIENCE = 0.3
"""Seconds to wait for an answer, besides the time for bytes and work."""

_QUIET = 0.02
"""Seconds after a damaged frame, as USB converters keep bytes back for up to 16 ms."""

_BITS = 10
"""Bits of a byte on a UART."""

_REASONS = {
    Status.COMMAND: "it does not know the command",
    Status.SESSION: "it was reset, or another host has opened a session on it",
    Status.SEQUENCE: "it has lost track of requests; another host may use it",
    Status.LENGTH: "a request was cut off within a beat or tile",
    Status.ADDRESS: "a request goes beyond a buffer",
    Status.HANG: "its unit hung and was reset",
}


class BoardError(RuntimeError):
    """The board does not answer, or refuses; the text says on which port and what to do.

    Parameters
    ----------
    text
        The failure.
    status
        Status of the board's reply, if there is one.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Session:
    """A host's end of the protocol.

    A request is repeated until its answer arrives. The board knows requests by session and number, so that none is
    carried out twice; answers to others are dropped. So after bytes were lost, changed, repeated or inserted the next
    try succeeds, and no wrong answer is taken for the right one unless 32 bits of CRC agree by chance.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._decoder = Decoder()
        self._session = 0
        self._sequence = 0
        self._is_open = False
        self.retries = 0
        """Requests that were sent again."""
        self.carried = 0
        """Bytes to the board and from it."""

    def identify(self, tries: int = _TRIES) -> Identity:
        """The board's identity, whatever session is open."""
        return Identity.parse(self._ask(Command.IDENTIFY, b"", reply=512, tries=tries))

    def open(self) -> None:
        """Reset the unit, and open a session on it.

        If the random number is that of the open session, the board resets nothing and keeps its sequence numbers: the
        next request detects this.
        """
        while not self._is_open:
            self._session, self._sequence = 1 + secrets.randbelow(0xFFFF), secrets.randbelow(MOST_SEQUENCE + 1)
            self._ask(Command.OPEN, b"")
            self._sequence = (self._sequence + 1) & MOST_SEQUENCE
            try:
                self._ask(Command.COUNTERS, b"")
            except BoardError as error:
                if error.status != Status.SEQUENCE:
                    raise
            else:
                self._is_open = True

    def ask(self, command: Command, arguments: bytes = b"", *, reply: int = 0, seconds: float = 0.0) -> bytes:
        """Execute a command, in a new session if the last request of this one failed or was interrupted."""
        self.open()
        self._sequence = (self._sequence + 1) & MOST_SEQUENCE
        self._is_open = False  # until this request has its answer
        data = self._ask(command, arguments, reply=reply, seconds=seconds)
        self._is_open = True
        return data

    def _ask(
        self, command: Command, arguments: bytes, *, reply: int = 0, seconds: float = 0.0, tries: int = _TRIES
    ) -> bytes:
        frame = request(command, self._session, self._sequence, arguments)
        # Escapes at most double a frame.
        wait = seconds + _PATIENCE + _BITS * (len(frame) + 2 * reply + 64) / self._link.baud
        for attempt in range(tries):
            self.retries += attempt > 0
            self._link.send(frame)
            self.carried += len(frame)
            answer = self._wait(command, wait)
            if answer is not None:
                return self._data(answer)
        raise BoardError(
            f"the board on {self._link.name} does not answer at {self._link.baud} baud "
            f"({tries} tries of {wait:.1f} s): check the port, the baud rate and the bitstream"
        )

    def _wait(self, command: Command, seconds: float) -> Reply | None:
        """The answer; ``None`` if the request must be repeated."""
        deadline = self._link.now() + seconds
        while (left := deadline - self._link.now()) > 0:
            self.carried += len(arrived := self._link.receive(left))
            for body in self._decoder.feed(arrived):
                reply = Reply.parse(body) if body is not None else None
                if reply is None or reply.status == Status.FRAME:
                    # Either side has had a damaged frame. Others may follow: ask once, when they are through.
                    deadline = min(deadline, self._link.now() + _QUIET)
                elif (reply.command, reply.session, reply.sequence) == (command, self._session, self._sequence):
                    return reply
        return None

    def _data(self, reply: Reply) -> bytes:
        if reply.status != Status.OK:
            reason = _REASONS.get(Status(reply.status), "") if reply.status in set(Status) else ""
            raise BoardError(
                f"the board on {self._link.name} refuses: {reason or f'status {reply.status}'} "
                f"({Command(reply.command).name})",
                reply.status,
            )
        return reply.data
