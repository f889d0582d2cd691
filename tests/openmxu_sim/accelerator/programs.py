"""Random programs that an accelerator takes, and layers by hand."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig, check_program, rows_read, rows_written
from openmxu.spec.commands import KINDS, WORDS, Command, Level
from openmxu_sim.accelerator import Memories, check_waits, run, with_waits
from openmxu_sim.accelerator.simulation import Run, SimulatedAccelerator

MACHINE = AcceleratorConfig(size=2, stages=1, depth=16, rows=64, weights=64)
MEMORY = 96
STALLS = (0, 0.1, 0.5, 0.9)
MOST = 20_000  # cycles; programs take some hundreds


def check(machine: SimulatedAccelerator, program: Sequence[Command], memories: Memories, most: int = MOST) -> Run:
    """Run a program on the machine, and on the memories by the definition: the tag and the words are the same."""
    machine.write(program, memories)
    report = machine.run(most=most)
    assert ([report.tag], report.stop) == (run(program, memories), Stop.NONE)
    assert (machine.scratchpad()[: len(memories.scratchpad)] == memories.scratchpad).all()
    return report


def copied(memories: Memories) -> Memories:
    return replace(memories, **{name: getattr(memories, name).copy() for name in ("weights", "scratchpad", "memory")})


def random_program(rng: np.random.Generator, length: int, *, moves: bool = True) -> list[Command]:
    """So many commands and the end, each of them with rows, words and weights within bounds, without waits."""
    program: list[Command] = []
    kinds = ["matmul", "pool", "load", "store"] if moves else ["matmul", "pool"]
    while len(program) < length:
        opcode = str(rng.choice(kinds))
        if opcode in ("load", "store"):
            program.append(_mover(rng, opcode))
        elif opcode == "pool":
            program.append(_pool(rng))
        elif rng.integers(4):
            program += _matmuls(rng)
        else:
            program.append(_exchange(rng))
    return [*program, Command("end", {"tag": int(rng.integers(1 << 16))})]


def _mover(rng: np.random.Generator, opcode: str) -> Command:
    """Words that overlap, follow one another, or lie apart; some go into weights."""
    x, y = map(int, rng.integers(1, 4, 2))
    valid = int(rng.integers(1, MACHINE.size + 1))
    values = {"rows": int(rng.integers(0, 32)), "valid": valid, "address": int(rng.integers(0, 44))}
    if opcode == "load":
        values["into_weights"] = int(rng.integers(2))
    steps = {"x": Level(x, 1, int(rng.choice([1, valid, 4]))), "y": Level(y, int(rng.integers(x, 8)), 8)}
    steps["block"] = Level(int(rng.integers(1, 3)), int(rng.integers(0, 9)), int(rng.integers(0, 21)))
    return Command(opcode, values, steps)


def _pool(rng: np.random.Generator) -> Command:
    kx, ky, x, y = map(int, rng.integers(1, 3, 4))
    reads, writes = map(int, rng.permutation([0, 32]) + rng.integers(0, 12, 2))
    levels = {"kx": Level(kx, 1), "ky": Level(ky, 4), "x": Level(x, 1, 1), "y": Level(y, 4, int(rng.integers(x, 5)))}
    return Command("pool", {"reads": reads, "writes": writes}, levels)


def _matmuls(rng: np.random.Generator) -> list[Command]:
    """One command, or one whose sums stay and one that adds to them."""
    x, y, kx, block, n = map(int, rng.integers(1, 3, 5))
    stays = bool(rng.integers(2))
    reads, writes = map(int, rng.permutation([0, 32]) + rng.integers(0, 8, 2))
    loop = {
        "x": Level(x, 1, 1),
        "y": Level(y, 4, 2),
        "kx": Level(kx, int(rng.integers(0, 3))),
        "block": Level(block, 8),
        "n": Level(1 if stays else n, int(rng.integers(0, 5)), 8),
    }
    values = {"reads": reads, "writes": writes, "weights": int(rng.integers(0, 40)), "bias": int(rng.integers(2))}
    emits = {"emit": 1, "relu": int(rng.integers(2)), "clip": int(rng.integers(2)), "high": 0x40C0}
    if not stays:
        return [Command("matmul", {**values, **emits}, loop)]
    added = {**values, **emits, "bias": 0, "add": 1, "weights": int(rng.integers(0, 40))}
    return [Command("matmul", values, loop), Command("matmul", added, {**loop, "kx": Level(1, 0)})]


def _exchange(rng: np.random.Generator) -> Command:
    """A command with roles exchanged; some write part of a row."""
    x, y, kx, block = map(int, rng.integers(1, 4, 4))
    base, writes = map(int, rng.permutation([0, 32]) + rng.integers(0, 16, 2))
    flags = {name: int(rng.integers(2)) for name in ("bias", "relu")} | {"exchange": 1, "emit": 1}
    values = {"reads": int(rng.integers(0, 20)), "writes": writes, "weights": base}
    steps = map(int, rng.integers(0, 6, 4))
    loop = {name: Level(trips, next(steps)) for name, trips in (("x", x), ("y", y), ("kx", kx), ("block", block))}
    loop["y"] = loop["y"]._replace(other=1)
    return Command("matmul", {**values, **flags}, loop)


def wild_program(rng: np.random.Generator) -> list[Command]:
    """One command and the end: strides of both signs in all levels, many trips where they stand still."""
    while True:
        opcode = str(rng.choice(["matmul", "pool"]))
        kind = KINDS[opcode]
        trips = dict(zip(kind.levels, map(int, rng.integers(1, 4, len(kind.levels))), strict=True))
        strides = rng.integers(-12, 13, (len(trips), 2)) * rng.integers(0, 2, (len(trips), 2))
        long = str(rng.choice(kind.levels[-1:] if opcode == "matmul" else kind.levels))
        if rng.integers(4) == 0:
            trips[long], strides[kind.levels.index(long)] = int(rng.integers(1, 16 if opcode == "matmul" else 4096)), 0
        levels = {
            name: Level(trips[name], int(stride), int(other) * (name in kind.others))
            for name, (stride, other) in zip(kind.levels, strides, strict=True)
        }
        flags = {name: int(rng.integers(2)) for name in ("bias", "relu", "clip")}
        flags |= {"weights": int(rng.integers(64)), "emit": 1, "high": int(rng.integers(0x7F81))}
        values = {"reads": 0, "writes": 0, "tag": 1, **(flags if opcode == "matmul" else {})}
        command = Command(opcode, values, levels)
        lows = [int(-rows.min()) for rows in (rows_read(command), rows_written(command))]
        halves = rng.permutation([0, 32])
        command = replace(
            command, values={**values, "reads": lows[0] + int(halves[0]), "writes": lows[1] + int(halves[1])}
        )
        program = [command, Command("end", {"tag": int(rng.integers(1 << 16))})]
        with suppress(ValueError):
            check_program(MACHINE, program)
            if rows_read(command).size < 10_000:
                return program


def random_words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Patterns of bf16 whose sums seldom overflow, with zeros of both signs, infinities and NaNs among them."""
    words = (rng.integers(0, 1 << 16, shape) & 0x83FF | rng.integers(0x78, 0x86, shape) << 7).astype(np.uint16)
    special = np.array([0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0x0001], np.uint16)
    return np.where(rng.random(shape) < 0.05, rng.choice(special, shape), words)


def random_memories(rng: np.random.Generator, config: AcceleratorConfig = MACHINE, words: int = 0) -> Memories:
    """Weights, a scratchpad, and so many words of a memory behind the bus."""
    weights, scratchpad = (random_words(rng, rows, config.size) for rows in (config.weights, config.rows))
    return Memories(config, weights, scratchpad, *([random_words(rng, words)] if words else []))


@dataclass(frozen=True)
class AnyWords:
    """A command that may be none."""

    words: tuple[int, ...]


class Case(NamedTuple):
    """A program, and what the definition says of it."""

    program: Sequence[Any]  # commands, or words of none
    before: Memories
    after: Memories
    tag: int | None  # none: any, it is refused, or its result depends on times


@lru_cache(maxsize=4096)
def drawn(seed: int, length: int = 8, config: AcceleratorConfig = MACHINE, memory: int = 0) -> Case:
    """A random program, or a wild command; with a memory of so many words, some of its commands move them."""
    rng = np.random.default_rng(seed)
    program = with_waits(config, random_program(rng, length, moves=memory > 0)) if length else wild_program(rng)
    before = random_memories(rng, config, memory)
    after = copied(before)
    return Case(program, before, after, run(program, after)[0])


@lru_cache(maxsize=4096)
def damaged(seed: int, config: AcceleratorConfig = MACHINE, memory: int = 0) -> tuple[Case, int, str]:
    """Four commands and the end, a bit of one of which is flipped, any in turn; which one is refused, and why."""
    rng = np.random.default_rng(seed)
    commands: list[Any] = [*with_waits(config, random_program(rng, 4, moves=memory > 0))]
    flipped = int(rng.integers(len(commands)))
    words = list(commands[flipped].words)
    words[seed // 32 % WORDS] ^= 1 << seed % 32
    commands[flipped] = AnyWords(tuple(words))
    before = random_memories(rng, config, memory)
    program, after, tag, refusal = list[Command](), copied(before), None, ""
    try:
        for command in commands:
            program.append(Command.of_words(command.words))
        check_program(config, program)
    except ValueError as error:
        refusal = str(error)
    else:
        with suppress(ValueError):
            check_waits(config, program)
            tag = run(program, after)[0]
    index = int(refusal.split()[1]) if refusal.startswith("command ") else len(program)
    return Case(commands, before, after, tag), index, refusal
