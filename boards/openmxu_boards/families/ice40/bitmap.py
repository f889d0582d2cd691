"""The bits of an iCE40's bitstream, from iceunpack's text."""

from collections.abc import Mapping
from dataclasses import dataclass

from openmxu_boards.families.circuit import CircuitError
from openmxu_boards.families.ice40.chip import Bits, Place


@dataclass(frozen=True)
class Bitmap:
    """A bitstream."""

    device: str
    """IceStorm's name of the device, such as ``5k``."""
    tiles: Mapping[Place, tuple[str, ...]]
    """The rows of each tile, a character per bit."""
    memories: Mapping[Place, int]
    """The contents of each block RAM, 4096 bits, the first word lowest."""
    extra: frozenset[tuple[int, int, int]]
    """The bits outside the tiles that are set: bank, column, row."""

    def read(self, tile: Place, bits: Bits) -> str:
        rows = self.tiles[tile]
        return "".join([rows[row][column] for row, column in bits])


def read_bitmap(text: str) -> Bitmap:
    device, tiles, memories, extra = "", {}, {}, set()
    # The comment may hold anything.
    for block in ("\n" + text).split("\n.")[1:]:
        header, *rows = block.strip("\n").split("\n")
        kind, *fields = header.split()
        try:
            if kind == "device":
                device = fields[0]
            elif kind == "ram_data":
                words = [int(row, 16) for row in rows if row]
                memories[int(fields[0]), int(fields[1])] = sum(word << 256 * n for n, word in enumerate(words))
            elif kind == "extra_bit":
                extra.add((int(fields[0]), int(fields[1]), int(fields[2])))
            elif kind.endswith("_tile"):
                tiles[int(fields[0]), int(fields[1])] = tuple(row for row in rows if row)
        except (IndexError, ValueError):
            raise CircuitError(f"the unpacked bitstream has a line that is not understood: .{header}") from None
    if not device or not tiles:
        raise CircuitError("the unpacked bitstream has no device and no tiles")
    return Bitmap(device, tiles, memories, frozenset(extra))
