"""Links that carry bytes between host and board."""

import errno
import os
import re
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from openmxu_boards.tools import missing

BAUD = 1_000_000
"""Bits per second of our bitstreams' UART."""


CLOCKS: dict[str, Callable[[], float]] = {}
"""Clocks of ports whose other end does not run in real time: simulated boards."""

_SLICE = 0.01
"""Seconds of real time between two reads of such a clock."""


class Link(Protocol):
    """Bytes to a board and from it, and the time by which answers are waited for."""

    name: str
    """Name in errors."""
    baud: int
    """Bits per second."""

    def send(self, data: bytes) -> None:
        """Hand over bytes to be sent.

        Raises
        ------
        OSError
            The other end is gone.
        """
        ...

    def receive(self, seconds: float) -> bytes:
        """The bytes that have arrived; waits for the first one, at most ``seconds``.

        Raises
        ------
        OSError
            The other end is gone.
        """
        ...

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def close(self) -> None:
        """Close the link."""
        ...


_KNOWN = [
    (0x0403, 0x6010),  # FT2232H of an iCEBreaker, or what a Tang Nano has in its place
    (0x0403, 0x6015),  # FT231X of a ULX3S
    (0x0D28, 0x0204),  # DAPLink of a Colorlight i5 on its extension board
    (0x1209, 0xC0CA),  # DirtyJTAG, as on the RP2040 of a GateMateA1-EVB
    (0x1A86, 0x7523),  # CH340 converter
    (0x10C4, 0xEA60),  # CP210x converter
    (0x0403, 0x6001),  # FT232R converter
]
"""Maker and product of the USB devices that boards have their UART on."""


def _serial() -> Any:
    try:
        import serial  # noqa: PLC0415  # an extra
        import serial.tools.list_ports  # noqa: PLC0415
    except ModuleNotFoundError:
        raise missing("pyserial") from None
    return serial


def candidates() -> Sequence[str]:
    """The serial ports of this machine that may be a board's, the likelier ones first.

    Known converters only; of those with several ports, the last one first: there the UART is.
    """
    ports = [port for port in _serial().tools.list_ports.comports() if (port.vid, port.pid) in _KNOWN]
    ports.sort(key=lambda port: [int(part) for part in re.findall(r"\d+", port.device)], reverse=True)
    ports.sort(key=lambda port: _KNOWN.index((port.vid, port.pid)))
    return [port.device for port in ports]


class SerialLink:
    """A serial port, or a pseudo-terminal; no other program can open it meanwhile."""

    def __init__(self, port: str, baud: int = BAUD) -> None:
        serial = _serial()
        self.name, self.baud = port, baud
        self._gone = (serial.SerialException, OSError, TypeError)
        try:
            self._port = serial.Serial(port, baud, timeout=0, write_timeout=10, exclusive=True)
            self._port.reset_input_buffer()
        except (serial.SerialException, OSError, ValueError, OverflowError) as error:
            raise OSError(f"port {port} cannot be opened: {_reason(error)}") from None

    def send(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except self._gone as error:
            raise OSError(f"port {self.name} is gone: {_reason(error)}") from None

    def receive(self, seconds: float) -> bytes:
        deadline = self.now() + seconds
        simulated = self.name in CLOCKS
        try:
            while not (data := self._port.read(self._port.in_waiting)) and (left := deadline - self.now()) > 0:
                # The port's own timeout would configure the port anew each time.
                select.select([self._port], [], [], _SLICE if simulated else left)
            return bytes(data)
        except self._gone as error:
            raise OSError(f"port {self.name} is gone: {_reason(error)}") from None

    def now(self) -> float:
        return CLOCKS.get(self.name, time.monotonic)()

    def close(self) -> None:
        self._port.close()


def _reason(error: Exception) -> str:
    """The reason of an error of pyserial, without the port's name."""
    number = getattr(error, "errno", None)
    if number == errno.ENOTTY or "Inappropriate ioctl" in str(error):
        return "it is no serial port"
    if number in (errno.EAGAIN, errno.EBUSY):
        return "another program uses it"
    return os.strerror(number) if number else str(error) or type(error).__name__
