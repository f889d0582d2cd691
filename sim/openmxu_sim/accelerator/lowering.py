"""Layers of a network as a program: where each picture lies in the scratchpad, and which commands compute it.

::

    a picture of channels [block][y][x], a row for each pixel of a block of N channels; a border of zeros for the kernel

      0 0 0 0 0 0      border above        row = base + block · plane + (y + above) · pitch + x + left
      0 a b c d 0
      0 e f g h 0      results are written between borders, which stay zeros from run to run
      0 0 0 0 0 0

A layer is a command for each tile of as many lines of results as the accumulator bank has rows for. Where the
network's input has few channels, a row of it holds those of all pixels in a line of the kernel (:class:`Packing`): a
tile then sums a line of the kernel, not a pixel. Where a layer's result is one pixel, operands and weights exchange
roles if that takes fewer cycles: outputs flow by a vector that stands still.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, product, starmap
from typing import NamedTuple

import numpy as np

from openmxu.spec.accelerator import MOST_ROWS, AcceleratorConfig, check_room, exchanges, rows_fed, too_small
from openmxu.spec.commands import KINDS, Command, Level
from openmxu_sim import golden
from openmxu_sim.accelerator.definition import Halves, Memories
from openmxu_sim.accelerator.pictures import PLAIN, Packing, Picture, Shape, equal_parts
from openmxu_sim.accelerator.prefetch import cycles_of, with_loads
from openmxu_sim.accelerator.waits import with_waits
from openmxu_sim.accelerator.weight_rows import flowing, identity, pieces, tiles
from openmxu_sim.operands.aliases import Floats

_MOST_TRIPS = KINDS["matmul"].trips()["block"].most


@dataclass(frozen=True)
class Layer:
    """A layer: a convolution, or the largest pixels of windows. A dense layer has a kernel of all pixels."""

    name: str
    source: str
    """Name of the layer that it reads, or of the network's input."""
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Lines above, pixels on the left, lines below, pixels on the right."""
    weight: Floats | None = None
    """(outputs, inputs of a group, y, x); none: the largest pixels."""
    bias: Floats | None = None
    """(outputs,)"""
    relu: bool = False
    high: float | None = None
    """Largest result, if it is clipped."""
    added: str = ""
    """Name of a layer of the same size whose results are added before ReLU."""
    groups: int = 1
    """Groups of channels, each convolved by itself."""
    dilation: tuple[int, int] = (1, 1)
    """Lines and pixels from one that the kernel reads to the next."""

    @property
    def extent(self) -> tuple[int, int]:
        """Lines and pixels from the first to the last one that the kernel reads."""
        (lines, pixels), (down, right) = self.kernel, self.dilation
        return (lines - 1) * down + 1, (pixels - 1) * right + 1

    def shape(self, source: Shape) -> Shape:
        """That of its results, from the one of what it reads."""
        lines, pixels = (
            (size + self.padding[axis] + self.padding[axis + 2] - self.extent[axis]) // self.stride[axis] + 1
            for axis, size in enumerate(source[1:])
        )
        return (source[0] if self.weight is None else len(self.weight)), lines, pixels


@dataclass(frozen=True)
class LayerReport:
    """Cost of a layer."""

    name: str
    commands: range
    """Its commands in the program."""
    cycles: int
    """By the formula: tiles times their rows, or times the unit's shortest tile."""
    products: int
    """Multiplications that the layer needs."""


@dataclass(frozen=True)
class Lowered:
    """A network as a program with its weights."""

    config: AcceleratorConfig
    program: list[Command]
    weights: Halves
    """Rows of the memory of weights, or with a bus of the memory, behind its pictures."""
    pictures: dict[str, Picture]
    """Where the inputs and the results of each layer are."""
    layers: list[LayerReport] = field(default_factory=list)
    memory: int = 0
    """Words of pictures in the memory of ``load`` and ``store``; 0: they are in the scratchpad."""
    alternative: int = 0
    """Rows of a scratchpad in which it needs none."""

    def memories(self) -> Memories:
        """Return memories with weights and without pictures."""
        if not self.config.beat:
            return Memories(self.config, self.weights, memory=np.zeros(self.memory, np.uint16))
        memory = np.concatenate([np.zeros(self.memory, np.uint16), self.weights.ravel()])
        return Memories(self.config, self.weights[:0], memory=memory)

    def rows(self, memories: Memories) -> Halves:
        """Return the memory with the pictures as rows."""
        return memories.memory[: self.memory].reshape(-1, self.config.size) if self.memory else memories.scratchpad

    def put(self, name: str, values: Floats, rows: Halves) -> None:
        """Write a picture (channels, y, x), rounded to bf16, into :meth:`rows`."""
        picture, size = self.pictures[name], self.config.size
        if values.shape != picture.shape:
            raise ValueError(f"{name} must have the shape {picture.shape}, not {values.shape}")
        values = picture.packing.apply(values)
        blocks = picture.blocks(size)
        padded = np.zeros((blocks * size, picture.height, picture.width), np.uint16)
        padded[: picture.channels] = golden.convert(golden.to_bits(values)).astype(np.uint16)
        rows[picture.rows(size)] = padded.reshape(blocks, size, *padded.shape[1:]).transpose(0, 2, 3, 1)

    def get(self, name: str, rows: Halves) -> Floats:
        """Read the results of a layer, (channels, y, x), from :meth:`rows`."""
        picture = self.pictures[name]
        words = rows[picture.rows(self.config.size)].transpose(0, 3, 1, 2)
        return golden.from_bits(words.reshape(-1, picture.height, picture.width)[: picture.channels], "bf16")


def lower(config: AcceleratorConfig, sources: Mapping[str, Shape], layers: Sequence[Layer]) -> Lowered:
    """Return the program of layers on pictures of such shapes; the results of all layers stay in the scratchpad.

    Raises
    ------
    ValueError
        A memory of the accelerator is too small, or a layer does not fit the ones that it reads.
    """
    network = prepare(config, sources, layers)
    if (end := max(picture.end(config.size) for picture in network.pictures.values())) > config.rows:
        raise too_small(config, "scratchpad", end, config.rows, "this network")
    return compose(config, network, partial(commands_of, config, network.pictures))


class Network(NamedTuple):
    """Layers as the array takes them."""

    layers: Sequence[Layer]
    pictures: dict[str, Picture]
    """Of the inputs and all layers, one behind another."""
    products: dict[str, int]
    """Multiplications that each layer needs."""


def prepare(config: AcceleratorConfig, sources: Mapping[str, Shape], layers: Sequence[Layer]) -> Network:
    """Merge groups, pack the inputs, and place pictures one behind another; errors are those of :func:`lower`."""
    products, shapes = dict[str, int](), dict(sources)
    for layer in layers:
        shapes[layer.name] = _shape_of(layer, shapes)
        products[layer.name] = 0 if layer.weight is None else layer.weight.size * math.prod(shapes[layer.name][1:])
    layers, packings = [_merged(config.size, layer) for layer in layers], dict[str, Packing]()
    for name, shape in sources.items():
        layers, packings[name] = _packed(config.size, shape, layers, name)
        shapes[name] = packings[name].apply(np.zeros(shape, np.float32)).shape
    pictures, end = dict[str, Picture](), 0
    for name, (channels, height, width) in shapes.items():
        border = _border(name, layers)
        pictures[name] = Picture(end, channels, height, width, border, packings.get(name, PLAIN))
        end = pictures[name].end(config.size)
    return Network(layers, pictures, products)


def compose(
    config: AcceleratorConfig, network: Network, commands: Callable[[Layer, bool], Iterable[Command]], memory: int = 0
) -> Lowered:
    """Return a program of the commands for each layer, by whether its roles exchange.

    With a bus, weights come from the memory, behind so many words.
    """
    program: list[Command] = []
    images: list[int] = []  # for each command, the row of weights from which it counts
    weights: list[Halves] = []
    reports = []
    for layer in network.layers:
        first, at = len(program), sum(map(len, weights))
        exchanged = _shorter(config, layer, network.pictures, at)
        for command in commands(layer, bool(exchanged)):
            program.append(command)
            images.append(at)
            at += rows_fed(command).size if exchanges(command) else 0
        if layer.weight is not None and exchanged:
            blocks = [command.levels["y"].trips for command in exchanged]
            weights += flowing(config.size, layer.weight, layer.bias, blocks)
        elif layer.weight is not None:
            weight = (
                layer.weight[: config.size] if _is_mean(config, layer, network.pictures[layer.name]) else layer.weight
            )
            weights += [tiles(config.size, weight, layer.bias), *([identity(config.size)] if layer.added else [])]
        cycles = cycles_of(config, program[first:])
        reports.append(LayerReport(layer.name, range(first, len(program)), cycles, network.products[layer.name]))
    rows = np.concatenate(weights) if weights else np.zeros((0, config.size), np.uint16)
    if len(rows) > config.weights and not config.beat:
        raise too_small(config, "weights", len(rows), config.weights, "this network without a bus (beat)")
    program.append(Command("end"))
    images.append(0)
    if not config.beat:
        program = list(starmap(_at, zip(program, images, strict=True)))
    else:
        parts = with_loads(config, program, memory, images)
        begins = [0, *accumulate(map(len, parts))]
        reports = [
            replace(report, commands=range(begins[report.commands.start], begins[report.commands.stop]))
            for report in reports
        ]
        program = [command for part in parts for command in part]
    check_room(config, program)
    return Lowered(config, with_waits(config, program), rows, network.pictures, reports, memory)


def _at(command: Command, row: int) -> Command:
    """The command with weights from a row on."""
    if command.opcode != "matmul":
        return command
    name = "reads" if exchanges(command) else "weights"
    return replace(command, values={**command.values, name: command.values[name] + row})


def _merged(size: int, layer: Layer) -> Layer:
    """The layer with groups of whole rows: fewer, with weights of zero between those that are one now.

    An infinity in one of these is NaN in all of them. The last row may have room for more groups than there are.
    """
    if layer.weight is None or layer.groups == 1:
        return layer
    (outputs, inputs, *_), groups = layer.weight.shape, layer.groups
    each = outputs // groups
    fits = (n for n in range(1, groups) if not (n * inputs % size or n * each % size))
    merged = next((n for n in fits if not groups % n or n * inputs == n * each == size), groups)
    weight = np.full((outputs, merged * inputs, *layer.kernel), -0.0, np.float32)
    for output, values in enumerate(layer.weight):
        first = output * groups // outputs % merged * inputs
        weight[output, first : first + inputs] = values
    return replace(layer, weight=weight, groups=-(-groups // merged))


def _packed(size: int, shape: Shape, layers: list[Layer], source: str) -> tuple[list[Layer], Packing]:
    """The layers with pixels of a line of the kernel in the channels of the input, as many as fit a row.

    Those of the next row lie so many strides further.
    """
    readers = [layer for layer in layers if source in (layer.source, layer.added)]
    [first] = readers if len(readers) == 1 else [None]
    if first is None or first.weight is None or first.added == source or first.dilation[1] > 1:
        return layers, PLAIN
    (above, left, below, right), kernel, (down, step) = first.padding, first.kernel[1], first.stride
    most = size // shape[0]
    pixels = kernel if kernel <= most else most // step * step
    if pixels < 1 or -(-kernel // pixels) >= kernel > 1:
        return layers, PLAIN
    columns, apart = -(-kernel // pixels), max(1, pixels // step)
    places = (shape[2] + left + right - kernel) // step + 1 + (columns - 1) * apart
    behind = max(0, (places - 1) * step + pixels - left - shape[2])
    weight = np.full((*first.weight.shape[:3], columns * pixels), -0.0, np.float32)
    weight[..., :kernel] = first.weight
    weight = weight.reshape(*weight.shape[:3], columns, pixels).transpose(0, 4, 1, 2, 3)
    packed = replace(
        first,
        kernel=(first.kernel[0], columns),
        stride=(down, 1),
        padding=(above, 0, below, 0),
        weight=weight.reshape(len(weight), -1, first.kernel[0], columns),
        dilation=(first.dilation[0], apart),
    )
    packing = Packing(pixels, step, (left, behind), shape[2])
    return [packed if layer is first else layer for layer in layers], packing


def _shape_of(layer: Layer, shapes: Mapping[str, Shape]) -> Shape:
    channels, *_ = shapes[layer.source]
    if layer.weight is not None and layer.weight.shape[1:] != (channels / layer.groups, *layer.kernel):
        wrong = f"{layer.weight.shape[1] * layer.groups} of {layer.weight.shape[2:]}"
        raise ValueError(f"weights of {layer.name} must be for {channels} channels of {layer.kernel}, not {wrong}")
    shape = layer.shape(shapes[layer.source])
    if min(shape) < 1:
        raise ValueError(f"kernel of {layer.name} must be at most as large as its padded image, not {layer.kernel}")
    if layer.added and shapes[layer.added] != shape:
        raise ValueError(f"{layer.added} must have the shape {shape} of {layer.name}, not {shapes[layer.added]}")
    return shape


def _border(name: str, layers: Sequence[Layer]) -> tuple[int, int, int, int]:
    """The border that all layers need which read a picture."""
    sides = [layer.padding for layer in layers if layer.source == name]
    above, left, below, right = (max((side[index] for side in sides), default=0) for index in range(4))
    return above, left, below, right


def _shorter(config: AcceleratorConfig, layer: Layer, pictures: Mapping[str, Picture], at: int) -> list[Command]:
    """The commands of a layer whose roles exchange, if that is possible and takes fewer cycles."""
    pictures = {name: replace(pictures[name], base=0) for name in (layer.source, layer.name)}
    exchanged = _exchanged(config, layer, pictures[layer.source], pictures[layer.name])
    if exchanged and (config.beat or at + sum(rows_fed(command).size for command in exchanged) <= MOST_ROWS):
        plain = _matmul(config, layer, pictures, _PIXEL, range(pictures[layer.name].blocks(config.size)))
        return exchanged if cycles_of(config, exchanged) < cycles_of(config, [plain]) else []
    return []


def commands_of(
    config: AcceleratorConfig, pictures: Mapping[str, Picture], layer: Layer, exchange: bool
) -> list[Command]:
    """The commands of a layer, one or two for each tile of lines; rows of weights are counted from its first one."""
    source, target = pictures[layer.source], pictures[layer.name]
    if exchange:
        return _exchanged(config, layer, source, target)
    outputs = target.blocks(config.size)
    if _is_mean(config, layer, target):
        levels = _loops(layer, source, target, _PIXEL) | {"y": Level(outputs, source.plane, target.plane)}
        return [Command("matmul", {**_first(layer, source, target, _PIXEL), "weights": 0, **_ends(layer)}, levels)]
    lines = max(1, min(target.height, config.depth // target.width))
    commands = []
    places = product(equal_parts(target.height, lines), equal_parts(target.width, config.depth))
    for part in starmap(_Tile, places):
        if layer.weight is None:
            levels = _loops(layer, source, target, part) | {"block": Level(outputs, source.plane, target.plane)}
            commands.append(Command("pool", _first(layer, source, target, part), levels))
        elif layer.added:
            # Sums stay for the other picture, so each block of outputs has commands of its own.
            for n in range(outputs):
                commands += _sum_of_two(config, layer, pictures, part, n)
        else:
            count = outputs if layer.groups == outputs else outputs // layer.groups  # groups of one block are a loop
            ranges = (range(first, first + count) for first in range(0, outputs, count))
            commands += [_matmul(config, layer, pictures, part, blocks) for blocks in ranges]
    return commands


class _Tile(NamedTuple):
    """Results that are computed at once."""

    lines: range
    pixels: range


_PIXEL = _Tile(range(1), range(1))


def _is_mean(config: AcceleratorConfig, layer: Layer, target: Picture) -> bool:
    """Whether a layer gives a pixel for each block of channels, all with the same weights: rows of one tile."""
    if layer.weight is None or layer.bias is not None or layer.added or layer.groups < 2:  # blocks
        return False
    blocks = target.blocks(config.size)
    if (target.height, target.width) != (1, 1) or layer.groups != blocks or blocks > config.depth:
        return False
    first = layer.weight[: config.size]
    parts = (layer.weight[at:][: config.size] for at in range(0, len(layer.weight), config.size))
    return all((part == first[: len(part)]).all() for part in parts)


def _loops(layer: Layer, source: Picture, target: Picture, tile: _Tile) -> dict[str, Level]:
    (down, right), pitch = layer.stride, source.pitch
    return {
        "x": Level(len(tile.pixels), right, 1),
        "y": Level(len(tile.lines), down * pitch, target.pitch),
        "kx": Level(layer.kernel[1], layer.dilation[1]),
        "ky": Level(layer.kernel[0], layer.dilation[0] * pitch),
    }


def _first(layer: Layer, source: Picture, target: Picture, tile: _Tile) -> dict[str, int]:
    """The first rows that are read and written."""
    y, x = tile.lines.start, tile.pixels.start
    read = source.row(y * layer.stride[0] - layer.padding[0], x * layer.stride[1] - layer.padding[1])
    return {"reads": read, "writes": target.row(y, x)}


def _matmul(
    config: AcceleratorConfig, layer: Layer, pictures: Mapping[str, Picture], tile: _Tile, outputs: range
) -> Command:
    source, target = pictures[layer.source], pictures[layer.name]
    blocks = source.blocks(config.size) // layer.groups
    tiles = blocks * math.prod(layer.kernel)
    bias = int(layer.bias is not None)
    first = _first(layer, source, target, tile)
    columns = target.blocks(config.size)
    group = outputs.start * layer.groups // columns
    values = {
        "reads": first["reads"] + group * blocks * source.plane,
        "writes": first["writes"] + outputs.start * target.plane,
        "weights": outputs.start * (2 * bias + tiles * config.size),
        "bias": bias,
        **_ends(layer),
    }
    levels = _loops(layer, source, target, tile)
    step = blocks * source.plane * (1 < layer.groups == columns)
    levels |= {"block": Level(blocks, source.plane), "n": Level(len(outputs), step, target.plane)}
    return Command("matmul", values, levels)


def _ends(layer: Layer) -> dict[str, int]:
    """Fields that post-process a finished sum."""
    high = 0 if layer.high is None else int(golden.convert(golden.to_bits(np.float32(layer.high))))
    return {"emit": 1, "relu": int(layer.relu), "clip": int(layer.high is not None), "high": high}


def _sum_of_two(
    config: AcceleratorConfig, layer: Layer, pictures: Mapping[str, Picture], tile: _Tile, n: int
) -> list[Command]:
    """A block of outputs whose sums stay, and the other picture, times an identity, added to them."""
    source, target, other = pictures[layer.source], pictures[layer.name], pictures[layer.added]
    first = _matmul(config, layer, pictures, tile, range(n, n + 1))
    tiles = source.blocks(config.size) // layer.groups * math.prod(layer.kernel)
    identity = target.blocks(config.size) * (2 * first.values["bias"] + tiles * config.size)
    stays = dict.fromkeys(("emit", "relu", "clip", "high"), 0)
    values = {
        "reads": other.row(tile.lines.start, tile.pixels.start) + n * other.plane,
        "writes": first.values["writes"],
        "weights": identity,
        "add": 1,
        **_ends(layer),
    }
    levels = {"x": Level(len(tile.pixels), 1, 1), "y": Level(len(tile.lines), other.pitch, target.pitch)}
    return [Command("matmul", {**first.values, **stays}, first.levels), Command("matmul", values, levels)]


def _exchanged(config: AcceleratorConfig, layer: Layer, source: Picture, target: Picture) -> list[Command]:
    """The commands of a layer with one pixel, whose weights flow by it, or none: it has no rows one behind another."""
    size, bias = config.size, int(layer.bias is not None)
    tiles = source.blocks(size) * math.prod(layer.kernel) + bias
    room, outputs = min(config.weights, MOST_ROWS), target.blocks(size)
    chunk = config.depth // size
    if config.beat:  # the fewest that fill a tile: loads of the next ones begin as soon
        chunk = min(chunk, room // (tiles * size), -(-config.unit.shortest_tile // size))
    whole = (source.height, source.width) == layer.kernel and (target.height, target.width) == (1, 1)
    if layer.weight is None or layer.groups > 1 or layer.added or any(source.border) or not whole:
        return []
    if tiles > _MOST_TRIPS or chunk < 1:
        return []
    if bias and (size < 3 or pieces(layer.bias) is None):
        return []
    commands = []
    for first in range(0, outputs, chunk):
        count = min(chunk, outputs - first)
        values = {
            "reads": 0,
            "writes": target.row(0, 0) + first * target.plane,
            "weights": source.row(0, 0),
            "bias": bias,
            "exchange": 1,
            **_ends(layer),
        }
        levels = {"x": Level(size, 1), "y": Level(count, size, target.plane), "block": Level(tiles, count * size)}
        commands.append(Command("matmul", values, levels))
    return commands
