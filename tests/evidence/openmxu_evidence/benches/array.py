"""Bench of the systolic array, at its raw ports."""

from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu_evidence.benches.task import Task
from openmxu_sim.cosim.clocking import start_clock
from openmxu_sim.cosim.rigid import play
from openmxu_sim.cosim.scoreboard import check
from openmxu_sim.cosim.words import pack, unpack
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.reference import element_words, tile_sums

INPUTS = ("i_activations", "i_swaps", "i_loads", "i_weights", "i_psums")


@dataclass(frozen=True)
class Tile:
    """A tile's operands, and the cycles in which they come to row 0 and column 0."""

    activations: Words
    weights: Words
    psums: Words
    """(M, R), (R, C) and (M, C) patterns."""
    loads: list[int]
    """Cycle of each load, row R-1 of the weights first."""
    beats: list[int]
    """Cycle of each row of activations."""


def schedule(config: MxuConfig, count: int, seed: int) -> list[Tile]:
    """Draw tiles with about ``count`` rows of activations, as close to each other as possible, or not."""
    generator = np.random.default_rng(seed)

    def gap() -> int:
        return int(generator.choice([0, 0, 0, 0, 1, 7]))

    tiles: list[Tile] = []
    total = 0
    while total < count:
        m = int(generator.integers(1, 3 * config.rows * config.row_step))
        total += m
        number = seed + 3 * len(tiles)
        previous = tiles[-1] if tiles else None
        loads: list[int] = []
        for row in range(config.rows):
            # This load moves rows 0 to ``row``: the swap mark of the tile before must have reached them.
            reached = previous.beats[0] + row // config.terms * config.row_step if previous else 0
            loads.append(max(reached, loads[-1] + 1 if loads else 0) + gap())
        beats = [max(loads[-1], previous.beats[-1] if previous else 0) + 1 + gap()]
        while len(beats) < m:
            beats.append(beats[-1] + 1 + gap())
        tiles.append(
            Tile(
                vectors.matrix((m, config.rows), config.operand.name, number),
                vectors.matrix((config.columns, config.rows), config.operand.name, number + 1).T,
                vectors.canonical(vectors.matrix((m, config.columns), "fp32", number + 2)),
                loads,
                beats,
            )
        )
    return tiles


def drive(config: MxuConfig, tiles: list[Tile], cycles: int, seed: int) -> dict[str, list[int]]:
    """Return the array's inputs, skewed; garbage in all other cycles."""
    generator = np.random.default_rng(seed)
    step, width = config.row_step, config.word_width
    activations = generator.integers(1 << width, size=(cycles, config.rows), dtype=np.uint32)
    weights = generator.integers(1 << width, size=(cycles, config.columns), dtype=np.uint32)
    psums = generator.integers(1 << 32, size=(cycles, config.columns), dtype=np.uint32)
    swaps, loads = np.zeros((2, cycles, config.element_rows), dtype=np.uint32)
    rows, columns = np.arange(config.rows), np.arange(config.columns)
    elements = np.arange(config.element_rows)
    to_sum = config.array_latency - config.element_rows * step  # from activation to where its partial sum comes in
    for tile in tiles:
        for beat, activation, psum in zip(tile.beats, tile.activations, tile.psums, strict=True):
            activations[beat + rows // config.terms * step, rows] = element_words(config, activation)
            psums[beat + to_sum + columns, columns] = psum
        swaps[tile.beats[0] + elements * step, elements] = 1
        for row, load in enumerate(tile.loads):
            loads[load, : row // config.terms + 1] = 1
            weights[load + columns, columns] = element_words(config, tile.weights[config.rows - 1 - row])
    return {
        "i_activations": pack(activations, width),
        "i_weights": pack(weights, width),
        "i_psums": pack(psums, 32),
        "i_swaps": pack(swaps, 1),
        "i_loads": pack(loads, 1),
    }


@cocotb.test()
async def tiles(dut: Any) -> None:
    """Tiles one after the other, the next one's weights loaded while one runs."""
    task = Task.of_environment()
    config = task.component().config
    plan = schedule(config, task.count, task.seed)
    cycles = plan[-1].beats[-1] + config.array_latency + config.columns + 1
    inputs = drive(config, plan, cycles, task.seed)
    ones = {name: (1 << len(getattr(dut, name))) - 1 for name in INPUTS}
    for name, value in ones.items():
        getattr(dut, name).value = value
    await start_clock(dut)
    # Loads and swaps everywhere, so that no register is undefined; reset does not clear them.
    await play(dut, {name: [value] * (config.array_latency + config.columns) for name, value in ones.items()}, [])
    seen = await play(dut, inputs, ["o_psums", "o_weights"])
    psums = unpack(seen["o_psums"], 32, config.columns)
    weights = unpack(seen["o_weights"], config.word_width, config.columns)
    for number, tile in enumerate(plan):
        check_weights(config, number, tile, weights, task.seed)
        check_psums(config, number, tile, psums, task.seed)


def check_weights(config: MxuConfig, number: int, tile: Tile, seen: Words, seed: int) -> None:
    """Compare the outputs of the last row, once a tile's weights are loaded, with the tile's last row of weights."""
    columns = np.arange(config.columns)
    when = tile.loads[-1] + 1 + columns
    check(
        f"o_weights after tile {number}",
        seen[when, columns],
        element_words(config, tile.weights[-1]),
        fmt=config.operand.name if config.subnormals == "flush" else "",
        operands=[tile.weights[-1]],
        operand=config.operand.name,
        cycles=when.tolist(),
        seed=seed,
    )


def check_psums(config: MxuConfig, number: int, tile: Tile, seen: Words, seed: int) -> None:
    """Compare a tile's sums with those of the golden model."""
    columns = np.arange(config.columns)
    sums = tile_sums(config, tile.activations, tile.weights, tile.psums)
    for m, beat in enumerate(tile.beats):
        when = beat + config.array_latency + columns
        check(
            f"o_psums of tile {number}, row {m} by columns",
            seen[when, columns],
            sums[m],
            fmt="fp32",
            operands=[tile.psums[m], *(np.repeat(word, config.columns) for word in tile.activations[m]), *tile.weights],
            operand="",
            cycles=when.tolist(),
            seed=seed,
        )
