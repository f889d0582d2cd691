"""Cells of a library, from its file in LEF."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

Rect = tuple[int, int, int, int]
"""Left, bottom, right, top, in nm."""

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
class LefCell:
    """The size of a cell and its metal, in nm from its lower left corner."""

    width: int = 0
    height: int = 0
    pins: dict[str, Pin] = field(default_factory=dict)
    obstructions: list[Shape] = field(default_factory=list)

    @property
    def signals(self) -> dict[str, Pin]:
        """The pins that are no supplies."""
        return {name: pin for name, pin in self.pins.items() if pin.use not in {"POWER", "GROUND"}}


def read_cells(text: str) -> dict[str, LefCell]:
    """The cells of a LEF file's text; a :exc:`ValueError` where a shape is no rectangle."""
    cells: dict[str, LefCell] = {}
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


def _read_cell(name: str, statements: Iterator[list[str]]) -> LefCell:
    cell, pin, shapes, layer = LefCell(), Pin(), list[Shape](), ""
    for statement in statements:
        match statement:
            case ["SIZE", width, "BY", height]:
                cell.width, cell.height = _nm(width), _nm(height)
            case ["PIN", word]:
                pin = cell.pins[word] = Pin()
                shapes = pin.shapes
            case ["DIRECTION", word, *_]:
                pin.direction = word
            case ["USE", word]:
                pin.use = word
            case ["OBS"]:
                shapes = cell.obstructions
            case ["LAYER", word, *_]:
                layer = word
            case ["RECT", left, bottom, right, top]:
                shapes.append((layer, (_nm(left), _nm(bottom), _nm(right), _nm(top))))
            case ["SIZE" | "PIN" | "DIRECTION" | "USE" | "LAYER" | "RECT" | "POLYGON" | "VIA", *_]:
                raise ValueError(f"cells must have rectangles alone, not {' '.join(statement)} as {name} has")
            case ["END", word] if word == name:
                return cell
    raise ValueError(f"cells must have an end, and {name} has none")


def _nm(number: str) -> int:
    if not re.fullmatch(r"-?(\d{1,6}(\.\d*)?|\.\d+)", number, re.ASCII):
        raise ValueError(f"lengths must be numbers of µm below a million, not {number!r}")
    return int(Decimal(number) * 1000)
