"""Networks whose weights come from a memory: the same bits, from any memory of weights that a tile fits."""

import re
from dataclasses import replace

import numpy as np
import pytest

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import weights_of, weights_read, weights_written
from openmxu.spec.commands import assemble
from openmxu_sim.accelerator import check_waits, run
from openmxu_sim.accelerator.lowering import Layer
from openmxu_sim.accelerator.prefetch import with_loads
from openmxu_sim.accelerator.simulation import PAGE, SimulatedAccelerator
from openmxu_sim.accelerator.stripes import fit

from ...conftest import needs_compiler, slow
from .test_lowering import MACHINE, by_pixels, memories_with
from .test_stripes import image_of, network_of

_CONFIG = replace(MACHINE, depth=32, program=1 << 16, beat=64)
_LEAST = 3 * 3 * 4 + 2  # a tile for each pixel of a kernel, and biases


@pytest.mark.parametrize(
    ("rows", "weights"), [(500, _LEAST), (110, 100), (1024, 1024), slow(250, 60), slow(110, _LEAST)]
)
def test_any_memory_of_weights(rows: int, weights: int) -> None:
    """Small integers, whose sums are exact, against loops over pixels; loads into what others still read wait."""
    rng = np.random.default_rng(weights)
    layers, image = network_of(rng, 5), image_of(rng, 5)
    values = {"x": image}
    for layer in layers:
        values[layer.name] = by_pixels(layer, values[layer.source], values.get(layer.added))
    lowered = fit(replace(_CONFIG, rows=rows, weights=weights), image.shape, layers, "x")
    check_waits(lowered.config, lowered.program)
    memories = memories_with(lowered, image)
    memories.weights[:] = memories.scratchpad[:] = 0x7FC0  # what others left
    run(lowered.program, memories)
    assert (lowered.get("dense", lowered.rows(memories)) == values["dense"]).all()
    assert all(weights_read(command, 4).max(initial=0) < weights for command in lowered.program)


@needs_compiler
@pytest.mark.parametrize("weights", [_LEAST, slow(200)])
def test_on_the_machine(weights: int) -> None:
    """Random numbers, two pictures one after the other: the memory as the definition leaves it."""
    rng = np.random.default_rng(weights)
    layers = network_of(rng, 5)
    lowered = fit(replace(_CONFIG, depth=16, rows=200, weights=weights), (5, 9, 7), layers, "x")
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


def test_a_load_comes_a_command_early() -> None:
    """By hand: the second has a place of its own, so that it is loaded while the first computes; the third has not."""
    program = assemble(
        "matmul reads=0 writes=40 weights=0 emit kx=4:1\n"
        "matmul reads=0 writes=41 weights=16 bias emit kx=3:1\n"
        "matmul reads=0 writes=42 weights=30 emit kx=8:1\n"
        "matmul reads=0 writes=43 weights=16 bias emit kx=3:1\nend"
    )
    parts = with_loads(replace(_CONFIG, weights=40), program, 1000)
    assert parts == [
        assemble("\n".join(lines))
        for lines in (
            [
                "load rows=0 valid=4 address=1000 into_weights x=16:1:4 y=1:16:64",
                "load rows=16 valid=4 address=1064 into_weights x=14:1:4 y=1:14:56",
                "matmul reads=0 writes=40 weights=0 emit kx=4:1",
            ],
            ["matmul reads=0 writes=41 weights=16 bias emit kx=3:1"],
            [
                "load rows=0 valid=4 address=1120 into_weights x=32:1:4 y=1:32:128",
                "matmul reads=0 writes=42 weights=0 emit kx=8:1",
            ],
            [
                "load rows=0 valid=4 address=1064 into_weights x=14:1:4 y=1:14:56",
                "matmul reads=0 writes=43 weights=0 bias emit kx=3:1",
            ],
            ["end"],
        )
    ]


def test_parts() -> None:
    """Half of the memory at most for blocks of outputs; a sum in parts, the first with biases, the last with ReLU."""
    text = "matmul reads=5 writes=9 weights=7 bias emit relu x=2:1:1 kx=2:1 block={}:20 n=6:3:30\nend"
    for blocks, counts in ((1, [3, 3]), (9, [1] * 18)):
        program = assemble(text.format(blocks))
        config = replace(_CONFIG, weights=64)
        parts = [command for command in with_loads(config, program, 0)[0] if command.opcode == "matmul"]
        assert [command.levels["n"].trips for command in parts] == counts
        assert sum(weights_of(command, 4) for command in parts) == weights_of(program[0], 4)
        sums = [(c.values["bias"], c.values["add"], c.values["emit"], c.values["relu"]) for c in parts]
        assert sums == [(1, 0, 1, 1)] * 2 if blocks == 1 else sums == [(1, 0, 0, 0), (0, 1, 0, 0), (0, 1, 1, 1)] * 6
        loads = [command for part in with_loads(config, program, 0) for command in part if command.opcode == "load"]
        assert sum(weights_written(load).size for load in loads) == weights_of(program[0], 4)


def test_more_rows_than_a_load_can_name() -> None:
    """A memory of weights may have more than 2^16 rows: loads use those below."""
    many = "".join(f"matmul reads=0 writes=9 weights={16_000 * n} emit kx=4000:0\n" for n in range(5))
    parts = with_loads(replace(_CONFIG, weights=1 << 17), assemble(f"{many}end"), 0)
    rows = [weights_written(command) for part in parts for command in part if command.opcode == "load"]
    assert sum(map(len, rows)) == 80_000
    assert max(map(np.max, rows)) < 1 << 16


def test_no_room_for_a_tile() -> None:
    layer = Layer("y", "x", (3, 3), weight=np.zeros((4, 8, 3, 3), np.float32))
    message = "weights must have at least 38 rows of 8 bytes for one block of channels, not 37"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fit(replace(_CONFIG, weights=37), (8, 9, 9), [layer], "x")
