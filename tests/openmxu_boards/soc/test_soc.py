# amaranth: UnusedElaboratable=no
# (what the tests of messages make is refused, so nobody uses it)
"""What the system answers, request by request, in Amaranth's simulator."""

import struct
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const, Module

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP8_E4M3, FloatFormat
from openmxu_boards.protocol import Command, Decoder, Identity, Reply, Status, TileJob, request
from openmxu_boards.soc import Buffers, Soc, machine
from openmxu_sim import golden

from ..testbenches import run

CONFIG = MxuConfig(rows=2, columns=3, stages=2, source=BF16, depth=4)
BUFFERS = Buffers(weights=8, activations=16, results=8)
SESSION = 0x1234

Ask = Callable[..., Coroutine[Any, Any, Reply]]
Story = Callable[[Ask], Coroutine[Any, Any, None]]


def told(story: Story) -> Callable[[], None]:
    """The test that tells a story to a system."""

    def test() -> None:
        tell(story)

    test.__doc__ = story.__doc__
    return test


def tell(story: Story, soc: Soc | None = None) -> None:
    """Run a story of requests and replies."""
    soc = Soc(CONFIG, BUFFERS) if soc is None else soc
    heard = bytearray()
    decoder = Decoder()

    async def listen(ctx: Any) -> None:
        ctx.set(soc.o.ready, 1)
        async for _, _, valid, byte in ctx.tick().sample(soc.o.valid, soc.o.payload):
            if valid:
                heard.append(byte)

    async def testbench(ctx: Any) -> None:
        async def ask(command: int, sequence: int, arguments: bytes = b"", **options: Any) -> Reply:
            frame = options.get("frame") or request(command, options.get("session", SESSION), sequence, arguments)
            for byte in frame:
                ctx.set(soc.i.payload, {"data": byte, "error": 0})
                ctx.set(soc.i.valid, 1)
                await ctx.tick()
            ctx.set(soc.i.valid, 0)
            for _ in range(options.get("patience", 4000)):
                await ctx.tick()
                for body in decoder.feed(bytes(heard)):
                    heard.clear()
                    assert body is not None
                    reply = Reply.parse(body)
                    assert reply is not None
                    return reply
                heard.clear()
            raise AssertionError("no answer")

        await story(ask)

    run(soc, testbench, listen)


def pack(words: Any) -> bytes:
    return np.asarray(words, dtype="<u2").tobytes()


def address(number: int) -> bytes:
    return struct.pack("<H", number)


def tile(**changes: Any) -> bytes:
    fields = {"weights": 0, "activations": 0, "beats": 2, "add": False, "clear_nan": False, "emit": True, "keep": False}
    return TileJob(**fields | changes).to_bytes()


A = np.array([[0x3F80, 0x4000], [0x4040, 0x7F80], [0xC040, 0x0001]])
B = np.array([[0x4080, 0x3F00, 0x8000], [0x40A0, 0xBF80, 0x7FC0]])
"""Two products and their operands, special values among them."""


def product(a: Any, b: Any) -> bytes:
    values = [np.asarray(each, dtype=np.uint32) for each in (a, b)]
    left, right = (golden.from_bits(each, "bf16") for each in values)
    return golden.to_bits(golden.matmul(left, right, rows=2)).astype("<u4").tobytes()


async def load(ask: Ask, sequence: int) -> None:
    """A session with both operands in their buffers; the next request is ``sequence + 3``."""
    assert (await ask(Command.OPEN, sequence)).status == Status.OK
    assert (await ask(Command.WEIGHTS, sequence + 1, address(2) + pack(B[::-1]))).status == Status.OK
    assert (await ask(Command.ACTIVATIONS, sequence + 2, address(5) + pack(A))).status == Status.OK


def test_identity() -> None:
    soc = Soc(CONFIG, BUFFERS, clock=12_000_000, baud=1_000_000)

    async def story(ask: Ask) -> None:
        reply = await ask(Command.IDENTIFY, 77, session=0)
        assert reply[:4] == (Command.IDENTIFY, 0, 77, Status.OK)
        identity = Identity.parse(reply.data)
        assert identity == soc.identity
        assert (identity.config.rows, identity.config.columns, identity.weights) == (2, 3, 8)
        assert (identity.clock, identity.baud, identity.frame) == (12_000_000, 1_000_000, 511)

    tell(story, soc)


@told
async def test_product_and_counters(ask: Ask) -> None:
    await load(ask, 0xFFFD)
    reply = await ask(Command.RUN, 0, address(1) + tile(weights=2, activations=5, beats=3))
    assert reply.status == Status.OK
    *counted, error = struct.unpack("<4IB", reply.data)
    assert counted[1:] == [3, 0, 0]
    assert CONFIG.latency < counted[0] < CONFIG.latency + 16
    assert error == 0
    assert (await ask(Command.COUNTERS, 1)).data == reply.data
    results = await ask(Command.RESULTS, 2, address(1) + address(3))
    assert results.data == product(A, B)
    assert (await ask(Command.RESULTS, 3, address(2) + address(1))).data == product(A[1:2], B)
    assert await ask(Command.RESULTS, 4, address(2) + address(0)) == (6, SESSION, 4, Status.OK, b"")


@told
async def test_tiles_that_are_added_up_and_keep_their_weights(ask: Ask) -> None:
    await load(ask, 0)
    # Two sums of one tile each, the second one with the weights of the first; then one of two tiles.
    tiles = tile(weights=2, activations=5) + tile(activations=7, beats=1, keep=True)
    tiles += tile(weights=2, activations=5, emit=False) + tile(weights=2, activations=6, add=True)
    assert (await ask(Command.RUN, 3, address(0) + tiles)).status == Status.OK
    data = (await ask(Command.RESULTS, 4, address(0) + address(5))).data
    assert data[:36] == product(A, B)
    # A times B for both, the second one a row later: as one product with four inner elements.
    assert data[36:] == product(np.hstack([A[:2], A[1:]]), np.vstack([B, B]))


@told
async def test_a_request_that_comes_again_is_answered_and_not_done_again(ask: Ask) -> None:
    await load(ask, 0)
    first = await ask(Command.RUN, 3, address(0) + tile(weights=2, activations=5, beats=3, emit=False))
    assert await ask(Command.RUN, 3, address(0) + tile(weights=2, activations=5, beats=3, emit=False)) == first
    # Had it run twice without add, the sums would be the same; with add they would not.
    more = address(0) + tile(weights=2, activations=5, beats=3, add=True)
    second = await ask(Command.RUN, 4, more)
    assert await ask(Command.RUN, 4, more) == second
    for _ in range(2):
        data = (await ask(Command.RESULTS, 5, address(0) + address(3))).data
        assert data == product(np.hstack([A, A]), np.vstack([B, B]))
    # A load whose repetition says something else: only the first one counts.
    assert (await ask(Command.WEIGHTS, 6, address(2) + pack(B[::-1]))).status == Status.OK
    assert (await ask(Command.WEIGHTS, 6, address(2) + pack(B))).status == Status.OK
    await ask(Command.RUN, 7, address(0) + tile(weights=2, activations=5, beats=3))
    assert (await ask(Command.RESULTS, 8, address(0) + address(3))).data == product(A, B)


@told
async def test_sessions_and_sequence(ask: Ask) -> None:
    assert (await ask(Command.COUNTERS, 1)).status == Status.SESSION
    assert (await ask(Command.COUNTERS, 1, session=0)).status == Status.SESSION
    assert (await ask(Command.OPEN, 5, session=0)).status == Status.SESSION
    await load(ask, 5)
    for wrong in (6, 9, 5):
        assert (await ask(Command.COUNTERS, wrong)).status == Status.SEQUENCE
    # To open the open session changes nothing, not even the number that comes next.
    assert (await ask(Command.OPEN, 5)).status == Status.OK
    assert (await ask(Command.RUN, 8, address(0) + tile(weights=2, activations=5, beats=3))).status == Status.OK
    assert (await ask(Command.OPEN, 100, session=9)).status == Status.OK
    assert (await ask(Command.RESULTS, 9, address(0) + address(1))).status == Status.SESSION
    # The buffers are as they were; the unit is not.
    assert (await ask(Command.RESULTS, 101, address(0) + address(3), session=9)).data == product(A, B)


REFUSALS = [
    (0, b"", Status.COMMAND),
    (99, b"abc", Status.COMMAND),
    (Command.WEIGHTS, b"", Status.LENGTH),
    (Command.WEIGHTS, b"\0", Status.LENGTH),
    (Command.WEIGHTS, address(0) + bytes(5), Status.LENGTH),
    (Command.WEIGHTS, address(7) + bytes(12), Status.ADDRESS),
    (Command.WEIGHTS, address(0x100), Status.OK),
    (Command.ACTIVATIONS, address(16) + bytes(4), Status.ADDRESS),
    (Command.ACTIVATIONS, address(0) + bytes(3), Status.LENGTH),
    (Command.RUN, b"", Status.LENGTH),
    (Command.RUN, address(0) + tile()[:5], Status.LENGTH),
    (Command.RUN, address(0) + tile(weights=7), Status.ADDRESS),
    (Command.RUN, address(0) + tile(weights=8), Status.ADDRESS),
    (Command.RUN, address(0) + tile(activations=15), Status.ADDRESS),
    (Command.RUN, address(0) + tile(activations=0x8000), Status.ADDRESS),
    (Command.RUN, address(7) + tile(), Status.ADDRESS),
    (Command.RUN, address(8) + tile(), Status.ADDRESS),
    (Command.RUN, address(0x100) + tile(), Status.ADDRESS),
    (Command.RESULTS, address(0), Status.LENGTH),
    (Command.RESULTS, address(0) + address(9), Status.ADDRESS),
    (Command.RESULTS, address(0xFFFF) + address(1), Status.ADDRESS),
    (Command.COUNTERS, b"more than it wants", Status.OK),
]


@pytest.mark.slow
@told
async def test_refusals_and_that_it_goes_on(ask: Ask) -> None:
    await load(ask, 0)
    sequence = 3
    for command, arguments, status in REFUSALS:
        reply = await ask(command, sequence, arguments)
        assert reply[:4] == (command & 0x7F, SESSION, sequence, status), (command, arguments)
        assert (await ask(command, sequence, arguments)).status == status
        sequence += status != Status.COMMAND
        assert (await ask(Command.WEIGHTS, sequence, address(2) + pack(B[::-1]))).status == Status.OK
        assert (await ask(Command.ACTIVATIONS, sequence + 1, address(5) + pack(A))).status == Status.OK
        run = await ask(Command.RUN, sequence + 2, address(0) + tile(weights=2, activations=5, beats=3))
        assert run.status == Status.OK
        assert (await ask(Command.RESULTS, sequence + 3, address(0) + address(3))).data == product(A, B)
        sequence += 4


@told
async def test_damaged_frame(ask: Ask) -> None:
    await load(ask, 0)
    frame = bytearray(request(Command.COUNTERS, SESSION, 3))
    frame[2] ^= 4
    assert (await ask(0, 0, frame=bytes(frame))).status == Status.FRAME
    assert (await ask(Command.COUNTERS, 3)).status == Status.OK


@told
async def test_mistakes_of_a_program_are_seen(ask: Ask) -> None:
    await load(ask, 0)
    reply = await ask(Command.RUN, 3, address(0) + tile(keep=True))
    assert struct.unpack("<4IB", reply.data)[-1] == 7  # weights that nobody sent
    reply = await ask(Command.RUN, 4, address(0) + tile(beats=5))
    assert struct.unpack("<4IB", reply.data)[-1] == 5  # a tile longer than the accumulator bank


@pytest.mark.slow
def test_a_unit_that_hangs_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PATIENCE", 256)

    class Stuck(machine.Mxu):
        """It never takes weights after the first ones, until it is reset."""

        def elaborate(self, platform: object) -> Module:
            m = super().elaborate(platform)
            taken = machine.Signal(2)
            with m.If(self.weights.valid & self.weights.ready & ~taken.all()):
                m.d.sync += taken.eq(taken + 1)
            with m.If(taken.all()):
                m.d.comb += self.weights.ready.eq(Const(0))
            return m

    monkeypatch.setattr(machine, "Mxu", Stuck)

    async def story(ask: Ask) -> None:
        await load(ask, 0)
        tiles = tile(weights=2, activations=5) * 3
        assert (await ask(Command.RUN, 3, address(0) + tiles)).status == Status.HANG
        assert (await ask(Command.RUN, 3, address(0) + tiles)).status == Status.HANG
        assert (await ask(Command.RUN, 4, address(0) + tile(weights=2, activations=5))).status == Status.OK
        assert (await ask(Command.RESULTS, 5, address(0) + address(2))).data == product(A[:2], B)

    tell(story)


@pytest.mark.slow
def test_without_counters() -> None:
    async def story(ask: Ask) -> None:
        await load(ask, 0)
        reply = await ask(Command.RUN, 3, address(0) + tile(keep=True))
        assert reply.data == bytes(16) + b"\x07"

    tell(story, Soc(CONFIG, BUFFERS, counters=False))


@pytest.mark.parametrize(
    "config",
    [
        MxuConfig(rows=3, columns=1, stages=1, operand=FP8_E4M3, source=FP8_E4M3, depth=4),
        MxuConfig(
            rows=1, columns=2, stages=1, operand=FloatFormat.parse("tf32"), source=FloatFormat.parse("tf32"), depth=2
        ),
    ],
    ids=["fp8_e4m3", "tf32"],
)
def test_beats_of_other_widths(config: MxuConfig) -> None:
    width, one = config.source.width, config.source.bias << config.source.fraction_width
    beats = [sum(one << lane * width for lane in range(words)) for words in (config.columns, config.rows)]
    sizes = [-(-width * words // 8) for words in (config.columns, config.rows)]

    async def story(ask: Ask) -> None:
        await ask(Command.OPEN, 0)
        weights, activations = (beat.to_bytes(size, "little") for beat, size in zip(beats, sizes, strict=True))
        assert (await ask(Command.WEIGHTS, 1, address(0) + weights * config.rows)).status == Status.OK
        assert (await ask(Command.ACTIVATIONS, 2, address(0) + activations)).status == Status.OK
        assert (await ask(Command.RUN, 3, address(0) + tile(beats=1))).status == Status.OK
        data = (await ask(Command.RESULTS, 4, address(0) + address(1))).data
        assert np.frombuffer(data, dtype="<f4").tolist() == [config.rows] * config.columns

    tell(story, Soc(config, BUFFERS))


def test_parameters() -> None:
    with pytest.raises(ValueError, match="weights must be a power of two from 2 to 65536, not 3"):
        Buffers(weights=3)
    with pytest.raises(ValueError, match="frame must be a power of two from 64 to 65536, not 100"):
        Soc(CONFIG, frame=100)
    with pytest.raises(ValueError, match="frame must be more than 75 for beats of 64 bytes, not 64"):
        Soc(MxuConfig(rows=2, columns=32, source=BF16), frame=64)
    with pytest.raises(ValueError, match="depth must be at most 256, as a tile's count has one byte, not 512"):
        machine.Machine(MxuConfig(rows=2, columns=2, depth=512), BUFFERS)
    with pytest.raises(ValueError, match="config must have no splitter, as the host splits"):
        machine.Machine(MxuConfig(rows=2, columns=2, splitter=True), BUFFERS)
