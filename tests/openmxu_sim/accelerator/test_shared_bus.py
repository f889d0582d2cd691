"""Accelerators on one bus: their words are the definition's, and a bus has a beat a cycle."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from openmxu.accelerator import Stop
from openmxu.spec.commands import assemble
from openmxu_sim.accelerator import with_waits
from openmxu_sim.accelerator.definition import Halves
from openmxu_sim.accelerator.simulation import Fault, Run, SimulatedAccelerator, Traffic

from ...conftest import needs_compiler, slow, thorough
from .programs import MACHINE, STALLS, drawn, random_memories

pytestmark = needs_compiler

_CONFIG = replace(MACHINE, beat=32)
_WORDS = 2048  # of a page, which is each one's part of the memory
_BASE = 0x4000_0000
_MOST = 1 << 18


@pytest.fixture(scope="module")
def machines() -> list[SimulatedAccelerator]:
    return [SimulatedAccelerator(_CONFIG) for _ in range(3)]


def _attach(machines: Sequence[SimulatedAccelerator], memory: Halves, seed: int = 0, **first: float) -> None:
    """Attach a page of the memory to each machine; the first one's alone has faults, or more stalls."""
    for index, machine in enumerate(machines):
        part = memory[index * _WORDS : (index + 1) * _WORDS]
        options = {"seed": seed + index, "stall": STALLS[seed % 4], **({} if index else first)}
        machine.attach(part, _BASE + 2 * _WORDS * index, **options)  # type: ignore[arg-type]
        machine.reset()


def _play(machines: Sequence[SimulatedAccelerator], *texts: str, stall: float = 0) -> list[Run]:
    """Run a program on each, on a bus that keeps no one but the first waiting."""
    _attach(machines, np.zeros(_WORDS * len(machines), np.uint16), stall=stall)
    for machine, text in zip(machines, texts, strict=True):
        memories = random_memories(np.random.default_rng(1), _CONFIG, _WORDS)
        machine.write(with_waits(_CONFIG, assemble(f"{text}\nend")), memories)
    reports = SimulatedAccelerator.run_together(machines, most=_MOST)
    assert [report.tag for report in reports] == [0] * len(machines)
    assert not any(machine.traffic().broken for machine in machines)
    return reports


def _compare(
    machines: Sequence[SimulatedAccelerator], seed: int, **fault: int
) -> tuple[list[Run], list[Traffic], Halves]:
    """Run a random program on each, and compare all that ends with the definition, word for word."""
    cases = [drawn(4 * seed + index, 8, _CONFIG, _WORDS) for index in range(len(machines))]
    memory = np.concatenate([case.before.memory for case in cases])
    _attach(machines, memory, seed, **fault)
    for machine, case in zip(machines, cases, strict=True):
        machine.write(case.program, case.before)
    reports = SimulatedAccelerator.run_together(machines, most=_MOST)
    traffics = [machine.traffic() for machine in machines]
    assert [traffic.broken for traffic in traffics] == [""] * len(machines), seed
    parts = memory.reshape(len(machines), _WORDS)
    for machine, report, case, part in zip(machines, reports, cases, parts, strict=True):
        if report.stop == Stop.NONE:
            assert report.tag == case.tag, seed
            assert (machine.scratchpad() == case.after.scratchpad).all(), seed
            assert (part == case.after.memory).all(), seed
    return reports, traffics, memory


@pytest.mark.parametrize("count", [40, slow(200), thorough(5000)])
def test_random_programs(count: int, machines: list[SimulatedAccelerator]) -> None:
    for seed in range(count):
        some = machines[: 2 + seed // 4 % 2]
        reports, traffics, _ = _compare(some, seed)
        assert [report.stop for report in reports] == [Stop.NONE] * len(some), seed
        for way in (0, 1):
            assert sum(traffic.beats[way] for traffic in traffics) < max(report.cycles for report in reports), seed


def test_the_same_again(machines: list[SimulatedAccelerator]) -> None:
    for seed in range(4):
        some, again = (_compare(machines, seed) for _ in range(2))
        assert some[:2] == again[:2]
        assert (some[2] == again[2]).all()


def test_one_has_the_bus_for_itself(machines: list[SimulatedAccelerator]) -> None:
    """Together with none, and alone after the others have ended."""
    for seed in range(0, 40, 4):  # without stalls
        [report], _, _ = _compare(machines[:1], seed)
        _compare(machines, seed)
        assert report.cycles == machines[0].run(most=_MOST).cycles


@pytest.mark.parametrize("count", [40, slow(200), thorough(2000)])
def test_a_fault_of_one_leaves_the_others(count: int, machines: list[SimulatedAccelerator]) -> None:
    """Errors, silence, wrong marks, or too much at the first one's port."""
    stopped = 0
    for seed in range(count):
        fault = Fault(1 + seed // 4 % (len(Fault) - 1))
        (first, *others), *_ = _compare(machines, seed, fault=fault, at=1 + seed // 16 % 5)
        assert [report.stop for report in others] == [Stop.NONE] * 2, seed
        expected = Stop.TIME if fault in (Fault.SILENT, Fault.UNANSWERED) else Stop.BUS
        assert first.stop in (Stop.NONE, expected), seed
        stopped += first.stop != Stop.NONE
    assert stopped > count // 4


_READS = "load rows=0 valid=2 address=0 x=32:1:2 y=40:0:0"
_WRITES = "store rows=0 valid=2 address=1 x=32:1:4 y=20:0:0"  # two beats for each row
_SINGLE = "{} rows=0 valid=2 address=0 x=32:1:4 y=40:0:0"  # bursts of one beat
_COMPUTES = """load rows=0 valid=2 address=0 x=32:1:2
matmul reads=0 writes=32 weights=0 emit x=16:1:1 kx=2:1 block=8:0"""
_BEATS = 32 * 40  # of each but the last one


@pytest.mark.parametrize("text", [_READS, _WRITES, _SINGLE.format("load")])
def test_programs_that_the_bus_binds(text: str, machines: list[SimulatedAccelerator]) -> None:
    """Each takes its turn: a beat of all machines in a cycle, and they end together."""
    [alone] = _play(machines[:1], text)
    for count in (2, 3):
        reports = _play(machines[:count], *[text] * count)
        last = max(report.cycles for report in reports)
        assert 0 <= last - max(alone.cycles, count * _BEATS) < 64
        assert last - min(report.cycles for report in reports) < 50


def test_programs_that_the_unit_binds(machines: list[SimulatedAccelerator]) -> None:
    longest = [max(report.cycles for report in _play(machines[:n], *[_COMPUTES] * n)) for n in (1, 2, 3)]
    assert all(0 < more - less <= 32 for less, more in pairwise(longest))  # beats of each one's load


def test_reads_and_writes_have_a_channel_each(machines: list[SimulatedAccelerator]) -> None:
    alone = [_play(machines[:1], text)[0].cycles for text in (_READS, _WRITES)]
    assert [report.cycles for report in _play(machines[:2], _READS, _WRITES)] == alone


def test_bursts_take_turns(machines: list[SimulatedAccelerator]) -> None:
    """A burst of sixteen beats waits for one beat of the other's, though many are asked for."""
    [alone] = _play(machines[:1], _READS)
    long, _ = _play(machines[:2], _READS, _SINGLE.format("load"))
    assert long.cycles < 17 / 16 * alone.cycles


@pytest.mark.parametrize(("text", "opcode"), [(_READS, "load"), (_WRITES, "store")])
def test_a_burst_stays_whole(text: str, opcode: str, machines: list[SimulatedAccelerator]) -> None:
    """While one waits ten cycles for each of its beats, the other has a beat between two bursts of these."""
    slowed, single = (report.cycles for report in _play(machines[:2], text, _SINGLE.format(opcode), stall=0.9))
    assert 8 * _BEATS < slowed < single - _BEATS


def test_others_netlists_are_refused(machines: list[SimulatedAccelerator]) -> None:
    with pytest.raises(ValueError, match=r"^accelerators on one bus must have one netlist, not 2$"):
        SimulatedAccelerator.run_together([machines[0], SimulatedAccelerator(MACHINE)])
