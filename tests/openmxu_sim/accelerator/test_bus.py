"""The accelerator on its bus, against the definition and the rules of AXI4: programs that move words, and faults."""

import mmap
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pytest

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import MOST_LOADED, AcceleratorConfig, check_program, rows_written, words_moved
from openmxu.spec.commands import assemble
from openmxu_sim.accelerator import Memories
from openmxu_sim.accelerator.definition import Halves, run
from openmxu_sim.accelerator.simulation import Fault, Run, SimulatedAccelerator, Speed

from ...conftest import needs_compiler, slow, thorough
from . import programs
from .programs import MACHINE, MOST, Case, damaged, drawn, random_memories, random_words

pytestmark = needs_compiler

_CONFIG = replace(MACHINE, beat=32)
_WORDS = 2048  # of a page
_BASE = 0xFFFF_F000  # the last page there is
_PATIENCE = 1 << 16
_OF_WRITES = (Fault.WRITE_ERROR, Fault.UNASKED_ANSWER, Fault.UNANSWERED, Fault.EARLY_ANSWER)
_UNASKED, _SILENT = (Fault.UNEXPECTED, Fault.UNASKED_ANSWER), (Fault.SILENT, Fault.UNANSWERED)


@pytest.fixture(scope="module")
def machine() -> SimulatedAccelerator:
    return SimulatedAccelerator(_CONFIG)


_memories = partial(random_memories, config=_CONFIG, words=_WORDS)
_drawn = partial(drawn, config=_CONFIG, memory=_WORDS)


def _zeros() -> tuple[Halves, Memories]:
    """A memory for the bus, and other memories."""
    return np.zeros(_WORDS, np.uint16), _memories(np.random.default_rng(1))


class _Seen(NamedTuple):
    report: Run
    memory: Halves
    broken: str
    bursts: tuple[int, int]


def _run(machine: SimulatedAccelerator, case: Case, seed: int, most: int = MOST, **fault: int) -> _Seen:
    """Run a program after a reset, and go on until nothing is under way."""
    memory = case.before.memory.copy()
    machine.attach(memory, _BASE, seed=seed, stall=programs.STALLS[seed % 4], **fault)  # type: ignore[arg-type]
    machine.reset()
    machine.write(case.program, case.before)
    report = machine.run(most=most)
    traffic = machine.traffic(0 if report.tag is not None else 500)
    assert traffic.quiet or report.stop == Stop.TIME or report.cycles == most, (seed, report)
    return _Seen(report, memory, traffic.broken, traffic.bursts)


def _is_right(machine: SimulatedAccelerator, case: Case, seen: _Seen) -> bool:
    """Whether all words are the definition's."""
    return bool((seen.memory == case.after.memory).all() and (machine.scratchpad() == case.after.scratchpad).all())


def _check(machine: SimulatedAccelerator, case: Case, seed: int) -> None:
    seen = _run(machine, case, seed)
    assert (seen.report.tag, seen.report.stop, seen.broken) == (case.tag, Stop.NONE, ""), seed
    assert _is_right(machine, case, seen), seed


@pytest.mark.parametrize("count", [100, slow(400), thorough(10_000)])
def test_random_programs(count: int, machine: SimulatedAccelerator) -> None:
    for seed in range(count):
        _check(machine, _drawn(seed), seed)


@pytest.mark.parametrize(
    "config",
    [
        slow(AcceleratorConfig(size=4, stages=2, depth=16, rows=64, weights=128, beat=64)),
        slow(AcceleratorConfig(size=3, stages=1, depth=16, rows=65, weights=99, beat=32)),
        slow(AcceleratorConfig(size=8, stages=1, depth=16, rows=64, weights=256, beat=32)),
        thorough(AcceleratorConfig(size=8, stages=1, depth=16, rows=64, weights=256, beat=128)),
        thorough(AcceleratorConfig(size=16, stages=1, depth=16, rows=64, weights=256, beat=256)),
    ],
)
def test_widths_of_the_bus(config: AcceleratorConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MACHINE", config)
    machine = SimulatedAccelerator(config)
    for seed in range(100):
        _check(machine, drawn(seed, 8, config, _WORDS), seed)


@pytest.mark.parametrize("count", [60, slow(200), thorough(4000)])
def test_faults_of_the_bus(count: int, machine: SimulatedAccelerator) -> None:
    """Errors, silence, wrong marks, beats and answers too many: each that comes is seen; no tag with a wrong word."""
    come = dict.fromkeys([*Fault][1:], 0)
    for seed in range(count):
        case, fault, at = _drawn(seed), Fault(1 + seed % 9), 1 + seed // 9 % 5
        seen = _run(machine, case, seed, 4 * _PATIENCE, fault=fault, at=at)
        assert not seen.broken, seed
        bursts = sum(seen.bursts) if fault == Fault.SILENT else seen.bursts[fault in _OF_WRITES]
        come[fault] += bursts >= at
        expected = Stop.NONE if bursts < at else Stop.TIME if fault in _SILENT else Stop.BUS
        assert (seen.report.tag is None, seen.report.stop) == (bursts >= at, expected), seed
        if seen.report.tag is None:
            moves = case.program[seen.report.index].opcode
            wrong = "store" if fault in _OF_WRITES else "load"
            assert expected == Stop.TIME or fault in _UNASKED or moves == wrong, seed
        else:
            assert _is_right(machine, case, seen), seed
    assert min(count - sum(come.values()), *come.values()) > count // 20


WRONG = (Fault.READ_ERROR, Fault.WRONG_MARK)


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_beat_is_not_written(fault: Fault, machine: SimulatedAccelerator) -> None:
    """Nor what follows it: the eighth of a burst of 16 here."""
    before = _memories(np.random.default_rng(1))
    case = Case(assemble("load rows=0 valid=2 address=0 x=16:1:2\nend"), before, before, None)
    seen = _run(machine, case, 0, fault=fault)
    assert (seen.report.stop, seen.bursts) == (Stop.BUS, (1, 0))
    rows = machine.scratchpad()
    assert (rows[0] == before.memory[:2]).all()
    assert (rows[7:] == before.scratchpad[7:]).all()


@pytest.mark.parametrize("count", [100, slow(400), thorough(2048)])
def test_damaged_programs(count: int, machine: SimulatedAccelerator) -> None:
    """It ends as the definition says, or stops; nothing outside of the window is touched."""
    stopped = 0
    for number in range(count):
        seed = number * 2048 // count
        case, *_ = damaged(seed, _CONFIG, _WORDS)
        seen = _run(machine, case, seed)
        assert not seen.broken, seed
        stopped += seen.report.stop != Stop.NONE
        assert seen.report.stop not in (Stop.BUS, Stop.TIME), seed
        assert seen.report.cycles < MOST, seed
        if case.tag is not None:
            assert (seen.report.tag, seen.report.stop) == (case.tag, Stop.NONE), seed
            assert _is_right(machine, case, seen), seed
    assert stopped > count // 4


@pytest.mark.parametrize("count", [40, slow(100), thorough(1000)])
def test_resets(count: int, machine: SimulatedAccelerator) -> None:
    """With its bus, in any cycle; the next program leaves what the definition says."""
    running = 0
    for seed in range(count):
        running += _run(machine, _drawn(seed), seed, 1 + seed * 37 % 200).report.tag is None
        _check(machine, _drawn(seed + 1, 4), seed)
    assert running > count // 2


STOPS = (
    ("load rows=60 valid=1 address=0 x=5:1:1", Stop.WRITE),
    ("load rows=0 valid=1 address=0 x=5:-1:1", Stop.WRITE),
    ("load rows=60 valid=1 address=0 x=5:1:1 into_weights", Stop.WRITE),
    ("store rows=60 valid=1 address=0 x=5:1:1", Stop.READ),
    ("load rows=0 valid=2 address=2047", Stop.WINDOW),
    ("load rows=0 valid=1 address=4 x=6:1:-1", Stop.WINDOW),
    ("load rows=0 valid=1 address=4294967295", Stop.WINDOW),
    ("store rows=0 valid=2 address=2046 x=2:1:1", Stop.WINDOW),
    ("store rows=0 valid=2 address=2048", Stop.WINDOW),
    ("load rows=0 valid=3 address=0", Stop.COMMAND),
    ("store rows=0 valid=3 address=0", Stop.COMMAND),
)


@pytest.mark.parametrize(("text", "stop"), STOPS)
def test_stops(text: str, stop: Stop, machine: SimulatedAccelerator) -> None:
    """At the row or word that is wrong, with the command's index; earlier ones have moved."""
    program = assemble(f"load rows=8 valid=1 address=0\n{text}\nstore rows=8 valid=2 address=100 loads=0\nend")
    before = _memories(np.random.default_rng(1))
    case = Case(program, before, before, None)
    seen = _run(machine, case, 1)
    assert (seen.report.stop, seen.report.index, seen.report.tag, seen.broken) == (stop, 1, None, "")
    changed = np.flatnonzero(seen.memory != case.before.memory)
    assert {*changed.tolist()} <= ({*words_moved(program[1]).tolist()} if program[1].opcode == "store" else set())


_LEVELS = ("x", "y", "block")


def _move(
    machine: SimulatedAccelerator, text: str, memories: Memories, memory: Halves, base: int = 0, **how: float | Speed
) -> Run:
    """Run commands, which keep to the rules."""
    machine.attach(memory, base, **how)  # type: ignore[arg-type]
    machine.reset()
    machine.write(assemble(f"{text}\nend"), memories)
    report = machine.run(most=_PATIENCE)
    assert not machine.traffic().broken, text
    return report


def _mapped() -> Halves:
    """A memory of 4 GB, which takes the room of what is written."""
    return np.frombuffer(mmap.mmap(-1, 1 << 32), np.uint16)


@lru_cache(maxsize=64)
def _far(seed: int, most: int) -> str:
    """Eight rows of two words each, the words anywhere below ``most``; rows and words lie apart in all levels."""
    rng = np.random.default_rng(seed)
    while True:
        values = ((rng.integers(size), *rng.integers(-size // 3, size // 3, 3)) for size in (_CONFIG.rows, most))
        (row, *rows), (word, *words) = values
        levels = (f"{level}=2:{one}:{other}" for level, one, other in zip(_LEVELS, rows, words, strict=True))
        text = f" rows={row} valid=2 address={word} {' '.join(levels)}"
        load = assemble(f"load{text}")[0]
        written, moved = np.sort(rows_written(load)), np.sort(words_moved(load))
        inside = 0 <= written[0] <= written[-1] < _CONFIG.rows and 0 <= moved[0] <= moved[-1] < most - 1
        if inside and np.diff(written).min() > 0 and np.diff(moved).min() > 1:
            return text


def test_every_bit_of_an_address(machine: SimulatedAccelerator) -> None:
    """Rows anywhere in a window of up to 4 GB, which is zero elsewhere; nothing moves that is behind its end."""
    memory, memories, rng = _mapped(), _memories(np.random.default_rng(1)), np.random.default_rng(2)
    for number in range(24):
        base = int(rng.integers(1 << 20)) << 12 if number % 2 else 0
        window = memory[: (1 << 31) - base // 2]
        text = _far(number, window.size)
        load = assemble(f"load{text}")[0]
        words, rows = words_moved(load)[:, np.newaxis] + np.arange(2), rows_written(load)
        window[words] = random_words(rng, *words.shape)
        assert _move(machine, f"load{text}", memories, window, base).tag == 0, text
        assert (machine.scratchpad()[rows] == window[words]).all(), text
        window[words] = 0
        assert _move(machine, f"store{text}", memories, window, base).tag == 0, text
        assert (window[words] == memories.scratchpad[rows]).all(), text
        window[words] = 0
        for opcode in ("load", "store"):
            at_end = [f"{opcode} rows=0 valid=1 address={window.size - behind}" for behind in (1, 0)]
            assert [_move(machine, text, memories, window, base).stop for text in at_end] == [Stop.NONE, Stop.WINDOW]
        window[-1] = 0


def test_every_bit_of_a_count(machine: SimulatedAccelerator) -> None:
    """Words that follow one another, from and to one row, and the same ones again."""
    memories, words = _memories(np.random.default_rng(1)), random_words(np.random.default_rng(2), _WORDS)
    for number in range(36):
        count, level = 1 << number // 3, number % 3
        memory = np.zeros_like(words)
        again = f"{_LEVELS[level + 1]}=2" if level < 2 else ""
        text, total = f" rows=0 valid=1 address=0 {_LEVELS[level]}={count}:0:1 {again}", count * (2 if again else 1)
        assert _move(machine, f"load{text}", memories, words).tag == 0, text
        assert (machine.traffic().beats, machine.scratchpad()[0].tolist()) == ((total, 0), [words[count - 1], 0]), text
        assert _move(machine, f"store{text}", memories, memory).tag == 0, text
        assert machine.traffic().beats == (0, total), text
        assert (memory == np.where(np.arange(memory.size) < count, memories.scratchpad[0, 0], 0)).all(), text


OUTSIDE = (("load", "", Stop.WRITE), ("load", "into_weights", Stop.WRITE), ("store", "", Stop.READ))


@pytest.mark.parametrize(("opcode", "flag", "stop"), OUTSIDE)
def test_every_bit_of_a_row(opcode: str, flag: str, stop: Stop, machine: SimulatedAccelerator) -> None:
    """The first row, or the second, is outside of its memory."""
    memory, memories = _zeros()
    firsts, seconds = [1 << bit for bit in range(6, 19)], [*(1 << bit for bit in range(6, 19)), 1 - (1 << 19)]
    for rows in (*firsts, *(f"0 {level}=2:{stride}:1" for level in _LEVELS for stride in seconds)):
        text = f"{opcode} rows={rows} valid=1 address=0 {flag}"
        assert _move(machine, text, memories, memory).stop == stop, text


def test_rows_of_many_weights() -> None:
    """The last 2^16 of those that a load can name are read by a command, and there are none behind them."""
    config = replace(_CONFIG, weights=600_000)
    machine, words = SimulatedAccelerator(config), random_words(np.random.default_rng(1), _WORDS)
    memories = random_memories(np.random.default_rng(2), config, _WORDS)
    first = MOST_LOADED - (1 << 16)
    text = f"load rows={first} valid=2 address=0 x=8:8192:2 into_weights\n"
    reads = (f"matmul reads=0 writes={40 + n} weights={first + 8192 * n - 1} emit loads=0\n" for n in range(8))
    case = Case(assemble(f"{text}{''.join(reads)}end"), replace(memories, memory=words), memories, None)
    assert _run(machine, case, 1).report.tag == 0
    expected = programs.copied(case.before)
    run(case.program, expected)
    assert (machine.scratchpad() == expected.scratchpad).all()
    assert np.unique(expected.scratchpad[40:48]).size > 8
    for row, stop in ((MOST_LOADED - 1, Stop.NONE), (f"{MOST_LOADED - 1} x=2:1", Stop.WRITE)):
        report = _move(machine, f"load rows={row} valid=1 address=0 into_weights", memories, words)
        assert report.stop == stop, row
    with pytest.raises(ValueError, match="weights written must be from 0 to 524287, not from 524287 to 524288"):
        check_program(config, assemble(f"load rows={MOST_LOADED - 1} valid=1 address=0 x=2:1 into_weights\nend"))


def test_bursts(machine: SimulatedAccelerator) -> None:
    """Rows that follow one another are bursts of sixteen beats, within 4 kB, wherever they are."""
    memory = _mapped()
    for text, bursts, beats in (
        ("load rows=0 valid=2 address=0 x=40:1:2", (3, 0), (40, 0)),
        ("load rows=0 valid=2 address=1 x=40:1:2", (40, 0), (80, 0)),
        (f"load rows=0 valid=2 address={0x2AAA_AAA8} x=40:1:2", (3, 0), (40, 0)),
        (f"load rows=0 valid=2 address={0x5555_5550} x=40:1:2", (3, 0), (40, 0)),
        ("store rows=0 valid=2 address=8 x=40:1:2", (0, 3), (0, 40)),
        (f"store rows=0 valid=2 address={0x2AAA_AAA8} x=40:1:2", (0, 3), (0, 40)),
        (f"store rows=0 valid=2 address={0x5555_5550} x=40:1:2", (0, 3), (0, 40)),
        ("store rows=0 valid=2 address=0 x=8:1:2 y=5:8:24", (0, 5), (0, 40)),
    ):
        assert _move(machine, text, _memories(np.random.default_rng(1)), memory).tag == 0
        traffic = machine.traffic()
        assert (traffic.bursts, traffic.beats) == (bursts, beats), text


def test_answers_that_come_late(machine: SimulatedAccelerator) -> None:
    """As many bursts as may be unanswered, on a bus that mostly waits."""
    memory, memories = _zeros()
    text = "store rows=0 valid=2 address=0 x=40:1:6"
    assert _move(machine, text, memories, memory, seed=1, stall=0.97).tag == 0
    assert (memory[:240].reshape(40, 6)[:, :2] == memories.scratchpad[:40]).all()
    assert not memory[240:].any()
    machine.attach(memory, fault=Fault.UNANSWERED)
    assert (machine.run(most=2 * _PATIENCE).stop, machine.traffic().bursts) == (Stop.TIME, (0, 15))


def test_nothing_is_requested_once_it_has_stopped(machine: SimulatedAccelerator) -> None:
    """A command is refused in the midst of a store: bursts that were offered end, no others come."""
    memory, memories = _zeros()
    text = "store rows=0 valid=2 address=0 x=60:1:6\nload rows=63 valid=1 address=0 x=2:1:1"
    assert _move(machine, text, memories, memory).stop == Stop.WRITE
    before, after = machine.traffic(), machine.traffic(1000)
    assert 0 < before.bursts[1] <= after.bursts[1] <= before.bursts[1] + 1 < 60
    assert after.quiet
    machine.reset()


def test_movers_work_beside_the_unit(machine: SimulatedAccelerator) -> None:
    """A store reads the bank that the unit does not read: both take hardly longer than one."""
    pool, store = "pool reads=0 writes=32 kx=16:1 x=8:0:1", "store rows=0 valid=2 address=0 x=16:1:2 y=2:0:32"
    memory, memories = _zeros()
    *alone, both = (_move(machine, each, memories, memory).cycles for each in (pool, store, f"{pool}\n{store}"))
    assert both < max(alone) + 40


def test_speed_of_a_memory(machine: SimulatedAccelerator) -> None:
    """A load waits once for each two bursts, which it asks for at once, a store once."""
    memory, memories = _zeros()
    rows = "rows=0 valid=2 address=0 x={}:1:2"

    def cycles(text: str, *speed: int) -> int:
        return _move(machine, text, memories, memory, speed=Speed(*speed)).cycles

    for opcode, beats, waits in (
        *(("load", beats, -(-beats // 32)) for beats in (1, 16, 32, 40, 60)),
        ("store", 60, 1),
    ):
        text = f"{opcode} {rows.format(beats)}"
        first = cycles(text, 50)  # the end is read in less
        assert [cycles(text, latency) - first for latency in (51, 82, 150)] == [waits, 32 * waits, 100 * waits], text
        if beats <= 16:
            assert [cycles(text, 50, every) - first for every in (2, 5)] == [beats - 1, 4 * (beats - 1)], text
    for wrong, message in (((-1,), "latency must be an integer from 0"), ((0, 0), "every must be an integer from 1")):
        with pytest.raises(ValueError, match=f"^{message} to 1048576, not"):
            Speed(*wrong)
    both = f"load {rows.format(16)}\nstore loads=0 {rows.format(16)}"
    assert cycles(both, 150) == cycles(both, 50) + 200
