"""Which serial ports may be a board's."""

from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from openmxu_boards.host.link import candidates


def test_known_converters_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelier ones first; of a converter with two ports, the second is the UART."""
    ports = [
        ("/dev/ttyS0", None, None),
        ("/dev/ttyACM0", 0x1209, 0xC0CA),
        ("/dev/ttyUSB0", 0x0403, 0x6010),
        ("/dev/ttyUSB1", 0x0403, 0x6010),
        ("/dev/ttyUSB2", 0x0403, 0x6001),
        ("/dev/ttyUSB10", 0x0403, 0x6015),
        ("/dev/ttyUSB3", 0x0403, 0x6015),
        ("/dev/ttyACM1", 0x2341, 0x0043),
    ]
    plugged = [SimpleNamespace(device=device, vid=vendor, pid=product) for device, vendor, product in ports]
    monkeypatch.setattr(list_ports, "comports", lambda: plugged)
    likely = ("USB1", "USB0", "USB10", "USB3", "ACM0", "USB2")
    assert candidates() == [f"/dev/tty{name}" for name in likely]
