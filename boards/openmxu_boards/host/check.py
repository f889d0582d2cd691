"""Check of a board's products: random matrices, compared bit by bit."""

from dataclasses import dataclass, replace

import numpy as np

from openmxu.spec.formats import FP32
from openmxu_boards.host.host import Host
from openmxu_boards.selftest import expected
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import collect, stimulus

_TILES = 3
"""The most tiles of a product in each dimension."""


@dataclass(frozen=True)
class Checked:
    """The outcome of a check of products."""

    products: int
    words: int
    """Number of products, and of words in their results."""
    wrong: int
    retries: int
    """Requests that had to be sent again."""
    seconds: float

    @property
    def right(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        return (
            f"{self.products} products, {self.words} words of results, {self.wrong} wrong; "
            f"{self.retries} requests sent again, {self.seconds:.1f} s"
        )


def check(host: Host, products: int, seed: int = 0, progress: Progress | None = None) -> Checked:
    """Multiply random matrices on a board and compare each word with the golden model.

    Sizes are random, ragged and of several tiles; elements are any fp32 patterns, or such that most sums are finite.
    """
    generator = np.random.default_rng(seed)
    words = wrong = 0
    start = host.now()
    for number in range(products):
        errors, count = _check_one(host, generator, 2 * (seed + number))
        words, wrong = words + count, wrong + errors
        if progress is not None:
            progress(number + 1, products)
    return Checked(products, words, wrong, host.retries, host.now() - start)


def _check_one(host: Host, generator: np.random.Generator, seed: int) -> tuple[int, int]:
    """The number of wrong words, and of all words."""
    config = replace(host.config, source=FP32)
    m, k, n = (
        int(generator.integers(1, _TILES * side + 1)) for side in (config.depth // 2, config.rows, config.columns)
    )
    kind = str(generator.choice(["all", "normal"]))
    a = vectors.matrix((m, k), "fp32", seed, kind=kind)
    b = vectors.matrix((n, k), "fp32", seed + 1, kind=kind).T
    got = collect(config, host.run(stimulus(config, a, b)).beats, m, k, n)
    return int(np.count_nonzero(got != expected(host.config, a, b, "fp32"))), m * n
