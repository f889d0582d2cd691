# amaranth: UnusedElaboratable=no
# (what the tests of messages make is refused, so nobody uses it)
"""What the system answers, request by request, in Amaranth's simulator."""

import struct
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const, Module
from amaranth.sim import Simulator

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FloatFormat
from openmxu_boards.protocol import Command, Decoder, Identity, Reply, Status, TileJob, request
from openmxu_boards.soc import Buffers, Soc, machine
from openmxu_sim import golden

CONFIG = MxuConfig(rows=2, columns=3, stages=2, source=BF16, depth=4)
BUFFERS = Buffers(weights=8, activations=16, results=8)
SESSION = 0x1234

Ask = Callable[..., Coroutine[Any, Any, bytes]]
Story = Callable[[Ask], Coroutine[Any, Any, None]]


def told(story: Story) -> Callable[[], None]:
    """The test that tells a story to a system."""

    def test() -> None:
        in_simulator(system())(story)

    return test


@cache
def system() -> Soc:
    return Soc(CONFIG, BUFFERS, clock=12_000_000, baud=1_000_000)


@cache
def in_simulator(soc: Soc) -> Callable[[Story], None]:
    """What tells a system stories of requests and replies, each from its reset on."""
    stories: list[Story] = []
    heard: list[bytes | None] = []

    async def listen(ctx: Any) -> None:
        decoder = Decoder()
        ctx.set(soc.o.ready, 1)
        async for _, _, valid, byte in ctx.tick().sample(soc.o.valid, soc.o.payload):
            heard.extend(decoder.feed(bytes([byte] * valid)))

    async def testbench(ctx: Any) -> None:
        heard.clear()

        async def ask(command: int, sequence: int, arguments: bytes = b"", **how: Any) -> bytes:
            """The data of a reply, whose status is the one that is named, or OK."""
            session = how.get("session", SESSION)
            for byte in how.get("frame") or request(command, session, sequence, arguments):
                ctx.set(soc.i.payload, {"data": byte, "error": 0})
                ctx.set(soc.i.valid, 1)
                await ctx.tick()
            ctx.set(soc.i.valid, 0)
            for _ in range(4000):
                await ctx.tick()
                if heard:
                    reply = Reply.parse(heard.pop(0) or b"")
                    assert reply is not None
                    assert reply[:4] == (command & 0x7F, session, sequence, how.get("status", Status.OK)), arguments
                    return reply.data
            raise AssertionError("no answer")

        await stories[-1](ask)

    simulator = Simulator(soc)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(listen, background=True)

    def tell(story: Story) -> None:
        if stories:
            simulator.reset()
        stories.append(story)
        simulator.run()

    return tell


def address(number: int) -> bytes:
    return struct.pack("<H", number)


def tile(**changes: Any) -> bytes:
    fields = {"weights": 0, "activations": 0, "beats": 2, "add": False, "clear_nan": False, "emit": True, "keep": False}
    return TileJob(**fields | changes).to_bytes()


PRODUCT = tile(weights=2, activations=5, beats=3)
"""Of operands that are loaded."""


A = np.array([[0x3F80, 0x4000], [0x4040, 0x7F80], [0xC040, 0x0001]], "<u2")
B = np.array([[0x4080, 0x3F00, 0x8000], [0x40A0, 0xBF80, 0x7FC0]], "<u2")
"""Two products and their operands, special values among them."""


def product(a: np.ndarray, b: np.ndarray) -> bytes:
    left, right = (golden.from_bits(each.astype(np.uint32), "bf16") for each in (a, b))
    return golden.to_bits(golden.matmul(left, right, rows=2)).astype("<u4").tobytes()


async def load(ask: Ask, sequence: int) -> None:
    """A session with both operands in their buffers; the next request is ``sequence + 3``."""
    await ask(Command.OPEN, sequence)
    await fill(ask, sequence + 1)


async def fill(ask: Ask, sequence: int) -> None:
    await ask(Command.WEIGHTS, sequence, address(2) + B[::-1].tobytes())
    await ask(Command.ACTIVATIONS, sequence + 1, address(5) + A.tobytes())


@told
async def test_identity(ask: Ask) -> None:
    identity = Identity.parse(await ask(Command.IDENTIFY, 77, session=0))
    assert identity == system().identity
    assert (identity.config.rows, identity.config.columns, identity.weights) == (2, 3, 8)
    assert (identity.clock, identity.baud, identity.frame) == (12_000_000, 1_000_000, 511)


@told
async def test_product_and_counters(ask: Ask) -> None:
    await load(ask, 0xFFFD)
    data = await ask(Command.RUN, 0, address(1) + PRODUCT)
    *counted, error = struct.unpack("<4IB", data)
    assert counted[1:] == [3, 0, 0]
    assert CONFIG.latency < counted[0] < CONFIG.latency + 16
    assert error == 0
    assert await ask(Command.COUNTERS, 1) == data
    assert await ask(Command.RESULTS, 2, address(1) + address(3)) == product(A, B)
    assert await ask(Command.RESULTS, 3, address(2) + address(1)) == product(A[1:2], B)
    assert await ask(Command.RESULTS, 4, address(2) + address(0)) == b""


@told
async def test_tiles_that_are_added_up_and_keep_their_weights(ask: Ask) -> None:
    await load(ask, 0)
    # Two sums of one tile each, the second one with the weights of the first; then one of two tiles.
    tiles = tile(weights=2, activations=5) + tile(activations=7, beats=1, keep=True)
    tiles += tile(weights=2, activations=5, emit=False) + tile(weights=2, activations=6, add=True)
    await ask(Command.RUN, 3, address(0) + tiles)
    data = await ask(Command.RESULTS, 4, address(0) + address(5))
    assert data[:36] == product(A, B)
    # A times B for both, the second one a row later: as one product with four inner elements.
    assert data[36:] == product(np.hstack([A[:2], A[1:]]), np.vstack([B, B]))


@told
async def test_a_request_that_comes_again_is_answered_and_not_done_again(ask: Ask) -> None:
    await load(ask, 0)
    once = address(0) + tile(weights=2, activations=5, beats=3, emit=False)
    assert await ask(Command.RUN, 3, once) == await ask(Command.RUN, 3, once)
    # Had it run twice without add, the sums would be the same; with add they would not.
    more = address(0) + tile(weights=2, activations=5, beats=3, add=True)
    assert await ask(Command.RUN, 4, more) == await ask(Command.RUN, 4, more)
    for _ in range(2):
        data = await ask(Command.RESULTS, 5, address(0) + address(3))
        assert data == product(np.hstack([A, A]), np.vstack([B, B]))
    # A load whose repetition says something else: only the first one counts.
    for weights in (B[::-1], B):
        await ask(Command.WEIGHTS, 6, address(2) + weights.tobytes())
    await ask(Command.RUN, 7, address(0) + PRODUCT)
    assert await ask(Command.RESULTS, 8, address(0) + address(3)) == product(A, B)


@told
async def test_sessions_and_sequence(ask: Ask) -> None:
    await ask(Command.COUNTERS, 1, status=Status.SESSION)
    await ask(Command.COUNTERS, 1, session=0, status=Status.SESSION)
    await ask(Command.OPEN, 5, session=0, status=Status.SESSION)
    await load(ask, 5)
    for wrong in (6, 9, 5):
        await ask(Command.COUNTERS, wrong, status=Status.SEQUENCE)
    # To open the open session changes nothing, not even the number that comes next.
    await ask(Command.OPEN, 5)
    await ask(Command.RUN, 8, address(0) + PRODUCT)
    await ask(Command.OPEN, 100, session=9)
    await ask(Command.RESULTS, 9, address(0) + address(1), status=Status.SESSION)
    # The buffers are as they were; the unit is not.
    assert await ask(Command.RESULTS, 101, address(0) + address(3), session=9) == product(A, B)


REFUSALS = [
    (0, Status.COMMAND, [b""]),
    (99, Status.COMMAND, [b"abc"]),
    (Command.WEIGHTS, Status.LENGTH, [b"", b"\0", address(0) + bytes(5)]),
    (Command.WEIGHTS, Status.ADDRESS, [address(7) + bytes(12)]),
    (Command.WEIGHTS, Status.OK, [address(0x100)]),
    (Command.ACTIVATIONS, Status.ADDRESS, [address(16) + bytes(4)]),
    (Command.ACTIVATIONS, Status.LENGTH, [address(0) + bytes(3)]),
    (Command.RUN, Status.LENGTH, [b"", address(0) + tile()[:5]]),
    (Command.RUN, Status.ADDRESS, [address(0) + tile(weights=place) for place in (7, 8)]),
    (Command.RUN, Status.ADDRESS, [address(0) + tile(activations=place) for place in (15, 0x8000)]),
    (Command.RUN, Status.ADDRESS, [address(place) + tile() for place in (7, 8, 0x100)]),
    (Command.RESULTS, Status.LENGTH, [address(0)]),
    (Command.RESULTS, Status.ADDRESS, [address(0) + address(9), address(0xFFFF) + address(1)]),
    (Command.COUNTERS, Status.OK, [b"more than it wants"]),
]


@pytest.mark.slow
@told
async def test_refusals_and_that_it_goes_on(ask: Ask) -> None:
    await load(ask, 0)
    sequence = 3
    for command, status, arguments in ((number, status, each) for number, status, some in REFUSALS for each in some):
        for _ in range(2):
            await ask(command, sequence, arguments, status=status)
        sequence += status != Status.COMMAND
        await fill(ask, sequence)
        await ask(Command.RUN, sequence + 2, address(0) + PRODUCT)
        assert await ask(Command.RESULTS, sequence + 3, address(0) + address(3)) == product(A, B)
        sequence += 4


@told
async def test_a_damaged_frame_and_mistakes_of_a_program(ask: Ask) -> None:
    await load(ask, 0)
    frame = bytearray(request(Command.COUNTERS, SESSION, 3))
    frame[2] ^= 4
    await ask(0, 0, session=0, frame=bytes(frame), status=Status.FRAME)
    await ask(Command.COUNTERS, 3)
    data = await ask(Command.RUN, 4, address(0) + tile(keep=True))
    assert struct.unpack("<4IB", data)[-1] == 7  # weights that nobody sent
    data = await ask(Command.RUN, 5, address(0) + tile(beats=5))
    assert struct.unpack("<4IB", data)[-1] == 5  # a tile longer than the accumulator bank


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
        for _ in range(2):
            await ask(Command.RUN, 3, address(0) + tiles, status=Status.HANG)
        await ask(Command.RUN, 4, address(0) + tile(weights=2, activations=5))
        assert await ask(Command.RESULTS, 5, address(0) + address(2)) == product(A[:2], B)

    in_simulator(Soc(CONFIG, BUFFERS))(story)


@pytest.mark.slow
def test_without_counters() -> None:
    async def story(ask: Ask) -> None:
        await load(ask, 0)
        assert await ask(Command.RUN, 3, address(0) + tile(keep=True)) == bytes(16) + b"\x07"

    in_simulator(Soc(CONFIG, BUFFERS, counters=False))(story)


@pytest.mark.parametrize(("rows", "columns", "name", "depth"), [(3, 1, "fp8_e4m3", 4), (1, 2, "tf32", 2)])
def test_beats_of_other_widths(rows: int, columns: int, name: str, depth: int) -> None:
    source = FloatFormat.parse(name)
    config = MxuConfig(rows=rows, columns=columns, stages=1, operand=source, source=source, depth=depth)
    width, one = source.width, source.bias << source.fraction_width
    beats = [sum(one << lane * width for lane in range(words)) for words in (columns, rows)]
    sizes = [-(-width * words // 8) for words in (columns, rows)]

    async def story(ask: Ask) -> None:
        await ask(Command.OPEN, 0)
        weights, activations = (beat.to_bytes(size, "little") for beat, size in zip(beats, sizes, strict=True))
        await ask(Command.WEIGHTS, 1, address(0) + weights * rows)
        await ask(Command.ACTIVATIONS, 2, address(0) + activations)
        await ask(Command.RUN, 3, address(0) + tile(beats=1))
        data = await ask(Command.RESULTS, 4, address(0) + address(1))
        assert np.frombuffer(data, dtype="<f4").tolist() == [rows] * columns

    in_simulator(Soc(config, BUFFERS))(story)
