"""The arithmetic operations: their ports, operands and functions of the golden model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openmxu.spec.passes import Part
from openmxu_evidence.benches.task import Task
from openmxu_sim import golden
from openmxu_sim.cosim.clocking import start_clock
from openmxu_sim.cosim.rigid import play
from openmxu_sim.cosim.scoreboard import check
from openmxu_sim.golden.passes import split
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Words

_CORNER_SHARE = 5
"""Most pairs of corners for each random vector; wide formats have half a million."""


@dataclass(frozen=True)
class Operation:
    """An arithmetic operation."""

    inputs: Sequence[str]
    """Names of the operands' ports."""
    operand: str
    result: str
    """Names of formats; ``""`` for integers."""
    expected: Callable[..., Words]
    """The golden model: results for arrays of operands."""
    corners: Callable[[int, int], Sequence[Words]]
    """Arrays of corners, crossed with each other. Called with the most pairs to draw among all corners, and a seed."""
    random: Callable[[int, int], Sequence[Words]]
    """Arrays of random operands of every sort. Called with their number, and a seed."""

    def operands(self, task: Task) -> list[Words]:
        """Return corners, then random operands: an array for each port."""
        sets = self.corners(_CORNER_SHARE * task.count, task.seed), self.random(task.count, task.seed)
        return [np.concatenate(arrays) for arrays in zip(*sets, strict=True)]


def _crossed(values: Words, most: int, seed: int) -> tuple[Words, Words]:
    """Return all pairs of values, or a random choice of ``most`` of them."""
    pairs = np.arange(len(values) ** 2)
    if len(pairs) > most:
        pairs = np.random.default_rng(seed).choice(pairs, most, replace=False)
    first, second = np.divmod(pairs, len(values))
    return values[first], values[second]


def _corner_pairs(fmt: str, most: int, seed: int) -> list[Words]:
    """Return all pairs of corners that are no ties, and ``most`` pairs of all corners."""
    landmarks = vectors.corners(fmt, ties=False)
    some, others = _crossed(landmarks, len(landmarks) ** 2, seed), _crossed(vectors.corners(fmt), most, seed)
    return [np.concatenate(both) for both in zip(some, others, strict=True)]


def product(unit: Any) -> Operation:
    """The product of two significands."""

    def random(count: int, seed: int) -> tuple[Words, Words]:
        a, b = np.random.default_rng(seed).integers(1 << unit.width, size=(2, count), dtype=np.uint32)
        return a, b

    def corners(most: int, seed: int) -> tuple[Words, Words]:
        powers = 1 << np.arange(unit.width + 1, dtype=np.uint32)
        return _crossed(np.unique([powers - 1, powers >> 1]).astype(np.uint32), most, seed)

    return Operation(("i_a", "i_b"), "", "", np.multiply, corners, random)


def multiplication(unit: Any) -> Operation:
    """``o = i_a · i_b``."""
    operand, result = unit.operand.name, unit.result.name
    return Operation(
        ("i_a", "i_b"),
        operand,
        result,
        lambda a, b: golden.multiply(a, b, operand, result, subnormals=unit.subnormals),
        lambda most, seed: _corner_pairs(operand, most, seed),
        lambda count, seed: vectors.pairs(operand, count, seed),
    )


def addition(unit: Any) -> Operation:
    """``o = i_a + i_b``."""
    fmt = unit.fmt.name
    return Operation(
        ("i_a", "i_b"),
        fmt,
        fmt,
        lambda a, b: golden.add(a, b, fmt, subnormals=unit.subnormals),
        lambda most, seed: _corner_pairs(fmt, most, seed),
        lambda count, seed: vectors.pairs(fmt, count, seed),
    )


def conversion(unit: Any) -> Operation:
    """``o = i`` in another format."""
    source, target = unit.source.name, unit.target.name
    return Operation(
        ("i",),
        source,
        target,
        lambda a: golden.convert(a, source, target, subnormals=unit.subnormals),
        lambda _most, _seed: (vectors.corners(source),),
        lambda count, seed: (vectors.operands(source, count, seed),),
    )


def splitting(unit: Any) -> Operation:
    """``o = part of i``."""

    def expected(words: Words, parts: Words) -> Words:
        return np.choose(parts, [split(words, name, subnormals=unit.subnormals) for name in "xhrml"]).astype(np.uint32)

    # Small numbers whose truncation leaves a subnormal, or just not: each exponent, each bit as the highest left.
    exponents, bits = np.meshgrid(np.arange(48, dtype=np.uint32) << 23, 1 << np.arange(23, dtype=np.uint32))
    # And numbers with a one in the middle part beside one in the low part.
    both = bits[:8] | 1 << 15
    small = np.concatenate(
        [*((exponents | left).ravel() for left in (bits, 2 * bits - 1)), (exponents[:8] | both).ravel()]
    )

    def corners(_most: int, _seed: int) -> tuple[Words, Words]:
        numbers = np.concatenate([vectors.corners("fp32"), small, small | 1 << 31]).astype(np.uint32)
        return np.tile(numbers, len(Part)), np.repeat(np.arange(len(Part), dtype=np.uint32), len(numbers))

    def random(count: int, seed: int) -> tuple[Words, Words]:
        parts = np.random.default_rng(seed).integers(len(Part), size=count, dtype=np.uint32)
        return vectors.operands("fp32", count, seed), parts

    return Operation(("i", "i_part"), "fp32", "bf16", expected, corners, random)


OPERATIONS: dict[str, Callable[[Any], Operation]] = {
    "product": product,
    "multiplier": multiplication,
    "adder": addition,
    "converter": conversion,
    "splitter": splitting,
}
"""The operation of each family of designs."""


async def check_rigid(dut: Any, operation: Operation, task: Task) -> None:
    """A new set of operands in every cycle, through the whole pipeline."""
    latency = task.component().latency
    operands = operation.operands(task)
    for name in operation.inputs:
        getattr(dut, name).value = 0
    if hasattr(dut, "clk"):
        await start_clock(dut, cycles=latency + 2)
    inputs = {name: words.tolist() for name, words in zip(operation.inputs, operands, strict=True)}
    seen = await play(dut, inputs, ["o"], more=latency)
    check(
        "o",
        np.array(seen["o"][latency:], dtype=np.uint32),
        operation.expected(*operands),
        fmt=operation.result,
        operands=operands,
        operand=operation.operand,
        cycles=range(latency, latency + len(operands[0])),
        seed=task.seed,
    )
