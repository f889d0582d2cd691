"""Access to the pins of cells: the nodes at which a via may stand on a pin.

::

      ┌───┐ pin                a via's pad lies within the pin's metal (a),
      │ a │                    or joins it over the metal's least width (b);
      │   ├─┐                  then the pad keeps the spacing to all that it does not join
      │   │b│◄── spacing ──►┌──
      └───┴─┘               │ other metal
"""

from collections.abc import Mapping, Sequence
from itertools import permutations

from openmxu.cells.lef import LefCell, Rect
from openmxu_layout.technology import Technology, around

Access = dict[tuple[int, int], tuple[int, int]]
"""For each node where a via may stand, in nm from the cell's lower left corner, width and height of the via's pad."""


def find_access(cell: LefCell, technology: Technology) -> dict[str, Access]:
    """The access of each signal pin of a cell; empty where its pins are not all on the metal of pins."""
    metal = technology.pins["name"]
    shapes = [shape for pin in cell.pins.values() for shape in pin.shapes] + cell.obstructions
    if any(layer != metal for layer, _ in shapes):
        return {name: {} for name in cell.signals}
    everything = [rect for _, rect in shapes]
    access = {
        name: _accesses(cell, [rect for _, rect in pin.shapes], everything, technology)
        for name, pin in cell.signals.items()
    }
    for name, other in permutations(access, 2):  # one net may have both pins
        others = [_grown(around(*at, *size), technology.pins["spacing"]) for at, size in access[other].items()]
        apart = {
            at: size
            for at, size in access[name].items()
            if all(min(_overlap(around(*at, *size), near)) <= 0 for near in others)
        }
        access[name] = apart or access[name]
    return access


def unreachable(cells: Mapping[str, LefCell], technology: Technology) -> list[str]:
    """The cells with a signal pin that no via reaches: synthesis leaves them out."""
    return [name for name, cell in cells.items() if not all(find_access(cell, technology).values())]


def _accesses(cell: LefCell, pin: Sequence[Rect], everything: Sequence[Rect], technology: Technology) -> Access:
    step_x, step_y = technology.grid["x"], technology.grid["y"]
    others = [rect for rect in everything if rect not in pin]
    access: Access = {}
    for x in range(step_x, cell.width, step_x):
        for y in range(step_y, cell.height, step_y):
            for width, height in technology.pins["pads"]:
                pad = around(x, y, width, height)
                if _is_covered(pad, pin) or _may_join(pad, pin, others, cell.width, technology):
                    access.setdefault((x, y), (width, height))
    return access


def _may_join(pad: Rect, pin: Sequence[Rect], others: Sequence[Rect], width: int, technology: Technology) -> bool:
    """Whether a pad that is partly outside of its pin breaks no rule, in any neighbourhood."""
    least, spacing = technology.pins["width"], technology.pins["spacing"]
    joined = [rect for rect in pin if max(_overlap(pad, rect)) >= least and min(_overlap(pad, rect)) >= 0]
    if not joined or pad[0] < spacing // 2 or pad[2] > width - spacing // 2:
        return False
    apart = [*others, *(rect for rect in pin if rect not in joined)]
    near = [rect for rect in apart if min(_overlap(_grown(pad, spacing), rect)) > 0]
    return all(0 not in _overlap(pad, rect) and _is_covered(_between(pad, rect), joined) for rect in near)


def _overlap(a: Rect, b: Rect) -> tuple[int, int]:
    """Width and height of what two rectangles share; negative: their distance."""
    return min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])


def _grown(rect: Rect, by: int) -> Rect:
    return rect[0] - by, rect[1] - by, rect[2] + by, rect[3] + by


def _between(a: Rect, b: Rect) -> Rect:
    """The rectangle between two that are apart; what they share, where they overlap."""
    xs, ys = sorted((max(a[0], b[0]), min(a[2], b[2]))), sorted((max(a[1], b[1]), min(a[3], b[3])))
    return xs[0], ys[0], xs[1], ys[1]


def _is_covered(rect: Rect, by: Sequence[Rect]) -> bool:
    """Whether rectangles together cover one: each of the pieces into which their sides cut it is in one."""
    xs, ys = (
        sorted({*rect[axis::2], *(side for each in by for side in each[axis::2] if rect[axis] < side < rect[axis + 2])})
        for axis in (0, 1)
    )
    return all(any(a <= x < c and b <= y < d for a, b, c, d in by) for x in xs[:-1] for y in ys[:-1])
