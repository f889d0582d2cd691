"""What lies between pins and unit, against what Python makes: the UART, frames, and the queue before the unit."""

import random
from collections.abc import Sequence
from itertools import product, starmap
from typing import Any

import numpy as np
import pytest

from openmxu.unit.queue import Queue
from openmxu_boards.protocol import Decoder, encode
from openmxu_boards.simulated.pins import Levels, UartReader, levels_of
from openmxu_boards.soc.frames import FrameReceiver, FrameSender
from openmxu_boards.soc.uart import UartReceiver, UartTransmitter, divisor_of

from ...clocked import clocked
from ...conftest import slow

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

    clocked(receiver, testbench)
    return found


@pytest.mark.parametrize("divisor", [4, slow(5), slow(13)])
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

    clocked(transmitter, testbench, pin)
    assert UartReader(divisor).feed(np.array(levels, dtype=np.uint8)) == EVERY


@pytest.mark.parametrize(
    ("divisor", "deviation"),
    [
        *[(4, -0.03), (5, 0), (5, 0.03)],
        *starmap(slow, [(4, 0), (4, 0.03), (5, -0.03), *product([16], [-0.03, 0, 0.03])]),
    ],
)
def test_receiver(divisor: int, deviation: float) -> None:
    if divisor == 4 and deviation:
        deviation /= 3  # a cycle is a quarter of a bit
    assert received(levels_of(EVERY, divisor * (1 + deviation)), divisor) == [(byte, 0) for byte in EVERY]


def test_receiver_of_missing_stop_bit_break_and_noise() -> None:
    low, high, pulse = np.zeros(12 * 8, dtype=np.uint8), np.ones(8, dtype=np.uint8), np.ones(40, dtype=np.uint8)
    cut, a, b, c = (levels_of(byte, 8) for byte in (b"\x55", b"a", b"b", b"c"))
    cut[-8:] = pulse[10:13] = 0
    assert received(np.concatenate([cut, high, a, low, low, high, b]), 8) == [(0x55, 1), (97, 0), (0, 1), (98, 0)]
    assert received(np.concatenate([pulse, c]), 8) == [(99, 0)]


def test_divisors() -> None:
    assert divisor_of(12_000_000, 1_000_000) == 12
    assert divisor_of(25_000_000, 115_200) == 217


def test_reader_in_pieces() -> None:
    levels = np.concatenate([np.ones(3, dtype=np.uint8), levels_of(EVERY, 7.3), np.ones(9, dtype=np.uint8)])
    reader = UartReader(7.3)
    assert b"".join(reader.feed(levels[start : start + 11]) for start in range(0, len(levels), 11)) == EVERY
    assert reader.idle


def deliver(stream: Sequence[tuple[int, int]], *, depth: int = 64, ready: float = 1.0) -> tuple[list[bytes], int]:
    """What the receiver makes of bytes with error bits: bodies, and how often it says that a frame was damaged."""
    receiver, generator = FrameReceiver(depth), np.random.default_rng(0)
    bodies, body, damaged, o = [], bytearray(), 0, receiver.o

    async def testbench(ctx: Any) -> None:
        nonlocal damaged
        for byte in [*stream, *[None] * (8 * depth)]:
            if byte is not None:
                ctx.set(receiver.i.payload, dict(zip(("data", "error"), byte, strict=True)))
            ctx.set(receiver.i.valid, byte is not None)
            takes = generator.random() < ready
            ctx.set(o.ready, takes)
            _, _, valid, payload, now = await ctx.tick().sample(o.valid, o.payload, receiver.o_damaged)
            damaged += now
            if valid and takes:
                body.append(payload.data)
                if payload.last:
                    bodies.append(bytes(body))
                    body.clear()

    clocked(receiver, testbench)
    assert not body
    return bodies, damaged


def sound(data: bytes) -> list[tuple[int, int]]:
    return [(byte, 0) for byte in data]


@pytest.mark.parametrize("ready", [1.0, 0.4])
def test_receiver_passes_sound_frames_on(ready: float) -> None:
    generator = np.random.default_rng(1)
    bodies = [generator.choice([0x7D, 0x7E, 0x00, 0x5E], int(size)).astype(np.uint8).tobytes() for size in range(5, 25)]
    stream = b"".join(encode(body) + (bytes(40) + b"\x7e") * (ready < 1) for body in bodies)
    assert deliver(sound(stream), ready=ready, depth=512) == (bodies, len(bodies) if ready < 1 else 0)


@pytest.mark.parametrize("seed", [0, *map(slow, (1, 2, 3))])
def test_receiver_agrees_with_python_on_spoilt_streams(seed: int) -> None:
    generator = np.random.default_rng(seed)
    stream = bytearray()
    for _ in range(60):
        frame = bytearray(encode(generator.bytes(int(generator.integers(1, 12)))))
        if generator.random() < 0.5:
            frame[int(generator.integers(len(frame)))] = int(generator.choice([0x7D, 0x7E, generator.integers(256)]))
        stream += frame
    bodies, damaged = deliver(sound(bytes(stream)), depth=1024)
    expected = list(Decoder().feed(bytes(stream)))
    # What is shorter than a request is as bad as damaged.
    assert bodies == [body for body in expected if body is not None and len(body) >= 5]
    assert damaged == sum(body is None or len(body) < 5 for body in expected)


def test_receiver_forgets_frames_that_are_damaged_or_too_long() -> None:
    frame = sound(encode(b"abcdef"))
    for place in range(1, len(frame)):
        spoilt = [*frame]
        spoilt[place] = (frame[place][0], 1)
        assert deliver([*spoilt, *sound(encode(b"ghijkl"))]) == ([b"ghijkl"], 1), place
    longest = bytes(64 - 1 - 4)
    frames = map(encode, (longest + b"x", longest, bytes(300), b"short"))
    assert deliver(sound(b"".join(frames))) == ([longest, b"short"], 2)


@pytest.mark.parametrize(("valid", "ready"), [(0.5, 0.5), slow(1.0, 1.0), slow(1.0, 0.2)])
def test_sender(valid: float, ready: float) -> None:
    sender, generator = FrameSender(), np.random.default_rng(7)
    i, o = sender.i, sender.o
    bodies = [bytes([size]) * size for size in range(1, 12)] + [bytes(range(256))]
    left = [(byte, place + 1 == len(body)) for body in bodies for place, byte in enumerate(body)]
    sent = bytearray()

    async def testbench(ctx: Any) -> None:
        for _ in range(20 * len(left)):
            if left and not ctx.get(i.valid):
                ctx.set(i.valid, generator.random() < valid)
                ctx.set(i.payload, {"data": left[0][0], "last": left[0][1]})
            takes = generator.random() < ready
            ctx.set(o.ready, takes)
            _, _, offered, byte, took = await ctx.tick().sample(o.valid, o.payload, i.valid & i.ready)
            if offered and takes:
                sent.append(byte)
            if took:
                left.pop(0)
                ctx.set(i.valid, 0)

    clocked(sender, testbench)
    assert bytes(sent) == b"".join(map(encode, bodies))


@pytest.mark.parametrize(("gives", "takes"), [(1.0, 1.0), (0.5, 0.5), (0.9, 0.2), (0.2, 0.9), (1.0, 0.5)])
def test_queue(gives: float, takes: float) -> None:
    queue, rng = Queue(8), random.Random(f"{gives} {takes}")
    i, o = queue.i, queue.o
    sent: list[int] = []
    taken: list[int] = []

    async def both(ctx: Any) -> None:
        held = waiting = None
        for _ in range(2000):
            if held is None:
                ctx.set(i.valid, int(rng.random() < gives))
                ctx.set(i.payload, rng.randrange(256))
            ready = int(rng.random() < takes)
            ctx.set(o.ready, ready)
            valid, beat, room = ctx.get(o.valid), ctx.get(o.payload), ctx.get(i.ready)
            assert waiting is None or (valid, beat) == (1, waiting), "what is offered stays until it is taken"
            waiting = beat if valid and not ready else None
            taken.extend([beat] * (valid and ready))
            sent.extend([ctx.get(i.payload)] * (ctx.get(i.valid) and room))
            held = ctx.get(i.payload) if ctx.get(i.valid) and not room else None
            ctx.set(o.ready, 1 - ready)
            assert ctx.get(i.ready) == room, "room does not depend on whether a beat is taken in the same cycle"
            ctx.set(o.ready, ready)
            await ctx.tick()

    clocked(queue, both)
    assert taken == sent[: len(taken)]
    assert len(sent) - len(taken) <= 2
    assert len(taken) >= (1999 if gives == takes == 1 else 2000 * gives * takes - 100)
