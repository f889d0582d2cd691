"""Straps of the supplies, and the stacks of vias that join them to the rails of the rows."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from openmxu.cells.lef import Rect
from openmxu_layout.placed import Placed
from openmxu_layout.route.grid import Grid
from openmxu_layout.route.routing import Pads, Strap
from openmxu_layout.technology import Technology, around


def plan_straps(placed: Placed, pads: Pads, technology: Technology) -> list[Strap]:
    """The straps of a placed design, at equal distances, at least one of each supply.

    A via stack occupies routing nodes. It is shifted sideways if it would block a port, or a pin's last access.
    """
    rules, step, row = technology.straps, technology.grid["x"], technology.grid["row"]
    count = max(len(rules["supplies"]), round(placed.width / rules["pitch"]))
    if placed.width < count * (rules["width"] + rules["spacing"]):
        least = count * (rules["width"] + rules["spacing"])
        raise ValueError(f"width must be {least} nm or more, for straps of each supply, not {placed.width}")
    find = _finder(placed, pads, technology)
    straps = []
    for index in range(count):
        x = (2 * index + 1) * placed.width // (2 * count) // step * step
        side, beyond = rules["width"] // 2, rules["via"]["size"] // 2 + rules["enclosure"]
        rect = (x - side, -beyond, x + side, placed.height + beyond)
        # Rows share rails, as every second one is mirrored; the lowest is upright.
        first = index % len(rules["supplies"])
        stacks = tuple((find(x, y), y) for y in range(first * row, placed.height + 1, 2 * row))
        straps.append(Strap(rules["supplies"][first], rect, stacks))
    return straps


def stack_metal(x: int, y: int, technology: Technology) -> Iterator[tuple[int, Rect]]:
    """Level and rectangle of the metal of a stack: a step of wire, and a square below the strap."""
    top = len(technology.metals) - 1
    for level in range(top):
        step = technology.step(level)
        yield level, technology.wire(level, *technology.end(level, x, y, -(step // 2)), step)
    yield top, around(x, y, technology.straps["pad"], technology.straps["pad"])


def _finder(placed: Placed, pads: Pads, technology: Technology) -> Callable[[int, int], int]:
    """Finds the x at which a stack stands, near the middle of its strap, and knows which nodes others have taken."""
    grid, most = Grid.of(placed, technology), technology.straps["shift"]
    ports = {grid.number(*port) for port in placed.ports.values()}
    left = {pin: {grid.number(0, *at) for at in access} for pin, access in pads.items()}
    pins = defaultdict(list)
    for pin, numbers in left.items():
        for number in numbers:
            pins[number].append(pin)

    def find(x: int, y: int) -> int:
        for shift in sorted(range(-most, most + 1), key=abs):
            at = x + shift * technology.grid["x"]
            taken = {number for level, rect in stack_metal(at, y, technology) for number in grid.near(level, rect)}
            losers = {pin for number in taken & pins.keys() for pin in pins[number]}
            if not taken & ports and all(left[pin] - taken for pin in losers):
                for pin in losers:
                    left[pin] -= taken
                return at
        raise ValueError(f"core must have room for a stack of vias at {x}, {y} nm: ports or pins are in its way")

    return find
