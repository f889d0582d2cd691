"""Layouts without a router: a row of cells, and above it a track for each net.

::

    in ━━━━●━━━━━━━━━━━━━━━━━  Metal3, a track for each net
    n0 ━━━━┿━━━━●━━━━━━●━━━━━
    out ━━━┿━━━━┿━━━━━━┿━━━●━
         ┌─┼────┼─┐ ┌──┼───┼┐  Metal2, a column for each pin
         │ A    Y │ │  A   Y│
         └────────┘ └───────┘
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import gdstk

from openmxu.layout.cells import Cell
from openmxu.layout.pins import find_access
from openmxu.layout.placed import Placed
from openmxu.layout.technology import Technology

Change = Callable[[gdstk.Cell], None]


def columns(
    placed: Placed, library: Mapping[str, Cell], technology: Technology
) -> dict[tuple[str, str], tuple[int, ...]]:
    """Where each pin is reached: x, y, and width and height of the pad; no two pins in one column."""
    at = {each.name: each for each in placed.instances}
    choices = {}
    for ends in placed.nets.values():
        for name, pin in ends:
            access = find_access(library[at[name].master], technology)[pin]
            choices[name, pin] = [(x + at[name].x, y, *size) for (x, y), size in access.items()]
    chosen: dict[tuple[str, str], tuple[int, ...]] = {}
    for end, nodes in sorted(choices.items(), key=lambda item: len(item[1])):
        taken = {node[0] for node in chosen.values()}
        chosen[end] = next(node for node in nodes if node[0] not in taken)
    return chosen


def draw(
    placed: Placed,
    library: Mapping[str, Cell],
    technology: Technology,
    masks: Path,
    out: Path,
    change: Change = lambda top: None,
) -> None:
    """Write the masks of a design in one row, after a change."""
    assert all(each.y == 0 for each in placed.instances)
    cells = {cell.name: cell for cell in gdstk.read_gds(masks).cells}
    top = gdstk.Cell(placed.name)
    for each in placed.instances:
        top.add(gdstk.Reference(cells[each.master], (each.x / 1000, 0)))

    def box(layer: int, left: int, bottom: int, right: int, up: int) -> None:
        top.add(gdstk.rectangle((left / 1000, bottom / 1000), (right / 1000, up / 1000), layer))

    reached = columns(placed, library, technology)
    for number, (net, ends) in enumerate(placed.nets.items()):
        y = placed.height + 420 * (number + 3)
        box(30, 0, y - 100, placed.width, y + 100)
        if net in placed.ports:
            top.add(gdstk.Label(net, (0.1, y / 1000), layer=30, texttype=25))
        for name, pin in ends:
            x, pin_y, width, height = reached[name, pin]
            box(8, x - width // 2, pin_y - height // 2, x + width // 2, pin_y + height // 2)
            box(10, x - 100, pin_y - 155, x + 100, y + 155)
            for layer, via_y in ((19, pin_y), (29, y)):
                box(layer, x - 95, via_y - 95, x + 95, via_y + 95)
    for supply, y in (("VSS", 0.0), ("VDD", placed.height / 1000)):
        top.add(gdstk.Label(supply, (0.1, y), layer=8, texttype=25))
    change(top)
    library_out = gdstk.Library()
    library_out.add(top, *top.dependencies(True))
    library_out.write_gds(out)
