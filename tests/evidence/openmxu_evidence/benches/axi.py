"""Bench of the unit on a bus: cocotbext-axi's sources, sink and register master at its ports."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles, tiles
from openmxu.unit.axi import IDENTITY, Register
from openmxu.unit.status import Error
from openmxu_evidence.benches.task import Task
from openmxu_sim.cosim.clocking import PERIOD, within
from openmxu_sim.operands import vectors
from openmxu_sim.operands.reference import AnyBeats, first_mistake, product_sums, results_of
from openmxu_sim.operands.stimulus import collect, stimulus

TASK = Task.of_environment()
CONFIG = TASK.component().config

CONSTANT = {
    Register.ID: IDENTITY,
    Register.SIZE: CONFIG.rows | CONFIG.columns << 16,
    Register.FORMAT: CONFIG.stages
    | CONFIG.operand.exponent_width << 4
    | (CONFIG.subnormals == "ieee") << 8
    | CONFIG.splitter << 9
    | CONFIG.operand.fraction_width << 10
    | (not CONFIG.operand.has_infinity) << 15
    | CONFIG.source.width << 16
    | CONFIG.result.width << 24,
    Register.DEPTH: CONFIG.depth,
    Register.CONTROL: 0,
    Register.LATENCY: CONFIG.latency,
    Register.SHORTEST_TILE: CONFIG.shortest_tile,
    Register.ACCUMULATE: 8 << 4 | 23 << 10 | [1, 2, 4, 8].index(CONFIG.terms) << 16,
    Register.VERSION: int.from_bytes(map(int, version("openmxu").split(".")[:3])),
}
"""Values of the registers that are constant."""

_EMIT = 1 << 2
"""TUSER of activations whose results leave."""


class Testbench:
    """The unit with everything that is connected to it; without a ``master``, a test drives the registers' port."""

    def __init__(self, dut: Any, *, master: bool = True) -> None:
        self._dut = dut
        self.generator = np.random.default_rng(TASK.seed)
        reset = {"reset": dut.aresetn, "reset_active_level": False}
        self.weights = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_weights"), dut.aclk, **reset)
        self.activations = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_activations"), dut.aclk, **reset)
        self.results = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_results"), dut.aclk, **reset)
        if master:
            self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, **reset)

    async def start(self) -> None:
        """Start the clock, and reset."""
        self._dut.aresetn.value = 0
        self._dut.aclk.value = 0
        Clock(self._dut.aclk, PERIOD, unit="ns").start()
        await self.reset()

    async def reset(self) -> None:
        """Reset unit and bus; beats on their way are forgotten."""
        self._dut.aresetn.value = 0
        await ClockCycles(self._dut.aclk, 3)
        for end in (self.weights, self.activations, self.results):
            end.clear()
        self._dut.aresetn.value = 1
        await RisingEdge(self._dut.aclk)

    def pause(self, *, yes: bool) -> None:
        """Let all streams wait now and then, or never."""
        for seed, end in enumerate((self.weights, self.activations, self.results)):
            end.clear_pause_generator()
            end.pause = False
            if yes:
                end.set_pause_generator(_pauses(seed))

    async def read(self, register: Register) -> int:
        """Return the content of a register."""
        answer = await self.registers.read(register, 4)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    def send(self) -> tuple[Any, tuple[int, int, int, str]]:
        """Send all packets of a product of random size and precision; returns its result, size and precision."""
        generator = self.generator
        most = min(CONFIG.depth, 16), CONFIG.rows, CONFIG.columns
        m, k, n = (int(generator.integers(1, 3 * size, endpoint=True)) for size in most)
        choice = list(PASSES) if CONFIG.has_passes else ["default"]
        precision = str(generator.choice(choice))
        fmt, seed = CONFIG.source.name, int(generator.integers(1 << 30))
        a, b = vectors.matrix((m, k), fmt, seed), np.ascontiguousarray(vectors.matrix((n, k), fmt, seed + 1).T)
        for block in stimulus(CONFIG, a, b, precision).blocks():
            first = dict(zip(MARKS, block.marks[0].tolist(), strict=True))
            if not first["keep"]:
                self.weights.send_nowait(_packet(block.weights, block.weight_part))
            self.activations.send_nowait(_packet(block.activations, _user(first) | block.activation_part << 4))
        return results_of(CONFIG, product_sums(CONFIG, a, b, precision)[:, :n]), (m, k, n, precision)

    def send_any(self, count: int) -> tuple[Any, Error]:
        """Send about so many beats, with any TUSER and TLAST; returns the results, and the first mistake."""
        reference, generator, fmt = AnyBeats(CONFIG), self.generator, CONFIG.source.name
        sent: list[dict[str, bool]] = []
        results = []
        while len(sent) < count:
            rows = int(generator.integers(1, CONFIG.depth + 3 if generator.random() < 0.1 else 5))
            words = vectors.matrix((rows, CONFIG.rows), fmt, int(generator.integers(1 << 30)))
            marks = dict.fromkeys(MARKS, False)
            users = []
            for row, activations in enumerate(words):
                if row == 0 or generator.random() < 0.1:
                    marks |= {name: bool(generator.random() < 0.5) for name in TILE_MARKS}
                marks |= {"first": row == 0, "last": row == rows - 1}
                marks["keep"] &= reference.may_keep
                if marks["first"] and not marks["keep"]:
                    block = vectors.matrix((CONFIG.rows, CONFIG.columns), fmt, int(generator.integers(1 << 30)))
                    reference.load(block)
                    self.weights.send_nowait(_packet(block[::-1], 0))
                marks["emit"] |= marks["last"] and len(sent) >= count - 1
                marks["add"] &= reference.may_add(marks)
                result = reference.feed(activations, marks)
                if marks["emit"]:
                    results.append(result)
                users.append(_user(marks))
                sent.append(dict(marks))
            self.activations.send_nowait(_packet(words, users))
        return np.array(results), first_mistake(sent, CONFIG.depth)

    async def receive_all(self, expected: Any) -> None:
        """Compare results, wherever packets end."""
        got: list[Any] = []
        while len(got) < len(expected):
            packet = await self.results.recv()
            words = np.frombuffer(bytes(packet.tdata), dtype=f"<u{CONFIG.result.width // 8}")
            got.extend(words.reshape(-1, CONFIG.columns).astype(np.uint32))
        wrong = np.argwhere(np.array(got) != expected)
        assert not len(wrong), f"{len(wrong)} words are wrong, the first at {wrong[0]}, seed {TASK.seed}"

    async def receive(self, expected: Any, drawn: tuple[int, int, int, str]) -> None:
        """Compare all packets of a result."""
        m, k, n, precision = drawn
        beats = []
        for tile in tiles(CONFIG, m, k, n, precision):
            if tile.emit:
                packet = await self.results.recv()
                words = np.frombuffer(bytes(packet.tdata), dtype=f"<u{CONFIG.result.width // 8}")
                assert len(words) == len(tile.activations) * CONFIG.columns, f"beats of a packet of {drawn}"
                beats.append(words.reshape(-1, CONFIG.columns).astype(np.uint32))
        got = collect(CONFIG, np.concatenate(beats), m, k, n)
        wrong = np.argwhere(got != expected)
        assert not len(wrong), f"{drawn}: {len(wrong)} words are wrong, the first at {wrong[0]}, seed {TASK.seed}"


def _user(marks: Mapping[str, int]) -> int:
    """Return TUSER of a beat of activations, without the part."""
    return marks["add"] | marks["clear_nan"] << 1 | marks["emit"] << 2 | marks["keep"] << 3


def _packet(words: Any, user: Any) -> AxiStreamFrame:
    """Return beats of words as bytes; ``user``: TUSER of all beats, or of each."""
    data = words.astype(f"<u{CONFIG.source.width // 8}").tobytes()
    users = np.repeat(user, len(data) // np.size(user)).tolist()
    return AxiStreamFrame(data, tuser=users)


def _pauses(seed: int) -> Iterator[bool]:
    generator = np.random.default_rng(seed)
    while True:
        yield from (generator.random(64) < generator.choice([0.0, 0.2, 0.9])).tolist()


@cocotb.test()
async def what_it_is(dut: Any) -> None:
    """Registers describe the unit; other addresses answer with an error, and nothing but commands can be written."""
    bench = Testbench(dut)
    await bench.start()
    for register, value in CONSTANT.items():
        assert await bench.read(register) == value
    for address in (0x38, 0x3C):
        answer = await bench.registers.read(address, 4)
        assert (answer.resp, bytes(answer.data)) == (AxiResp.SLVERR, bytes(4))
    for register in (Register.ID, Register.CYCLES):
        assert (await bench.registers.write(register, bytes(4))).resp == AxiResp.SLVERR
    assert (await bench.registers.write(Register.CONTROL, bytes(4))).resp == AxiResp.OKAY


@cocotb.test()
async def registers_with_pauses(dut: Any) -> None:
    """Many reads and writes at once, with pauses on all channels: each has its answer, in order."""
    bench = Testbench(dut)
    await bench.start()
    reads, writes = bench.registers.read_if, bench.registers.write_if
    channels = (reads.ar_channel, reads.r_channel, writes.aw_channel, writes.w_channel, writes.b_channel)
    for seed, channel in enumerate(channels):
        channel.set_pause_generator(_pauses(seed))
    chosen = [Register(int(value)) for value in bench.generator.choice(list(CONSTANT), 60)]
    asked = [cocotb.start_soon(bench.read(register)) for register in chosen]
    targets = [int(address) for address in bench.generator.choice([Register.ID, Register.CONTROL, 0x3C], 60)]
    written = [cocotb.start_soon(bench.registers.write(address, bytes(4))) for address in targets]
    for register, answer in zip(chosen, asked, strict=True):
        assert await within(4000, answer, "all reads") == CONSTANT[register]
    for address, response in zip(targets, written, strict=True):
        expected = AxiResp.OKAY if address == Register.CONTROL else AxiResp.SLVERR
        assert (await within(4000, response, "all writes")).resp == expected


class Bus:
    """A master that sends any requests: any address, each channel on its own."""

    def __init__(self, dut: Any, seed: int) -> None:
        self._dut = dut
        self._seed = seed
        self._edge = RisingEdge(dut.aclk)
        for channel in ("ar", "aw", "w"):
            self._port(channel, "valid").value = 0
        for channel in ("r", "b"):
            self._port(channel, "ready").value = 0

    async def read(self, addresses: Iterable[int]) -> list[tuple[int, ...]]:
        """Read from addresses; returns data and response of each, in order."""
        asked = [{"addr": address} for address in addresses]
        cocotb.start_soon(self._ask("ar", asked))
        return await self._answers("r", ("data", "resp"), len(asked))

    async def write(self, addresses: Iterable[int], words: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
        """Write words with strobes to addresses; returns the responses, in order."""
        asked = [{"addr": address} for address in addresses]
        cocotb.start_soon(self._ask("aw", asked))
        cocotb.start_soon(self._ask("w", [{"data": word, "strb": strobes} for word, strobes in words]))
        return await self._answers("b", ("resp",), len(asked))

    def _port(self, channel: str, name: str) -> Any:
        return getattr(self._dut, f"s_axil_{channel}{name}")

    async def _ask(self, channel: str, requests: Iterable[Mapping[str, int]]) -> None:
        pauses = _pauses(self._seed + ord(channel[-1]))
        valid, ready = self._port(channel, "valid"), self._port(channel, "ready")
        for request in requests:
            while next(pauses):
                await self._edge
            valid.value = 1
            for name, value in request.items():
                self._port(channel, name).value = value
            await self._edge
            while not int(ready.value):
                await self._edge
            valid.value = 0
            for name in request:  # means nothing any more
                self._port(channel, name).value = int(~self._port(channel, name).value)

    async def _answers(self, channel: str, names: tuple[str, ...], count: int) -> list[tuple[int, ...]]:
        """Receive so many answers; no more may come, and one that waits must stay as it is."""
        pauses = _pauses(self._seed + ord(channel))
        valid, ready = self._port(channel, "valid"), self._port(channel, "ready")
        answers: list[tuple[int, ...]] = []
        waiting: tuple[int, ...] | None = None
        for _ in range(100 * count):
            taken = not next(pauses)
            ready.value = taken
            await self._edge
            shown = tuple(int(self._port(channel, name).value) for name in names) if int(valid.value) else None
            assert waiting in (None, shown), f"{channel} showed {waiting}, and before it was taken {shown}"
            waiting = None if taken else shown
            if taken and shown is not None:
                answers.append(shown)
        assert len(answers) == count, f"{channel}: {count} requests, {len(answers)} answers"
        return answers


@cocotb.test(skip=CONFIG.rows == 1)
async def any_requests(dut: Any) -> None:
    """Any address, data and strobes, in any order: each has its answer, and commands alone do something."""
    bench = Testbench(dut, master=False)
    bus = Bus(dut, TASK.seed)
    await bench.start()
    await bench.weights.send(_packet(np.zeros((1, CONFIG.columns), np.uint32), 0))
    await bench.weights.wait()
    holds = CONSTANT | dict.fromkeys((Register.BUSY, Register.OUTPUT_STALLS, Register.CYCLES), 0)
    holds[Register.ERROR] = int(Error.WEIGHTS_SHORT)
    draw = bench.generator.integers
    reads = [int(offset) for offset in draw(64, size=120) if offset != Register.INPUT_STALLS]
    writes = [int(Register.CONTROL) ^ int(draw(2)) * int(draw(64)) for _ in range(120)]
    # None of these is a command: another register, no byte 0, or none of its bits.
    words = [
        (
            int(draw(1 << 30)) << 2 | (int(draw(4)) if without or address != Register.CONTROL else 0),
            int(draw(8)) << 1 | (not without),
        )
        for address, without in zip(writes, draw(2, size=120), strict=True)
    ]
    reading = cocotb.start_soon(bus.read(reads))
    written = await bus.write(writes, words)
    assert written == [(AxiResp.OKAY if address == Register.CONTROL else AxiResp.SLVERR,) for address in writes]
    expected = {register.value: (value, AxiResp.OKAY) for register, value in holds.items()}
    assert await reading == [expected.get(address, (0, AxiResp.SLVERR)) for address in reads]
    assert await bus.read([Register.ERROR] * 2) == [(Error.WEIGHTS_SHORT, AxiResp.OKAY)] * 2
    assert await bus.write([Register.CONTROL], [(1, 1)]) == [(AxiResp.OKAY,)]
    assert await bus.read([Register.ERROR]) == [(Error.NONE, AxiResp.OKAY)]


@cocotb.test()
async def products(dut: Any) -> None:
    """At full speed, products take the cycles of the formula; then with pauses on all streams. One follows another."""
    bench = Testbench(dut)
    await bench.start()
    for pauses in (False, True):
        bench.pause(yes=pauses)
        for _ in range(max(1, TASK.count // 500)):
            await bench.registers.write(Register.CONTROL, (1).to_bytes(4, "little"))
            await ClockCycles(dut.aclk, 2)
            expected, drawn = bench.send()
            await within(400 * cycles(CONFIG, *drawn), bench.receive(expected, drawn), "all packets")
            beats = sum(len(tile.activations) for tile in tiles(CONFIG, *drawn))
            assert await bench.read(Register.ERROR) == Error.NONE
            assert await bench.read(Register.BUSY) == beats
            if not pauses:
                assert await bench.read(Register.CYCLES) == cycles(CONFIG, *drawn)
                assert await bench.read(Register.INPUT_STALLS) == 0


@cocotb.test()
async def latency_is_what_the_register_says(dut: Any) -> None:
    """The latency of one beat into an empty unit, counted at the ports."""
    bench = Testbench(dut)
    await bench.start()
    latency = await bench.read(Register.LATENCY)
    await bench.weights.send(_packet(np.zeros((CONFIG.rows, CONFIG.columns), np.uint32), 0))
    await bench.weights.wait()
    await ClockCycles(dut.aclk, CONFIG.latency)
    bench.activations.send_nowait(_packet(np.zeros((1, CONFIG.rows), np.uint32), _EMIT))
    taken, offered = dut.s_axis_activations_tvalid, dut.m_axis_results_tvalid
    while not int(taken.value):
        assert not int(offered.value)
        await RisingEdge(dut.aclk)
    for cycle in range(latency):
        assert not int(offered.value), f"a result after {cycle} cycles, {latency} in the register"
        await RisingEdge(dut.aclk)
    assert int(offered.value), f"no result after {latency} cycles"


@cocotb.test()
async def long_stall(dut: Any) -> None:
    """Nobody takes a result for a long time, and nothing is lost."""
    bench = Testbench(dut)
    await bench.start()
    bench.results.pause = True
    sent = [bench.send() for _ in range(3)]
    await ClockCycles(dut.aclk, 3000)
    assert bench.results.empty()
    bench.results.pause = False
    for expected, drawn in sent:
        await within(400 * cycles(CONFIG, *drawn), bench.receive(expected, drawn), "all packets")


@cocotb.test()
async def reset_in_the_middle(dut: Any) -> None:
    """After a reset at any moment nothing comes, and the next product is right."""
    bench = Testbench(dut)
    await bench.start()
    bench.pause(yes=True)
    for _ in range(6):
        bench.send()
        await ClockCycles(dut.aclk, int(bench.generator.integers(1, 6 * CONFIG.latency)))
        await bench.reset()
        assert not int(dut.m_axis_results_tvalid.value)
        assert await bench.read(Register.CYCLES) == 0
        expected, drawn = bench.send()
        await within(400 * cycles(CONFIG, *drawn), bench.receive(expected, drawn), "all packets")


@cocotb.test()
async def any_marks(dut: Any) -> None:
    """Whatever the marks say, each emitted beat is a result, in order, and the register has the first mistake."""
    bench = Testbench(dut)
    await bench.start()
    for attempt in range(8):
        bench.pause(yes=attempt % 2 > 0)
        expected, mistake = bench.send_any(TASK.count // 50)
        longest = 400 * (TASK.count // 50 + CONFIG.depth + CONFIG.latency)
        await within(longest, bench.receive_all(expected), "all results")
        assert await bench.read(Register.ERROR) == mistake
        await bench.reset()


@cocotb.test(skip=CONFIG.rows == 1)
async def mistakes_and_the_reset_by_register(dut: Any) -> None:
    """A block of weights of the wrong length is reported, until cleared; the register's reset leaves a clean unit."""
    bench = Testbench(dut)
    await bench.start()
    for rows, error in ((CONFIG.rows - 1, Error.WEIGHTS_SHORT), (CONFIG.rows + 1, Error.WEIGHTS_LONG)):
        words = np.zeros((rows, CONFIG.columns), np.uint32)
        await bench.weights.send(_packet(words, 0))
        await bench.weights.wait()
        await ClockCycles(dut.aclk, 4)
        assert await bench.read(Register.ERROR) == error
        await bench.registers.write(Register.CONTROL, (1).to_bytes(4, "little"))
        await ClockCycles(dut.aclk, 2)
        assert await bench.read(Register.ERROR) == Error.NONE
        await bench.registers.write(Register.CONTROL, (2).to_bytes(4, "little"))
        await ClockCycles(dut.aclk, 2)
        expected, drawn = bench.send()
        await within(400 * cycles(CONFIG, *drawn), bench.receive(expected, drawn), "all packets")
        assert await bench.read(Register.ERROR) == Error.NONE
