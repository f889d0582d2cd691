# amaranth: UnusedElaboratable=no
# (what the tests of messages make is refused, so nobody uses it)
"""The UART, against levels that numpy made."""

from typing import Any

import numpy as np
import pytest

from openmxu_boards.simulated.pins import Levels, Reader, levels_of
from openmxu_boards.soc.uart import UartReceiver, UartTransmitter, divisor_of

from ...conftest import slow
from ..testbenches import run

EVERY = bytes(range(256))


def received(levels: Levels, divisor: int) -> list[tuple[int, int]]:
    """Bytes and error bits that the receiver makes of levels."""
    receiver, found = UartReceiver(divisor), []

    async def testbench(ctx: Any) -> None:
        for level in [*levels.tolist(), *[1] * (4 * divisor)]:
            ctx.set(receiver.i, level)
            _, _, valid, payload = await ctx.tick().sample(receiver.o.valid, receiver.o.payload)
            if valid:
                found.append((payload.data, payload.error))

    run(receiver, testbench)
    return found


@pytest.mark.parametrize("divisor", [4, 5, 13])
def test_transmitter(divisor: int) -> None:
    transmitter, levels = UartTransmitter(divisor), []

    async def pin(ctx: Any) -> None:
        async for *_, level in ctx.tick().sample(transmitter.o):
            levels.append(level)

    async def testbench(ctx: Any) -> None:
        for byte in EVERY:
            ctx.set(transmitter.i.payload, byte)
            ctx.set(transmitter.i.valid, 1)
            await ctx.tick().until(transmitter.i.ready)
            ctx.set(transmitter.i.valid, 0)
            await ctx.tick().repeat(1 + byte % 3)
        await ctx.tick().repeat(12 * divisor)

    run(transmitter, testbench, pin)
    assert Reader(divisor).feed(np.array(levels, dtype=np.uint8)) == EVERY


@pytest.mark.parametrize("divisor", [4, 5, slow(16)])
@pytest.mark.parametrize("deviation", [-0.03, 0, 0.03])
def test_receiver(divisor: int, deviation: float) -> None:
    if divisor == 4 and deviation:
        deviation /= 3  # a cycle is a quarter of a bit
    assert received(levels_of(EVERY, divisor * (1 + deviation)), divisor) == [(byte, 0) for byte in EVERY]


def test_receiver_sees_a_missing_stop_bit_and_a_break() -> None:
    low = np.zeros(12 * 8, dtype=np.uint8)
    high = np.ones(8, dtype=np.uint8)
    cut = levels_of(b"\x55", 8)
    cut[-8:] = 0
    found = received(np.concatenate([cut, high, levels_of(b"a", 8), low, low, high, levels_of(b"b", 8)]), 8)
    assert found == [(0x55, 1), (ord("a"), 0), (0, 1), (ord("b"), 0)]


def test_receiver_takes_a_short_pulse_for_noise() -> None:
    pulse = np.ones(40, dtype=np.uint8)
    pulse[10:13] = 0
    assert received(np.concatenate([pulse, levels_of(b"c", 8)]), 8) == [(ord("c"), 0)]


def test_divisors() -> None:
    assert divisor_of(12_000_000, 1_000_000) == 12
    assert divisor_of(25_000_000, 115_200) == 217
    with pytest.raises(ValueError, match="baud must be at most 3000000 at 12000000 Hz, not 4000000"):
        divisor_of(12_000_000, 4_000_000)
    with pytest.raises(
        ValueError, match="baud must be within 2 % of 12000000 Hz over an integer, such as 2400000, not"
    ):
        divisor_of(12_000_000, 2_500_000)


@pytest.mark.parametrize("part", [UartReceiver, UartTransmitter])
def test_too_few_cycles_of_a_bit(part: Any) -> None:
    with pytest.raises(ValueError, match="divisor must be >= 4, not 3"):
        part(3)


def test_reader_in_pieces() -> None:
    levels = np.concatenate([np.ones(3, dtype=np.uint8), levels_of(EVERY, 7.3), np.ones(9, dtype=np.uint8)])
    reader = Reader(7.3)
    assert b"".join(reader.feed(levels[start : start + 11]) for start in range(0, len(levels), 11)) == EVERY
    assert reader.idle
