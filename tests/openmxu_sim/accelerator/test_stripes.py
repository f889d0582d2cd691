"""Networks larger than the scratchpad: the words of a scratchpad that has all, and of loops over pixels."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import ANY, assemble
from openmxu_sim.accelerator import check_waits, run
from openmxu_sim.accelerator.lowering import Layer, Lowered, lower
from openmxu_sim.accelerator.simulation import SimulatedAccelerator
from openmxu_sim.accelerator.stripes import bytes_moved, fit

from ...conftest import needs_compiler, slow
from .test_lowering import MACHINE, by_pixels, memories_with, small_weights
from .test_waits import at_any_speed

_MACHINE = replace(MACHINE, depth=32, program=1 << 16)
_SIDES = (1, 1, 1, 1)
_LEAST = 1 + 2 * 3 * 9 + 2 * 7  # row 0, and of the first layer three lines of two blocks and a line of results


def network_of(rng: np.random.Generator, channels: int) -> list[Layer]:
    """Convolutions, two of a picture that are added after another; with padding of one side; a pool; a dense layer."""
    bias = rng.integers(-3, 4, 6).astype(np.float32)
    tall = small_weights(rng, 8, 6, 5, 1)
    return [
        Layer("first", "x", (3, 3), (1, 1), _SIDES, small_weights(rng, 6, channels, 3, 3), bias, relu=True),
        Layer("second", "first", (3, 3), (2, 2), _SIDES, small_weights(rng, 6, 6, 3, 3) // 2, relu=True, high=8.0),
        Layer("third", "first", (1, 1), (2, 2), weight=small_weights(rng, 6, 6, 1, 1), bias=bias),
        Layer("fourth", "second", (3, 3), (1, 1), _SIDES, small_weights(rng, 6, 6, 3, 3), None, True, added="third"),
        Layer("fifth", "fourth", (5, 1), (3, 2), (3, 0, 2, 0), tall, None, relu=True, high=7.0),
        Layer("sixth", "fifth", (3, 3), (1, 1), _SIDES, small_weights(rng, 8, 1, 3, 3), None, True, 6.0, "", 8),
        Layer("pooled", "sixth", (2, 2), (1, 2), (1, 0, 0, 1)),
        Layer("dense", "pooled", (2, 1), weight=small_weights(rng, 7, 8, 2, 1)),
    ]


def image_of(rng: np.random.Generator, channels: int) -> np.ndarray:
    return rng.integers(-2, 3, (channels, 9, 7)).astype(np.float32)


@pytest.mark.parametrize(("channels", "sizes"), [(5, (_LEAST, 250, 450)), slow(1, (*range(_LEAST, 330, 20), 450, 900))])
def test_any_scratchpad(channels: int, sizes: tuple[int, ...]) -> None:
    """From the smallest one on: each result that is kept, and its border, as where all of them stay."""
    rng = np.random.default_rng(channels)
    layers, image = network_of(rng, channels), image_of(rng, channels)
    values = {"x": image}
    for layer in layers:
        values[layer.name] = by_pixels(layer, values[layer.source], values.get(layer.added))
        assert np.abs(values[layer.name]).max() <= 256
    whole = lower(replace(_MACHINE, rows=4096), image.shape, layers, "x")
    expected = memories_with(whole, image)
    run(whole.program, expected)
    assert all((whole.get(name, expected.scratchpad) == values[name]).all() for name in values if name != "x")
    kinds = set()
    for rows in sizes:
        lowered = fit(replace(_MACHINE, rows=rows), image.shape, layers, "x")
        check_waits(lowered.config, lowered.program)
        memories = memories_with(lowered, image)
        memories.scratchpad[1:] = 0x7FC0 if lowered.memory else memories.scratchpad[1:]  # what others left
        run(lowered.program, memories)
        assert (lowered.get("dense", lowered.rows(memories)) == values["dense"]).all(), rows
        for name, picture in lowered.pictures.items() if lowered.memory else ():
            begin, end = whole.pictures[name].base, whole.pictures[name].end(4)
            words = lowered.rows(memories)[picture.base : picture.end(4)]
            assert (words == expected.scratchpad[begin:end]).all(), (rows, name)
        kinds.add((len(lowered.pictures), lowered.memory > 0))
    assert kinds >= {(7, True), (5, True), (9, False)}


def test_waits() -> None:
    """Programs give the same words at any speed of their engines; a wait less is objected to."""
    rng = np.random.default_rng(2)
    layers, image = network_of(rng, 5), rng.standard_normal((5, 9, 7)).astype(np.float32)
    for rows in (110, 250):
        lowered = fit(replace(_MACHINE, rows=rows), image.shape, layers, "x")
        expected = memories_with(lowered, image)
        run(lowered.program, expected)
        memories = memories_with(lowered, image)
        at_any_speed(lowered.program, memories, rng)
        assert (memories.memory == expected.memory).all()
        assert (memories.scratchpad == expected.scratchpad).all()
        _check_waits_less(lowered)


def _check_waits_less(lowered: Lowered) -> None:
    waits = [
        (index, field)
        for index, command in enumerate(lowered.program[:-1])
        for field in ("loads", "computes", "stores")
        if command.values[field] != ANY
    ]
    assert len(waits) > 10
    for index, field in waits[:: len(waits) // 10]:
        command, less = lowered.program[index], [*lowered.program]
        less[index] = replace(command, values={**command.values, field: command.values[field] + 1})
        with pytest.raises(ValueError, match=rf"^command {index} .*: {field} must be at most "):
            check_waits(lowered.config, less)


def test_two_areas() -> None:
    """By hand: the next stripe is loaded, and the one before is stored, while one is computed."""
    layer = Layer("y", "x", (1, 1), weight=np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1))
    lowered = fit(replace(_MACHINE, rows=9), (4, 3, 2), [layer], "x")
    assert lowered.program == assemble("""
        load rows=1 valid=4 address=0 x=2:1:4 y=1:2:8 block=1:2:24
        matmul reads=1 writes=3 weights=0 emit loads=0 x=2:1:1 y=1:2:2 kx=1:1 ky=1:2 block=1:2 n=1:0:2
        load rows=5 valid=4 address=8 x=2:1:4 y=1:2:8 block=1:2:24
        matmul reads=5 writes=7 weights=0 emit loads=0 x=2:1:1 y=1:2:2 kx=1:1 ky=1:2 block=1:2 n=1:0:2
        store rows=3 valid=4 address=24 computes=1 x=2:1:4 y=1:2:8 block=1:2:24
        load rows=1 valid=4 address=16 x=2:1:4 y=1:2:8 block=1:2:24
        matmul reads=1 writes=3 weights=0 emit loads=0 stores=0 x=2:1:1 y=1:2:2 kx=1:1 ky=1:2 block=1:2 n=1:0:2
        store rows=7 valid=4 address=32 computes=1 x=2:1:4 y=1:2:8 block=1:2:24
        store rows=3 valid=4 address=40 computes=0 x=2:1:4 y=1:2:8 block=1:2:24
        end
    """)
    assert (lowered.memory, lowered.alternative) == (48, 13)
    assert bytes_moved(lowered.program) == 96


@pytest.mark.parametrize(
    ("rows", "shape", "stride", "message"),
    [
        (_LEAST - 1, (5, 9, 7), None, f"scratchpad must have at least {_LEAST} rows of 8 bytes for one line of each"),
        (1024, (5, 3, 2000), (1, 200), "scratchpad must have at least 12033 rows of 8 bytes for one line of each"),
        (1, (1, 1, 1), (1, 1), "scratchpad must have at least 5 rows of 8 bytes for one line of each layer, not 1"),
        (1 << 16, (5, 40, 4999), (1, 500), "trips of x must be an integer from 1 to 4095, not 5001"),
    ],
)
def test_no_room(rows: int, shape: tuple[int, int, int], stride: tuple[int, int] | None, message: str) -> None:
    layers = network_of(np.random.default_rng(0), shape[0])
    layers = [replace(layers[0], stride=stride)] if stride else layers
    with pytest.raises(ValueError, match=f"^{message}[^\n]*$"):
        fit(replace(_MACHINE, rows=rows), shape, layers, "x")


def test_many_lines() -> None:
    """More than a command counts: no area has more than 4,095."""
    rng = np.random.default_rng(1)
    layer, image = Layer("y", "x", (3, 1), (2, 1), (1, 0, 1, 0), small_weights(rng, 1, 1, 3, 1)), np.ones((1, 9001, 1))
    config = replace(_MACHINE, rows=13_000, depth=512)
    lowered = fit(config, image.shape, [layer], "x")
    memories = memories_with(lowered, image.astype(np.float32))
    run(lowered.program, memories)
    assert (lowered.get("y", lowered.rows(memories)) == by_pixels(layer, image, None)).all()
    loads = [command.levels["y"].trips for command in lowered.program if command.opcode == "load"]
    assert loads == [4095, 4095, 815]


@needs_compiler
def test_rows_used_again_on_the_machine() -> None:
    """Borders are cleared where other pictures were: word for word as the definition."""
    rng = np.random.default_rng(3)
    layers, image = network_of(rng, 5), rng.standard_normal((5, 9, 7)).astype(np.float32)
    lowered = fit(replace(MACHINE, rows=450), image.shape, layers, "x")
    assert not lowered.memory
    memories = memories_with(lowered, image)
    machine = SimulatedAccelerator(MACHINE)
    machine.write(lowered.program, memories)
    report = machine.run(most=100_000)
    assert [report.tag] == run(lowered.program, memories)
    assert (machine.scratchpad()[:450] == memories.scratchpad).all()
    expected = lowered.get("dense", memories.scratchpad)
    lowered.put("x", image, memories.scratchpad)
    run(lowered.program, memories)  # once more, where other pictures were
    assert (lowered.get("dense", memories.scratchpad) == expected).all()


@pytest.mark.parametrize(
    ("rows", "moved", "cycles"), [(3863, 0, 28_236), (2825, 0, 28_764), (1412, 50_936, 28_236), (237, 65_432, 31_260)]
)
def test_figures_of_the_documentation(rows: int, moved: int, cycles: int) -> None:
    """MNIST's CNN on 4x4 with four stages, in rows of 8 bytes."""
    sizes = ((8, 1, 1), (16, 8, 2), (16, 16, 2))
    zeros = partial(np.zeros, dtype=np.float32)
    layers = [
        Layer(str(n), str(n - 1), (3, 3), (down, down), _SIDES, zeros((outputs, inputs, 3, 3)), zeros(outputs))
        for n, (outputs, inputs, down) in enumerate(sizes, 1)
    ]
    layers.append(Layer("dense", "3", (7, 7), weight=zeros((10, 16, 7, 7)), bias=zeros(10)))
    config = AcceleratorConfig(4, 4, 256, rows, program=1 << 16)
    lowered = fit(config, (1, 28, 28), layers, "0")
    assert (bytes_moved(lowered.program), sum(layer.cycles for layer in lowered.layers)) == (moved, cycles)
    text = (Path(__file__).parents[3] / "docs/explanation/accelerator.md").read_text()
    assert re.search(rf"\| {8 * rows:,} \| [^|]* \| {moved:,} \| {cycles:,} \|", text)
