"""Weights from a memory: where each command's are on chip, and which load brings them.

::

    memory    [ pictures | weights of all layers, in the order of use ]
                           │ load
    on chip   [ in turn: those of one command, those of the next, ... ]    what lies where new ones come is forgotten

The load for a command stands as early as no command behind it needs the rows that it takes, and as it delays none, by
a model of their times: so weights are read while others compute. A command whose weights take more than an eighth of
the memory on chip is cut by blocks of outputs; one that takes more than all of it, by blocks of inputs or lines of the
kernel, whose sums stay from one to the next. No bit changes.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, product

from openmxu.spec.accelerator import (
    MOST_LOADED,
    MOST_ROWS,
    AcceleratorConfig,
    exchanges,
    too_small,
    weights_of,
    weights_read,
)
from openmxu.spec.commands import KINDS, Command, Level
from openmxu.spec.formats import BF16

_LINE = 256
"""The fewest rows in the innermost level of a load of several lines."""

_PARTS = 8
"""A command has at most such a part of the memory's rows, if blocks of outputs allow: loads find room sooner."""

_LONGEST = KINDS["load"].trips()["x"].most


def with_loads(
    config: AcceleratorConfig, program: Sequence[Command], at: int, images: Sequence[int] = ()
) -> list[list[Command]]:
    """Return, for each command, it or its parts, with loads of weights from the memory's word ``at`` on.

    Rows of weights in a command are counted from one of ``images``, 0 by default.
    """
    parts = [list(_cut(config, command)) for command in program]
    before: list[list[Command]] = [[] for _ in range(sum(map(len, parts)))]
    begins = chain.from_iterable(
        [image] * len(some) for image, some in zip(images or [0] * len(parts), parts, strict=True)
    )
    held: dict[range, range] = {}  # rows of the image, and those on chip that have them
    flat, places = list[Command](), list[range]()  # commands, and which rows on chip they read
    end = latest = 0  # of the last place; the command that the last load stands before
    times = _Times(config)
    for command, image in zip(chain.from_iterable(parts), begins, strict=True):
        used = image + weights_read(command, config.size)
        rows = range(int(used.min()), int(used.max()) + 1) if used.size else range(0)  # they follow one another
        ready = 0
        if rows and rows not in held:
            start = end if end + len(rows) <= _room(config, command) else 0
            end = start + len(rows)
            place = range(start, end)
            held = {image: chip for image, chip in held.items() if not _meet(chip, place)}
            held[rows] = place
            early, first = len(flat), max(latest, times.first)
            while early > first and not _meet(places[early - 1], place):
                early -= 1
            if early and _meet(places[early - 1], place):  # its rows are free when the next command computes
                early = next((index + 1 for index in range(early, len(flat)) if places[index]), len(flat))
            loads = list(_loads(config, rows, place, at))
            before[early] += loads
            latest, ready = early, times.load(loads, early)
        name = "reads" if exchanges(command) else "weights"
        moved = {name: held[rows].start} if rows else {}
        places.append(held[rows] if rows else range(0))
        flat.append(replace(command, values={**command.values, **moved}))
        times.add(command, ready)
    placed = iter([*loads, command] for loads, command in zip(before, flat, strict=True))
    return [[command for _ in some for command in next(placed)] for some in parts]


class _Times:
    """When commands begin and end, by a simple model: a row takes its beats on the bus, tiles their rows.

    The loader takes one load at a time, and what stands behind a load waits until it is taken. So a load may stand
    before a command if the loader is free before the command in front of that ends.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self._config = config
        self._begins, self._ends = list[int](), list[int]()
        self._free = 0  # when the loader is

    @property
    def first(self) -> int:
        """The first command before which a load delays none."""
        return min(bisect_left(self._ends, self._free) + 1, len(self._ends))

    def load(self, loads: Sequence[Command], early: int) -> int:
        """Load before a command; when that is done."""
        self._free = max(self._free, self._begins[early - 1] if early else 0)
        self._free += sum(beats_of(self._config, each) for each in loads)
        return self._free

    def add(self, command: Command, ready: int) -> None:
        """One more command, which begins when it is ready."""
        begin, end = (some[-1] if some else 0 for some in (self._begins, self._ends))
        if command.opcode == "load":
            begin = max(begin, self._free)
            self._free = begin + beats_of(self._config, command)
            end = max(end, begin)
        elif command.kind.engine == "compute":
            begin = max(end, ready)
            end = begin + cycles_of(self._config, [command])
        self._begins.append(begin)
        self._ends.append(end)


def beats_of(config: AcceleratorConfig, mover: Command) -> int:
    """Beats of a command that moves rows, each of which begins with a beat."""
    return math.prod(level.trips for level in mover.levels.values()) * -(
        -mover.values["valid"] * BF16.width // config.beat
    )


def cycles_of(config: AcceleratorConfig, commands: Sequence[Command]) -> int:
    """Cycles of commands by the formula: T · max(m, shortest tile), or the rows that a pool reads."""
    total = 0
    for command in (each for each in commands if each.kind.engine == "compute"):
        trips = {name: level.trips for name, level in command.levels.items()}
        tile = trips["x"] * trips["y"]
        if command.opcode == "matmul":
            tile = max(tile, config.unit.shortest_tile)
        total += tile * math.prod(count for name, count in trips.items() if name not in ("x", "y"))
    return total


def _room(config: AcceleratorConfig, command: Command | None = None) -> int:
    """Rows of the memory of weights that a load can name, and a command can read."""
    return min(config.weights, MOST_ROWS if command and exchanges(command) else MOST_LOADED)


def _meet(some: range, other: range) -> bool:
    return some.start < other.stop and other.start < some.stop


def _loads(config: AcceleratorConfig, rows: range, place: range, at: int) -> Iterator[Command]:
    """One load of lines of rows, if some length divides them, or else one more for the rest."""
    lines = next(each for each in count(-(-len(rows) // _LONGEST)) if not len(rows) % each)
    lines, rest = (lines, 0) if len(rows) // lines >= _LINE or lines == 1 else divmod(len(rows), _LINE)
    length = (len(rows) - rest) // lines
    for first, x, y in ((0, length, lines), (lines * length, rest, 1)):
        if x and y:
            address = at + (rows.start + first) * config.size
            values = {"rows": place.start + first, "valid": config.size, "address": address, "into_weights": 1}
            yield Command("load", values, {"x": Level(x, 1, config.size), "y": Level(y, x, x * config.size)})


def _cut(config: AcceleratorConfig, command: Command) -> Iterator[Command]:
    """Parts whose weights are at most an eighth of the memory on chip, or all of it if that is not possible."""
    if command.opcode != "matmul" or exchanges(command) or weights_of(command, config.size) <= _room(config) // _PARTS:
        yield command
        return
    levels, values = command.levels, command.values
    n = levels["n"]
    one = weights_of(command, config.size) // n.trips
    most = max(1, _room(config) // _PARTS // one)
    for first in range(0, n.trips, most):
        moved = {"reads": first * n.stride, "writes": first * n.other, "weights": first * one}
        yield from _cut_sums(
            config,
            replace(
                command,
                values={**values, **{name: values[name] + more for name, more in moved.items()}},
                levels={**levels, "n": n._replace(trips=min(most, n.trips - first))},
            ),
        )


def _cut_sums(config: AcceleratorConfig, command: Command) -> Iterator[Command]:
    """Parts of a sum, if its weights exceed the memory on chip: the first keeps the bias, the last emits."""
    if weights_of(command, config.size) <= _room(config):
        yield command
        return
    values, block, down = command.values, command.levels["block"], command.levels["ky"]
    line = command.levels["kx"].trips * config.size
    blocks, lines = _most(config, line * down.trips) or 1, _most(config, line)
    check_line(config, command.levels["kx"].trips)
    lines = min(lines, down.trips)
    for first, y in product(range(0, block.trips, blocks), range(0, down.trips, lines)):
        trips, height = min(blocks, block.trips - first), min(lines, down.trips - y)
        begins, ends = not (first or y), first + trips == block.trips and y + height == down.trips
        before = 0 if begins else 2 * values["bias"] + (first * down.trips + y) * line
        moved = {"reads": first * block.stride + y * down.stride, "weights": before}
        yield replace(
            command,
            values={
                **values,
                **{name: values[name] + more for name, more in moved.items()},
                **({} if ends else dict.fromkeys(("emit", "relu", "clip", "high"), 0)),
                **({} if begins else {"bias": 0, "add": 1}),
            },
            levels={**command.levels, "block": block._replace(trips=trips), "ky": down._replace(trips=height)},
        )


def check_line(config: AcceleratorConfig, pixels: int) -> None:
    """Refuse a kernel of which no line of so many pixels fits the memory on chip, for a block of channels."""
    if not _most(config, rows := pixels * config.size):
        raise too_small(config, "weights", rows + 2, _room(config), "a line of the kernel of one block of channels")


def _most(config: AcceleratorConfig, rows: int) -> int:
    """How often so many rows, beside biases, fit half of the memory on chip, or all of it."""
    return (_room(config) // 2 - 2) // rows or (_room(config) - 2) // rows
