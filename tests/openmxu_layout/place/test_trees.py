"""Trees of buffers: their depths, their fan-outs, and that ends which lie together hang together."""

from collections import Counter

import pytest

from openmxu_layout.place.synthesis import Mapped
from openmxu_layout.place.trees import FAN_OUT, buffers_of, with_trees

from ..netlists import KIT, shift_register


def _paths(tree: Mapped, net: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """The buffers before each end of a net, from its source."""
    buffers = {name for name, cell in tree.instances.items() if cell in ("buffer", "clock_buffer")}
    driven = {ends[0][0]: ends[1:] for ends in tree.nets.values() if ends and ends[0][0] in buffers}

    def follow(ends: tuple[tuple[str, str], ...], path: tuple[str, ...]) -> dict[tuple[str, str], tuple[str, ...]]:
        paths = {}
        for end in ends:
            paths |= follow(driven[end[0]], (*path, end[0])) if end[0] in buffers else {end: path}
        return paths

    return follow(tree.nets[net], ())


@pytest.mark.parametrize(
    ("ends", "depth", "buffers"), [(16, 0, 0), (17, 1, 2), (256, 1, 16), (257, 2, 19), (300, 2, 21)]
)
def test_every_register_has_as_many_buffers_before_its_clock(ends: int, depth: int, buffers: int) -> None:
    design = shift_register(ends)
    places = {name: (float(number % 19), float(number // 19)) for number, name in enumerate(design.instances)}
    tree = with_trees(design, KIT, places)
    paths = _paths(tree, "clk")
    assert {*paths} == {*design.nets["clk"]}
    assert {len(path) for path in paths.values()} == {depth}
    assert all(len(pins) - (net != "clk") <= FAN_OUT for net, pins in tree.nets.items())
    assert (
        len(tree.instances) - len(design.instances)
        == buffers
        == len({name for path in paths.values() for name in path})
    )
    assert {tree.instances[name] for path in paths.values() for name in path} <= {"clock_buffer"}


def test_ends_that_lie_together_have_one_buffer() -> None:
    """Two heaps of eleven registers, far apart, in turn in the netlist."""
    design = shift_register(22)
    places = {
        f"{cell}{number}": (1000.0 * (number % 2), float(number))
        for number in range(22)
        for cell in ("register", "inverter")
    }
    paths = _paths(with_trees(design, KIT, places), "clk")
    sides = Counter((path[-1], places[name][0]) for (name, _), path in paths.items())
    assert sorted(sides.values()) == [11, 11]


def test_driver_and_port_stay_at_the_source() -> None:
    nets = {"o": (("gate", "Y"), *((f"inverter{number}", "A") for number in range(20)))}
    instances = {"gate": "inverter", **{f"inverter{number}": "inverter" for number in range(20)}}
    design = Mapped("fan", instances, nets, {"o": "output"})
    assert buffers_of(design, KIT) == {"o": KIT.buffer}
    tree = with_trees(design, KIT, dict.fromkeys(instances, (0.0, 0.0)))
    assert tree.nets["o"][0] == ("gate", "Y")
    assert [tree.instances[name] for name, _ in tree.nets["o"][1:]] == ["buffer", "buffer"]
