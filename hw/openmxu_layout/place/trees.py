"""Trees of buffers for nets with many ends: clocks, resets, constants.

::

    source ─┬─▷─┬─▷─┬─ a quarter     Every end has the same number of buffers before it, and no buffer, nor the source,
            │   ├─▷─┴─ of the ends   drives more than FAN_OUT ends. The ends of a buffer lie together: the plane is cut
            │   └─ ...               in two, across its longer side, until each piece has one buffer.
            └─▷─── ...
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import TypeVar

from openmxu_layout.kit import Buffer, Kit
from openmxu_layout.place.synthesis import Mapped, instance_name
from openmxu_layout.placed import Pins

Point = tuple[float, float]
_T = TypeVar("_T")

FAN_OUT = 16
"""Most inputs that anything drives."""


def buffers_of(mapped: Mapped, kit: Kit) -> dict[str, Buffer]:
    """The nets that need a tree, each with the buffer that it is made of: another one where a net is a clock."""
    return {
        net: kit.clock_buffer if any(pin == kit.clock_pin for _, pin in ends) else kit.buffer
        for net, ends in mapped.nets.items()
        if len(_halves(mapped, net)[1]) > FAN_OUT
    }


def with_trees(mapped: Mapped, kit: Kit, places: Mapping[str, Point]) -> Mapped:
    """The netlist with trees, which follow the places of its cells; how many buffers they have does not."""
    instances, nets = dict(mapped.instances), dict(mapped.nets)
    for net, buffer in buffers_of(mapped, kit).items():
        source, sinks = _halves(mapped, net)
        ends = [(end, places[end[0]]) for end in sinks]
        while len(ends) > FAN_OUT:
            above = []
            for group in _groups(ends, -(-len(ends) // FAN_OUT)):
                name = instance_name(f"t{len(instances)}", nets)
                instances[name] = buffer.cell
                nets[f"${name}"] = ((name, buffer.output), *(end for end, _ in group))
                middle = mean(x for _, (x, _) in group), mean(y for _, (_, y) in group)
                above.append(((name, buffer.input), middle))
            ends = above
        nets[net] = (*source, *(end for end, _ in ends))
    return replace(mapped, instances=instances, nets=nets)


def _halves(mapped: Mapped, net: str) -> tuple[Pins, Pins]:
    """The pin that drives a net, unless a port does, and those that the net leads to."""
    driven = mapped.ports.get(net) != "input"
    return mapped.nets[net][:driven], mapped.nets[net][driven:]


def _groups(ends: Sequence[tuple[_T, Point]], count: int) -> list[Sequence[tuple[_T, Point]]]:
    """The ends in groups whose sizes differ by one at most, each in a rectangle of its own."""
    if count == 1:
        return [ends]
    spans = [max(values) - min(values) for values in zip(*(point for _, point in ends), strict=True)]
    axis = spans.index(max(spans))
    ends = sorted(ends, key=lambda end: end[1][axis])
    half = count // 2
    cut = len(ends) * half // count
    return _groups(ends[:cut], half) + _groups(ends[cut:], count - half)
