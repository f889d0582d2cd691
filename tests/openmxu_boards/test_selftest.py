# amaranth: UnusedElaboratable=no
# (what the tests of messages make is refused, so nobody uses it)
"""The self-test passes on a sound unit, and notices what is broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, ReadPort

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP8_E4M3
from openmxu.unit import accumulator
from openmxu_boards import Program, SelfTest, boards, find_board, program
from openmxu_boards.selftest import RomSource, StallPattern, _play

from ..conftest import slow, thorough
from .testbenches import run

SMALL = MxuConfig(rows=2, columns=2, stages=1, depth=4)
ROUND = 600
"""Cycles: at least one round of any unit here of up to three rows; larger ones take longer in proportion."""


def observe(test: SelfTest, cycles: int) -> list[tuple[int, int, int]]:
    """``pass_``, ``fail`` and ``heartbeat`` of each cycle."""
    seen = []

    async def testbench(ctx: Any) -> None:
        async for _, _, *outputs in ctx.tick().sample(test.pass_, test.fail, test.heartbeat):
            seen.append(tuple(outputs))
            if len(seen) == cycles:
                return

    run(test, testbench)
    return seen


def check_passes(config: MxuConfig) -> None:
    seen = observe(SelfTest(config), 2 * ROUND * max(1, config.rows // 2))
    assert not any(fail for _, fail, _ in seen)
    passed = [pass_ for pass_, _, _ in seen]
    assert passed[0] == 0
    assert passed[-1] == 1
    assert passed == sorted(passed)
    heartbeat = [beat for _, _, beat in seen]
    assert np.count_nonzero(np.diff(heartbeat)) >= 2


SIMULATED = {board.config: board for board in reversed(boards()) if board.config.rows < 4}
"""One board of each unit; larger ones are made of the same elements, and take a minute or more."""


@pytest.mark.parametrize(
    "board",
    [board if board.name == "icebreaker" else thorough(board) for board in SIMULATED.values()],
    ids=lambda board: board.name,
)
def test_passes_on_boards(board: Any) -> None:
    check_passes(board.config)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        MxuConfig(rows=1, columns=3, stages=7, source=BF16, subnormals="ieee", depth=8),
        MxuConfig(rows=3, columns=1, stages=2, operand=FP8_E4M3, depth=8),
    ],
    ids=["1x3", "3x1"],
)
def test_passes_on_other_units(config: MxuConfig) -> None:
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
    seen = observe(SelfTest(SMALL, replace(sound, **{stream: tuple(beats)})), ROUND)
    failed = [fail for _, fail, _ in seen]
    assert failed[-1] == 1
    assert failed == sorted(failed), "fail must stay"
    assert not any(pass_ for pass_, _, _ in seen)


@pytest.mark.slow
def test_no_results_is_failure() -> None:
    emit = 1 << (2 * 32 + 4)
    sound = program(SMALL)
    silent = replace(sound, activations=tuple(beat & ~emit for beat in sound.activations))
    patience = 200
    seen = observe(SelfTest(SMALL, silent, patience=patience), patience + 20)
    failed = [fail for _, fail, _ in seen]
    assert patience <= failed.index(1) <= patience + 2
    assert not any(pass_ for pass_, _, _ in seen)


def test_blink_divides_the_heartbeat() -> None:
    words = np.zeros((2, 2), dtype=np.uint32)
    short = _play(SMALL, words, words)
    each, fourth = ([beat for _, _, beat in observe(SelfTest(SMALL, short, blink=blink), ROUND)] for blink in (0, 2))
    rounds = np.flatnonzero(np.diff(each))
    assert len(rounds) >= 8
    assert np.flatnonzero(np.diff(fourth)).tolist() == rounds[3::4].tolist()


def test_program_reaches_every_sort_of_result() -> None:
    for board in boards():
        config = board.config
        contents = program(config)
        words = np.array(
            [beat >> 32 * lane & 0xFFFFFFFF for beat in contents.results for lane in range(config.columns)]
        )
        for pattern in (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000):
            assert pattern in words, f"{pattern:08X}"
        first, last, add, clear_nan, emit = (
            np.array([beat >> config.rows * config.source.width + bit & 1 for beat in contents.activations])
            for bit in range(5)
        )
        assert np.any(add & emit)
        assert np.any(add & ~emit)
        assert np.any(~add & emit)
        assert np.any(first & last)
        assert not np.any(clear_nan), "belongs to products by several passes, which no board makes yet"


def test_program_depends_on_its_seed_only() -> None:
    assert program(SMALL, seed=1) == program(SMALL, seed=1)
    assert program(SMALL, seed=1) != program(SMALL, seed=2)


class PoisonedMemory(wiring.Component):
    """A memory that reads wrong bits where a place is read and written in the same cycle."""

    def __init__(self, *, shape: int, depth: int, init: list[int]) -> None:
        self.inner = Memory(shape=shape, depth=depth, init=init)
        self.written = self.inner.write_port()
        self.reads: list[tuple[Any, Any]] = []
        super().__init__({})

    def write_port(self) -> Any:
        return self.written

    def read_port(self) -> Any:
        inner = self.inner.read_port()
        shape = len(Value.cast(inner.data))
        outer = ReadPort.Signature(addr_width=len(inner.addr), shape=shape).flip().create()
        self.reads.append((inner, outer))
        return outer

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = self.inner
        for inner, outer in self.reads:
            collided = Signal()
            with m.If(outer.en):
                m.d.sync += collided.eq(self.written.en & (self.written.addr == outer.addr))
            m.d.comb += [
                inner.en.eq(outer.en),
                inner.addr.eq(outer.addr),
                outer.data.eq(inner.data ^ collided.replicate(len(inner.data))),
            ]
        return m


def test_poisoned_memory() -> None:
    memory = PoisonedMemory(shape=8, depth=4, init=[0x55])
    read, write = memory.read_port(), memory.write_port()

    async def testbench(ctx: Any) -> None:
        ctx.set(read.en, 1)
        assert (await ctx.tick().sample(read.data).repeat(2))[-1] == 0x55
        ctx.set(write.en, 1)
        assert (await ctx.tick().sample(read.data).repeat(2))[-1] == 0xAA

    run(memory, testbench)


@pytest.mark.slow
def test_collisions_in_memories_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the iCEBreaker's build tells Yosys; a small bank is under pressure most."""
    monkeypatch.setattr(accumulator, "Memory", PoisonedMemory)
    check_passes(replace(find_board("icebreaker").config, depth=4))


def test_stalls() -> None:
    pattern = StallPattern()
    seen: list[int] = []

    async def testbench(ctx: Any) -> None:
        async for _, _, waits in ctx.tick().sample(pattern.o):
            seen.append(waits)
            if len(seen) == 4096:
                return

    run(pattern, testbench)
    waits = np.array(seen)[:, np.newaxis] >> np.arange(3) & 1
    assert np.all(np.abs(waits.mean(axis=0) - 3 / 8) < 1 / 8)
    for stream in range(3):
        spells = waits[1:, stream][:4064].reshape(-1, StallPattern.SPELL).mean(axis=1)
        assert {0.0, 1.0} < set(spells), "some spells flow freely, some wait all the time, some do both"


_BEATS = "beats must be one or more integers of 8 bits, not "


def _selftest(**parameters: Any) -> SelfTest:
    return SelfTest(SMALL, Program((0,), (0,), (0,)), **parameters)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: RomSource(8, ()), ValueError, f"{_BEATS}()"),
        (lambda: RomSource(8, (1, 256)), ValueError, f"{_BEATS}0x100"),
        (lambda: RomSource(8, (-1,)), ValueError, f"{_BEATS}-0x1"),
        (lambda: RomSource(8, ("1",)), TypeError, f"{_BEATS}('1',)"),
        (lambda: _selftest(blink=-1), ValueError, "blink must be an integer >= 0, not -1"),
        (lambda: _selftest(blink=0.5), TypeError, "blink must be an integer >= 0, not 0.5"),
        (lambda: _selftest(patience=0), ValueError, "patience must be an integer >= 1, not 0"),
        (lambda: _selftest(patience=None), TypeError, "patience must be an integer >= 1, not None"),
    ],
)
def test_messages(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text
