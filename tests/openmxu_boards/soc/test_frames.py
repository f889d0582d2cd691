"""Frames in hardware, against those of Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from openmxu_boards.protocol import Decoder, encode
from openmxu_boards.soc.frames import FrameReceiver, FrameSender

from ..testbenches import run


def deliver(
    stream: Sequence[tuple[int, int]], *, depth: int = 64, seed: int = 0, ready: float = 1.0
) -> tuple[list[bytes], int]:
    """What the receiver makes of bytes with error bits: bodies, and how often it says that a frame was damaged."""
    receiver, generator = FrameReceiver(depth), np.random.default_rng(seed)
    bodies, body, damaged = [], bytearray(), 0

    async def testbench(ctx: Any) -> None:
        nonlocal damaged
        for cycle in range(len(stream) + 8 * depth):
            if cycle < len(stream):
                ctx.set(receiver.i.payload, {"data": stream[cycle][0], "error": stream[cycle][1]})
            ctx.set(receiver.i.valid, cycle < len(stream))
            takes = generator.random() < ready
            ctx.set(receiver.o.ready, takes)
            _, _, valid, payload, now = await ctx.tick().sample(
                receiver.o.valid, receiver.o.payload, receiver.o_damaged
            )
            damaged += now
            if valid and takes:
                body.append(payload.data)
                if payload.last:
                    bodies.append(bytes(body))
                    body.clear()

    run(receiver, testbench)
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
    bodies = [bytes([size]) * size for size in range(1, 12)] + [bytes(range(256))]
    left = [(byte, place + 1 == len(body)) for body in bodies for place, byte in enumerate(body)]
    sent = bytearray()

    async def testbench(ctx: Any) -> None:
        for _ in range(20 * len(left)):
            if left and not ctx.get(sender.i.valid):
                ctx.set(sender.i.valid, generator.random() < valid)
                ctx.set(sender.i.payload, {"data": left[0][0], "last": left[0][1]})
            takes = generator.random() < ready
            ctx.set(sender.o.ready, takes)
            _, _, offered, byte, took = await ctx.tick().sample(
                sender.o.valid, sender.o.payload, sender.i.valid & sender.i.ready
            )
            if offered and takes:
                sent.append(byte)
            if took:
                left.pop(0)
                ctx.set(sender.i.valid, 0)

    run(sender, testbench)
    assert bytes(sent) == b"".join(map(encode, bodies))
