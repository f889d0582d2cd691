"""Straps of the supplies, and the stacks of vias that join them to the rails of the rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from openmxu.layout.placed import Placed
from openmxu.layout.route.grid import Grid
from openmxu.layout.route.routing import Pads
from openmxu.layout.technology import Rect, Technology


@dataclass(frozen=True)
class Strap:
    """A vertical line of one supply."""

    supply: str
    rect: Rect
    stacks: tuple[tuple[int, int], ...]
    """Where its vias stand, in nm."""


def plan_straps(placed: Placed, pads: Pads, technology: Technology) -> list[Strap]:
    """The straps of a placed design, at equal distances, at least one of each supply.

    A stack takes nodes. It moves to the side where it would take those of a port, or the last ones of a pin.
    """
    rules, step = technology.straps, technology.grid["x"]
    count = max(len(rules["supplies"]), round(placed.width / rules["pitch"]))
    if placed.width < count * (rules["width"] + rules["spacing"]):
        least = count * (rules["width"] + rules["spacing"])
        raise ValueError(f"width must be {least} nm or more, for straps of each supply, not {placed.width}")
    plan = _Plan(placed, pads, technology)
    straps = []
    for index in range(count):
        supply = rules["supplies"][index % len(rules["supplies"])]
        x = (2 * index + 1) * placed.width // (2 * count) // step * step
        side, beyond = rules["width"] // 2, rules["via"]["size"] // 2 + rules["enclosure"]
        rect = (x - side, -beyond, x + side, placed.height + beyond)
        straps.append(Strap(supply, rect, tuple((plan.find(x, y), y) for y in _rails(placed, supply, technology))))
    return straps


def stack_metal(x: int, y: int, technology: Technology) -> Iterator[tuple[int, Rect]]:
    """Level and rectangle of the metal of a stack: a step of wire, and a square below the strap."""
    top = len(technology.metals) - 1
    for level, metal in enumerate(technology.metals[:top]):
        step = technology.step(level)
        left, bottom = (x, y - step // 2) if metal.vertical else (x - step // 2, y)
        yield level, technology.wire(level, left, bottom, step)
    side = technology.straps["pad"] // 2
    yield top, (x - side, y - side, x + side, y + side)


def _rails(placed: Placed, supply: str, technology: Technology) -> range:
    """The places of a supply's rails. Rows share them: every second one is mirrored."""
    supplies, row = technology.straps["supplies"], technology.grid["row"]
    upright = not next(instance.mirrored for instance in placed.instances if instance.y == 0)
    first = supplies.index(supply) if upright else 1 - supplies.index(supply)
    return range(first * row, placed.height + 1, 2 * row)


class _Plan:
    """Looks for places of stacks, and knows which nodes are taken."""

    def __init__(self, placed: Placed, pads: Pads, technology: Technology) -> None:
        self._grid = Grid.of(placed, technology)
        self._technology = technology
        self._ports = {self._grid.number(technology.levels[port.layer], port.x, port.y) for port in placed.ports}
        self._accesses = {pin: {self._grid.number(0, *at) for at in access} for pin, access in pads.items()}
        self._pins: dict[int, list[tuple[str, str]]] = {}
        for pin, numbers in self._accesses.items():
            for number in numbers:
                self._pins.setdefault(number, []).append(pin)

    def find(self, x: int, y: int) -> int:
        """The x at which a stack stands, near the middle of its strap."""
        for shift in sorted(range(-self._technology.straps["shift"], self._technology.straps["shift"] + 1), key=abs):
            at = x + shift * self._technology.grid["x"]
            metal = stack_metal(at, y, self._technology)
            taken = {number for level, rect in metal for number in self._grid.near(level, rect)}
            losers = {pin for number in taken for pin in self._pins.get(number, ())}
            if not taken & self._ports and all(self._accesses[pin] - taken for pin in losers):
                for pin in losers:
                    self._accesses[pin] -= taken
                return at
        raise ValueError(f"core must have room for a stack of vias at {x}, {y} nm: ports or pins are in its way")
