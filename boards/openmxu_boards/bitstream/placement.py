"""The places of a design's parts on a device, from the netlist that nextpnr has placed, and a drawing of them.

Yosys and nextpnr name a cell after the hierarchy, the signal that it drives, and its type::

    design.soc.machine.unit.array.row_1.pe_0.adder.summed_SB_DFF_Q_3      at X7/Y12/lc4
                            └── part ───────┘ └─ signal ──┘└ cell ──┘        └tile┘
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape

_PARTS = tuple(
    (re.compile(rf"(?:^|\.){pattern}"), name)
    for pattern, name in (
        (r"array\.row_(\d+)\.pe_(\d+)\.", "row {}, column {}"),
        (r"bank\.", "accumulators"),
        (r"unit\.(?=\w*(?:edge|skew))", "edges"),
        (r"unit\.", "rest of the unit"),
        (r"machine\.", "buffers"),
        (r"(?:soc|receiver|transmitter)\.", "protocol and UART"),
    )
)
"""Parts by the names of their cells; the first match counts."""

OTHERS = "others"
"""Cells without a part's name: the PLL, the lights, and cells that the tools added."""

_ELEMENT = re.compile(r"row (\d+), column (\d+)")

# Grey for parts that every design needs, colours for the elements.
_COLOURS = {
    "accumulators": "#56423a",
    "edges": "#8d7b6b",
    "rest of the unit": "#b9aa9a",
    "buffers": "#5f6b7a",
    "protocol and UART": "#96a2b0",
    OTHERS: "#cfd4da",
}

_WIDTH, _MARGIN, _KEY = 480, 12, 190
"""Widths of the device (approximately), of the margins, and of the key to its right."""


def part_of(cell: str) -> tuple[str, str]:
    """The part that a cell belongs to, and the rest of the cell's name: the signal that it drives."""
    signal = re.sub(r"_[A-Z].*", "", cell)
    for pattern, name in _PARTS:
        if (match := pattern.search(signal)) is not None:
            return name.format(*match.groups()), signal[match.end() :]
    return OTHERS, signal.removeprefix("design.")


def described(cell: str) -> str:
    """A cell for people: ``adder.summed of row 1, column 0``."""
    part, signal = part_of(cell)
    if part == OTHERS:
        return signal
    return f"{signal} of {part if _ELEMENT.fullmatch(part) else f'the {part}'}"


@dataclass(frozen=True)
class Placement:
    """The number of cells of each part on each tile."""

    tiles: Mapping[tuple[int, int], Mapping[str, int]]
    """Cells by part, by nextpnr's column and row of the tile."""

    @cached_property
    def cells(self) -> Counter[str]:
        cells: Counter[str] = Counter()
        for parts in self.tiles.values():
            cells.update(parts)
        return cells

    def to_svg(self, title: str) -> str:
        """A drawing: each tile is filled in proportion to its use, with the colours of its parts."""
        columns, lines = (1 + max(places) for places in zip(*self.tiles, strict=True))
        tile = min(16, max(4, _WIDTH // columns))
        width, height = tile * columns, tile * lines
        key = list(self._key())
        full = (width + _KEY + 3 * _MARGIN, max(height, 18 * len(key)) + 3 * _MARGIN)
        rows = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full[0]} {full[1]}" width="{full[0]}" '
            f'height="{full[1]}" role="img" font-family="sans-serif" font-size="12" fill="#010101">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{full[0]}" height="{full[1]}" fill="#fefefe"/>',
            f'<text x="{_MARGIN}" y="{_MARGIN + 2}">{escape(title)}</text>',
            f'<g transform="translate({_MARGIN} {2 * _MARGIN})">',
            f'<rect width="{width}" height="{height}" fill="#f2f2f2"/>',
            *(f'<path fill="{self._colour(part)}" d="{path}"/>' for part, path in sorted(self._paths(tile).items())),
            f'<g transform="translate({width + _MARGIN} 0)">',
            *(
                f'<rect y="{18 * number}" width="12" height="12" fill="{self._colour(part)}"/>'
                f'<text x="18" y="{18 * number + 10}">{part}: {cells:,}</text>'
                for number, (part, cells) in enumerate(key)
            ),
        ]
        return "\n".join([*rows, "</g></g></svg>"]) + "\n"

    def _key(self) -> Iterator[tuple[str, int]]:
        """The meaning of each colour: elements at the corners of the array, then all other parts."""
        cells = self.cells
        elements = sorted(part for part in cells if _ELEMENT.fullmatch(part))
        rows, columns = self._sides
        if len(elements) > 4:
            elements = [f"row {row}, column {column}" for row in (0, rows - 1) for column in (0, columns - 1)]
        for part in (*elements, *_COLOURS):
            if cells[part]:
                yield part, cells[part]

    @cached_property
    def _sides(self) -> tuple[int, int]:
        indices = [list(map(int, match.groups())) for part in self.cells if (match := _ELEMENT.fullmatch(part))]
        return max((row for row, _ in indices), default=0) + 1, max((column for _, column in indices), default=0) + 1

    def _colour(self, part: str) -> str:
        """The colour of a part; for elements the column sets the hue, the row the lightness."""
        if (match := _ELEMENT.fullmatch(part)) is None:
            return _COLOURS[part]
        (row, column), (rows, columns) = map(int, match.groups()), self._sides
        return f"hsl({360 * column // columns + 20}, 75%, {70 - 35 * row // max(rows - 1, 1)}%)"

    def _paths(self, tile: int) -> dict[str, str]:
        """SVG paths with the rectangles of each part: a tile is a stack of them."""
        most = max(sum(parts.values()) for parts in self.tiles.values())
        paths: dict[str, list[str]] = {}
        for (x, y), parts in sorted(self.tiles.items()):
            below = 0
            for part, cells in sorted(parts.items()):
                start, below = tile * below // most, below + cells
                high = tile * below // most - start
                if high:
                    paths.setdefault(part, []).append(f"M{x * tile} {y * tile + start}h{tile}v{high}h-{tile}z")
        return {part: "".join(path) for part, path in paths.items()}


@contextmanager
def of_nextpnr(what: str) -> Iterator[None]:
    """Refuse a file that nextpnr did not write, in one line."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise RuntimeError(f"nextpnr's {what} cannot be read: {error!r}") from None


@of_nextpnr("netlist")
def read_placement(netlist: str | bytes) -> Placement:
    """Read the placement from a netlist of ``nextpnr --write``."""
    tiles: dict[tuple[int, int], Counter[str]] = {}
    for module in json.loads(netlist)["modules"].values():
        for name, cell in module["cells"].items():
            match = re.match(r"X(\d+)/?Y(\d+)", cell.get("attributes", {}).get("NEXTPNR_BEL", ""))
            if match is not None:
                tiles.setdefault((int(match[1]), int(match[2])), Counter())[part_of(name)[0]] += 1
    if not tiles:
        raise RuntimeError("nextpnr's netlist says of no cell where it lies")
    return Placement(tiles)
