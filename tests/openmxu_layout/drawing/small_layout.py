"""A small layout."""

from openmxu_layout.placed import Instance, Placed
from openmxu_layout.route.routing import Route, Strap, Via, Wire, Wired


def small() -> Wired:
    """Two cells on each other, a net with a port, and a strap with one stack."""
    placed = Placed(
        "small",
        4800,
        7560,
        (Instance("u0", "inv", 960, 0, False), Instance("u1", "inv", 480, 3780, True)),
        {"out": (0, 1440, 0)},
        {"out": (("u0", "Y"),)},
    )
    metal = Route(
        [Wire(0, 1440, 0, 840), Wire(1, 960, 840, 480)],
        [Via(1, 1440, 840), Via(0, 1440, 420)],
        [(1335, 275, 1545, 565)],
    )
    return Wired(placed, {"out": metal}, [Strap("VSS", (500, -630, 4300, 8190), ((2400, 0),))])
