"""Waits: which commands must be finished before another may begin, whether a program says so, and how long it takes.

Commands of one engine end in their order, those of different engines run at the same time. So before command i all
commands of an engine are finished but the last ``wait`` ones, and what was waited for by an earlier command stays so.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from openmxu.spec.accelerator import (
    AcceleratorConfig,
    rows_read,
    rows_written,
    weights_read,
    weights_written,
    words_moved,
)
from openmxu.spec.commands import ANY, Command
from openmxu_sim.accelerator.prefetch import beats_of, cycles_of

ENGINES = {"load": "loads", "compute": "computes", "store": "stores"}
"""The field with the waits for each engine."""

_Addresses = npt.NDArray[np.int64]


def check_waits(config: AcceleratorConfig, program: Sequence[Command]) -> None:
    """Refuse a program whose result depends on how fast its engines are.

    Raises
    ------
    ValueError
        It names two commands that need an order and have none.
    """
    begun, finished = dict.fromkeys(ENGINES, 0), dict.fromkeys(ENGINES, 0)
    for index, (command, needed) in enumerate(zip(program, _needed(config, program), strict=True)):
        for engine, field in ENGINES.items():
            wait = command.values[field]
            wait = 0 if command.opcode == "end" else begun[engine] if wait == ANY else wait
            finished[engine] = max(finished[engine], begun[engine] - wait)
            if finished[engine] < needed[engine]:
                raise ValueError(
                    f"command {index} ({command.opcode}): {field} must be at most {begun[engine] - needed[engine]}, "
                    f"not {command.values[field]}"
                )
        if command.kind.engine:
            begun[command.kind.engine] += 1


def with_waits(config: AcceleratorConfig, program: Sequence[Command]) -> list[Command]:
    """Return the program with the waits that it needs, and no others."""
    begun = dict.fromkeys(ENGINES, 0)
    finished = dict.fromkeys(ENGINES, 0)
    waiting = []
    for command, needed in zip(program, _needed(config, program), strict=True):
        values = dict(command.values)
        for engine, field in ENGINES.items():
            needs = needed[engine] > finished[engine]
            # More commands than a field can count are waited for until so many are left.
            values[field] = min(begun[engine] - needed[engine], ANY - 1) if needs else ANY
            if needs:
                finished[engine] = begun[engine] - values[field]
        waiting.append(replace(command, values=values))
        if command.kind.engine:
            begun[command.kind.engine] += 1
    return waiting


def _needed(config: AcceleratorConfig, program: Sequence[Command]) -> Iterator[dict[str, int]]:
    """For each command, how many of each engine's must be finished before it or an earlier one begins."""
    earlier: dict[str, list[tuple[dict[str, _Addresses], dict[str, _Addresses]]]] = {engine: [] for engine in ENGINES}
    needed = dict.fromkeys(ENGINES, 0)
    for command in program:
        reads, writes = _accesses(config.size, command)
        for engine, commands in earlier.items():
            for number in range(len(commands), needed[engine], -1):
                read, written = commands[number - 1]
                if _meet(reads, written) or _meet(writes, read) or _meet(writes, written):
                    needed[engine] = number
                    break
        yield dict(needed)
        if command.kind.engine:
            earlier[command.kind.engine].append((reads, writes))


def expected(config: AcceleratorConfig, program: Sequence[Command]) -> list[int]:
    """Cycles at which commands begin, and at which the program ends, with a memory that answers at once.

    They come from the waits and from the length of each command by itself; and while the unit reads rows of one bank of
    the scratchpad alone, as every second one of a picture, rows that are moved wait. Other collisions are not counted.
    """
    finished = {engine: list[int]() for engine in ENGINES}
    free = dict.fromkeys(ENGINES, 0)
    moving = dict[str, bool]()  # whether the last command of a mover moves rows of the scratchpad
    begins, now, alone = list[int](), 0, 0  # until when the unit reads one bank
    for command in program:
        now += _READ
        for engine, field in ENGINES.items():
            wait = 0 if command.opcode == "end" else command.values[field]
            if wait != ANY and len(finished[engine]) > wait:
                now = max(now, finished[engine][-1 - wait])
        if command.kind.engine:
            own = finished[command.kind.engine]
            now = max(now, free[command.kind.engine])
            taken, end = _ends(config, command, now)
            if _reads_one_bank(command):
                for mover in (each for each in moving if moving[each] and free[each] > now):
                    free[mover] += taken - now
                    finished[mover][-1] += taken - now
                alone = taken
            elif command.kind.engine != "compute":
                moving[command.kind.engine] = not command.values.get("into_weights")
                taken = end = end + moving[command.kind.engine] * max(0, alone - now)
            own.append(max(end, own[-1] + _NEXT) if own else end)
            free[command.kind.engine] = own[-1] if command.opcode == "pool" else taken
        begins.append(now)
    return begins


def _reads_one_bank(command: Command) -> bool:
    """Whether rows of a tile that follow one another have all even numbers, or all odd ones."""
    return command.opcode == "matmul" and command.levels["x"].trips > 1 and command.levels["x"].stride % 2 == 0


_READ = 19
"""Cycles in which a command is read and checked."""

_NEXT = 2
"""Cycles between commands of the unit or the pool, which follow one another at once."""


def _ends(config: AcceleratorConfig, command: Command, now: int) -> tuple[int, int]:
    """When the engine of a command that begins now can take the next one, and when its results are written."""
    if command.kind.engine == "compute":
        fed = now + cycles_of(config, [command])
        return fed + _NEXT, fed + (config.unit.latency if command.opcode == "matmul" else 0) + 4
    beats = beats_of(config, command)
    # A load waits two cycles for each burst of sixteen beats, a store for each row.
    waits = beats // 16 if command.opcode == "load" else math.prod(level.trips for level in command.levels.values())
    end = now + 22 + beats + 2 * waits
    return end, end


def _accesses(size: int, command: Command) -> tuple[dict[str, _Addresses], dict[str, _Addresses]]:
    """Addresses that a command reads and writes, by memory."""
    reads = {"scratchpad": np.unique(rows_read(command)), "weights": np.unique(weights_read(command, size))}
    writes = {"scratchpad": np.unique(rows_written(command)), "weights": np.unique(weights_written(command))}
    if command.opcode in ("load", "store"):
        words = np.unique(words_moved(command)[:, np.newaxis] + np.arange(command.values["valid"]))
        (reads if command.opcode == "load" else writes)["memory"] = words
    return reads, writes


def _meet(some: dict[str, _Addresses], others: dict[str, _Addresses]) -> bool:
    """Whether sorted addresses of a memory have one in common; most do not even overlap."""
    pairs = ((some[name], others[name]) for name in some.keys() & others.keys())
    near = ((a, b) for a, b in pairs if a.size and b.size and a[0] <= b[-1] and b[0] <= a[-1])
    return any(np.intersect1d(a, b, assume_unique=True).size for a, b in near)
