"""From the files of a build in a folder to a circuit whose pins are the board's."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openmxu.runtime import process
from openmxu.yosys import yowasp
from openmxu_boards import tools
from openmxu_boards.bitstream.flow import ROUTED, SUMMARY
from openmxu_boards.devices.boards import Board
from openmxu_boards.devices.families import Family, family_of
from openmxu_boards.replay import ecp5, gatemate, gowin, ice40
from openmxu_boards.replay.bitmap import read_bitmap
from openmxu_boards.replay.chip import find_chip
from openmxu_boards.replay.circuit import Circuit

_NETLISTS: Mapping[str, Callable[[str, str], Circuit]] = {
    "ECP5": ecp5.read_circuit,
    "Gowin": gowin.read_circuit,
    "GateMate": gatemate.read_circuit,
}
"""Reader of the netlist after routing, by family."""


class Pin(NamedTuple):
    """A pin of a board's device."""

    name: str
    """Name of the pin on the package, such as ``37`` or ``B2``."""
    inverted: bool
    """Whether the pin is low where its signal is high."""


def find_pin(platform: Any, resource: str, number: int = 0, signal: str | None = None) -> Pin:
    """The pin of a resource of Amaranth's pin tables, or of a signal of one, as ``rx`` of ``uart``."""
    entry = platform.lookup(resource, number)
    [pins] = entry.ios if signal is None else next(part.ios for part in entry.ios if part.name == signal)
    # Pins of connectors have names of their own, which only the platform can resolve.
    [name] = pins.map_names(platform._conn_pins, entry)
    return Pin(name, pins.invert)


def read_build(board: Board, folder: Path, tell: Callable[[str], None]) -> tuple[Circuit, str]:
    """The circuit of a build, and the name of the file that it was read from."""
    platform = board.new_platform()
    family = family_of(platform)
    file = folder / _checked(board, folder, family)
    clock = find_pin(platform, platform.default_clk)
    if file.name == ROUTED:
        return _NETLISTS[family.name](file.read_text(), clock.name), file.name
    bitmap = read_bitmap(unpack(file.read_bytes(), tell))
    package = platform.package.lower()
    return ice40.read_circuit(find_chip(bitmap.device), bitmap, package, clock.name), file.name


def unpack(bitstream: bytes, tell: Callable[[str], None]) -> str:
    """An iCE40's bitstream as text, by iceunpack."""
    tools.check(["iceunpack"])
    with process.workspace() as work:
        (work / "bits.bin").write_bytes(bitstream)
        yowasp.run("iceunpack", ["bits.bin", "bits.asc"], work, tell)
        return (work / "bits.asc").read_text()


def _checked(board: Board, folder: Path, family: Family) -> str:
    """The file to simulate, if all files of a build are present and belong to one build."""
    try:
        report = json.loads((folder / SUMMARY).read_text())
        name, bitstream, digests = str(report["board"]), str(report["bitstream"]), dict(report["sha256"])
    except FileNotFoundError:
        raise ValueError(f"DIR must be a folder of openmxu board build; {folder} has no {SUMMARY}") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder / SUMMARY} was not written by this version of openmxu board build") from None
    if name != board.name:
        raise ValueError(f"DIR must hold a build for {board.name}, not for {name}")
    file = bitstream if family.replayed == "bitstream" else ROUTED
    for needed in (bitstream, file):
        if needed not in digests:
            raise ValueError(f"{folder / SUMMARY} was not written by this version of openmxu board build")
        try:
            content = (folder / needed).read_bytes()
        except OSError as error:
            raise ValueError(f"{folder / needed}: {error.strerror}; build again") from None
        if hashlib.sha256(content).hexdigest() != digests[needed]:
            raise ValueError(f"{folder / needed} is not the file that {SUMMARY} is about; build again")
    return file
