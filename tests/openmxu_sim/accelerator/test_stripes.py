"""Networks larger than the scratchpad: the words of a scratchpad that has all, and of loops over pixels.

And those whose weights come from a memory: the same bits, from any memory of weights that a tile fits.
"""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig, weights_of, weights_read, weights_written
from openmxu.spec.commands import ANY, assemble
from openmxu_sim.accelerator import check_waits, run
from openmxu_sim.accelerator.lowering import Layer, lower
from openmxu_sim.accelerator.prefetch import with_loads
from openmxu_sim.accelerator.simulation import PAGE, SimulatedAccelerator
from openmxu_sim.accelerator.stripes import bytes_moved, check_layer, fit

from ...conftest import needs_compiler, slow
from .programs import check
from .test_lowering import MACHINE, all_by_pixels, by_pixels, computed, memories_with, small_weights
from .test_waits import at_any_speed, refused_with_less

_MACHINE = replace(MACHINE, depth=32, program=1 << 16)
_BUS = replace(_MACHINE, beat=64)
_SIDES = (1, 1, 1, 1)
_TILE = 3 * 3 * 4 + 2  # a tile for each pixel of a kernel, and biases
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
    values = all_by_pixels(layers, image)
    whole = lower(replace(_MACHINE, rows=4096), {"x": image.shape}, layers)
    expected = computed(whole, image)
    assert all((whole.get(name, expected.scratchpad) == values[name]).all() for name in values if name != "x")
    kinds = set()
    for rows in sizes:
        lowered = fit(replace(_MACHINE, rows=rows), {"x": image.shape}, layers)
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


@pytest.mark.parametrize("rows", [_LEAST, 250, 500, 1024])
@pytest.mark.parametrize("bus", [False, True])
def test_several_pictures_in_and_out(rows: int, bus: bool) -> None:
    """Each result that is asked for is there at the end, read by others or not, wherever its picture was."""
    rng = np.random.default_rng(3)
    layers, image = network_of(rng, 5), image_of(rng, 5)
    values, names = all_by_pixels(layers, image), ("first", "second", "dense")
    rest = [layer for layer in layers if layer.name != "third"]
    config = replace(_BUS if bus else _MACHINE, rows=rows)
    lowered = fit(config, {"x": image.shape, "third": values["third"].shape}, rest, names)
    check_waits(lowered.config, lowered.program)
    memories = memories_with(lowered, image)
    lowered.put("third", values["third"], lowered.rows(memories))
    run(lowered.program, memories)
    assert all((lowered.get(name, lowered.rows(memories)) == values[name]).all() for name in names)


def test_waits() -> None:
    """Programs give the same words at any speed of their engines; a wait less is objected to."""
    rng = np.random.default_rng(2)
    layers, image = network_of(rng, 5), rng.standard_normal((5, 9, 7)).astype(np.float32)
    for rows in (110, 250):
        lowered = fit(replace(_MACHINE, rows=rows), {"x": image.shape}, layers)
        expected, memories = computed(lowered, image), memories_with(lowered, image)
        at_any_speed(lowered.program, memories, rng)
        assert (memories.memory == expected.memory).all()
        assert (memories.scratchpad == expected.scratchpad).all()
        commands = enumerate(lowered.program[:-1])
        waits = [(at, name) for at, c in commands for name in ("loads", "computes", "stores") if c.values[name] != ANY]
        assert len(waits) > 10
    for wait in waits[:: len(waits) // 10]:
        refused_with_less(lowered.config, lowered.program, *wait)


def test_two_areas() -> None:
    """By hand: the next stripe is loaded, and the one before is stored, while one is computed."""
    layer = Layer("y", "x", (1, 1), weight=np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1))
    lowered = fit(replace(_MACHINE, rows=9), {"x": (4, 3, 2)}, [layer])
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
        (_LEAST - 1, (5, 9, 7), None, f"scratchpad must have at least {8 * _LEAST} bytes for one image row of each"),
        (1024, (5, 3, 2000), (1, 200), "scratchpad must have at least 96264 bytes for one image row of each"),
        (1, (1, 1, 1), (1, 1), "scratchpad must have at least 40 bytes for one image row of each layer, 5 rows, not 8"),
        (1 << 16, (5, 40, 4999), (1, 500), "trips of x must be an integer from 1 to 4095, not 5001"),
    ],
)
def test_no_room(rows: int, shape: tuple[int, int, int], stride: tuple[int, int] | None, message: str) -> None:
    layers = network_of(np.random.default_rng(0), shape[0])
    layers = [replace(layers[0], stride=stride)] if stride else layers
    with pytest.raises(ValueError, match=f"^{message}[^\n]*$"):
        fit(replace(_MACHINE, rows=rows), {"x": shape}, layers)


def test_many_lines() -> None:
    """More than a command counts: no area has more than 4,095."""
    rng = np.random.default_rng(1)
    layer, image = Layer("y", "x", (3, 1), (2, 1), (1, 0, 1, 0), small_weights(rng, 1, 1, 3, 1)), np.ones((1, 9001, 1))
    config = replace(_MACHINE, rows=13_000, depth=512)
    lowered = fit(config, {"x": image.shape}, [layer])
    memories = computed(lowered, image.astype(np.float32))
    assert (lowered.get("y", lowered.rows(memories)) == by_pixels(layer, image, None)).all()
    assert [command.levels["y"].trips for command in lowered.program if command.opcode == "store"] == [1500, 1500, 1501]
    loads = [command.levels["y"].trips for command in lowered.program if command.opcode == "load"]
    assert loads == 2 * [*[512] * 5, 441] + [*[512] * 5, 443]


@needs_compiler
def test_rows_used_again_on_the_machine() -> None:
    """Borders are cleared where other pictures were: word for word as the definition."""
    rng = np.random.default_rng(3)
    layers, image = network_of(rng, 5), rng.standard_normal((5, 9, 7)).astype(np.float32)
    lowered = fit(replace(MACHINE, rows=450), {"x": image.shape}, layers)
    assert not lowered.memory
    memories = memories_with(lowered, image)
    assert len(memories.scratchpad) == 450
    check(SimulatedAccelerator(MACHINE), lowered.program, memories, 100_000)
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
    lowered = fit(config, {"0": (1, 28, 28)}, layers)
    assert (bytes_moved(lowered.program), sum(layer.cycles for layer in lowered.layers)) == (moved, cycles)
    text = (Path(__file__).parents[3] / "docs/explanation/accelerator.md").read_text()
    assert re.search(rf"\| {8 * rows:,} \| [^|]* \| {moved:,} \| {cycles:,} \|", text)


@pytest.mark.parametrize(
    ("rows", "weights"),
    [(500, _TILE), (110, 100), (1024, 1024), (500, 14), slow(250, 27), slow(250, 60), slow(110, _TILE)],
)
def test_any_memory_of_weights(rows: int, weights: int) -> None:
    """Small integers, whose sums are exact, against loops over pixels; loads into what others still read wait."""
    rng = np.random.default_rng(weights)
    layers, image = network_of(rng, 5), image_of(rng, 5)
    lowered = fit(replace(_BUS, rows=rows, weights=weights), {"x": image.shape}, layers)
    check_waits(lowered.config, lowered.program)
    memories = memories_with(lowered, image)
    memories.weights[:] = memories.scratchpad[:] = 0x7FC0  # what others left
    run(lowered.program, memories)
    assert (lowered.get("dense", lowered.rows(memories)) == all_by_pixels(layers, image)["dense"]).all()
    assert all(weights_read(command, 4).max(initial=0) < weights for command in lowered.program)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("weights", [_TILE, 200])
def test_weights_from_a_memory_on_the_machine(weights: int) -> None:
    """Random numbers, two pictures one after the other: the memory as the definition leaves it."""
    rng = np.random.default_rng(weights)
    layers = network_of(rng, 5)
    lowered = fit(replace(_BUS, depth=16, rows=200, weights=weights), {"x": (5, 9, 7)}, layers)
    machine = SimulatedAccelerator(lowered.config)
    for seed in range(2):
        memories = memories_with(lowered, rng.standard_normal((5, 9, 7)).astype(np.float32))
        memory = np.pad(memories.memory, (0, -memories.memory.size % (PAGE // 2)))
        if not seed:
            machine.write(lowered.program, memories)
        machine.attach(memory, seed=seed, stall=0.3 * seed)
        report = machine.run(most=1_000_000)
        assert (report.stop, report.tag, machine.traffic().broken) == (Stop.NONE, 0, "")
        run(lowered.program, memories)
        assert (memory[: memories.memory.size] == memories.memory).all()


@pytest.mark.parametrize("rows", [400, 2000])
@pytest.mark.parametrize("bus", [False, True])
def test_lines_longer_than_the_bank(rows: int, bus: bool) -> None:
    """Tiles are parts of a line: with and without a memory, each of all kinds of layers."""
    rng = np.random.default_rng(rows)
    layers, image = network_of(rng, 5), rng.integers(-2, 3, (5, 6, 43)).astype(np.float32)
    layers = [*layers[:-1], replace(layers[-1], kernel=(1, 1), weight=small_weights(rng, 7, 8, 1, 1))]
    lowered = fit(replace(_BUS if bus else _MACHINE, depth=8, rows=rows), {"x": image.shape}, layers)
    check_waits(lowered.config, lowered.program)
    memories = memories_with(lowered, image)
    run(lowered.program, memories)
    assert (lowered.get("dense", lowered.rows(memories)) == all_by_pixels(layers, image)["dense"]).all()


def test_a_stripe_that_the_next_layer_reads() -> None:
    """It is stored before the lines of that layer are loaded, though both would have room."""
    rng = np.random.default_rng(1)
    first, second, mixed = (
        small_weights(rng, *shape) * (rng.random(shape) < share)
        for *shape, share in ((4, 4, 1, 1, 1), (40, 4, 2, 1, 0.5), (40, 40, 1, 1, 0.1))
    )
    layers = [
        Layer("first", "x", (1, 1), (50, 1), weight=first),
        Layer("second", "first", (2, 1), weight=second),
        Layer("third", "second", (1, 1), weight=mixed),
        Layer("fourth", "third", (1, 1), weight=mixed),
        Layer("fifth", "fourth", (1, 1), weight=mixed, added="second"),
    ]
    image, results = rng.integers(-2, 3, (4, 51, 4)).astype(np.float32), ("third", "fifth")
    lowered = fit(replace(_BUS, rows=122), {"x": image.shape}, layers, results)
    assert {"first", "second", "fourth"} <= lowered.pictures.keys()  # they are in the memory, so in stripes
    memories = memories_with(lowered, image)
    run(lowered.program, memories)
    values = all_by_pixels(layers, image)
    assert all((lowered.get(name, lowered.rows(memories)) == values[name]).all() for name in results)


def test_a_layer_alone() -> None:
    """What has no room is known before weights are made: by hand, row 0, 3 lines of 2 blocks and one of results."""
    layer = Layer("y", "x", (3, 3), (1, 1), (1, 1, 1, 1), np.zeros((4, 8, 3, 3), np.float32), dilation=(2, 1))
    least = 1 + 5 * 2 * (9 + 2) + 9
    check_layer(replace(_MACHINE, rows=least), layer, (8, 9, 9))
    message = f"scratchpad must have at least {8 * least} bytes for one image row of its results, {least} rows, not 952"
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_layer(replace(_MACHINE, rows=least - 1), layer, (8, 9, 9))
    with pytest.raises(ValueError, match=r"^an image row has 4096 pixels, more than a load's 4095$"):
        check_layer(replace(_MACHINE, rows=1 << 16), layer, (1, 1, 4094))


def test_a_load_comes_a_command_early() -> None:
    """By hand: the second has a place of its own, so that it is loaded while the first computes; the third has not."""
    program = assemble(
        "matmul reads=0 writes=40 weights=0 emit kx=4:1\n"
        "matmul reads=0 writes=41 weights=16 bias emit kx=3:1\n"
        "matmul reads=0 writes=42 weights=30 emit kx=8:1\n"
        "matmul reads=0 writes=43 weights=16 bias emit kx=3:1\nend"
    )
    parts = """load rows=0 valid=4 address=1000 into_weights x=16:1:4 y=1:16:64
        matmul reads=0 writes=40 weights=0 emit kx=4:1

        load rows=16 valid=4 address=1064 into_weights x=14:1:4 y=1:14:56
        matmul reads=0 writes=41 weights=16 bias emit kx=3:1

        load rows=0 valid=4 address=1120 into_weights x=32:1:4 y=1:32:128
        matmul reads=0 writes=42 weights=0 emit kx=8:1

        load rows=0 valid=4 address=1064 into_weights x=14:1:4 y=1:14:56
        matmul reads=0 writes=43 weights=0 bias emit kx=3:1

        end"""
    assert with_loads(replace(_BUS, weights=40), program, 1000) == [assemble(part) for part in parts.split("\n\n")]


def test_parts_of_a_command() -> None:
    """An eighth of the memory for blocks of outputs; a sum in parts, the first with biases, the last with ReLU."""
    text = "matmul reads=5 writes=9 weights=7 bias emit relu x=2:1:1 kx=2:1 block={}:20 n=6:3:30\nend"
    for blocks, weights, counts in ((1, 256, [3, 3]), (9, 64, [1] * 18)):
        program = assemble(text.format(blocks))
        config = replace(_BUS, weights=weights)
        parts = [command for command in with_loads(config, program, 0)[0] if command.opcode == "matmul"]
        assert [command.levels["n"].trips for command in parts] == counts
        assert sum(weights_of(command, 4) for command in parts) == weights_of(program[0], 4)
        sums = [(c.values["bias"], c.values["add"], c.values["emit"], c.values["relu"]) for c in parts]
        assert sums == [(1, 0, 1, 1)] * 2 if blocks == 1 else sums == [(1, 0, 0, 0), (0, 1, 0, 0), (0, 1, 1, 1)] * 6
        loads = [command for part in with_loads(config, program, 0) for command in part if command.opcode == "load"]
        assert sum(weights_written(load).size for load in loads) == weights_of(program[0], 4)


def test_more_rows_than_a_load_can_name() -> None:
    """A memory of weights may have more than 2^19 rows: loads use those below, an exchange those below 2^16."""
    for count, exchange, room in ((34, "", 1 << 19), (5, " exchange", 1 << 16)):
        one = f"matmul emit{exchange} reads={{0}} writes=9 weights={{1}} kx=4000:{4 if exchange else 0}\n"
        many = "".join(one.format(*((16_000 * n, 16) if exchange else (0, 16_000 * n))) for n in range(count))
        parts = with_loads(replace(_BUS, weights=1 << 20), assemble(f"{many}end"), 0)
        rows = [weights_written(command) for part in parts for command in part if command.opcode == "load"]
        assert sum(map(len, rows)) == (16_000 - 3 * bool(exchange)) * count  # or rows that tiles share
        assert room // 2 < max(map(np.max, rows)) < room


def test_no_room_for_a_tile() -> None:
    layer = Layer("y", "x", (3, 3), weight=np.zeros((4, 8, 3, 3), np.float32))
    message = "weights must have at least 112 bytes for a line of the kernel of one block of channels, 14 rows, not 104"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fit(replace(_BUS, weights=13), {"x": (8, 9, 9)}, [layer])
