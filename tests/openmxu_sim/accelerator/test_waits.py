"""Waits: what a program gives at any speed of its engines is what its commands give one after another."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig, rows_read, rows_written, words_moved
from openmxu.spec.commands import ANY, Command, assemble
from openmxu_sim.accelerator import Memories, check_waits, definition, run, with_waits
from openmxu_sim.accelerator.definition import step
from openmxu_sim.accelerator.lowering import Layer
from openmxu_sim.accelerator.simulation import PAGE, SimulatedAccelerator
from openmxu_sim.accelerator.stripes import fit
from openmxu_sim.accelerator.waits import expected

from ...conftest import needs_compiler, slow, thorough
from .programs import MACHINE, MEMORY, random_memories, random_program

_FIELDS = {"load": "loads", "compute": "computes", "store": "stores"}


def _memories(seed: int) -> Memories:
    return random_memories(np.random.default_rng(seed), words=MEMORY)


def at_any_speed(program: Sequence[Command], memories: Memories, rng: np.random.Generator) -> None:
    """Begin commands in order as soon as their waits allow, and let each act at any time until it is finished.

    Of the engines that have unfinished commands, a random one finishes its oldest; a command reads and writes as it
    begins, or as it is finished.
    """
    queues: dict[str, list[tuple[Command, bool]]] = {engine: [] for engine in _FIELDS}
    waiting = list(program)
    while waiting or any(queues.values()):
        command = waiting[0] if waiting else None
        limits = dict.fromkeys(_FIELDS, 0 if command and command.opcode == "end" else ANY)
        if command:
            limits = {engine: min(limits[engine], command.values[field]) for engine, field in _FIELDS.items()}
        may_begin = command and all(len(queues[e]) <= limit or limit == ANY for e, limit in limits.items())
        busy = [engine for engine, queue in queues.items() if queue]
        assert may_begin or busy, "no command can go on"
        if command and may_begin and (not busy or rng.random() < 0.7):
            waiting.pop(0)
            if command.kind.engine:
                alone = command.opcode != "matmul" or (command.values["emit"] and not command.values["add"])
                early = bool(rng.integers(2)) and alone  # sums that stay need the order
                queues[command.kind.engine].append((command, early))
                if early:
                    step(command, memories)
        else:
            finished, done = queues[str(rng.choice(busy))].pop(0)
            if not done:
                step(finished, memories)


def _differs(program: Sequence[Command], seed: int, tries: int = 1) -> bool:
    """Whether a program at random speeds leaves something else than one command after another."""
    expected, rng = _memories(seed), np.random.default_rng(seed)
    run(program, expected)
    for _ in range(tries):
        memories = _memories(seed)
        at_any_speed(program, memories, rng)
        if any((getattr(memories, name) != getattr(expected, name)).any() for name in ("scratchpad", "memory")):
            return True
    return False


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of integers, in which the order shows as it does in those of bf16."""
    monkeypatch.setattr(definition, "_product", lambda left, right: left.astype(np.uint32) @ (right | np.uint32(1)))
    quick = SimpleNamespace(add=lambda sums, product: 31 * sums + product, convert=lambda sums: sums ^ sums >> 16)
    monkeypatch.setattr(definition, "golden", quick)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("count", [300, slow(2000), thorough(20_000)])
def test_random_programs(count: int) -> None:
    for seed in range(count):
        rng = np.random.default_rng(seed)
        program = with_waits(MACHINE, random_program(rng, int(rng.integers(2, 13))))
        check_waits(MACHINE, program)
        assert not _differs(program, seed), seed


def _touched(command: Command) -> tuple[set[object], set[object]]:
    """Rows and words that a command reads, and those that it writes."""
    touched: list[set[object]] = [{*found(command).tolist()} for found in (rows_read, rows_written)]
    if command.opcode in ("load", "store"):
        words = words_moved(command).tolist()
        touched[command.opcode == "store"] |= {("word", at + n) for at in words for n in range(command.values["valid"])}
    return touched[0], touched[1]


def _explored(program: Sequence[Command]) -> int:
    """The number of states that beginnings and endings in any order reach; conflicting commands never meet."""
    touched = [_touched(command) for command in program]
    engines = [command.kind.engine for command in program]
    seen: set[tuple[int, ...]] = set()
    todo = [(0, 0, 0, 0)]  # commands begun, and finished by each engine
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        begun, *finished = state
        ordered = [[i for i in range(begun) if engines[i] == engine] for engine in _FIELDS]
        unfinished = [i for commands, count in zip(ordered, finished, strict=True) for i in commands[count:]]
        before = len(todo)
        for place, (commands, count) in enumerate(zip(ordered, finished, strict=True)):
            if count < len(commands):
                todo.append((begun, *(each + (place == index) for index, each in enumerate(finished))))
        if begun < len(program):
            (reads, writes), values = touched[begun], program[begun].values
            waits = [0 if program[begun].opcode == "end" else values[field] for field in _FIELDS.values()]
            counts = [len(commands) - count for commands, count in zip(ordered, finished, strict=True)]
            if all(limit == ANY or count <= limit for limit, count in zip(waits, counts, strict=True)):
                for other in unfinished:
                    assert not writes & (touched[other][0] | touched[other][1]), (begun, other)
                    assert not reads & touched[other][1], (begun, other)
                todo.append((begun + 1, *finished))
        assert len(todo) > before or (begun == len(program) and not unfinished), "no command can go on"
    return len(seen)


@pytest.mark.parametrize("count", [100, slow(600), thorough(20_000)])
def test_every_order(count: int) -> None:
    """Of six commands and the end, at any speeds of three engines; without waits, most of them meet.

    Commands that are unfinished together touch nothing of each other: whatever they do first, memories are the same.
    """
    states = met = 0
    for seed in range(count):
        program = random_program(np.random.default_rng(seed), 6)
        states += _explored(with_waits(MACHINE, program))
        met += 1
        with suppress(AssertionError):
            _explored(program)
            met -= 1
    assert states > 10 * count
    assert met > count // 2


def refused_with_less(config: AcceleratorConfig, program: Sequence[Command], index: int, field: str) -> list[Command]:
    """The program with a wait for one command less, to which there is an objection."""
    command, less = program[index], [*program]
    less[index] = replace(command, values={**command.values, field: command.values[field] + 1})
    with pytest.raises(ValueError, match=rf"^command {index} .*: {field} must be at most "):
        check_waits(config, less)
    return less


@pytest.mark.usefixtures("_quick")
def test_a_wait_less_is_refused() -> None:
    """And there are speeds at which most of such programs go wrong."""
    refused = wrong = 0
    for seed in range(6):
        program = with_waits(MACHINE, random_program(np.random.default_rng(seed), 8))
        for index, command in enumerate(program[:-1]):
            for field in _FIELDS.values():
                if command.values[field] != ANY:
                    wrong += _differs(refused_with_less(MACHINE, program, index, field), seed, tries=20)
                    refused += 1
    assert refused > 10
    assert wrong > refused // 2


def test_waits_of_a_program_by_hand() -> None:
    """Two buffers: what is loaded is read, read before it is loaded again, written before it is stored."""
    text = """load rows=0 valid=2 address=0
load rows=1 valid=2 address=2
pool{0} reads=0 writes=40
load{1} rows=0 valid=2 address=4
pool{2} reads=1 writes=41
store{3} rows=40 valid=2 address=8
end
"""
    program = with_waits(MACHINE, assemble(text.format("", "", "", "")))
    # The last one has been waited for.
    assert program == assemble(text.format(" loads=1", " computes=0", " loads=1", ""))


def test_more_unfinished_commands_than_a_field_counts() -> None:
    loads = "".join(f"load rows={row} valid=2 address={2 * row}\n" for row in range(20))
    program = with_waits(MACHINE, assemble(f"{loads}pool reads=0 writes=40\nend"))
    assert program[20].values["loads"] == ANY - 1
    check_waits(MACHINE, program)


def test_expected_cycles_by_hand() -> None:
    """A command is read in 19 cycles; a load of 40 beats waits for two bursts, a store of 8 rows for each of them."""
    program = assemble(
        "load rows=0 valid=2 address=0 x=40:1:2\n"
        "pool reads=0 writes=50 kx=5:1 x=2:5:1 loads=0\n"
        "matmul reads=50 writes=60 weights=0 emit block=30:0\n"
        "store rows=0 valid=2 address=0 x=8:1:2 computes=1\n"
        "end"
    )
    config = replace(MACHINE, beat=32)
    loaded = 19 + 22 + 40 + 4
    begun = loaded + 19  # when the pool, of 10 rows, has been written
    stored = begun + 19 + 22 + 8 + 16
    multiplied = begun + 30 * config.unit.shortest_tile + config.unit.latency + 4
    assert expected(config, program) == [19, loaded, begun, begun + 19, max(stored, multiplied)]


@pytest.mark.parametrize("stride", [1, 2])
def test_expected_cycles_where_rows_collide(stride: int) -> None:
    """Every second row is in one bank, and what is moved to others, too, waits behind it; weights do not."""
    tiles, config = 500, replace(MACHINE, beat=32)
    unit = f"matmul reads=0 writes=60 weights=0 emit x=8:{stride}:1 block={tiles}:0"
    load = "load rows=30 valid=2 address=0 x=20:1:2"
    begun, length = 38, tiles * max(8, config.unit.shortest_tile) + 2
    loaded = 22 + 20 + 2 + length * (stride == 2)
    beside = expected(config, assemble(f"{load}\n{unit}\n{load}\nend"))
    assert beside[:3] == [19, begun, 19 + loaded]
    into = expected(config, assemble(f"{unit}\n{load} into_weights\n{load} into_weights\nend"))
    assert into[:3] == [19, 38, 38 + 44]


@needs_compiler
def test_expected_cycles() -> None:
    """The RTL's, within 4 %, of layers with weights and results in a memory; without waits they would be less."""
    rng, image = np.random.default_rng(1), np.zeros((16, 24, 24), np.float32)
    weight = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    layers = [
        Layer("a", "x", (3, 3), (1, 1), (1, 1, 1, 1), weight, None, relu=True),
        Layer("s", "a", (3, 3), (2, 2), (1, 1, 1, 1), weight, None, relu=True),
        Layer("p", "s", (2, 2), (2, 2)),
        Layer("b", "p", (3, 3), (1, 1), (1, 1, 1, 1), weight, None, relu=True),
        Layer("c", "b", (3, 3), (1, 1), (1, 1, 1, 1), weight, None, added="p"),
        Layer("d", "c", (6, 6), weight=rng.standard_normal((20, 16, 6, 6)).astype(np.float32)),
    ]
    config = AcceleratorConfig(size=4, stages=2, depth=64, rows=1024, weights=512, program=1 << 16, beat=32)
    lowered = fit(config, {"x": image.shape}, layers)
    memories = lowered.memories()
    machine = SimulatedAccelerator(lowered.config)
    machine.write(lowered.program, memories)
    machine.attach(np.pad(memories.memory, (0, -memories.memory.size % (PAGE // 2))))
    cycles = machine.run().cycles
    assert abs(expected(lowered.config, lowered.program)[-1] / cycles - 1) < 0.04
    assert sum(layer.cycles for layer in lowered.layers) < cycles * 0.85
