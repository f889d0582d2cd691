"""The page's units on this machine, run as a page runs them, for records and for tests."""

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from openmxu.runtime import cache
from openmxu.spec.passes import PASSES
from openmxu_sim import golden
from openmxu_sim.engines.library import fetch_library
from openmxu_sim.netlist.native import open_library
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.stimulus import Stalls
from openmxu_sim.sources import SOURCES
from openmxu_sim.wave.page.c_text import MOST_SIDE, SIZES, first_pass, page_config, page_text
from openmxu_sim.wave.page.layout import frame_layout, frame_words

_TILE = 9
"""Number of fields of a ``struct tile``."""


@dataclass(frozen=True)
class Given:
    """Inputs of a run of the page."""

    a: Words
    b: Words
    """(M, K) and (K, N) fp32 patterns, of at most :data:`~openmxu_sim.wave.page.c_text.MOST_SIDE` rows and columns."""
    rows: int
    columns: int
    stages: int = 1
    """The unit."""
    precision: str = "default"
    """One of :data:`openmxu.spec.passes.PASSES`."""
    stalls: int | None = None
    """Seed of :class:`~openmxu_sim.operands.stimulus.Stalls`; ``None``: no stalls."""
    terms: int = 1
    """Products that a processing element adds at once; ``rows`` is a multiple of it."""

    def __post_init__(self) -> None:
        for noun in ("rows", "columns"):
            if getattr(self, noun) not in SIZES:
                raise ValueError(f"{noun} must be from {SIZES[0]} to {SIZES[-1]} in a page, not {getattr(self, noun)}")
        for size in (*self.a.shape, *self.b.shape):
            if not 1 <= size <= MOST_SIDE:
                raise ValueError(f"m, k and n must be from 1 to {MOST_SIDE} in a page, not {size}")
        page_config(self.rows, self.columns, self.stages, self.terms)

    @property
    def golden(self) -> Words:
        """(M, N): the result's bits by the golden model."""
        a, b = golden.from_bits(self.a), golden.from_bits(self.b)
        return golden.to_bits(golden.matmul(a, b, rows=self.rows, precision=self.precision, terms=self.terms))


@dataclass(frozen=True)
class Record:
    """Record of a run."""

    given: Given
    """Inputs of the run."""
    tiles: npt.NDArray[np.int64]
    """(tiles, 9): each tile as ``struct tile`` of ``unit.c``."""
    frames: Words
    """(cycles, words): see :func:`~openmxu_sim.wave.page.layout.frame_layout`."""
    cycles: int
    """Cycles from the first beat taken to the last result given, both included."""


def _open(library: bytes) -> ctypes.CDLL:
    """Return the functions of ``page.c`` for a processing element."""
    functions = open_library(library)
    functions.page_frame.restype = functions.page_matrix.restype = ctypes.POINTER(ctypes.c_uint32)
    functions.page_pattern.restype = ctypes.POINTER(ctypes.c_uint8)
    functions.page_tile.restype = ctypes.POINTER(ctypes.c_int64)
    functions.page_begin.argtypes = [ctypes.c_int] * 8
    return functions


def random_run(
    rows: int,
    columns: int,
    stages: int,
    sizes: tuple[int, int, int],
    *,
    precision: str = "default",
    stalls: int | None = None,
    terms: int = 1,
) -> Given:
    """Return the product of two random matrices of M, K and N, in numbers that are short to read."""
    m, k, n = sizes
    generator = np.random.default_rng(0)
    a, b = (golden.to_bits(generator.standard_normal(shape).round(2).astype(np.float32)) for shape in ((m, k), (k, n)))
    return Given(a, b, rows, columns, stages, precision, stalls, terms)


def fetch_text(stages: int, terms: int = 1) -> str:
    """Return :func:`~openmxu_sim.wave.page.c_text.page_text`, from the cache or made now."""
    return cache.fetch_result(SOURCES, lambda: page_text(stages, terms).encode(), "page", f"{stages} {terms}").decode()


@lru_cache(maxsize=7)
def _load(stages: int, terms: int) -> ctypes.CDLL:
    # No trial: a record is compared with the golden model where it is shown.
    return fetch_library(fetch_text(stages, terms), _open, lambda _: False)


def record(inputs: Given) -> Record:
    """Run a product as a page does; see :func:`~openmxu_sim.wave.page.shown.record_run`."""
    element = inputs.stages, inputs.terms
    functions = _load(*element)
    for right, matrix in enumerate((inputs.a, inputs.b)):
        np.ctypeslib.as_array(functions.page_matrix(right), (matrix.size,))[:] = matrix.ravel()
    if inputs.stalls is not None:
        pattern = Stalls(inputs.stalls).pattern
        np.ctypeslib.as_array(functions.page_pattern(), (pattern.size,))[:] = pattern.ravel()
    sizes = inputs.rows, inputs.columns, len(inputs.a), *inputs.b.shape
    passes = first_pass(inputs.precision), len(PASSES[inputs.precision])
    count = functions.page_begin(*sizes, *passes, inputs.stalls is not None)
    if not count:
        raise MemoryError(f"too little memory for a unit of {inputs.rows}x{inputs.columns}")
    tiles = np.ctypeslib.as_array(functions.page_tile(), (count, _TILE)).copy()
    words = frame_words(frame_layout(fetch_text(*element), *element), inputs.rows // inputs.terms, inputs.columns)
    frame = np.ctypeslib.as_array(functions.page_frame(), (words,))
    frames, state = [], 0
    while not state:
        state = functions.page_cycle()
        frames.append(frame.copy())
    if state > 1:
        raise RuntimeError(f"the unit hangs in cycle {len(frames)}")
    return Record(inputs, tiles, np.array(frames), functions.page_cycles())
