"""Bench of the processing element."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import cocotb
import numpy as np

from openmxu.unit.pe import ProcessingElement
from openmxu_evidence.benches.task import Task
from openmxu_sim.cosim.clocking import start_clock
from openmxu_sim.cosim.rigid import play
from openmxu_sim.cosim.scoreboard import check
from openmxu_sim.cosim.words import pack, unpack
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.reference import element_sums, element_words

INPUTS = ("i_activation", "i_swap", "i_load", "i_weight", "i_psum")
OUTPUTS = ("o_activation", "o_swap", "o_load", "o_weight", "o_psum")


def held(values: Words, marks: Words) -> Words:
    """Return a register's content after each cycle; it takes ``values`` over where ``marks`` are set, as in cycle 0."""
    latest = np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))
    return values[latest]


def shifted_in(values: Words, marks: Words, length: int) -> Words:
    """Return a chain's contents likewise, (cycles, length), the last value first; marks are set until it is full."""
    values, taken = values[marks != 0], np.cumsum(marks, dtype=np.int64)
    return values[np.maximum(taken[:, np.newaxis] - 1 - np.arange(length), 0)]


def near_cancellation(products: Words, generator: np.random.Generator) -> Words:
    """Return numbers that cancel ``products`` exactly, or up to a few ulps."""
    ulps = generator.integers(-3, 4, size=len(products)) * generator.integers(2, size=len(products))
    return ((products ^ 0x8000_0000) + ulps).astype(np.uint32)


@dataclass(frozen=True)
class Cycles:
    """Inputs of a processing element in each cycle, and their expected results."""

    activations: Words
    """(cycles, terms): those that enter together."""
    weights: Words
    loads: Words
    swaps: Words
    """Weights and marks."""
    psums: Words
    """The partial sum that meets the products of this cycle's activations."""
    shadow: Words
    """(cycles, terms): contents of the shadow registers at the end of the cycle."""
    products: Words
    sums: Words
    """What this cycle's activations add to +0, or to -0 with one term; and their partial sum."""


def draw(pe: ProcessingElement, count: int, seed: int) -> Cycles:
    """Draw new operands for every cycle, with weights loaded and swapped at any time."""
    generator = np.random.default_rng(seed)
    operand, terms = pe.operand.name, pe.terms
    activations, weights = vectors.pairs(operand, count, seed)
    # Marks are dense in some spells and rare in others, and may come together.
    share = np.repeat(generator.choice([0.02, 0.2, 0.8], size=(2, count // 50 + 1)), 50, axis=1)[:, :count]
    loads, swaps = (generator.random((2, count)) < share).astype(np.uint32)
    loads[:terms] = swaps[terms] = 1  # earlier contents of registers do not matter

    shadow = shifted_in(weights, loads, terms)
    # A swap takes what the shadow registers held before a load in the same cycle.
    active = held(np.concatenate([shadow[:1], shadow[:-1]]), np.concatenate([[1], swaps[1:]]))
    activations = activations[:, np.newaxis]
    if terms > 1:
        activations = np.concatenate([activations, vectors.matrix((count, terms - 1), operand, seed + 2)], axis=1)
        meet = generator.random((count, 1)) < 0.8
        activations = np.where(meet, vectors.matching(operand, active, seed + 3), activations)
        # Infinities and zeros in any term, which are otherwise rare, and what differs from these in a bit.
        flipped = np.uint32(1) << generator.integers(pe.operand.width + 1, size=activations.shape, dtype=np.uint32)
        edges = generator.integers(2, size=activations.shape, dtype=np.uint32) * pe.operand.overflow ^ flipped
        is_edge = generator.random(activations.shape) < 0.05
        activations = np.where(is_edge, edges & (1 << pe.operand.width) - 1, activations)
    sums_of = partial(element_sums, a=activations, b=active, operand=operand, subnormals=pe.subnormals)
    products = sums_of(np.full(count, 0 if terms > 1 else 0x8000_0000, dtype=np.uint32))
    psums = vectors.canonical(
        np.where(
            generator.random(count) < 0.8,
            vectors.partners("fp32", products, seed + 1),
            near_cancellation(products, generator),
        )
    )
    return Cycles(activations, weights, loads, swaps, psums, shadow, products, sums_of(psums))


@cocotb.test()
async def every_cycle(dut: Any) -> None:
    """New operands in every cycle, weights loaded and swapped at any time; all outputs are compared."""
    task = Task.of_environment()
    pe = task.component()
    count = 4 * task.count  # a cycle tries one sum only
    cycles = draw(pe, count, task.seed)
    for name in INPUTS:
        getattr(dut, name).value = 0
    await start_clock(dut, cycles=pe.latency + 2)
    assert not int(dut.o_swap.value)
    assert not int(dut.o_load.value)
    # A partial sum comes when its product is ready.
    early = pe.latency - pe.psum_latency
    inputs = {
        "i_activation": pack(element_words(pe, cycles.activations), len(pe.i_weight)),
        "i_swap": cycles.swaps.tolist(),
        "i_load": cycles.loads.tolist(),
        "i_weight": element_words(pe, cycles.weights).tolist(),
        "i_psum": [0] * early + cycles.psums.tolist(),
    }
    inputs = {name: values + [0] * (early + count - len(values)) for name, values in inputs.items()}
    compare(pe, cycles, await play(dut, inputs, OUTPUTS, more=pe.psum_latency), task.seed)


def compare(pe: ProcessingElement, cycles: Cycles, seen: dict[str, list[int]], seed: int) -> None:
    """Compare each output, from its latency on, with its expected words."""
    operand = pe.operand.name if pe.subnormals == "flush" else ""
    count, word = len(cycles.activations), len(pe.i_weight)
    expected = {
        "o_activation": (element_words(pe, cycles.activations), 1, operand),
        "o_swap": (cycles.swaps, 1, ""),
        "o_load": (cycles.loads, 1, ""),
        "o_weight": (element_words(pe, cycles.shadow[:, -1]), 1, operand),
        "o_psum": (cycles.sums, pe.latency, "fp32"),
    }
    for name, (words, latency, fmt) in expected.items():
        first = pe.terms if name == "o_psum" else pe.terms - 1 if name == "o_weight" else 0  # not loaded before
        width = word if name == "o_activation" else 32
        lanes = words.size // count
        operands = [cycles.psums, cycles.products] if name == "o_psum" else [words.ravel()]
        check(
            name,
            unpack(seen[name][latency : latency + count], width, lanes).ravel()[first:],
            words.ravel()[first:],
            fmt=fmt,
            operands=[values[first:] for values in operands],
            operand=fmt,
            cycles=np.repeat(range(latency, latency + count), lanes)[first:].tolist(),
            seed=seed,
        )
