"""The self-test passes on a sound unit, and notices what is broken."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.lib.memory import Memory

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP8_E4M3
from openmxu.unit import accumulator
from openmxu_boards import SelfTest, boards, find_board, program
from openmxu_boards.selftest import StallPattern, _play

from ..clocked import clocked
from ..conftest import slow, thorough

SMALL = MxuConfig(rows=2, columns=2, stages=1, depth=4)
ROUND = 600
"""Cycles: at least one round of any unit here of up to three rows; larger ones take longer in proportion."""


def observe(design: Any, cycles: int, *outputs: Value) -> list[list[int]]:
    """The levels of each output in each cycle."""
    seen = []

    async def testbench(ctx: Any) -> None:
        for _ in range(cycles):
            _, _, *levels = await ctx.tick().sample(*outputs)
            seen.append(levels)

    clocked(design, testbench)
    return [list(levels) for levels in zip(*seen, strict=True)]


def lights(test: SelfTest, cycles: int) -> list[list[int]]:
    return observe(test, cycles, test.pass_, test.fail, test.heartbeat)


def check_passes(config: MxuConfig) -> None:
    passed, failed, heartbeat = lights(SelfTest(config), 2 * ROUND * max(1, config.rows // 2))
    assert not any(failed)
    assert (passed[0], passed[-1]) == (0, 1)
    assert passed == sorted(passed)
    assert np.count_nonzero(np.diff(heartbeat)) >= 2


SIMULATED = {board.config: board.name for board in reversed(boards()) if board.config.rows < 4}
"""One board of each unit; larger ones are made of the same elements, and take a minute or more."""


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(MxuConfig(rows=1, columns=1, stages=1, source=BF16, depth=4), id="smallest"),
        *((slow if name == "icebreaker" else thorough)(config, id=name) for config, name in SIMULATED.items()),
        slow(MxuConfig(rows=1, columns=3, stages=7, source=BF16, subnormals="ieee", depth=8), id="seven stages"),
        slow(MxuConfig(rows=3, columns=1, stages=2, operand=FP8_E4M3, depth=8), id="fp8"),
    ],
)
def test_passes(config: MxuConfig) -> None:
    check_passes(config)


SIGN = 31
"""Of the lowest word of a beat."""


@pytest.mark.parametrize(
    ("stream", "beat", "bit"),
    [
        ("results", 0, SIGN),
        slow("weights", 0, SIGN),
        slow("activations", 0, SIGN),
        *(thorough("results", 0, bit) for bit in (0, 63, 64)),
        slow("results", -1, 0),
    ],
)
def test_one_broken_bit_fails(stream: str, beat: int, bit: int) -> None:
    sound = program(SMALL)
    beats = [*getattr(sound, stream)]
    beats[beat] ^= 1 << bit
    passed, failed, _ = lights(SelfTest(SMALL, replace(sound, **{stream: tuple(beats)})), ROUND)
    assert failed[-1] == 1
    assert failed == sorted(failed), "fail must stay"
    assert not any(passed)


@pytest.mark.slow
def test_no_results_is_failure() -> None:
    emit = 1 << (2 * 32 + 4)
    sound = program(SMALL)
    silent = replace(sound, activations=tuple(beat & ~emit for beat in sound.activations))
    passed, failed, _ = lights(SelfTest(SMALL, silent, patience=200), 220)
    assert 200 <= failed.index(1) <= 202
    assert not any(passed)


def test_blink_divides_the_heartbeat() -> None:
    words = np.zeros((2, 2), dtype=np.uint32)
    short = _play(SMALL, words, words)
    each, fourth = (lights(SelfTest(SMALL, short, blink=blink), ROUND)[2] for blink in (0, 2))
    rounds = np.flatnonzero(np.diff(each))
    assert len(rounds) >= 8
    assert np.flatnonzero(np.diff(fourth)).tolist() == rounds[3::4].tolist()


def test_program_depends_on_its_seed_only_and_reaches_every_sort_of_result() -> None:
    assert program(SMALL, seed=1) == program(SMALL, seed=1) != program(SMALL, seed=2)
    for board in boards():
        config, contents = board.config, program(board.config)
        words = {beat >> 32 * lane & 0xFFFFFFFF for beat in contents.results for lane in range(config.columns)}
        assert words >= {0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000}
        marks = [beat >> config.rows * config.source.width for beat in contents.activations]
        first, last, add, clear_nan, emit = (np.array(marks) >> bit & 1 for bit in range(5))
        assert all(np.any(some) for some in (add & emit, add & ~emit, ~add & emit, first & last))
        assert not np.any(clear_nan), "belongs to products by several passes, which no board makes yet"


class PoisonedMemory(Memory):
    """A memory that reads wrong bits where a place is read and written in the same cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = inner = Memory(self.data)
        [outer], write = self.write_ports, inner.write_port()
        m.d.comb += [write.en.eq(outer.en), write.addr.eq(outer.addr), write.data.eq(outer.data)]
        for port in self.read_ports:
            read, collided = inner.read_port(), Signal()
            with m.If(port.en):
                m.d.sync += collided.eq(outer.en & (outer.addr == port.addr))
            m.d.comb += [read.en.eq(port.en), read.addr.eq(port.addr)]
            m.d.comb += port.data.eq(read.data ^ collided.replicate(len(port.data)))
        return m


def test_poisoned_memory() -> None:
    memory = PoisonedMemory(shape=8, depth=4, init=[0x55])
    read, write = memory.read_port(), memory.write_port()

    async def testbench(ctx: Any) -> None:
        ctx.set(read.en, 1)
        assert (await ctx.tick().sample(read.data).repeat(2))[-1] == 0x55
        ctx.set(write.en, 1)
        assert (await ctx.tick().sample(read.data).repeat(2))[-1] == 0xAA

    clocked(memory, testbench)


@pytest.mark.slow
def test_collisions_in_memories_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the iCEBreaker's build tells Yosys; a small bank is under pressure most."""
    monkeypatch.setattr(accumulator, "Memory", PoisonedMemory)
    check_passes(replace(find_board("icebreaker").config, depth=4))


def test_stalls() -> None:
    pattern = StallPattern()
    [seen] = observe(pattern, 4096, pattern.o)
    waits = np.array(seen)[:, np.newaxis] >> np.arange(3) & 1
    assert np.all(np.abs(waits.mean(axis=0) - 3 / 8) < 1 / 8)
    for stream in range(3):
        spells = waits[1:, stream][:4064].reshape(-1, StallPattern.SPELL).mean(axis=1)
        assert {0.0, 1.0} < set(spells), "some spells flow freely, some wait all the time, some do both"
