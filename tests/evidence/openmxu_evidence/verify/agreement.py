"""The engine ``compiled`` against the golden model, the cycle formula and other simulators, on random units."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP32
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles
from openmxu_sim.engines import compiled
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.reference import product_sums, results_of
from openmxu_sim.operands.stimulus import Stalls, Stimulus, collect, stimulus

_MOST_ROWS = 80
"""Most rows of a left matrix; most accumulator banks that are drawn have room for fewer."""


@dataclass(frozen=True)
class Case:
    """A product on a unit."""

    seed: int
    """Seed that the case was drawn by."""
    config: MxuConfig
    """The unit."""
    m: int
    k: int
    n: int
    """Sizes of the matrices."""
    kind: str
    """Kind of their patterns, see :func:`openmxu_sim.operands.vectors.matrix`."""
    precision: str = "default"
    """One of :data:`openmxu.spec.passes.PASSES`."""
    stalls: Stalls | None = None
    """Stalls of the streams; ``None``: no stalls."""

    def __str__(self) -> str:
        config = self.config
        options = "".join(f", {name}" for name in ("splitter", "status") if getattr(config, name))
        element = f"stages={config.stages}, terms={config.terms}, {config.subnormals}"
        return (
            f"seed {self.seed}: {config.rows}x{config.columns}, {element}, "
            f"depth {config.depth}, {config.source} to {config.result}{options}, {self.m}x{self.k}x{self.n}, "
            f"{self.kind} patterns, precision {self.precision}, {'no' if self.stalls is None else 'with'} stalls"
        )

    def stimulus(self) -> Stimulus:
        """Return the beats of the matrices on the unit."""
        source = self.config.source.name
        b = vectors.matrix((self.n, self.k), source, 2 * self.seed + 1, kind=self.kind)
        return stimulus(
            self.config,
            vectors.matrix((self.m, self.k), source, 2 * self.seed, kind=self.kind),
            np.ascontiguousarray(b.T),
            self.precision,
        )


@dataclass(frozen=True)
class Agreement:
    """Number of products and cycles compared, and the first disagreement in words; empty, if there is none."""

    products: int
    cycles: int
    first: str = ""


def draw(seed: int, sizes: range) -> Case:
    """Draw a product on a unit; each seed has its own."""
    generator = np.random.default_rng(seed)

    def pick(first: int, last: int) -> int:
        return int(generator.integers(first, last, endpoint=True))

    config = MxuConfig(
        rows=pick(sizes.start, sizes.stop - 1),
        columns=pick(sizes.start, sizes.stop - 1),
        stages=pick(1, 7),
        depth=1 << pick(1, 6),
        source=(FP32, FP32, BF16)[pick(0, 2)],
        subnormals=("flush", "ieee")[pick(0, 1)],
    )
    shape = pick(1, min(_MOST_ROWS, 4 * config.depth)), pick(1, 5 * config.rows), pick(1, 4 * config.columns)
    kind = ("all", "all", "all", "uniform")[pick(0, 3)]
    result, splitter, status = (FP32, FP32, BF16)[pick(0, 2)], pick(0, 1) == 1, pick(0, 1) == 1
    precision = ("default", *PASSES)[pick(0, len(PASSES))]
    wide = config.source == FP32
    terms = (1, 1, 2, 4, 8)[pick(0, 4)] if config.subnormals == "flush" else 1
    config = replace(config, result=result, splitter=splitter and wide, status=status)
    config = replace(config, terms=terms, rows=-(-config.rows // terms) * terms)
    return Case(seed, config, *shape, kind, precision if wide else "default")


def compare_with_golden(cases: Iterable[Case], *, engine: Callable[..., Run] = compiled.run) -> Agreement:
    """Compare bits with the golden model and cycles with the formula, without stalls and with.

    With stalls there is no formula, but they must not save a cycle. Counters must agree with the run.
    """
    products = total = 0
    for case in cases:
        inputs = case.stimulus()
        config, shape = case.config, (case.m, case.k, case.n)
        expected = results_of(config, product_sums(config, inputs.a, inputs.b, case.precision)[:, : case.n])
        formula = cycles(config, *shape, case.precision)
        for stalls in (None, Stalls(case.seed)):
            run = engine(inputs, stalls=stalls)
            products += 1
            total += run.cycles
            difference = _difference(collect(config, run.beats, *shape), expected)
            if not difference and (run.cycles < formula or (stalls is None and run.cycles != formula)):
                difference = f"{run.cycles} cycles, expected {formula}{'' if stalls is None else ' or more'}"
            if not difference and config.status:
                difference = _miscount(run, inputs, free=stalls is None)
            if difference:
                return Agreement(products, total, f"{replace(case, stalls=stalls)}: {difference}")
    return Agreement(products, total)


def compare(
    cases: Iterable[Case], other: Callable[..., Run], *, engine: Callable[..., Run] = compiled.run
) -> Agreement:
    """Compare bits and cycles with those of another engine, under stalls; words that belong to no result, too."""
    products = total = 0
    for case in cases:
        inputs, stalls = case.stimulus(), Stalls(case.seed)
        run, expected = engine(inputs, stalls=stalls), other(inputs, stalls=stalls)
        products += 1
        total += run.cycles
        difference = _difference(run.beats, expected.beats)
        if not difference and run.cycles != expected.cycles:
            difference = f"{run.cycles} cycles, expected {expected.cycles}"
        if difference:
            return Agreement(products, total, f"{replace(case, stalls=stalls)}: {difference}")
    return Agreement(products, total)


def _miscount(run: Run, inputs: Stimulus, *, free: bool) -> str:
    """Describe a wrong count of a unit; empty, if there is none."""
    beats = sum(len(tile.activations) for tile in inputs.tiles)
    counters = run.counters
    if counters is None or counters[:2] != (run.cycles, beats) or counters.error:
        return f"counters {counters}, expected {run.cycles} cycles, {beats} of them busy, and no error"
    if free and counters.input_stalls:
        return f"{counters.input_stalls} cycles stalled by input, where none was late"
    return ""


def _difference(words: Words, expected: Words) -> str:
    """Describe the first word that differs; empty, if there is none."""
    if words.shape != expected.shape:
        return f"words of shape {words.shape}, expected {expected.shape}"
    for row, column in np.argwhere(words != expected)[:1]:
        return f"word {row}, {column}: got {words[row, column]:08X}, expected {expected[row, column]:08X}"
    return ""
