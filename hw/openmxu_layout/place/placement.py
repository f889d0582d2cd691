"""A netlist's cells on rows, and its pins around them.

::

        ┌─ p8 ── p9 ─┐      Coloquinte places cells twice: without the nets that need trees of buffers; then, once
    p7 ─┤ ▓▓░▓▓▓▓░▓▓ │      the trees follow the places, with all. Pins stand clockwise from the lower left corner, in
    p6 ─┤ ▓▓▓▓░▓▓▓▓▓ ├─ p10 the netlist's order, at equal distances. What is left of a row is filled (░).
        └─...

Coloquinte counts in integers. Its unit is a site's width, a row's height the nearest number of these.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from openmxu.cells.lef import LefCell
from openmxu.runtime import process
from openmxu_layout.place.synthesis import Mapped
from openmxu_layout.place.trees import buffers_of, with_trees
from openmxu_layout.placed import Instance, Node, Placed
from openmxu_layout.technology import Technology

EFFORT = 5
"""Coloquinte's effort, of 9: more takes twice the time, and saves less than 1 % of the wires."""

_LIMIT = 7200.0
"""Seconds after which placing is given up. A unit of 2x2 takes 15."""


_LEAST_UTILISATION = 0.05
"""A core of less takes memory and time for nothing: routing a node costs as much without wires."""


@dataclass(frozen=True)
class Core:
    """The rectangle of the rows, in nm."""

    width: int
    height: int
    technology: Technology


def place(
    mapped: Mapped, library: Mapping[str, LefCell], technology: Technology, *, utilisation: float = 0.7, seed: int = 1
) -> Placed:
    """Place a netlist in a core that is nearly square, of which cells and buffers take a fraction; the seed is
    Coloquinte's. A :exc:`ValueError` where there are more pins than tracks.
    """
    check_utilisation(utilisation)
    kit = technology.kit
    trees = buffers_of(mapped, kit)
    anywhere = with_trees(mapped, kit, dict.fromkeys(mapped.instances, (0.0, 0.0)))
    core = _core([library[master].width for master in anywhere.instances.values()], utilisation, technology)
    ports = _ports(mapped, core)
    few = replace(mapped, nets={net: ends for net, ends in mapped.nets.items() if net not in trees})
    first = _solve(few, library, core, ports, seed)
    whole = with_trees(mapped, kit, first)
    places = _solve(whole, library, core, ports, seed) if trees else first
    step, row = technology.grid["x"], technology.grid["row"]
    instances = [
        Instance(name, whole.instances[name], x * step, y * row, mirrored=y % 2 == 1) for name, (x, y) in places.items()
    ]
    filled = (*instances, *_fill(instances, library, core))
    return Placed(mapped.name, core.width, core.height, filled, ports, whole.nets)


def check_utilisation(utilisation: float) -> None:
    """Raise a :exc:`ValueError` for one outside its domain."""
    if not _LEAST_UTILISATION <= utilisation < 1:
        raise ValueError(f"utilisation must be at least {_LEAST_UTILISATION} and below 1, not {utilisation!r}")


def _core(widths: Sequence[int], utilisation: float, technology: Technology) -> Core:
    """The core for cells: rows are as wide as the widest cell, and as a strap of each supply, or wider."""
    step, row, straps = technology.grid["x"], technology.grid["row"], technology.straps
    width = sum(widths) / utilisation
    rows = max(1, round(math.sqrt(width * row) / row))
    least = len(straps["supplies"]) * (straps["width"] + straps["spacing"])
    return Core(math.ceil(max(width / rows, least, *widths) / step) * step, rows * row, technology)


def _ports(mapped: Mapped, core: Core) -> dict[str, Node]:
    """Pins at the ends of tracks: on the second metal from below, or the third, whichever leads across the edge."""
    grid = core.technology.grid
    levels = {core.technology.metals[level].vertical: level for level in (1, 2)}
    rising, right = range(grid["y"], core.height, grid["y"]), range(grid["x"], core.width, grid["x"])
    tracks = [
        *((levels[False], 0, y) for y in rising),
        *((levels[True], x, core.height) for x in right),
        *((levels[False], core.width, y) for y in reversed(rising)),
        *((levels[True], x, 0) for x in reversed(right)),
    ]
    pins = len(mapped.ports)
    if pins > len(tracks):
        raise ValueError(
            f"pins must be at most {len(tracks)}, the tracks that end around the core, not {pins}; "
            "choose a lower utilisation"
        )
    return {port: tracks[(2 * number + 1) * len(tracks) // (2 * pins)] for number, port in enumerate(mapped.ports)}


def _solve(
    mapped: Mapped, library: Mapping[str, LefCell], core: Core, ports: Mapping[str, Node], seed: int
) -> dict[str, tuple[int, int]]:
    """Site and row of each cell."""
    grid = core.technology.grid
    unit = grid["x"]
    row = round(grid["row"] / unit)
    numbers = {name: number for number, name in enumerate(mapped.instances)}
    ends: dict[str, list[tuple[int, int, int]]] = {
        net: [
            (numbers[name], *_middle(library[mapped.instances[name]].pins[pin].shapes[0][1], unit))
            for name, pin in pins
        ]
        for net, pins in mapped.nets.items()
    }
    for number, port in enumerate(ports, len(numbers)):
        if port in ends:
            ends[port].append((number, 0, 0))
    size = core.width // unit, core.height // grid["row"], row
    widths = [library[master].width // unit for master in mapped.instances.values()]
    pins = [(x // unit, y * row // grid["row"]) for _, x, y in ports.values()]
    nets = [net for net in ends.values() if len(net) > 1]
    try:
        places = process.call(_coloquinte, seed, size, widths, pins, nets, what="Coloquinte", limit=_LIMIT)
    except RuntimeError as error:
        if "Not all cells" not in str(error):
            raise
        raise ValueError(f"{mapped.name} cannot be placed: the rows are too full; choose a lower utilisation") from None
    return {name: (x, y // row) for name, (x, y) in zip(mapped.instances, places, strict=True)}


def _middle(rectangle: tuple[int, int, int, int], unit: int) -> tuple[int, int]:
    left, bottom, right, top = rectangle
    return (left + right) // 2 // unit, (bottom + top) // 2 // unit


def _coloquinte(
    seed: int, size: Sequence[int], widths: list[int], pins: Sequence[Sequence[int]], nets: Sequence[Any]
) -> list[tuple[int, int]]:
    """The lower left corner of each cell that is no pin. This is called in a process of its own."""
    import coloquinte  # noqa: PLC0415  # an extra brings it

    sites, rows, height = size
    cells, fixed = len(widths), len(pins)
    circuit = coloquinte.Circuit(cells + fixed)
    circuit.cell_width = widths + [0] * fixed
    circuit.cell_height = [height] * cells + [0] * fixed
    circuit.cell_x = [0] * cells + [x for x, _ in pins]
    circuit.cell_y = [0] * cells + [y for _, y in pins]
    circuit.cell_is_fixed = [False] * cells + [True] * fixed
    circuit.cell_is_obstruction = [True] * cells + [False] * fixed
    circuit.cell_row_polarity = [coloquinte.CellRowPolarity.SAME] * (cells + fixed)
    for net in nets:
        circuit.add_net(*(list(values) for values in zip(*net, strict=True)))
    circuit.setup_rows(coloquinte.Rectangle(0, sites, 0, rows * height), height, True, True)
    parameters = coloquinte.ColoquinteParameters(EFFORT, seed)
    circuit.place_global(parameters)
    circuit.place_detailed(parameters)
    return list(zip(circuit.cell_x, circuit.cell_y, strict=True))[:cells]


def _fill(instances: Sequence[Instance], library: Mapping[str, LefCell], core: Core) -> Iterator[Instance]:
    """Cells for all gaps in the rows."""
    row, fill = core.technology.grid["row"], core.technology.kit.fill
    by_row: dict[int, list[tuple[int, int]]] = {y: [] for y in range(0, core.height, row)}
    for each in instances:
        by_row[each.y].append((each.x, each.x + library[each.master].width))
    numbers = count()
    for y, taken in by_row.items():
        at = 0
        for left, right in [*sorted(taken), (core.width, core.width)]:
            while at < left:
                master = next(master for master in fill if library[master].width <= left - at)
                yield Instance(f"f{next(numbers)}", master, at, y, mirrored=y // row % 2 == 1)
                at += library[master].width
            at = right
