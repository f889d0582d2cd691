"""The contents of an iCE40: the chip database of Project IceStorm, as text, which its own header describes.

Nothing of it is part of this project. Debian and Ubuntu have it as the package fpga-icestorm-chipdb.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from openmxu_boards.families.circuit import CircuitError

FOLDER = "OPENMXU_ICESTORM"
"""The variable that names the folder of the databases, unless it is one of the usual folders."""

_FOLDERS = ("/usr/share/fpga-icestorm/chipdb", "/usr/share/icebox", "/usr/local/share/icebox")

Place = tuple[int, int]
"""Column and row of a tile."""

Bits = Sequence[tuple[int, int]]
"""Configuration bits of a tile: row and column of each."""

# Ports of cells; the other names are wires between them.
_PORTS = re.compile(
    r"^(\d+) (\d+) ((?:lutff_|carry_in|ram/|io_|mult/|slf_op_|glb_netwk_|padin_|fabout|neigh_op_tn)\S*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Chip:
    """A device."""

    blocks: tuple[str, ...]
    """The database, cut at its empty lines."""

    @cached_property
    def nets(self) -> Mapping[tuple[int, int, str], int]:
        nets = {}
        for block in self._blocks(".net"):
            number = int(block[5 : block.index("\n")])
            for x, y, name in _PORTS.findall(block):
                nets[int(x), int(y), name] = number
        return nets

    @cached_property
    def tiles(self) -> Mapping[Place, str]:
        blocks = [block for block in self.blocks if "_tile " in block[:16]]
        found = [line for block in blocks for line in re.findall(r"\.(\w+)_tile (\d+) (\d+)", block)]
        return {(int(x), int(y)): kind for kind, x, y in found}

    @cached_property
    def functions(self) -> Mapping[str, Mapping[str, Bits]]:
        """The bits of each function of a tile, by kind of the tile and name of the function."""
        functions = {}
        for block in self.blocks:
            if header := re.match(r"\.(\w+)_tile_bits ", block):
                rows = [line.split() for line in block.splitlines()[1:]]
                functions[header[1]] = {name: _bits(bits) for name, *bits in rows}
        return functions

    @cached_property
    def cells(self) -> Mapping[tuple[str, int, int], Mapping[str, tuple[int, int, str]]]:
        """The special cells: by kind and place, the tile and the name of each port and configuration bit."""
        cells = {}
        for block in self._blocks(".extra_cell"):
            header, *rows = block.splitlines()
            x, y, *_, kind = header.split()[1:]
            fields = [row.split() for row in rows]
            cells[kind, int(x), int(y)] = {
                name: (int(rest[0]), int(rest[1]), rest[2]) for name, *rest in fields if len(rest) == 3
            }
        return cells

    @cached_property
    def column_buffers(self) -> Mapping[Place, Place]:
        """For each tile, the one that passes global nets on to it."""
        return {row[2:]: row[:2] for row in self._table(".colbuf")}  # type: ignore[misc]

    @cached_property
    def global_pins(self) -> Mapping[int, tuple[int, int, int]]:
        """For each global net, the pin that may drive it: column, row, number."""
        return {row[3]: row[:3] for row in self._table(".gbufpin")}  # type: ignore[misc]

    @cached_property
    def global_drivers(self) -> Mapping[int, Place]:
        """For each global net, the tile from whose fabric it may be driven."""
        return {row[2]: row[:2] for row in self._table(".gbufin")}  # type: ignore[misc]

    @cached_property
    def input_enables(self) -> Mapping[tuple[int, int, int], tuple[int, int, int]]:
        """For each pin, the tile and the number of the bits that enable its input."""
        return {row[:3]: row[3:] for row in self._table(".ieren")}  # type: ignore[misc]

    @cached_property
    def extra_bits(self) -> Mapping[tuple[int, int, int], str]:
        """The function of each bit outside the tiles, by bank, column and row."""
        rows = [line.split() for block in self._blocks(".extra_bits") for line in block.splitlines()[1:]]
        return {(int(bank), int(x), int(y)): name for name, bank, x, y in rows}

    def pins(self, package: str) -> Mapping[tuple[int, int, int], str]:
        """The name of each pin of a package, by column, row and number."""
        for block in self._blocks(".pins"):
            header, *rows = block.splitlines()
            if header.split()[1] == package:
                fields = [row.split() for row in rows]
                return {(int(x), int(y), int(number)): name for name, x, y, number, *_ in fields}
        raise CircuitError(f"the chip database has no package {package!r}")

    def switches(self, tiles: Collection[Place]) -> Iterator[tuple[Place, int, Bits, str]]:
        """Each place in some tiles where a net may be driven by others: tile, net, bits, and what they select."""
        wanted = {(str(x), str(y)): (x, y) for x, y in tiles}
        for block in self.blocks:
            if block.startswith((".buffer", ".routing")):
                header, _, choices = block.partition("\n")
                _, x, y, rest = header.split(" ", 3)
                if (tile := wanted.get((x, y))) is not None:
                    net, *bits = rest.split()
                    yield tile, int(net), _bits(bits), choices

    def _blocks(self, kind: str) -> list[str]:
        return [block for block in self.blocks if re.match(rf"\{kind}\s", block)]

    def _table(self, kind: str) -> list[tuple[int, ...]]:
        return [tuple(map(int, row.split())) for block in self._blocks(kind) for row in block.splitlines()[1:]]


def _bits(names: Sequence[str]) -> Bits:
    """``B3[17]`` is row 3, column 17."""
    return [(int(row), int(column)) for row, column in (name[1:-1].split("[") for name in names)]


@cache
def find_chip(device: str) -> Chip:
    name = f"chipdb-{device}.txt"
    folders = [os.environ[FOLDER]] if FOLDER in os.environ else list(_FOLDERS)
    for folder in folders:
        try:
            text = Path(folder, name).read_text()
        except OSError:
            continue
        return Chip(tuple(text[text.index("\n.device") + 1 :].split("\n\n")))
    raise OSError(
        f"{name} of Project IceStorm is not in {', '.join(folders)}; it comes with: apt install fpga-icestorm-chipdb, "
        f"or the variable {FOLDER} names its folder"
    )
