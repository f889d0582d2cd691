"""What lies between pins and unit, against what Python makes: the UART, frames, and the queue before the unit."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from openmxu.unit.queue import Queue
from openmxu_boards.protocol import Decoder, encode
from openmxu_boards.simulated.pins import Levels, Reader, levels_of
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

    clocked(transmitter, testbench, pin)
    assert Reader(divisor).feed(np.array(levels, dtype=np.uint8)) == EVERY


@pytest.mark.parametrize("divisor", [4, 5, slow(16)])
@pytest.mark.parametrize("deviation", [-0.03, 0, 0.03])
def test_receiver(divisor: int, deviation: float) -> None:
    if divisor == 4 and deviation:
        deviation /= 3  # a cycle is a quarter of a bit
    assert received(levels_of(EVERY, divisor * (1 + deviation)), divisor) == [(byte, 0) for byte in EVERY]


def test_receiver_sees_a_missing_stop_bit_and_a_break() -> None:
    low, high = np.zeros(12 * 8, dtype=np.uint8), np.ones(8, dtype=np.uint8)
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


def test_reader_in_pieces() -> None:
    levels = np.concatenate([np.ones(3, dtype=np.uint8), levels_of(EVERY, 7.3), np.ones(9, dtype=np.uint8)])
    reader = Reader(7.3)
    assert b"".join(reader.feed(levels[start : start + 11]) for start in range(0, len(levels), 11)) == EVERY
    assert reader.idle


def deliver(stream: Sequence[tuple[int, int]], *, depth: int = 64, ready: float = 1.0) -> tuple[list[bytes], int]:
    """What the receiver makes of bytes with error bits: bodies, and how often it says that a frame was damaged."""
    receiver, generator = FrameReceiver(depth), np.random.default_rng(0)
    bodies, body, damaged, o = [], bytearray(), 0, receiver.o

    async def testbench(ctx: Any) -> None:
        nonlocal damaged
        for cycle in range(len(stream) + 8 * depth):
            if cycle < len(stream):
                ctx.set(receiver.i.payload, {"data": stream[cycle][0], "error": stream[cycle][1]})
            ctx.set(receiver.i.valid, cycle < len(stream))
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
    stream = b"".join(encode(body) + bytes(40) * (ready < 1) + b"\x7e" * (ready < 1) for body in bodies)
    found, damaged = deliver(sound(stream), ready=ready, depth=512)
    assert found == bodies
    assert damaged == (len(bodies) if ready < 1 else 0)


@pytest.mark.parametrize("seed", range(4))
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


def test_receiver_forgets_a_frame_with_a_byte_that_arrived_badly() -> None:
    frame = sound(encode(b"abcdef"))
    for place in range(1, len(frame)):
        spoilt = [*frame]
        spoilt[place] = (frame[place][0], 1)
        bodies, damaged = deliver([*spoilt, *sound(encode(b"ghijkl"))])
        assert (bodies, damaged) == ([b"ghijkl"], 1), place


def test_receiver_refuses_what_is_too_long_and_goes_on() -> None:
    longest = bytes(64 - 1 - 4)
    bodies, damaged = deliver(sound(encode(longest + b"x") + encode(longest) + encode(bytes(300)) + encode(b"short")))
    assert (bodies, damaged) == ([longest, b"short"], 2)


@pytest.mark.parametrize(("valid", "ready"), [(1.0, 1.0), (0.5, 0.5), (1.0, 0.2)])
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
    queue = Queue(8)
    rng = random.Random(f"{gives} {takes}")
    sent: list[int] = []
    taken: list[int] = []
    offered: list[tuple[int, int]] = []

    async def both(context):  # type: ignore[no-untyped-def]
        held = False
        for _ in range(2000):
            if not held:
                context.set(queue.i.valid, int(rng.random() < gives))
                context.set(queue.i.payload, rng.randrange(256))
            context.set(queue.o.ready, int(rng.random() < takes))
            valid, ready = context.get(queue.o.valid), context.get(queue.o.ready)
            # What is offered stays until it is taken.
            if offered and offered[-1][1] < 0:
                assert (valid, context.get(queue.o.payload)) == (1, offered[-1][0])
            if valid:
                offered.append((context.get(queue.o.payload), 1 if ready else -1))
                if ready:
                    taken.append(context.get(queue.o.payload))
            if context.get(queue.i.valid) and context.get(queue.i.ready):
                sent.append(context.get(queue.i.payload))
            held = bool(context.get(queue.i.valid) and not context.get(queue.i.ready))
            # Whether there is room does not depend on whether a beat is taken in the same cycle.
            room = context.get(queue.i.ready)
            context.set(queue.o.ready, 1 - ready)
            assert context.get(queue.i.ready) == room
            context.set(queue.o.ready, ready)
            await context.tick()

    clocked(queue, both)
    assert taken == sent[: len(taken)]
    assert len(sent) - len(taken) <= 2
    assert len(taken) >= (1999 if gives == takes == 1 else 2000 * gives * takes - 100)
