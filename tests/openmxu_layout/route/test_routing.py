"""The router: cases with known answers, and rules on many nets, checked without its grid."""

import random
from collections.abc import Mapping, Sequence
from itertools import count

import pytest

from openmxu.cells.lef import Rect
from openmxu.runtime import native
from openmxu_layout.placed import Node, Placed
from openmxu_layout.route import routing
from openmxu_layout.route.routing import Pads, Route, RoutingError, Via, Wire, route

from ...scarce import enough, fail_at, scarce
from ..conftest import IHP
from .checker import PIN, Place, broken

X, Y = 480, 420
COLUMNS, ROWS = 20, 18
Pins = Sequence[Sequence[tuple[int, int]]]
"""For each pin of a net, the columns and rows where a via may stand."""


class Case:
    """A core with pins where a test wants them."""

    def __init__(
        self, nets: dict[str, Pins], ports: Mapping[str, Node] | None = None, size: tuple[int, int] = (COLUMNS, ROWS)
    ) -> None:
        named = {net: [(f"{net}_{index}", "P") for index in range(len(pins))] for net, pins in nets.items()}
        self.placed = Placed(
            "case", size[0] * X, size[1] * Y, (), ports or {}, {net: tuple(pins) for net, pins in named.items()}
        )
        self.pads: Pads = {
            pin: {(x * X, y * Y): (210, 290) for x, y in places}
            for net, pins in nets.items()
            for pin, places in zip(named[net], pins, strict=True)
        }
        self.ends: dict[str, list[list[Place]]] = {
            net: [[(PIN, x * X, y * Y) for x, y in places] for places in pins] for net, pins in nets.items()
        }
        for net, port in self.placed.ports.items():
            self.ends[net].append([port])

    def route(self, blocked: Sequence[tuple[int, Rect]] = ()) -> dict[str, Route]:
        """The routes, once they break no rule."""
        routes = route(self.placed, self.pads, IHP, blocked=blocked)
        assert not broken(routes, self.ends, blocked)
        return routes


def length(routes: dict[str, Route]) -> int:
    return sum(wire.length for each in routes.values() for wire in each.wires)


def test_a_straight_wire() -> None:
    routes = Case({"a": [[(5, 4)], [(5, 9)]]}).route()
    assert routes["a"].wires == [Wire(0, 5 * X, 4 * Y, 5 * Y)]
    assert sorted(routes["a"].vias) == [Via(0, 5 * X, 4 * Y), Via(0, 5 * X, 9 * Y)]
    assert sorted(routes["a"].pads) == [(2295, 4 * Y - 145, 2505, 4 * Y + 145), (2295, 9 * Y - 145, 2505, 9 * Y + 145)]


def test_the_nearer_access_is_taken() -> None:
    routes = Case({"a": [[(5, 4), (5, 7), (9, 4)], [(5, 9)]]}).route()
    assert routes["a"].wires == [Wire(0, 5 * X, 7 * Y, 2 * Y)]


def test_pins_side_by_side_have_a_step_on_each_level() -> None:
    """A step up, one to the side, one down: least area, so vias do not stand on each other."""
    routes = Case({"a": [[(5, 4)], [(6, 4)]]}).route()
    assert length(routes) == 2 * Y + X
    assert [len(routes["a"].wires), len(routes["a"].vias)] == [3, 4]
    assert routes["a"].lengths() == {0: 2 * Y, 1: X}


def test_a_net_around_an_obstacle() -> None:
    """A step to the side and back; without the obstacle the wire is straight."""
    wall = (0, (5 * X - 90, 6 * Y, 5 * X + 90, 8 * Y))
    case = Case({"a": [[(5, 4)], [(5, 11)]]})
    assert length(case.route()) == 7 * Y
    assert length(case.route([wall])) == 7 * Y + 2 * X


def test_a_wall_on_one_level_is_crossed_on_another() -> None:
    wall = (0, (0, 7 * Y - 90, COLUMNS * X, 7 * Y + 90))
    routes = Case({"a": [[(5, 4)], [(5, 11)]]}).route([wall])
    assert any(wire.level == 2 and wire.y < 7 * Y < wire.y + wire.length for wire in routes["a"].wires)


def test_two_nets_on_a_track_where_one_must_leave_it() -> None:
    routes = Case({"a": [[(5, 3)], [(5, 12)]], "b": [[(5, 6)], [(5, 9)]]}).route()
    assert routes["b"].wires == [Wire(0, 5 * X, 6 * Y, 3 * Y)]
    assert length(routes) == 12 * Y + 2 * X


def test_a_node_is_free_between_the_ends_of_two_nets() -> None:
    """After two steps there are 530 nm between the pads of vias, after one 110, of 210 that must be."""
    first: dict[str, Pins] = {"a": [[(5, 2)], [(5, 4)]]}
    assert Case(first | {"b": [[(5, 6)], [(5, 8)]]}).route()["b"].wires == [Wire(0, 5 * X, 6 * Y, 2 * Y)]
    with pytest.raises(
        RoutingError, match=r"^case cannot be routed: 1 conflicts are left, and 0 nets are not routed; "
    ):
        Case(first | {"b": [[(5, 5)], [(5, 8)]]}).route()


def test_an_end_without_a_way() -> None:
    """Metal above and below the pin on its track, which is the only way from it."""
    walls = [(0, (5 * X - 100, y * Y - 100, 5 * X + 100, y * Y + 100)) for y in (2, 6)]
    case = Case({"a": [[(5, 4)], [(9, 4)]], "b": [[(12, 4)], [(15, 9)]]})
    with pytest.raises(
        RoutingError, match=r"0 conflicts are left, and 1 nets are not routed; choose a lower utilisation$"
    ):
        case.route(walls)


def test_ports() -> None:
    """With a pin; and alone on each side, where they have a step of wire."""
    ports = {
        "west": (1, 0, 5 * Y),
        "pin": (0, 4 * X, 0),
        "south": (2, 12 * X, 0),
        "north": (2, 9 * X, ROWS * Y),
        "east": (3, COLUMNS * X, 9 * Y),
    }
    routes = Case({"pin": [[(4, 6)]], "west": [], "south": [], "north": [], "east": []}, ports).route()
    assert routes["pin"].wires == [Wire(0, 4 * X, 0, 6 * Y)]
    assert routes["west"] == Route([Wire(1, 0, 5 * Y, X)])
    assert routes["south"] == Route([Wire(2, 12 * X, 0, Y)])
    assert routes["north"] == Route([Wire(2, 9 * X, (ROWS - 1) * Y, Y)])
    assert routes["east"] == Route([Wire(3, (COLUMNS - 1) * X, 9 * Y, X)])


def test_a_pin_without_a_net_has_no_metal() -> None:
    assert Case({"a": [[(5, 4)]]}).route() == {"a": Route()}


@pytest.mark.parametrize("place", [(5 * X + 10, 4 * Y), (5 * X, 4 * Y - 5), ((COLUMNS + 1) * X, 0), (0, -Y)])
def test_pins_off_the_grid(place: tuple[int, int]) -> None:
    case = Case({"a": [[(5, 4)], [(6, 4)]]})
    case.pads = {**case.pads, ("a_0", "P"): {place: (210, 290)}}
    with pytest.raises(
        ValueError, match=f"^pins must lie on the nodes of the core's grid, not at {place[0]}, {place[1]} nm"
    ):
        case.route()


def crowd(seed: int, nets: int = 30, size: int = 36) -> Case:
    """Nets of two to five pins, each of which has one or two places, two steps or more from all others."""
    choose = random.Random(seed)
    places = [(x, y) for x in range(1, size) for y in range(4, size - 2, 3) if choose.random() < 0.9]
    choose.shuffle(places)
    pins: dict[str, Pins] = {}
    for index in range(nets):
        count = choose.choice((2, 2, 2, 3, 5))
        pins[f"n{index}"] = [[places.pop() for _ in range(choose.choice((1, 1, 2)))] for _ in range(count)]
    ports = {f"n{x}": ((0, 2)[x % 2], x * X, 0) for x in range(1, 8)}
    ports |= {f"n{y}": ((1, 3)[y % 2], 0, y * Y) for y in range(12, 18)}
    return Case(pins, ports, (size, size))


WALLS = [
    (2, (9 * X, 9 * Y, 14 * X, 11 * Y)),
    (1, (20 * X, 10 * Y, 21 * X, 12 * Y)),
    (3, (3 * X, 30 * Y, 30 * X, 31 * Y)),
]


@pytest.mark.parametrize("seed", range(8))
def test_many_nets_break_no_rule(seed: int) -> None:
    case = crowd(seed)
    assert case.route(WALLS) == case.route(WALLS)


MUTANTS = {
    "a gap on one side alone": ("gap = net->nodes.items[i] - 1;", "gap = net->nodes.items[i];"),
    "a gap beyond a step is free": ("penalty(r, right ? next : next - 1)", "0"),
    "a gap beyond a via is free": ("r->via + penalty(r, across) + penalty(r, across - 1)", "r->via"),
    "a via right on a pin": ("    if (r->came[n] == PIN) continue;\n", ""),
    "a via into a wall": ("      if (r->use[across] & BLOCKED) continue;\n", ""),
    "a step into a wall": (" || r->use[next] & BLOCKED) continue", ") continue"),
    "a via without its node": ("    append(r, &net->nodes, n);\n    place at", "    place at"),
    "a via that is lost": ("    append(r, &net->vias, kind == BELOW ? before : n);\n", ""),
    "an end that is left out": ("  while (count > 1 && !net->failed)", "  while (count > 2 && !net->failed)"),
    "conflicts are not seen": ("if ((r->use[n] & COUNT) > 1) {", "if ((r->use[n] & COUNT) > 2) {"),
    "nets are not taken up": ("net->failed || shares(r, net)", "net->failed"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mistake in the router, a rule is broken or conflicts stay, in one of the cases above."""
    right = native.resource("openmxu_layout.route", "router.c")
    old, new = MUTANTS[name]
    assert right.count(old) == 1
    monkeypatch.setattr(native, "resource", lambda *_: right.replace(old, new))
    monkeypatch.setattr(routing, "_PASSES", 20)
    seen = []
    for seed in range(8):
        case = crowd(seed)
        try:
            seen += broken(route(case.placed, case.pads, IHP, blocked=WALLS), case.ends, WALLS)
        except (RoutingError, KeyError, IndexError) as error:
            seen.append(str(error))
        if seen:
            break
    assert seen


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each allocation fails once."""
    text = scarce(native.resource("openmxu_layout.route", "router.c"))
    monkeypatch.setattr(native, "resource", lambda *_: text)
    library, case = routing._compiled(text), crowd(1)
    for number in count(1):
        fail_at(library, number)
        if number > 1000 or not starves(case):
            break
        assert not enough(library)
    assert 20 < number < 1000
    assert enough(library)


def starves(case: Case) -> bool:
    try:
        routes = route(case.placed, case.pads, IHP, blocked=WALLS)
    except MemoryError as error:
        return str(error) == "there is not enough memory to route the design"
    assert not broken(routes, case.ends, WALLS)
    return False
