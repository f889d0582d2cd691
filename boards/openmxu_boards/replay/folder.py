"""From the files of a build in a folder to a circuit whose pins are the board's."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from openmxu_boards.bitstream.plan import ROUTED, SUMMARY
from openmxu_boards.devices.boards import Board
from openmxu_boards.families import Family, family_of
from openmxu_boards.families.circuit import Circuit


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
    name, content = _checked(board, folder, family)
    return family.read(content, platform, find_pin(platform, platform.default_clk).name, tell), name


def _checked(board: Board, folder: Path, family: Family) -> tuple[str, bytes]:
    """The file to simulate and its content, if all files of a build are present and belong to one build."""
    try:
        report = json.loads((folder / SUMMARY).read_text())
        name, bitstream, digests = str(report["board"]), str(report["bitstream"]), dict(report["sha256"])
    except FileNotFoundError:
        raise ValueError(f"DIR must be a folder of openmxu board build; {folder} has no {SUMMARY}") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder / SUMMARY} was not written by this version of openmxu board build") from None
    if name != board.name:
        raise ValueError(f"DIR must hold a build for {board.name}, not for {name}")
    file = bitstream if family.unpacks else ROUTED
    for needed in (bitstream, file):
        if needed not in digests:
            raise ValueError(f"{folder / SUMMARY} was not written by this version of openmxu board build")
        try:
            content = (folder / needed).read_bytes()
        except OSError as error:
            raise ValueError(f"{folder / needed}: {error.strerror}; build again") from None
        if hashlib.sha256(content).hexdigest() != digests[needed]:
            raise ValueError(f"{folder / needed} is not the file that {SUMMARY} is about; build again")
    return file, content
