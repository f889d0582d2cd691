"""Cells of a library, from its file in LEF."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from openmxu.layout.technology import Rect

Shape = tuple[str, Rect]
"""A layer's name, and a rectangle in nm."""


@dataclass
class Pin:
    """A pin of a cell."""

    use: str = "SIGNAL"
    """``"SIGNAL"``, ``"CLOCK"``, ``"POWER"`` or ``"GROUND"``."""
    direction: str = "INPUT"
    shapes: list[Shape] = field(default_factory=list)


@dataclass
class Cell:
    """The size of a cell and its metal, in nm from its lower left corner."""

    width: int = 0
    height: int = 0
    pins: dict[str, Pin] = field(default_factory=dict)
    obstructions: list[Shape] = field(default_factory=list)

    @property
    def signals(self) -> dict[str, Pin]:
        """The pins that are no supplies."""
        return {name: pin for name, pin in self.pins.items() if pin.use not in {"POWER", "GROUND"}}


def read_cells(text: str) -> dict[str, Cell]:
    """The cells of a LEF file's text; a :exc:`ValueError` where a shape is no rectangle."""
    cells: dict[str, Cell] = {}
    statements = _statements(text)
    for keyword, *words in statements:
        if keyword == "MACRO" and len(words) == 1:  # others define properties
            cells[words[0]] = _read_cell(words[0], statements)
    return cells


def _statements(text: str) -> Iterator[list[str]]:
    """The words of each line, without comments and semicolons."""
    for line in text.splitlines():
        if words := line.partition("#")[0].replace(";", " ").split():
            yield words


def _read_cell(name: str, statements: Iterator[list[str]]) -> Cell:
    cell, pin, shapes, layer = Cell(), Pin(), list[Shape](), ""
    for keyword, *words in statements:
        match keyword:
            case "SIZE":
                cell.width, cell.height = _nm(words[0]), _nm(words[2])
            case "PIN":
                pin = cell.pins[words[0]] = Pin()
                shapes = pin.shapes
            case "DIRECTION":
                pin.direction = words[0]
            case "USE":
                pin.use = words[0]
            case "OBS":
                shapes = cell.obstructions
            case "LAYER":
                layer = words[0]
            case "RECT":
                left, bottom, right, top = map(_nm, words)
                shapes.append((layer, (left, bottom, right, top)))
            case "POLYGON" | "VIA":
                raise ValueError(f"cells must have rectangles alone, not {keyword} as {name} has")
            case "END" if words == [name]:
                break
    return cell


def _nm(number: str) -> int:
    return int(Decimal(number) * 1000)
