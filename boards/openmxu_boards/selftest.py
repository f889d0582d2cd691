"""The built-in self-test: a unit between memories that hold its operands and its expected results."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.integers import check_integer
from openmxu.unit.accumulator import ResultBeat
from openmxu.unit.edge import ActivationBeat, WeightBeat
from openmxu.unit.mxu import Mxu
from openmxu_sim import golden
from openmxu_sim.golden.formats import Bits
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import stimulus

PATIENCE = 1 << 16
"""Cycles without a result after which a self-test gives up, many times longer than any stall."""


@dataclass(frozen=True)
class Program:
    """The beats of a self-test, as payloads of the unit's streams."""

    weights: tuple[int, ...]
    activations: tuple[int, ...]
    """The operands, beat by beat."""
    results: tuple[int, ...]
    """The expected results."""


def program(config: MxuConfig, *, seed: int = 0) -> Program:
    """Products that cover the functions of a unit, and their results from the golden model.

    Several tiles of each dimension, with short ones at the end; cancellation, ties, underflow and overflow;
    infinities, NaNs, zeros of both signs and subnormal numbers, multiplied each with each; a tile of one
    beat.

    Parameters
    ----------
    config
        The unit.
    seed
        The same seed gives the same operands.
    """
    rows, columns = config.rows, config.columns
    source = config.source.name

    def matrix(shape: tuple[int, int], kind: str, number: int) -> Bits:
        return vectors.matrix(shape, source, 16 * seed + number, kind=kind)

    specials = _specials(source)
    products = [
        # More rows than the accumulator bank holds, and something left over in every dimension.
        (matrix((config.depth + 4, 3 * rows + 1), "all", 0), matrix((columns + 1, 3 * rows + 1), "all", 1).T),
        (matrix((4, 2 * rows), "normal", 2), matrix((columns, 2 * rows), "normal", 3).T),
        (specials[:, np.newaxis], specials[np.newaxis, :]),
        _negative_underflow(source, columns),
        # A tile of one beat must wait for the sum that it is added to.
        (matrix((1, 2 * rows + 1), "normal", 4), matrix((1, 2 * rows + 1), "normal", 5).T),
    ]
    parts = [_play(config, a, b) for a, b in products]
    return Program(
        weights=tuple(beat for part in parts for beat in part.weights),
        activations=tuple(beat for part in parts for beat in part.activations),
        results=tuple(beat for part in parts for beat in part.results),
    )


def _specials(fmt: str) -> Bits:
    """Special values, to be multiplied each with each."""
    layout = golden.find_format(fmt)
    sign, infinity, one = layout.sign_bit, layout.overflow, layout.bias << layout.fraction_width
    values = [sign, infinity, sign | infinity, layout.canonical_nan]  # -0 first
    values += [sign | 1, 1 << layout.fraction_width, sign | (infinity - 1), one]  # the smallest, the largest, and 1
    return np.array(values, dtype=np.uint32)


def _negative_underflow(fmt: str, columns: int) -> tuple[Bits, Bits]:
    """A difference between two of the smallest normal numbers, which becomes -0 where it is flushed."""
    layout = golden.find_format(fmt)
    lowest_normal = 1 << layout.fraction_width
    one = layout.bias << layout.fraction_width
    a = np.array([[lowest_normal, layout.sign_bit | lowest_normal | 1 << (layout.fraction_width - 1)]])
    return a.astype(np.uint32), np.full((2, columns), one, dtype=np.uint32)


def expected(config: MxuConfig, a: Bits, b: Bits, fmt: str) -> Bits:
    """The product of matrices of a format, by the golden model of a unit."""
    product = golden.matmul(
        golden.from_bits(a, fmt),
        golden.from_bits(b, fmt),
        rows=config.rows,
        subnormals=config.subnormals,
        terms=config.terms,
        operand=config.operand.name,
        result=config.result.name,
    )
    return golden.to_bits(product)


def _play(config: MxuConfig, a: Bits, b: Bits) -> Program:
    """The beats and the expected results of one product."""
    beats = stimulus(config, a, b)
    # Surplus columns of the unit are part of its results, too: their weights are -0.
    surplus = -b.shape[1] % config.columns
    b = np.pad(b, ((0, 0), (0, surplus)), constant_values=1 << (config.source.width - 1))
    sums = expected(config, a, b, config.source.name)
    results = []
    for left in range(0, b.shape[1], config.columns):
        for top in range(0, len(a), config.depth):
            block = sums[top : top + config.depth, left : left + config.columns]
            words = [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in block]
            words[-1] |= 1 << (32 * config.columns)
            results += words
    return Program(
        weights=tuple(beats.weight_payloads()), activations=tuple(beats.activation_payloads()), results=tuple(results)
    )


class RomSource(wiring.Component):
    """A stream that repeats the beats of a read-only memory for ever; ``o_final`` marks the last one.

    ::

        address ─▶ memory ─▶ its output register ─▶ register ─▶ o

    A block memory takes half of a fast clock's period from clock edge to output; so another register follows. From the
    cycle after ``i_wait`` on, no new beat is offered.

    Latency: two cycles from reset to the first beat. Throughput: one beat per cycle. Back-pressure:
    ``o.ready`` may stay low for any time; a beat that is offered stays so until it is taken.
    """

    def __init__(self, shape: Any, beats: Sequence[int]) -> None:
        super().__init__({"i_wait": In(1), "o": Out(stream.Signature(shape)), "o_final": Out(1)})
        self._width = len(Value.cast(self.o.payload))
        domain = f"beats must be one or more integers of {self._width} bits"
        try:
            self._beats = [operator.index(beat) for beat in beats]
        except TypeError:
            raise TypeError(f"{domain}, not {beats!r}") from None
        if not self._beats:
            raise ValueError(f"{domain}, not {beats!r}")
        for beat in self._beats:
            if not 0 <= beat < 1 << self._width:
                raise ValueError(f"{domain}, not {beat:#x}")

    def elaborate(self, platform: object) -> Module:
        """Each register holds its beat until the next one has room."""
        m = Module()
        # Small memories would become logic, which is scarcer on small devices than block memory.
        m.submodules.memory = memory = Memory(
            shape=self._width, depth=len(self._beats), init=self._beats, attrs={"rom_style": "block"}
        )
        port = memory.read_port()
        address = Signal(range(len(self._beats)))
        last = len(self._beats) - 1
        read = Signal()
        read_final = Signal()
        room = Signal()
        fetch = Signal()
        m.d.comb += [
            room.eq(self.o.ready | ~self.o.valid),
            fetch.eq(~read | room & ~self.i_wait),
            port.addr.eq(address),
            port.en.eq(fetch),
        ]
        with m.If(fetch):
            m.d.sync += [address.eq(Mux(address == last, 0, address + 1)), read.eq(1), read_final.eq(address == last)]
        with m.If(room):
            m.d.sync += [
                self.o.valid.eq(read & ~self.i_wait),
                Value.cast(self.o.payload).eq(port.data),
                self.o_final.eq(read_final),
            ]
        return m


class StallPattern(wiring.Component):
    """Pseudo-random waits for three streams, the same after every reset.

    For a spell of :attr:`SPELL` cycles at a time a stream flows freely (every second spell), waits in every
    second cycle at random, or waits all the time (a quarter of the spells each). A linear feedback shift
    register of 16 bits decides, so no stream waits for more than 16 spells on end. A bit of ``o`` is a stream's.
    """

    SPELL = 32
    """Cycles, a power of two and so coprime to the register's period, so that spells take all its states."""

    def __init__(self) -> None:
        super().__init__({"o": Out(3)})

    def elaborate(self, platform: object) -> Module:
        """Two bits of the register are a stream's spell, one is its noise."""
        m = Module()
        noise = Signal(16, init=1)
        cycle = Signal(range(self.SPELL))
        spell = Signal(6)
        # The polynomial x^16 + x^15 + x^13 + x^4 + 1 is primitive.
        feedback = noise[15] ^ noise[14] ^ noise[12] ^ noise[3]
        m.d.sync += [noise.eq(Cat(feedback, noise)), cycle.eq(cycle + 1)]
        with m.If(cycle == 0):
            m.d.sync += spell.eq(noise)
        m.d.comb += self.o.eq(Cat(spell[2 * index] & (spell[2 * index + 1] | noise[5 * index]) for index in range(3)))
        return m


class SelfTest(wiring.Component):
    """A unit that plays a program from memories, over and over, and compares every bit of its results.

    All three streams of the unit wait now and then, see :class:`StallPattern`, so that no round is like the
    one before. Once ``fail`` is set, it stays set until reset; so does ``pass_`` unless ``fail`` is set.

    Parameters
    ----------
    config
        The unit.
    contents
        Operands and expected results; by default :func:`program` of the unit.
    blink
        ``heartbeat`` changes after every ``2 ** blink`` rounds.
    patience
        Cycles without a result after which ``fail`` is set.

    Members
    -------
    pass_ : Out(1)
        At least one round is complete and there was no wrong result yet.
    fail : Out(1)
        A result was wrong, or none came for ``patience`` cycles.
    heartbeat : Out(1)
        Changes as long as rounds are completed, whether right or wrong.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    def __init__(
        self, config: MxuConfig, contents: Program | None = None, *, blink: int = 0, patience: int = PATIENCE
    ) -> None:
        self.config = config
        self.contents = program(config) if contents is None else contents
        self.blink = check_integer("blink", blink, 0)
        self.patience = check_integer("patience", patience, 1)
        super().__init__({"pass_": Out(1), "fail": Out(1), "heartbeat": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Memories on the unit's inputs, and a memory to compare its results with."""
        m = Module()
        config = self.config
        m.submodules.weights = weights = RomSource(
            WeightBeat(config.source, config.columns, parts=config.splitter), self.contents.weights
        )
        m.submodules.activations = activations = RomSource(
            ActivationBeat(config.source, config.rows, parts=config.splitter), self.contents.activations
        )
        m.submodules.expected = expected = RomSource(ResultBeat(config.result, config.columns), self.contents.results)
        m.submodules.stalls = stalls = StallPattern()
        m.submodules.unit = unit = Mxu(config)
        wiring.connect(m, weights.o, unit.weights)
        wiring.connect(m, activations.o, unit.activations)

        taken = Signal()
        m.d.comb += [
            Cat(weights.i_wait, activations.i_wait).eq(stalls.o[:2]),
            unit.results.ready.eq(expected.o.valid & ~stalls.o[2]),
            expected.o.ready.eq(unit.results.valid & ~stalls.o[2]),
            taken.eq(unit.results.valid & unit.results.ready),
        ]

        # One cycle for the comparison of all bits, another one for its consequences.
        result, wanted = Value.cast(unit.results.payload), Value.cast(expected.o.payload)
        wrong = Signal()
        complete = Signal()
        idle = Signal(range(self.patience + 1))
        rounds = Signal(self.blink + 1)
        finished = Signal()
        m.d.sync += [
            wrong.eq(taken & (result != wanted)),
            complete.eq(taken & expected.o_final),
            idle.eq(Mux(taken, 0, idle + 1)),
            rounds.eq(rounds + complete),
            finished.eq(finished | complete),
        ]
        with m.If(wrong | (idle == self.patience)):
            m.d.sync += self.fail.eq(1)
        m.d.comb += [self.pass_.eq(finished & ~self.fail), self.heartbeat.eq(rounds[-1])]
        return m
