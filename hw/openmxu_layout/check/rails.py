"""Whether the supplies in masks are whole, by metal alone: LVS joins rails through wells and the substrate, too.

::

    strap, as planned ══════╦═══════════     A rail is one piece as wide as the core. From each strap of its supply to
    vias and metal of a stack ║              the rail, each layer has a shape that overlaps one of the layer above.
    rail of a row     ────────╨─────────
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gdstk

from openmxu.cells.lef import Rect
from openmxu_layout.route.routing import Wired
from openmxu_layout.technology import Technology

_BAND = 20
"""Height in nm of the part of a rail that is looked at."""


def broken_supplies(masks: Path, wired: Wired, technology: Technology) -> list[str]:
    """Where rails, straps or stacks of vias are not whole in masks, in words."""
    [top] = [cell for cell in gdstk.read_gds(masks).cells if cell.name == wired.placed.name]
    width, height, rules = wired.placed.width, wired.placed.height, technology.straps
    rails = range(0, height + 1, technology.grid["row"])
    pieces = {*_cut(top, technology.pins["layer"], [(0, y - _BAND // 2, width, y + _BAND // 2) for y in rails])}
    whole = {y for y in rails if (0, y - _BAND // 2, width, y + _BAND // 2) in pieces}
    wrong = [f"the rail at {y} nm is not one piece" for y in rails if y not in whole]
    side = rules["width"]
    drawn = {*_cut(top, rules["layer"], [(-side, -height, width + side, 2 * height)])}
    for rect in sorted(drawn ^ {strap.rect for strap in wired.straps}):
        wrong.append(f"{rules['name']} at {rect[0]}, {rect[1]} nm is {'no strap' if rect in drawn else 'missing'}")
    layers = [rules["via"]["layer"]]
    for metal in reversed(technology.metals):
        layers += [metal.layer, metal.via["layer"]]
    near = _shapes_by_rail(top, technology.grid["row"])
    for strap in wired.straps:
        first = rules["supplies"].index(strap.supply)
        for rail, y in list(enumerate(rails))[first :: len(rules["supplies"])]:
            reached: list[Rect] = [strap.rect]
            for layer in layers:
                reached = [rect for rect in near[layer, rail] if any(_overlap(rect, other) for other in reached)]
            if not any(_overlap(rect, (0, y - _BAND // 2, width, y + _BAND // 2)) for rect in reached):
                wrong.append(f"no stack joins the strap at {strap.rect[0]} nm to the rail at {y} nm")
    return wrong


def _cut(top: Any, layer: int, windows: Sequence[Rect]) -> Iterator[Rect]:
    """The pieces of a layer within windows; one that is no rectangle is left out."""
    areas = [gdstk.rectangle((left / 1e3, low / 1e3), (right / 1e3, up / 1e3)) for left, low, right, up in windows]
    yield from filter(None, map(_rectangle, gdstk.boolean(top.get_polygons(layer=layer, datatype=0), areas, "and")))


def _rectangle(shape: Any) -> Rect | None:
    """The sides of a polygon in nm; none if it is no rectangle."""
    (left, low), (right, up) = shape.bounding_box()
    if abs(shape.area() - (right - left) * (up - low)) > 1e-9:
        return None
    return round(left * 1e3), round(low * 1e3), round(right * 1e3), round(up * 1e3)


def _shapes_by_rail(top: Any, row: int) -> dict[tuple[int, int], list[Rect]]:
    """The rectangles that are no cell's, by layer and by the number of the rail that is nearest."""
    shapes = defaultdict(list)
    for shape in top.polygons:
        if shape.datatype == 0 and (rect := _rectangle(shape)):
            shapes[shape.layer, round((rect[1] + rect[3]) / 2 / row)].append(rect)
    return shapes


def _overlap(one: Rect, other: Rect) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
