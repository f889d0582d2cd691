"""The definition of every word that a program leaves: commands one after another, with the golden model's arithmetic.

A sum starts from the bias, from the sums of the command before, or with its first tile. Tiles are added in the order
(block, ky, kx), each summed from +0 over the N channels of its block, as :func:`openmxu_sim.golden.matmul` does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import starmap

import numpy as np
import numpy.typing as npt

from openmxu.spec.accelerator import (
    AcceleratorConfig,
    check_program,
    exchanges,
    rows_fed,
    rows_of_tile,
    rows_read,
    rows_written,
    weights_written,
    words_moved,
)
from openmxu.spec.commands import Command
from openmxu_sim import golden
from openmxu_sim.operands.aliases import Words

Halves = npt.NDArray[np.uint16]
"""Patterns of bf16."""

_SIGN, _NAN, _ONE = 0x8000, 0x7F80, 0x3F80


@dataclass
class Memories:
    """The memories that commands read and write, validated.

    Raises
    ------
    ValueError
        A memory has another shape or type.
    """

    config: AcceleratorConfig
    weights: Halves
    """Weights and biases, (rows, N); rows that are missing are 0."""
    scratchpad: Halves = field(default_factory=lambda: np.zeros((0, 0), np.uint16))
    """Operands and results, (rows, N); +0 if empty."""
    memory: Halves = field(default_factory=lambda: np.zeros(0, np.uint16))
    """The memory of ``load`` and ``store``."""
    sums: Words = field(default_factory=lambda: np.zeros((0, 0), np.uint32))
    """Sums of the last ``matmul`` without emit, (rows of its tile, N)."""

    def __post_init__(self) -> None:
        size, most = self.config.size, self.config.weights
        if not self.scratchpad.size:
            self.scratchpad = np.zeros((self.config.rows, size), np.uint16)
        if self.scratchpad.shape != (self.config.rows, size):
            raise ValueError(f"scratchpad must be {self.config.rows} rows of {size}, not {self.scratchpad.shape}")
        if self.weights.ndim != 2 or self.weights.shape[1] != size or len(self.weights) > most:
            raise ValueError(f"weights must be at most {most} rows of {size}, not {self.weights.shape}")
        for name in ("weights", "scratchpad", "memory"):
            if getattr(self, name).dtype != np.uint16:
                raise TypeError(f"{name} must be patterns in uint16, not {getattr(self, name).dtype}")
        self.weights = np.concatenate([self.weights, np.zeros((most - len(self.weights), size), np.uint16)])


def run(program: Iterable[Command], memories: Memories) -> list[int]:
    """Execute a program: change the memories, and return the tags of its ends.

    Raises
    ------
    ValueError
        The program is refused, see :func:`openmxu.spec.accelerator.check_program`, or leaves the memory.
    """
    program = list(program)
    check_program(memories.config, program)
    for index, command in enumerate(program):
        if command.kind.engine in ("load", "store"):
            first, last = words_moved(command).min(), words_moved(command).max() + command.values["valid"]
            if not 0 <= first <= last <= len(memories.memory):
                raise ValueError(
                    f"command {index} ({command.opcode}): words moved must be in the memory of {len(memories.memory)}, "
                    f"not from {first} to {last - 1}"
                )
    for command in program:
        step(command, memories)
    return [command.values["tag"] for command in program if command.opcode == "end"]


def step(command: Command, memories: Memories) -> None:
    """Execute a command of a program that was checked."""
    if command.opcode == "matmul":
        (_multiply_exchanged if exchanges(command) else _multiply)(command, memories)
    elif command.opcode == "pool":
        window = command.levels["kx"].trips * command.levels["ky"].trips
        rows = memories.scratchpad[rows_read(command)].reshape(-1, window, memories.config.size)
        memories.scratchpad[rows_written(command)] = largest(rows)
    elif command.opcode in ("load", "store"):
        _move(command, memories)


def _move(command: Command, memories: Memories) -> None:
    valid = command.values["valid"]
    words = words_moved(command)[:, np.newaxis] + np.arange(valid)
    if command.opcode == "store":
        memories.memory[words] = memories.scratchpad[rows_read(command), :valid]
    else:
        rows = np.zeros((len(words), memories.config.size), np.uint16)
        rows[:, :valid] = memories.memory[words]
        memories.scratchpad[rows_written(command)] = rows[: rows_written(command).size]
        memories.weights[weights_written(command)] = rows[: weights_written(command).size]


def largest(rows: Halves) -> Halves:
    """Return the largest words along the second axis: NaN before all, -0 below +0."""
    keys = np.where(rows & _SIGN, np.uint16(0xFFFF) - rows, rows | _SIGN)  # as integers in the order of the numbers
    keys[(rows & ~np.uint16(_SIGN)) > _NAN] = 0xFFFF
    most = keys.max(axis=1)
    found = np.where(most & _SIGN, most & ~np.uint16(_SIGN), np.uint16(0xFFFF) - most).astype(np.uint16)
    found[most == 0xFFFF] = 0x7FC0
    return found


def _multiply(command: Command, memories: Memories) -> None:
    size, values, tile = memories.config.size, command.values, rows_of_tile(command)
    count, head = command.levels["n"].trips, 2 * values["bias"]
    operands = memories.scratchpad[rows_read(command)].reshape(count, -1, tile, size)
    each = head + size * operands.shape[1]  # rows of weights of a block of outputs
    weights = memories.weights[values["weights"] :][: count * each].reshape(count, each, size)
    sums: Words | None = memories.sums[np.newaxis] if values["add"] else None
    if values["bias"]:
        low, high = (weights[:, row].astype(np.uint32) for row in (0, 1))
        sums = np.broadcast_to((low | high << 16)[:, np.newaxis], (count, tile, size))
    for index in range(operands.shape[1]):
        rows = weights[:, head + size * index :][:, :size][:, ::-1]
        product = _products(operands[:, index], rows)
        sums = product if sums is None else golden.add(np.broadcast_to(sums, product.shape), product)
    assert sums is not None
    if values["emit"]:
        results = activated(golden.convert(sums).astype(np.uint16), values)
        memories.scratchpad[rows_written(command)] = results.reshape(-1, size)
    else:
        memories.sums = sums[-1]


def _products(operands: Halves, weights: Halves) -> Words:
    """Return a tile's sums for each block of outputs; of the same rows as one product, which is quicker."""
    if len(operands) == 1 or (operands != operands[0]).any():
        return np.stack(list(starmap(_product, zip(operands, weights, strict=True))))
    count, size, _ = weights.shape
    product = _product(operands[0], weights.transpose(1, 0, 2).reshape(size, -1))
    return product.reshape(len(product), count, size).transpose(1, 0, 2)


def _multiply_exchanged(command: Command, memories: Memories) -> None:
    size, tile = memories.config.size, rows_of_tile(command)
    vectors = memories.scratchpad[rows_read(command)]
    if command.values["bias"]:
        vectors = np.concatenate([np.full((1, size), _ONE, np.uint16), vectors])
    tiles = memories.weights[rows_fed(command)].reshape(-1, tile, size)
    sums = reduce(golden.add, starmap(_product, zip(tiles, vectors[..., np.newaxis], strict=True)))
    words = activated(golden.convert(sums[:, 0]).astype(np.uint16), command.values)
    memories.scratchpad[rows_written(command), np.arange(tile) % size] = words


def activated(words: Halves, values: Mapping[str, int]) -> Halves:
    """Return words behind ReLU and clip: negative ones are +0, and no number is larger than ``high``."""
    if values["relu"]:
        words = np.where(words & _SIGN, np.uint16(0), words)
    if values["clip"]:
        words = np.where((words > values["high"]) & (words <= _NAN), np.uint16(values["high"]), words)
    return words


def _product(activations: Halves, weights: Halves) -> Words:
    """Return the sums of a tile in fp32: (tile, N) by (N, columns)."""
    left, right = (golden.from_bits(words, "bf16") for words in (activations, weights))
    return golden.to_bits(golden.matmul(left, right, rows=len(weights)))
