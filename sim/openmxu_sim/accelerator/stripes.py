"""Networks whose pictures do not all fit the scratchpad at once: their rows are used again, or layers run in stripes.

::

    memory       pictures with their borders, zeros at the start
                   │ load: lines that the kernel reads      ▲ store: lines of results
    scratchpad   0 [ lines | added | results ][ the same for the next stripe ]

A picture whose last reader is done leaves its rows to later ones, whose borders are then cleared by copies of row 0,
in which nothing is written. If that is not enough, the first layers run in stripes, as many as it takes for the
others to fit; what these read of earlier layers is loaded once, and the last result is stored.

With two areas, the first tile of a stripe begins before the stripe before is stored and the next one is loaded::

    load 0   matmul 0 ...   load 1   matmul 0 ...   matmul 1 ...   store 0   load 2   matmul 1 ...
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from openmxu.spec.accelerator import AcceleratorConfig, rows_read, rows_written, too_small, words_moved
from openmxu.spec.commands import KINDS, Command, Level
from openmxu_sim.accelerator.lowering import Layer, Lowered, Network, commands_of, compose, prepare
from openmxu_sim.accelerator.pictures import Picture, Shape, equal_parts
from openmxu_sim.accelerator.prefetch import check_line

_MOST_TRIPS = KINDS["load"].trips()["y"].most


def fit(
    config: AcceleratorConfig, sources: Mapping[str, Shape], layers: Sequence[Layer], results: Collection[str] = ()
) -> Lowered:
    """Return the program of layers on pictures of such shapes, with a memory if the scratchpad requires one.

    Results of the layers named are kept, or else those of the last one.

    Raises
    ------
    ValueError
        The accelerator has no room for one stripe of a layer, for weights or for commands, or a layer does not fit
        those that it reads.
    """
    network, size, results = prepare(config, sources, layers), config.size, results or (layers[-1].name,)
    if _end(size, network.pictures) <= config.rows and not config.beat:
        return compose(config, network, partial(commands_of, config, network.pictures))
    first, places, alternative = _placed(config, network, results)
    early = [*sources, *(layer.name for layer in network.layers[:first])]
    pictures, moves = places, bool(first or config.beat)
    if moves:
        pictures = _behind(size, network.pictures, {*early, *results})
    memory = size * (_end(size, pictures) + bool(config.beat)) * moves  # with a bus, row 0 comes from the last one
    schedule = _Schedule(config, pictures, network.layers[:first])

    def commands(layer: Layer, exchange: bool) -> Iterator[Command]:
        if config.beat and layer.name == network.layers[0].name:
            yield Command("load", {"rows": 0, "valid": size, "address": memory - size})
        if layer.name in early:
            yield from schedule.commands(layer, exchange)
            if layer.name == network.layers[first - 1].name:
                yield from schedule.finish()
            return
        loads = list[Command]()
        for name in (each for each in early if each in places and layer.name == network.layers[first].name):
            if moves:
                loads += _pieces(_move(size, "load", places[name], pictures[name], -places[name].border[0]))
            else:
                yield from _border_of(size, places[name])  # a run before left other pictures there
        yield from _border_of(size, places[layer.name])
        yield from _as_needed(config, commands_of(config, places, layer, exchange), loads)
        if moves and layer.name in results:
            yield _move(size, "store", places[layer.name], pictures[layer.name], -places[layer.name].border[0])

    lowered = replace(compose(config, network, commands, memory), pictures=pictures)
    return replace(lowered, alternative=alternative * moves)


def _placed(
    config: AcceleratorConfig, network: Network, results: Collection[str]
) -> tuple[int, dict[str, Picture], int]:
    """How many layers run in stripes, places of the other pictures, and rows with which none would run so."""
    size = config.size
    least = 1 + max(_Striped(config, network.pictures, layer).rows(1) for layer in network.layers)
    if (least := min(least, _end(size, network.pictures))) > config.rows:
        raise too_small(config, "scratchpad", least, config.rows, "one image row of each layer")
    first, places = 0, _shared(size, network, 0, results)
    alternative = _end(size, places)
    while _end(size, places) > config.rows or any(each.plane > _MOST_TRIPS * each.pitch for each in places.values()):
        first += 1
        places = _shared(size, network, first, results)
    return first, places, alternative


def check_layer(config: AcceleratorConfig, layer: Layer, source: Shape) -> None:
    """Raise a :exc:`ValueError` if not even a line of a layer fits: of results, of an image in a load, of a kernel."""
    shapes = {layer.source: source, layer.name: layer.shape(source)}
    pictures = {name: Picture(0, *shape, (0, 0, 0, 0)) for name, shape in shapes.items()}
    least = 1 + _Striped(config, pictures, layer).rows(1)
    if least > config.rows:
        raise too_small(config, "scratchpad", least, config.rows, "one image row of its results")
    _, left, _, right = layer.padding
    if (widest := max(left + source[2] + right, shapes[layer.name][2])) > _MOST_TRIPS:
        raise ValueError(f"an image row has {widest} pixels, more than a load's {_MOST_TRIPS}")
    if layer.weight is not None and config.beat:
        # An input of few channels has several pixels in a row.
        check_line(config, -(-layer.kernel[1] // max(1, config.size // source[0])))


def bytes_moved(commands: Sequence[Command]) -> int:
    """Bytes that commands load and store."""
    movers = (command for command in commands if command.kind.engine in ("load", "store"))
    return sum(2 * command.values["valid"] * len(words_moved(command)) for command in movers)


def _end(size: int, pictures: Mapping[str, Picture]) -> int:
    return max((picture.end(size) for picture in pictures.values()), default=0)


def _behind(size: int, pictures: Mapping[str, Picture], names: Collection[str]) -> dict[str, Picture]:
    """Some of the pictures, one behind another."""
    found, end = dict[str, Picture](), 0
    for name in (name for name in pictures if name in names):
        found[name] = replace(pictures[name], base=end)
        end = found[name].end(size)
    return found


def _shared(size: int, network: Network, first: int, results: Collection[str]) -> dict[str, Picture]:
    """Pictures of the layers from the first one on, behind row 0; those that are needed at different times share rows.

    The largest is placed first, each as low as it fits.
    """
    born, last = dict[str, int](), dict[str, int]()
    layers = network.layers[first:]
    for index, layer in enumerate(layers):
        for name in filter(None, (layer.source, layer.added)):
            born.setdefault(name, 0)
            last[name] = index
        born[layer.name] = last[layer.name] = index
    last |= dict.fromkeys(born.keys() & {*results}, len(layers))
    found = dict[str, Picture]()
    for name in sorted(born, key=lambda name: network.pictures[name].base - network.pictures[name].end(size)):
        picture = replace(network.pictures[name], base=1)
        until = last[name]
        for other in sorted(found, key=lambda name: found[name].base):
            meet = born[other] <= until and born[name] <= last[other]
            if meet and picture.base < found[other].end(size) and found[other].base < picture.end(size):
                picture = replace(picture, base=found[other].end(size))
        found[name] = picture
    return found


def _border_of(size: int, picture: Picture) -> Iterator[Command]:
    """Copies of row 0 to the border of a picture in the scratchpad."""
    (above, left, below, right), pitch = picture.border, picture.pitch
    sides = ((0, 0, above, pitch), (above, 0, picture.height, left), (above, pitch - right, picture.height, right))
    for y, x, lines, pixels in (*sides, (above + picture.height, 0, below, pitch)):
        if lines and pixels:
            levels = {"x": Level(pixels, 0, 1), "y": Level(lines, 0, pitch)}
            levels["block"] = Level(picture.blocks(size), 0, picture.plane)
            yield Command("pool", {"reads": 0, "writes": picture.base + y * pitch + x}, levels)


def _move(size: int, opcode: str, inner: Picture, outer: Picture, y: int) -> Command:
    """Move all of a picture in the scratchpad, from or to a line of one in the memory."""
    levels = {
        "x": Level(inner.pitch, 1, size),
        "y": Level(inner.plane // inner.pitch, inner.pitch, outer.pitch * size),
        "block": Level(inner.blocks(size), inner.plane, outer.plane * size),
    }
    address = outer.row(y, -inner.border[1]) * size
    return Command(opcode, {"rows": inner.base, "valid": size, "address": address}, levels)


_SHORT = 512
"""Rows of an image that are loaded at a time, while others are computed."""


def _pieces(load: Command) -> Iterator[Command]:
    """A load in parts: of some blocks of channels, or of some lines of one."""
    (x, y, block), values = (load.levels[name] for name in ("x", "y", "block")), load.values
    lines = max(1, _SHORT // x.trips)
    blocks = max(1, lines // y.trips)
    for b, line in product(range(0, block.trips, blocks), range(0, y.trips, lines)):
        moved = {
            "rows": values["rows"] + b * block.stride + line * y.stride,
            "address": values["address"] + b * block.other + line * y.other,
        }
        levels = {
            "y": y._replace(trips=min(lines, y.trips - line)),
            "block": block._replace(trips=min(blocks, block.trips - b)),
        }
        yield replace(load, values={**values, **moved}, levels={**load.levels, **levels})


@dataclass(frozen=True)
class _Striped:
    """A layer whose pictures are in the memory."""

    config: AcceleratorConfig
    pictures: Mapping[str, Picture]
    layer: Layer

    def rows(self, lines: int) -> int:
        """Rows of an area for so many lines of results."""
        return _end(self.config.size, self.area(0, lines))

    def lines(self) -> tuple[int, bool]:
        """Lines of results of a stripe, and whether it takes half of the scratchpad: if that has room for one."""
        (down, _), kernel, height = self.layer.stride, self.layer.extent[0], self.pictures[self.layer.name].height
        most = max(1, min(height, (_MOST_TRIPS - kernel) // down + 1))
        one, two = (bisect_right(range(1, most + 1), (self.config.rows - 1) // n, key=self.rows) for n in (1, 2))
        return (two, True) if two else (one, False)

    def area(self, base: int, lines: int) -> dict[str, Picture]:
        """Where the scratchpad has what a stripe reads and writes."""
        layer, source, target = self.layer, self.pictures[self.layer.source], self.pictures[self.layer.name]
        above, left, _, right = layer.padding
        height = (lines - 1) * layer.stride[0] + layer.extent[0] - above
        area = {"read": Picture(base, source.channels, height, source.width, (above, left, 0, right))}
        for name in ("added", "results") if layer.added else ("results",):
            end = _end(self.config.size, area)
            area[name] = Picture(end, target.channels, lines, target.width, (0, 0, 0, 0))
        return area


@dataclass(frozen=True)
class _Stripe:
    """Lines of a layer's results from ``y`` on."""

    of: _Striped
    y: int
    area: Mapping[str, Picture]
    half: bool
    """Whether another one has room beside it."""

    def loads(self) -> list[Command]:
        layer, move = self.of.layer, partial(_move, self.of.config.size)
        moves = [move("load", self.area["read"], self.of.pictures[layer.source], self._first)]
        if layer.added:
            moves.append(move("load", self.area["added"], self.of.pictures[layer.added], self.y))
        return [piece for each in moves for piece in _pieces(each)]

    def computes(self, exchange: bool) -> list[Command]:
        layer = self.of.layer
        inner = replace(layer, name="results", source="read", added=layer.added and "added")
        return commands_of(self.of.config, self.area, inner, exchange)

    def store(self) -> Command:
        return _move(self.of.config.size, "store", self.area["results"], self.of.pictures[self.of.layer.name], self.y)

    def needs(self, other: "_Stripe") -> bool:
        """Whether it reads what another one computes."""
        layer, results = self.of.layer, other.area["results"].height
        lines = self.area["read"].plane // self.area["read"].pitch
        asked = ((layer.source, self._first, lines), (layer.added, self.y, self.area["results"].height))
        return any(
            name == other.of.layer.name and first < other.y + results and other.y < first + count
            for name, first, count in asked
        )

    @property
    def _first(self) -> int:
        """The first line that is read, borders included."""
        return self.y * self.of.layer.stride[0] - self.of.layer.padding[0]


def _evenly(computes: Sequence[Command], loads: Sequence[Command]) -> Iterator[Command]:
    """Commands with loads between them: loads of weights, which come between, too, wait for one alone."""
    given = 0
    for index, command in enumerate((*computes, None), 1):
        upto = len(loads) * index // (len(computes) + 1)
        yield from loads[given:upto]
        given = upto
        if command is not None:
            yield command


def _as_needed(config: AcceleratorConfig, computes: Sequence[Command], loads: Sequence[Command]) -> Iterator[Command]:
    """Commands, each behind the loads of what it reads; other loads come last."""
    left = [(load, rows_written(load)) for load in loads]
    for command in computes:
        reads, later = np.zeros(config.rows, np.bool_), list[tuple[Command, np.ndarray]]()
        reads[rows_read(command)] = True
        for load, rows in left:
            if reads[rows].any():
                yield load
            else:
                later.append((load, rows))
        left = later
        yield command
    yield from (load for load, _ in left)


class _Schedule:
    """The stripes of all layers, one behind another: the next one is loaded while one is computed, where it can be."""

    def __init__(self, config: AcceleratorConfig, pictures: Mapping[str, Picture], layers: Sequence[Layer]) -> None:
        self._stripes = list[_Stripe]()
        for layer in layers:
            striped = _Striped(config, pictures, layer)
            lines, half = striped.lines()
            for part in equal_parts(pictures[layer.name].height, lines):
                base = 1 + half * (len(self._stripes) % 2) * ((config.rows - 1) // 2)
                self._stripes.append(_Stripe(striped, part.start, striped.area(base, len(part)), half))
        self._loaded = self._done = 0
        self._stored = 0

    def commands(self, layer: Layer, exchange: bool) -> Iterator[Command]:
        """The next stripes, which are of this layer."""
        # While the first tile of a stripe computes, the stripe before is stored and the next one loaded; both use
        # the other half.
        head = 2 if layer.added else 1  # sums that stay are added to by the next command
        while self._done < len(self._stripes) and self._stripes[self._done].of.layer.name == layer.name:
            stripe = self._stripes[self._done]
            if self._loaded == self._done:
                yield from self.finish()
                yield from self._load()
            computes = stripe.computes(exchange)
            yield from computes[:head]
            yield from self.finish()
            following = self._stripes[self._done + 1 : self._done + 2]
            ahead = stripe.half and all(each.half and not each.needs(stripe) for each in following)
            yield from _evenly(computes[head:], [*self._load()] if ahead else [])
            self._done += 1

    def finish(self) -> Iterator[Command]:
        """Store what is computed."""
        for stripe in self._stripes[self._stored : self._done]:
            yield stripe.store()
        self._stored = self._done

    def _load(self) -> Iterator[Command]:
        for stripe in self._stripes[self._loaded : self._loaded + 1]:
            yield from stripe.loads()
            self._loaded += 1
