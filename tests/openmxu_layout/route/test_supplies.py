"""Straps of the supplies: where they and their vias stand."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from openmxu_layout.placed import Instance, Node, Placed
from openmxu_layout.route.routing import Pads, Strap
from openmxu_layout.route.supplies import plan_straps, stack_metal

from ..conftest import IHP

ROW = 3780


def core(width: int = 80_160, ports: Mapping[str, Node] = MappingProxyType({})) -> Placed:
    """A core of three rows, whose nets are their ports'."""
    rows = [Instance(f"fill{row}", "fill", 0, row * ROW, bool(row % 2)) for row in range(3)]
    return Placed("core", width, 3 * ROW, tuple(rows), ports, dict.fromkeys(ports, ()))


def test_straps_take_turns_and_stand_on_their_rails() -> None:
    """In the middle of equal parts, on a track; VSS below an upright row. They reach 630 nm beyond the core."""
    assert plan_straps(core(), {}, IHP) == [
        Strap("VSS", (17_780, -630, 21_580, 3 * ROW + 630), ((19_680, 0), (19_680, 2 * ROW))),
        Strap("VDD", (58_100, -630, 61_900, 3 * ROW + 630), ((60_000, ROW), (60_000, 3 * ROW))),
    ]
    assert [strap.supply for strap in plan_straps(core(240_000), {}, IHP)] == ["VSS", "VDD"] * 3


def test_a_stack_moves_away_from_a_port() -> None:
    """It takes the nodes beside its own, too, on tracks that lead to the core's edge."""
    stacks = plan_straps(core(ports={"p": (0, 19_680, 0)}), {}, IHP)[0].stacks
    assert stacks == ((19_200, 0), (19_680, 2 * ROW))


def test_a_stack_moves_away_from_the_last_access_of_a_pin() -> None:
    beside = (19_680, 2 * ROW - 420)
    both: Pads = {("u", "A"): {beside: (210, 290), (19_680, 2 * ROW - 1260): (210, 290)}}
    last: Pads = {("u", "A"): {beside: (210, 290)}}
    assert plan_straps(core(), both, IHP)[0].stacks[1] == (19_680, 2 * ROW)
    assert plan_straps(core(), last, IHP)[0].stacks[1] == (19_200, 2 * ROW)


def test_two_stacks_do_not_take_both_accesses_of_a_pin() -> None:
    pads: Pads = {("u", "A"): {(2400, 420): (210, 290), (8160, ROW - 420): (210, 290)}}
    straps = plan_straps(core(11_040), pads, IHP)
    assert [strap.stacks[0] for strap in straps] == [(2400, 0), (7680, ROW)]


def test_no_place_for_a_stack() -> None:
    pads: Pads = {("u", str(x)): {(x, 420): (210, 290)} for x in range(18_720, 20_641, 480)}
    with pytest.raises(ValueError, match=r"^core must have room for a stack of vias at 19680, 0 nm: "):
        plan_straps(core(), pads, IHP)


def test_a_core_too_narrow_for_two_straps() -> None:
    with pytest.raises(ValueError, match=r"^width must be 10880 nm or more, for straps of each supply, not 10560$"):
        plan_straps(core(10_560), {}, IHP)


def test_metal_of_a_stack() -> None:
    """The least area of 0.144 square µm on each level, and 0.1 µm of metal 5 around the uppermost via."""
    metal = dict(stack_metal(4800, 0, IHP))
    assert metal == {
        0: (4700, -365, 4900, 365),
        1: (4405, -100, 5195, 100),
        2: (4700, -365, 4900, 365),
        3: (4490, -310, 5110, 310),
    }
