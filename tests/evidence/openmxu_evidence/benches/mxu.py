"""Bench of the matrix unit: beats on its three streams."""

from collections.abc import Iterator
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge

from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import PASSES, Part
from openmxu.spec.tiling import cycles
from openmxu.unit.status import COUNTERS, Error
from openmxu_evidence.benches.task import Task
from openmxu_sim.cosim.clocking import reset, start_clock, within
from openmxu_sim.cosim.scoreboard import Scoreboard
from openmxu_sim.cosim.stream import StreamSink, StreamSource, no_pauses, random_pauses
from openmxu_sim.cosim.words import pack
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.reference import (
    AnyBeats,
    accumulate,
    first_mistake,
    operands_of,
    product_sums,
    results_of,
    tile_sums,
    whole_tile,
)
from openmxu_sim.operands.stimulus import stimulus

TASK = Task.of_environment()
CONFIG = TASK.component().config


class Testbench:
    """The unit with both ends of its streams, and the expected contents of its accumulator bank."""

    def __init__(self, dut: Any, seed: int, *pauses: Iterator[bool]) -> None:
        self._dut = dut
        self._seed = seed
        self.generator = np.random.default_rng(seed)
        self.scoreboard = Scoreboard(
            "results", CONFIG.result.name, lanes=CONFIG.columns, operand=CONFIG.source.name, seed=seed
        )
        self.weights = StreamSource(dut, "weights", pauses[0])
        self.activations = StreamSource(dut, "activations", pauses[1])
        self.results = StreamSink(dut, "results", self.scoreboard.receive, pauses[2])
        self._bank = np.empty((0, CONFIG.columns), dtype=np.uint32)
        self._weights: tuple[Words, int] | None = None  # of the last tile that was sent, and their part
        if CONFIG.status:
            dut.status__clear.value = 0

    def start(self) -> None:
        """Start all streams."""
        for end in (self.weights, self.activations, self.results):
            end.start()

    async def play(self) -> None:
        """Start the clock and all streams, and wait until all has been through."""
        await start_clock(self._dut)
        self.start()
        await self.finish()

    def stop(self) -> None:
        """Stop all streams, and forget everything."""
        for end in (self.weights, self.activations, self.results):
            end.stop()
            end.taken.clear()
        self.scoreboard.forget()
        self._bank = self._bank[:0]
        self._weights = None

    @property
    def known(self) -> int:
        """Rows of the accumulator bank that may be added to."""
        return len(self._bank)

    def tile(self, m: int, *, add: bool, clear_nan: bool = False, emit: bool, keep: bool = False) -> None:
        """Send a whole or ragged tile of random operands with ``m`` rows of activations, and expect its results."""
        kind = str(self.generator.choice(["all", "all", "uniform", "normal"]))
        if not keep or self._weights is None:
            keep = False
            self._weights = self._send_ragged(kind)
        w, w_part = self._weights
        a = vectors.matrix((m, len(w)), CONFIG.source.name, int(self.generator.integers(1 << 30)), kind=kind)
        a_part = self._draw_part()
        self._send_activations(a, (add, clear_nan, emit, keep), a_part)

        begin = np.zeros((m, CONFIG.columns), dtype=np.uint32)
        activations = operands_of(CONFIG, a, CONFIG.operand, a_part)
        sums = tile_sums(CONFIG, activations, operands_of(CONFIG, w, CONFIG.weight_format, w_part), begin)
        if add:
            sums = accumulate(self._bank[:m], sums, clear_nan=clear_nan, subnormals=CONFIG.subnormals)
        self._bank = np.concatenate([sums, self._bank[m:]])
        if emit:
            columns = w.T.tolist()
            self._expect(sums, [[terms + column for column in columns] for terms in a.tolist()])
            # The bank is a ring: the next tile begins after the results.
            self._bank = self._bank[:0]

    def product(self, m: int, k: int, n: int, precision: str) -> None:
        """Send all tiles of a product of random operands, and expect its rows."""
        fmt = CONFIG.source.name
        seeds = self.generator.integers(1 << 30, size=2).tolist()
        a, b = vectors.matrix((m, k), fmt, seeds[0]), vectors.matrix((n, k), fmt, seeds[1]).T
        inputs = stimulus(CONFIG, a, b, precision)
        self.weights.send(inputs.weight_payloads())
        self.activations.send(inputs.activation_payloads())
        sums = product_sums(CONFIG, a, b, precision)
        for tile in inputs.tiles:
            if tile.emit:
                block = sums[tile.activations.start : tile.activations.stop, tile.columns.start :][:, : CONFIG.columns]
                self._expect(block, [b.T.tolist()] * len(block))

    def _expect(self, sums: Words, operands: list[list[list[int]]]) -> None:
        """Expect the results of a tile; ``operands``: of each lane of each row."""
        beats = pack(results_of(CONFIG, sums), CONFIG.result.width)
        beats[-1] |= 1 << (CONFIG.result.width * CONFIG.columns)
        for beat, lanes in zip(beats, operands, strict=True):
            self.scoreboard.expect(beat, lanes)

    def random_tiles(self, beats: int) -> None:
        """Send tiles with any marks, of any length, with about so many rows of activations; the last has results."""
        generator = self.generator
        while beats > 0:
            add = bool(self.known and generator.random() < 0.7)
            longest = self.known if add else min(CONFIG.depth, 2 * CONFIG.shortest_tile)
            m = int(generator.integers(1, longest + 1))
            beats -= m
            clear_nan, emit, keep = (generator.random(3) < (0.3, 0.4, 0.3)).tolist()
            self.tile(m, add=add, clear_nan=clear_nan, emit=beats <= 0 or emit, keep=keep)

    def any_beats(self, count: int, share: float) -> Error:
        """Send ``count`` beats, this share of them with any marks, and expect their results; returns the mistake."""
        reference, generator = AnyBeats(CONFIG), self.generator
        sent: list[dict[str, bool]] = []
        while len(sent) < count:
            begins = not sent or sent[-1]["last"]
            marks = dict(zip(MARKS, (generator.random(len(MARKS)) < 0.4).tolist(), strict=True))
            if not sent or generator.random() >= share:
                marks["first"] = begins
                if not begins:
                    marks |= {mark: sent[-1][mark] for mark in TILE_MARKS}
                marks["last"] |= not reference.may_add(marks, ahead=1)
            marks["add"] &= reference.may_add(marks)
            marks["emit"] |= len(sent) == count - 1  # when the last result is there, all have been through the unit
            marks["keep"] &= reference.may_keep
            if marks["first"] and not marks["keep"]:
                reference.load(self._send_weights())
            sent.append(marks)
            self._send_beat(reference, marks)
        return first_mistake(sent, CONFIG.depth)

    def _send_weights(self) -> Words:
        """Send a tile's random weights; returns them."""
        words = vectors.matrix((CONFIG.rows, CONFIG.columns), CONFIG.source.name, int(self.generator.integers(1 << 30)))
        for row, beat in enumerate(pack(words[::-1], CONFIG.source.width), start=1):
            self.weights.send([beat | (row == CONFIG.rows) << (CONFIG.columns * CONFIG.source.width)])
        return words

    def _send_beat(self, reference: AnyBeats, marks: dict[str, bool]) -> None:
        """Send a beat of random activations, and expect its result if it is emitted."""
        words = vectors.matrix((1, CONFIG.rows), CONFIG.source.name, int(self.generator.integers(1 << 30)))
        bits = sum(marks[mark] << bit for bit, mark in enumerate(MARKS))
        [beat] = pack(words, CONFIG.source.width)
        self.activations.send([beat | bits << (CONFIG.rows * CONFIG.source.width)])
        [result] = pack(reference.feed(words[0], marks)[np.newaxis], CONFIG.result.width)
        if marks["emit"]:
            last = marks["last"] << (CONFIG.result.width * CONFIG.columns)
            self.scoreboard.expect(result | last, [words[0].tolist()] * CONFIG.columns)

    async def finish(self, error: Error = Error.NONE) -> None:
        """Wait until all is sent and all results are there; ``error``: the expected error of the status."""

        async def done() -> None:
            while self.scoreboard.pending or self.weights.pending or self.activations.pending:
                await RisingEdge(self._dut.clk)

        beats = self.scoreboard.pending + self.weights.pending + self.activations.pending
        await within(100 * (beats + CONFIG.latency), done(), "all beats")
        if CONFIG.status:
            await FallingEdge(self._dut.clk)
            first = min([*self.weights.taken[:1], *self.activations.taken[:1]])
            cycles = self.results.taken[-1] + 1 - first
            shown = [int(getattr(self._dut, f"status__{name}").value) for name in ("cycles", "busy", "error")]
            assert shown == [cycles, len(self.activations.taken), error], "cycles, busy, error"

    async def clear(self) -> None:
        """Zero counters and error, while no beat is on its way."""
        self._dut.status__clear.value = 1
        await RisingEdge(self._dut.clk)
        self._dut.status__clear.value = 0
        for end in (self.weights, self.activations, self.results):
            end.taken.clear()

    def _draw_part(self) -> int:
        return int(self.generator.choice(len(Part) if CONFIG.splitter else 1))

    def _send_ragged(self, kind: str) -> tuple[Words, int]:
        """Send a tile's random weights, at times for fewer terms than there are rows; returns them and their part."""
        width, part = CONFIG.source.width, self._draw_part()
        ragged = self.generator.random() < 0.3
        k = int(self.generator.integers(1, CONFIG.rows + 1)) if ragged else CONFIG.rows
        w = vectors.matrix((CONFIG.columns, k), CONFIG.source.name, int(self.generator.integers(1 << 30)), kind=kind).T
        self.weights.send(
            beat | ((row == CONFIG.rows) | part << 1) << (CONFIG.columns * width)
            for row, beat in enumerate(pack(whole_tile(CONFIG, w)[::-1], width), start=1)
        )
        return w, part

    def _send_activations(self, a: Words, marks: tuple[bool, ...], part: int) -> None:
        """Send a tile's activations; ``marks``: values of :data:`TILE_MARKS`."""
        width = CONFIG.source.width
        rows = np.zeros((len(a), CONFIG.rows), dtype=np.uint32)
        rows[:, : a.shape[1]] = a
        for row, beat in enumerate(pack(rows, width)):
            bits = sum(mark << bit for bit, mark in enumerate((row == 0, row == len(a) - 1, *marks)))
            self.activations.send([beat | (bits | part << len(MARKS)) << (CONFIG.rows * width)])


@cocotb.test()
async def tiles_with_pauses(dut: Any) -> None:
    """Any tiles, with pauses on all streams."""
    bench = Testbench(dut, TASK.seed, *(random_pauses(TASK.seed + stream) for stream in range(3)))
    bench.random_tiles(TASK.count)
    await bench.play()


@cocotb.test()
async def tiles_without_pauses(dut: Any) -> None:
    """Any tiles, as fast as the unit takes them."""
    bench = Testbench(dut, TASK.seed + 10, no_pauses(), no_pauses(), no_pauses())
    bench.random_tiles(TASK.count // 2)
    await bench.play()


# In a shorter bank, tiles wait for results to leave.
@cocotb.test(skip=CONFIG.depth < CONFIG.shortest_tile + CONFIG.latency)
async def no_bubbles(dut: Any) -> None:
    """Tiles of the shortest length follow one another without a bubble; results come after the latency."""
    bench = Testbench(dut, TASK.seed + 20, no_pauses(), no_pauses(), no_pauses())
    emitted: list[bool] = []
    for tile in range(12):
        emit = tile % 4 == 3
        bench.tile(CONFIG.shortest_tile, add=tile % 4 > 0, emit=emit)
        emitted += [emit] * CONFIG.shortest_tile
    await bench.play()
    # The first tile waits for its weights.
    taken = bench.activations.taken[1:]
    assert taken == list(range(taken[0], taken[0] + len(taken)))
    due = [cycle + CONFIG.latency for cycle, emit in zip(taken, emitted[1:], strict=True) if emit]
    assert bench.results.taken == due


_SHORT = CONFIG.weights_step
"""Beats of a tile that leave time for the next one's weights, but not for a sum."""


@cocotb.test(skip=CONFIG.row_latency <= _SHORT)
async def replaced_sums_are_not_waited_for(dut: Any) -> None:
    """A tile that replaces sums follows at once, though earlier sums are still on their way."""
    bench = Testbench(dut, TASK.seed + 25, no_pauses(), no_pauses(), no_pauses())
    for last in (False, False, False, True):
        bench.tile(_SHORT, add=False, emit=last)
    await bench.play()
    taken = bench.activations.taken[1:]
    assert taken == list(range(taken[0], taken[0] + len(taken)))


@cocotb.test()
async def long_stall(dut: Any) -> None:
    """A receiver that accepts nothing stalls the unit; when it accepts results again, none is missing."""
    stalled = True

    def pauses() -> Iterator[bool]:
        while True:
            yield stalled

    bench = Testbench(dut, TASK.seed + 30, no_pauses(), no_pauses(), pauses())
    m = min(CONFIG.depth, 2 * CONFIG.shortest_tile)
    while bench.activations.pending < CONFIG.depth + 2 * m:
        bench.tile(m, add=False, emit=True)
    await start_clock(dut)
    bench.start()
    for _ in range(2 * (bench.activations.pending + CONFIG.latency)):
        await RisingEdge(dut.clk)
    # The bank is full; its output registers and the edge hold one more each.
    assert len(bench.activations.taken) == CONFIG.depth + 2
    stalled = False
    await bench.finish()


@cocotb.test()
async def reset_in_the_middle(dut: Any) -> None:
    """After a reset at any moment nothing comes out, and the next products are right."""
    await start_clock(dut)
    generator = np.random.default_rng(TASK.seed + 40)
    for attempt in range(8):
        seed = TASK.seed + 50 + 10 * attempt
        bench = Testbench(dut, seed, *(random_pauses(seed + stream) for stream in range(3)))
        bench.random_tiles(8 * CONFIG.shortest_tile)
        bench.start()
        for _ in range(generator.integers(1, 4 * CONFIG.latency)):
            await RisingEdge(dut.clk)
        bench.stop()
        await reset(dut, cycles=1 + attempt % 2)  # one is enough: no register may pass on its content in it
        await FallingEdge(dut.clk)
        assert not int(dut.results__valid.value)
        await RisingEdge(dut.clk)
        bench.random_tiles(4 * CONFIG.shortest_tile)
        bench.start()
        await bench.finish()
        bench.stop()


@cocotb.test(skip=not CONFIG.status)
async def cycles_of_products(dut: Any) -> None:
    """Products of any shape and precision take the cycles of the formula, and the unit counts them."""
    generator = np.random.default_rng(TASK.seed + 60)
    passes = list(PASSES) if CONFIG.has_passes else ["default"]
    bench = Testbench(dut, TASK.seed, no_pauses(), no_pauses(), no_pauses())
    await start_clock(dut)
    bench.start()
    for _ in range(TASK.count // 10):
        # Below and above the shortest tile that makes no bubble, and more than the accumulator bank has room for.
        tall = int(generator.choice([CONFIG.shortest_tile, 3 * CONFIG.shortest_tile]))
        m, k, n = (
            int(generator.integers(1, most, endpoint=True)) for most in (tall, 3 * CONFIG.rows, 3 * CONFIG.columns)
        )
        precision = str(generator.choice(passes))
        bench.product(m, k, n, precision)
        await bench.finish()
        assert int(dut.status__cycles.value) == cycles(CONFIG, m, k, n, precision), f"{m}x{k}x{n}, {precision}"
        assert int(dut.status__input_stalls.value) == 0
        await RisingEdge(dut.clk)
        await bench.clear()


@cocotb.test(skip=not CONFIG.status)
async def cycles_without_weights(dut: Any) -> None:
    """After a clear, tiles that keep their weights are counted from their first beat on."""
    bench = Testbench(dut, TASK.seed + 70, no_pauses(), no_pauses(), random_pauses(TASK.seed + 70))
    await start_clock(dut)
    bench.start()
    for keep in (False, True, True):
        bench.tile(CONFIG.shortest_tile, add=False, emit=True, keep=keep)
        await bench.finish()
        assert bool(bench.weights.taken) != keep
        await RisingEdge(dut.clk)
        await bench.clear()


_FIRST, _LAST, _ADD, _CLEAR_NAN, _KEEP = 1, 2, 4, 8, 32
_RIGHT = [row == CONFIG.rows - 1 for row in range(CONFIG.rows)]
_MISTAKES: tuple[tuple[Error, list[bool], list[int]], ...] = (
    (Error.WEIGHTS_SHORT, [True], []),
    (Error.WEIGHTS_SHORT, [*_RIGHT, True], []),  # it waits for a tile that does not come
    (Error.WEIGHTS_LONG, [False] * CONFIG.rows, []),
    (Error.TILE_CUT, _RIGHT, [_FIRST, _FIRST]),  # it waits for weights that do not come
    (Error.TILE_CUT, _RIGHT * 2, [_FIRST, _FIRST]),
    (Error.TILE_UNBEGUN, _RIGHT, [_FIRST | _LAST, 0]),
    (Error.TILE_LONG, _RIGHT, [_FIRST] + [0] * CONFIG.depth),
    (Error.MARKS_CHANGED, _RIGHT, [_FIRST, _ADD]),
    (Error.MARKS_CHANGED, _RIGHT, [_FIRST | _CLEAR_NAN, 0]),
    (Error.MARKS_CHANGED, _RIGHT, [_FIRST, _KEEP]),
)
"""Wrong ``last`` of beats of weights, and wrong marks of beats of activations."""


@cocotb.test(skip=not CONFIG.status or CONFIG.rows == 1)
async def mistakes_of_senders(dut: Any) -> None:
    """Each mistake is named until it is cleared, also if it waits for ever; it spoils no result; a reset ends it."""
    await start_clock(dut)
    for error, lasts, marks in _MISTAKES:
        bench = Testbench(dut, TASK.seed, no_pauses(), no_pauses(), no_pauses())
        bench.tile(min(CONFIG.depth, CONFIG.shortest_tile), add=False, emit=True)
        bench.start()
        # The status shows the first mistake: the second time there is one on each stream.
        for weights, activations in ((lasts, marks), ([True, False], [_FIRST, _FIRST, _LAST, 0])):
            bench.weights.send(last << (CONFIG.columns * CONFIG.source.width) for last in weights)
            bench.activations.send(mark << (CONFIG.rows * CONFIG.source.width) for mark in activations)
            for _ in range(4 * (len(marks) + 4 * CONFIG.rows) + 2 * CONFIG.latency):
                await RisingEdge(dut.clk)
            assert Error(int(dut.status__error.value)) == error
        assert not bench.scoreboard.pending
        stalls = int(dut.status__input_stalls.value)
        await RisingEdge(dut.clk)
        waits = int(dut.status__input_stalls.value) - stalls  # in the cycle of clear, too
        await bench.clear()
        await FallingEdge(dut.clk)
        shown = [int(getattr(dut, f"status__{name}").value) for name in (*COUNTERS, "error")]
        assert shown == [0, 0, waits, 0, Error.NONE]
        bench.stop()
        await reset(dut)
        bench.random_tiles(4 * CONFIG.shortest_tile)
        bench.start()
        await bench.finish()
        bench.stop()
        await reset(dut)


@cocotb.test(skip=not CONFIG.status)
async def weights_that_never_came(dut: Any) -> None:
    """A tile that keeps weights when there are none is named, and spoils no other tile."""
    await start_clock(dut)
    bench = Testbench(dut, TASK.seed, no_pauses(), no_pauses(), no_pauses())
    bench.activations.send([(_FIRST | _LAST | _KEEP) << (CONFIG.rows * CONFIG.source.width)])
    bench.start()
    for _ in range(2 * CONFIG.latency):
        await RisingEdge(dut.clk)
    assert Error(int(dut.status__error.value)) == Error.WEIGHTS_NONE
    await bench.clear()
    bench.random_tiles(4 * CONFIG.shortest_tile)
    await bench.finish()


@cocotb.test()
async def any_marks(dut: Any) -> None:
    """Whatever the marks say, each emitted beat is a result, in order, and earlier results stay as they were."""
    await start_clock(dut)
    for attempt in range(12):
        seed = TASK.seed + 200 + 10 * attempt
        pauses = [random_pauses(seed + stream) if attempt % 2 else no_pauses() for stream in range(3)]
        bench = Testbench(dut, seed, *pauses)
        error = bench.any_beats(TASK.count // 40, share=0.5 / (attempt + 1))
        bench.start()
        await bench.finish(error)
        bench.stop()
        await reset(dut)
