"""A simulated board on a pseudo-terminal, which programs open as they open a serial port."""

import os
import select
import threading
import tty
from contextlib import suppress
from types import TracebackType

from openmxu_boards.host.link import CLOCKS
from openmxu_boards.simulated.pin_link import PinLink

_REST = 0.005
"""Seconds between two checks of an idle line."""

_AHEAD = 0.001
"""Seconds of the design's time that are simulated before bytes of the host are read again."""


class Terminal:
    """A thread that carries bytes between a pseudo-terminal and a simulated board, until both are closed.

    ``port`` is the name for a host, ``error`` the exception that ended the thread early, if there was one.
    """

    def __init__(self, link: PinLink) -> None:
        self._link = link
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._theirs)
        os.set_blocking(self._ours, False)
        self.port = os.ttyname(self._theirs)
        CLOCKS[self.port] = link.now
        self.error: BaseException | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="simulated board", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """End the thread and close both ends of the port."""
        CLOCKS.pop(self.port, None)
        self._ends.set()
        self._thread.join()
        for end in (self._ours, self._theirs):
            os.close(end)
        self._link.close()

    def _carry(self) -> None:
        try:
            quiet = False
            while not self._ends.is_set():
                readable, _, _ = select.select([self._ours], [], [], _REST if quiet else 0)
                if readable:
                    self._link.send(os.read(self._ours, 4096))
                data = self._link.receive(_AHEAD)
                if data:
                    with suppress(BlockingIOError):  # as on a wire, bytes that nobody reads are lost
                        os.write(self._ours, data)
                # Rest where nothing is on the line, but keep the clock going: the board may be at work.
                quiet = not (data or readable) and self._link.idle
        except Exception as error:  # raised again when the terminal is closed
            self.error = error
