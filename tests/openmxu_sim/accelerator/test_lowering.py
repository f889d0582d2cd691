"""Layers as programs: small integers, which every order of sums gives exactly, against loops over pixels."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator import Memories, check_waits, run
from openmxu_sim.accelerator.lowering import Layer, Lowered, lower
from openmxu_sim.accelerator.simulation import SimulatedAccelerator

from ...conftest import needs_compiler
from .programs import check

MACHINE = AcceleratorConfig(size=4, stages=1, depth=16, rows=1024, weights=1024)
_SIDES = (1, 1, 1, 1)


def by_pixels(layer: Layer, values: np.ndarray, added: np.ndarray | None = None) -> np.ndarray:
    """A layer of (channels, y, x), a pixel at a time."""
    above, left, below, right = layer.padding
    padded = np.pad(values, ((0, 0), (above, below), (left, right)))
    lines, pixels = (range(0, step * size, step) for size, step in zip(layer.kernel, layer.dilation, strict=True))
    sizes = zip(padded.shape[1:], (lines, pixels), layer.stride, strict=True)
    height, width = ((size - 1 - reach[-1]) // stride + 1 for size, reach, stride in sizes)
    channels = len(values) if layer.weight is None else len(layer.weight)
    found = np.zeros((channels, height, width), np.float32)
    for y, x in itertools.product(range(height), range(width)):
        down, across = y * layer.stride[0], x * layer.stride[1]
        window = padded[:, down:, across:][:, lines][:, :, pixels]
        if layer.weight is None:
            found[:, y, x] = window.max(axis=(1, 2))
        else:
            inputs = window.reshape(layer.groups, 1, -1, *layer.kernel)
            products = layer.weight.reshape(layer.groups, -1, *layer.weight.shape[1:]) * inputs
            found[:, y, x] = products.sum(axis=(2, 3, 4)).ravel() + (0 if layer.bias is None else layer.bias)
    found = found if added is None else found + added
    found = np.maximum(found, 0) if layer.relu else found
    return found if layer.high is None else np.minimum(found, layer.high)


def all_by_pixels(layers: Sequence[Layer], image: np.ndarray) -> dict[str, np.ndarray]:
    """The results of a network's layers, which bf16 has."""
    values = {"x": image}
    for layer in layers:
        values[layer.name] = by_pixels(layer, values[layer.source], values.get(layer.added))
        assert np.abs(values[layer.name]).max() <= 256
    return values


def small_weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-1, 2, shape).astype(np.float32)


def _network(rng: np.random.Generator, channels: int, stride: int) -> list[Layer]:
    """A convolution, a residual block, a pool, and a dense layer."""
    bias = rng.integers(-3, 4, 6).astype(np.float32)
    first, second = small_weights(rng, 6, channels, 3, 3), small_weights(rng, 6, 6, 3, 3) // 2
    return [
        Layer("first", "x", (3, 3), (1, stride), _SIDES, first, bias, relu=True),
        Layer("second", "first", (3, 3), (1, 1), _SIDES, second, bias, True, added="first"),
        Layer("third", "second", (1, 2), (1, 1), (0, 0, 0, 1), small_weights(rng, 5, 6, 1, 2), None, True, high=6.0),
        Layer("pooled", "third", (2, 3), (2, 2)),
    ]


def memories_with(lowered: Lowered, image: np.ndarray) -> Memories:
    """A network's memories with a picture in them."""
    memories = lowered.memories()
    lowered.put("x", image, lowered.rows(memories))
    return memories


def computed(lowered: Lowered, image: np.ndarray) -> Memories:
    """A network's memories behind its program, whose waits are right."""
    check_waits(lowered.config, lowered.program)
    memories = memories_with(lowered, image)
    run(lowered.program, memories)
    return memories


@pytest.mark.parametrize(
    ("channels", "stride", "width"), [(1, 1, 9), (1, 2, 9), (2, 1, 9), (5, 2, 9), (1, 1, 33), (5, 1, 17), (2, 2, 40)]
)
def test_a_network(channels: int, stride: int, width: int) -> None:
    """With an input whose channels are packed, and others; lines of several stripes; every layer's results.

    Lines are longer than the bank has rows, too.
    """
    rng = np.random.default_rng(channels)
    layers = _network(rng, channels, stride)
    image = rng.integers(-2, 3, (channels, 7, width)).astype(np.float32)
    lowered = lower(replace(MACHINE, rows=4096, program=4096), {"x": image.shape}, layers)
    memories = computed(lowered, image)
    for name, expected in all_by_pixels(layers, image).items():
        assert name == "x" or (lowered.get(name, memories.scratchpad) == expected).all(), name


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "commands"),
    [
        (8, 1, 1, 7),  # two blocks of channels, each of which reads its own: a loop
        (2, 4, 8, 14),  # two groups of whole blocks
        (4, 2, 2, 7),  # pairs of groups make a block
        (6, 1, 1, 7),  # the last block has room for two more
        (3, 2, 4, 7),  # no number of groups makes whole blocks: one group of all
        (2, 3, 4, 7),
    ],
)
def test_groups(groups: int, inputs: int, outputs: int, commands: int) -> None:
    rng = np.random.default_rng(groups)
    weight, bias = small_weights(rng, groups * outputs, inputs, 3, 3), rng.integers(-3, 4, groups * outputs)
    layer = Layer("grouped", "x", (3, 3), (1, 1), _SIDES, weight, bias.astype(np.float32), groups=groups)
    image = rng.integers(-2, 3, (groups * inputs, 7, 9)).astype(np.float32)
    for each in (layer, replace(layer, added="x")) if inputs == outputs else (layer,):
        lowered = lower(MACHINE, {"x": image.shape}, [each])
        expected = by_pixels(each, image, image if each.added else None)
        assert (lowered.get("grouped", computed(lowered, image).scratchpad) == expected).all()
        [report] = lowered.layers
        assert report.products == weight.size * 7 * 9
        assert each.added or len(report.commands) == commands


@pytest.mark.parametrize("kernel", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 2])
def test_pixels_of_a_line_in_a_row(kernel: int, stride: int, channels: int) -> None:
    """Of all that the kernel reads, or of as many as fit: any padding and width, dilation of lines."""
    rng = np.random.default_rng(kernel)
    packed = set[tuple[int, int]]()
    for left, right, width in ((0, 0, 9), (1, 0, 10), (2, 3, 8), (0, 2, 7)):
        weight = small_weights(rng, 5, channels, 2, kernel)
        layer = Layer("y", "x", (2, kernel), (1, stride), (1, left, 0, right), weight, dilation=(2, 1))
        image = rng.integers(-2, 3, (channels, 5, width)).astype(np.float32)
        lowered = lower(MACHINE, {"x": image.shape}, [layer])
        assert (lowered.get("y", computed(lowered, image).scratchpad) == by_pixels(layer, image)).all()
        packed.add((lowered.pictures["x"].packing.kernel, lowered.program[0].levels["kx"].trips))
    most = 4 // channels  # by hand
    fits = kernel if kernel <= most else most // stride * stride
    [expected] = [(fits, -(-kernel // fits)) if fits and -(-kernel // fits) < kernel else (1, kernel)]
    assert packed == {expected}


@pytest.mark.parametrize(("channels", "depth", "tiles"), [(11, 16, 1), (8, 16, 1), (4, 16, 1), (11, 2, 3)])
def test_means(channels: int, depth: int, tiles: int) -> None:
    """Blocks of channels are rows of one tile, if the bank has so many; others have a sum each, and other weights."""
    rng = np.random.default_rng(channels)
    image = rng.integers(-2, 3, (channels, 4, 2)).astype(np.float32)
    layer = Layer("y", "x", (4, 2), weight=np.full((channels, 1, 4, 2), 0.125, np.float32), groups=channels, relu=True)
    config = replace(MACHINE, depth=depth)
    other = np.full((channels, 1, 4, 2), 0.125, np.float32)
    other[-1] = 1
    for weight, count in ((layer.weight, tiles), (other, -(-channels // 4))):
        each = replace(layer, weight=weight)
        lowered = lower(config, {"x": image.shape}, [each])
        assert (lowered.get("y", computed(lowered, image).scratchpad) == by_pixels(each, image)).all()
        assert len(lowered.weights) == count * 8 * 4


@pytest.mark.parametrize(("outputs", "depth", "blocks"), [(3, 16, []), (11, 16, [3]), (40, 16, [4, 4, 2]), (9, 4, [])])
def test_a_dense_layer_of_one_vector(outputs: int, depth: int, blocks: list[int]) -> None:
    """Its weights flow by it, in commands of a bank each, unless that takes longer; the same words."""
    rng = np.random.default_rng(outputs)
    weight, bias = rng.standard_normal((outputs, 5, 3, 4)), rng.standard_normal(outputs).astype(np.float32)
    layer = Layer("dense", "x", (3, 4), weight=weight.astype(np.float32), bias=bias, relu=True)
    config = replace(MACHINE, depth=depth, weights=4096, stages=4)
    image = rng.standard_normal((5, 3, 4)).astype(np.float32)
    words = []
    for last in (1.0, np.inf, 1.1 * 2.0**-112):  # bf16 has no last bits of so small a bias
        biases = np.append(bias[1:], np.float32(last))
        lowered = lower(config, {"x": image.shape}, [replace(layer, bias=biases)])
        words.append(lowered.get("dense", computed(lowered, image).scratchpad)[:-1])
        exchanged = [command.levels["y"].trips for command in lowered.program if command.values.get("exchange")]
        assert exchanged == (blocks if last == 1 else [])
    assert len({word.tobytes() for word in words}) == 1


@needs_compiler
def test_a_network_on_the_machine() -> None:
    """Word for word as the definition, in the cycles of the formula and some for each command."""
    rng = np.random.default_rng(3)
    layers = [*_network(rng, 1, 1), Layer("dense", "pooled", (3, 4), weight=small_weights(rng, 3, 5, 3, 4))]
    lowered = lower(MACHINE, {"x": (1, 7, 9)}, layers)
    memories = memories_with(lowered, rng.standard_normal((1, 7, 9)).astype(np.float32))
    report = check(SimulatedAccelerator(MACHINE), lowered.program, memories, 100_000)
    formula = sum(layer.cycles for layer in lowered.layers)
    assert formula < report.cycles < formula + 50 * len(lowered.program)
    assert [len(layer.commands) for layer in lowered.layers] == [7, 28, 7, 1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"weight": np.zeros((6, 3, 3, 3), np.float32)},
            "weights of first must be for 5 channels of .3, 3., not 3 of .3, 3.",
        ),
        ({"kernel": (12, 3)}, "weights of first must be for 5 channels of .12, 3., not 5 of .3, 3."),
    ],
    ids=["channels", "kernel"],
)
def test_layers_that_do_not_fit(change: dict[str, object], message: str) -> None:
    first = replace(_network(np.random.default_rng(0), 5, 1)[0], **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"^{message}$"):
        lower(MACHINE, {"x": (5, 7, 11)}, [first])


def test_memories_that_are_too_small() -> None:
    layers = _network(np.random.default_rng(0), 5, 1)
    for name, few, without in (
        ("scratchpad", replace(MACHINE, rows=100), ""),
        ("weights", replace(MACHINE, weights=100), r" without a bus \(beat\)"),
    ):
        message = rf"^{name} must have at least \d+ bytes for this network{without}, \d+ rows, not 800$"
        with pytest.raises(ValueError, match=message):
            lower(few, {"x": (5, 7, 9)}, layers)
    lowered = lower(MACHINE, {"x": (5, 7, 9)}, layers)
    with pytest.raises(ValueError, match=r"^x must have the shape \(5, 7, 9\), not \(5, 9, 7\)$"):
        lowered.put("x", np.zeros((5, 9, 7), np.float32), np.zeros((1024, 4), np.uint16))
