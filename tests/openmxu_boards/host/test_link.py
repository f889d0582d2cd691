"""Which serial ports may be a board's."""

from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from openmxu_boards.host.link import candidates


def port(device: str, vendor: int | None, product: int | None) -> SimpleNamespace:
    return SimpleNamespace(device=device, vid=vendor, pid=product)


def test_known_converters_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelier ones first; of a converter with two ports, the second is the UART."""
    found = [
        port("/dev/ttyS0", None, None),
        port("/dev/ttyACM0", 0x1209, 0xC0CA),
        port("/dev/ttyUSB0", 0x0403, 0x6010),
        port("/dev/ttyUSB1", 0x0403, 0x6010),
        port("/dev/ttyUSB2", 0x0403, 0x6001),
        port("/dev/ttyUSB10", 0x0403, 0x6015),
        port("/dev/ttyUSB3", 0x0403, 0x6015),
        port("/dev/ttyACM1", 0x2341, 0x0043),
    ]
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    assert candidates() == [
        "/dev/ttyUSB1",
        "/dev/ttyUSB0",
        "/dev/ttyUSB10",
        "/dev/ttyUSB3",
        "/dev/ttyACM0",
        "/dev/ttyUSB2",
    ]
