"""Rules of wires, checked on drawn rectangles: what is near what, and what touches what. Knows of no grid.

Rules are those of the foundry's manual, in nm.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from openmxu.cells.lef import Rect
from openmxu_layout.route.routing import Route

SPACING, AREA, CUT_SPACING, ENCLOSURE = 210, 144_000, 220, (5, 50)
HALF_WIDTH, END, HALF_CUT = 100, 155, 95

PIN = -1
Place = tuple[int, int, int]
"""Level, x and y; ``PIN`` as the level: a via of level 0 is to stand there."""


Shape = tuple[int, Rect]
"""Level and rectangle."""


def rects(route: Route) -> list[Shape]:
    """The rectangles of a net: even levels have vertical wires."""
    return [
        (level, (x - HALF_WIDTH, y - END, x + HALF_WIDTH, y + length + END))
        if level % 2 == 0
        else (level, (x - END, y - HALF_WIDTH, x + length + END, y + HALF_WIDTH))
        for level, x, y, length in route.wires
    ]


def cuts(route: Route) -> list[Shape]:
    """The holes of a net's vias, with the level above."""
    return [(level, (x - HALF_CUT, y - HALF_CUT, x + HALF_CUT, y + HALF_CUT)) for level, x, y in route.vias]


def broken(
    routes: Mapping[str, Route], ends: Mapping[str, Sequence[Sequence[Place]]], blocked: Sequence[Shape] = ()
) -> list[str]:
    """The rules that layouts break. Each end of a net has the places at one of which the net is to be."""
    metal = [(*shape, net) for net, route in routes.items() for shape in rects(route)]
    metal += [(*shape, "blocked") for shape in blocked]
    holes = [(*shape, net) for net, route in routes.items() for shape in cuts(route)]
    found = [f"spacing: {a} and {b}" for a, b in _close(metal, SPACING)]
    found += [f"spacing of vias: {a} and {b}" for a, b in _close(holes, CUT_SPACING)]
    found += [f"area: {shape}" for shape in metal if _area(shape[1]) < AREA]
    for net, route in routes.items():
        found += [f"enclosure: {net} at {hole}" for hole in _bare(route)]
        pieces = _pieces(route, ends.get(net, ()))
        found += [f"open: {net} has {pieces} pieces"] if pieces > 1 else []
    return found


def _close(drawn: Sequence[tuple[int, Rect, str]], spacing: int) -> list[tuple[object, object]]:
    """Pairs on a level, of one net or of two, that are nearer than the spacing."""
    close, left_to_right = [], sorted(drawn)
    for index, a in enumerate(left_to_right):
        for b in left_to_right[index + 1 :]:
            if b[0] != a[0] or b[1][0] - a[1][2] >= spacing:
                break
            if _distance(a[1], b[1]) < spacing**2:
                close.append((a, b))
    return close


def _distance(a: Rect, b: Rect) -> int:
    """Square of the distance of two rectangles."""
    right, up = (max(a[i] - b[i + 2], b[i] - a[i + 2], 0) for i in (0, 1))
    return right**2 + up**2


def _area(rect: Rect) -> int:
    return (rect[2] - rect[0]) * (rect[3] - rect[1])


def _encloses(outer: Rect, inner: Rect) -> bool:
    """Whether metal covers a hole with its margins: the larger one on two opposite sides."""
    x = min(inner[0] - outer[0], outer[2] - inner[2])
    y = min(inner[1] - outer[1], outer[3] - inner[3])
    return min(x, y) >= ENCLOSURE[0] and max(x, y) >= ENCLOSURE[1]


def _bare(route: Route) -> list[Shape]:
    """Holes that the metal above or below does not cover; below level 0 are pads."""
    drawn = [*rects(route), *((-1, pad) for pad in route.pads)]
    return [
        (level, hole)
        for level, hole in cuts(route)
        if not {level - 1, level} <= {near for near, rect in drawn if _encloses(rect, hole)}
    ]


def _pieces(route: Route, ends: Sequence[Sequence[Place]]) -> int:
    """The pieces of a net with its ends, each of which is one piece with whatever reaches it."""
    metal, holes = rects(route), cuts(route)
    joined = {item: item for item in (*metal, *holes, *range(len(ends)))}

    def root(item: object) -> object:
        while joined[item] != item:
            item = joined[item]
        return item

    for (level, hole), (at, rect) in product(holes, metal):
        if at in {level, level - 1} and _encloses(rect, hole):
            joined[root((level, hole))] = root((at, rect))
    for index, places in enumerate(ends):
        for level, x, y in places:
            for at, rect in holes if level == PIN else metal:
                if at == max(level, 0) and rect[0] <= x <= rect[2] and rect[1] <= y <= rect[3]:
                    joined[root(index)] = root((at, rect))
    return len({root(item) for item in joined})
