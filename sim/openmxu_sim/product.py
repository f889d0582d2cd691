"""Matrix products on the simulated unit."""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from openmxu.config import MxuConfig
from openmxu.tiling import cycles as cycle_formula
from openmxu_sim import golden
from openmxu_sim.engines import CLOCKED, ENGINES, choose, load, load_product
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.engines.protocol import Progress
from openmxu_sim.stimulus import Stalls, collect, stimulus

__all__ = ["OUTPUTS", "PRECISIONS", "Product", "Statistics", "as_operand", "matmul", "simulate"]

_log = logging.getLogger(__name__)

PRECISIONS = ("default",)
"""How fp32 products are made; ``default`` is one pass in bf16."""

OUTPUTS = ("fp32",)
"""Formats of the result."""


@dataclass(frozen=True)
class Statistics:
    """What is known about a product besides its value.

    Parameters
    ----------
    engine
        The engine that computed it.
    reason
        Why this one: ``"requested"``, or how ``auto`` came to it.
    rows, columns, stages, subnormals, precision
        The unit.
    m, k, n
        The product's sizes.
    cycles
        From the first weight beat taken to the last result beat given, both included.
    cycles_source
        ``"measured"`` on a clock, or ``"formula"``.
    utilisation
        M·K·N / (R·C·cycles): the share of multiply-adds that were of use; 0 for an empty product.
    seconds
        Wall time on this machine, building the simulation included.
    """

    engine: str
    reason: str
    rows: int
    columns: int
    stages: int
    subnormals: str
    precision: str
    m: int
    k: int
    n: int
    cycles: int
    cycles_source: str
    utilisation: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The statistics as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Product:
    """A result and its statistics.

    Parameters
    ----------
    result
        (M, N), float32.
    statistics
        How it came about.
    """

    result: npt.NDArray[np.float32]
    statistics: Statistics


def as_operand(array: npt.ArrayLike, parameter: str) -> npt.NDArray[Any]:
    """``array`` as a 2-D float32 or bfloat16 array.

    Both dtypes are taken as they are, bit for bit. A 2-byte void, which is how numpy stores bfloat16 in
    files, is read as bfloat16. Other real dtypes go through ``astype(float32)``, with a note in the log.

    Raises
    ------
    TypeError
        The array is complex, or not numeric.
    ValueError
        It is not 2-D.
    """
    given = np.asarray(array)
    if given.dtype == np.dtype("V2"):
        given = given.view(ml_dtypes.bfloat16)
    known = given.dtype in (np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16))
    if not known and given.dtype.kind not in "biuf" and not _is_real_extension(given.dtype):
        raise TypeError(f"{parameter} must be an array of real numbers, not of {given.dtype}")
    if given.ndim != 2:
        raise ValueError(f"{parameter} must have two dimensions, not the shape {given.shape}")
    if not known:
        _log.warning("%s: %s converted to float32", parameter, given.dtype)
        with np.errstate(over="ignore"):  # too large for float32 is infinity, as documented
            given = given.astype(np.float32)
    return given


def _is_real_extension(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is one of ml_dtypes' numbers, which numpy calls void."""
    return dtype.kind == "V" and dtype.type.__module__.startswith("ml_dtypes")


def matmul(a: npt.ArrayLike, b: npt.ArrayLike, **options: Any) -> npt.NDArray[np.float32]:
    """The product that the unit computes, bit for bit; see :func:`simulate` for the options.

    >>> import numpy as np
    >>> from openmxu_sim import matmul
    >>> matmul(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 1]]), rows=2, columns=2, engine="golden")
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return simulate(a, b, **options).result


def simulate(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rows: int = 128,
    columns: int = 128,
    stages: int = 1,
    precision: str = "default",
    subnormals: str = "flush",
    output: str = "fp32",
    engine: str = "auto",
    stalls: int | None = None,
    vcd: Path | str | None = None,
    window: Window | None = None,
    progress: Progress | None = None,
) -> Product:
    """The product that the unit computes, and its statistics.

    The same bits on each engine: they depend on ``rows``, ``subnormals`` and ``precision`` alone.

    Parameters
    ----------
    a, b
        (M, K) activations and (K, N) weights, see :func:`as_operand`. NaN, infinities, subnormal numbers and
        empty matrices are welcome.
    rows, columns, stages, subnormals
        The unit, see :class:`openmxu.config.MxuConfig`.
    precision
        One of :data:`PRECISIONS`.
    output
        One of :data:`OUTPUTS`.
    engine
        One of :data:`openmxu_sim.engines.ENGINES`; ``"auto"`` chooses.
    stalls
        Seed of a pattern of waits on all streams, the same on every clocked engine; ``None``: none.
    vcd
        Write a waveform to this file; clocked engines only.
    window
        What part of the unit and of the run the waveform shows, on the engine ``compiled``; by default the first
        rows, columns and cycles. Other engines show everything.
    progress
        Called with the number of result rows that are there and that will be.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain; the text names it, the domain and the value.
    RuntimeError
        The engine failed.
    """
    _check_choice("precision", precision, PRECISIONS)
    _check_choice("output", output, OUTPUTS)
    _check_choice("engine", engine, ("auto", *ENGINES))
    config = MxuConfig(rows=rows, columns=columns, stages=stages, subnormals=subnormals)
    left, right = as_operand(a, "a"), as_operand(b, "b")
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"a and b must have the shapes (M, K) and (K, N), not {left.shape} and {right.shape}")
    waits = None if stalls is None else Stalls(stalls)
    reason = "requested"
    if engine == "auto":
        engine, reason = choose(config, clocked=stalls is not None or vcd is not None)
        _log.info("engine %s: %s", engine, reason)
    if engine not in CLOCKED and (stalls is not None or vcd is not None):
        raise ValueError(f"{'vcd' if vcd else 'stalls'} needs an engine with a clock "
                         f"({', '.join(CLOCKED)}), not {engine!r}")
    if window is not None and (engine != "compiled" or vcd is None):
        raise ValueError(f"window needs a waveform of the engine compiled, not {'none' if vcd is None else engine}")

    (m, k), n = left.shape, right.shape[1]
    start = time.perf_counter()
    source = "measured"
    if engine not in CLOCKED:
        result = load_product(engine)(left, right, rows=rows, subnormals=subnormals)
        cycles, source = cycle_formula(config, m, k, n), "formula"
    elif 0 in (m, k, n):
        result, cycles = np.zeros((m, n), dtype=np.float32), 0
    else:
        given = stimulus(config, golden.to_bits(left), golden.to_bits(right))
        options = {} if window is None else {"window": window}
        run = load(engine)(
            given, stalls=waits,
            vcd=None if vcd is None else Path(vcd), progress=progress, **options,
        )
        result, cycles = collect(config, run.beats, m, k, n).view(np.float32), run.cycles
    return Product(result, Statistics(
        engine=engine, reason=reason, rows=config.rows, columns=config.columns, stages=config.stages,
        subnormals=subnormals, precision=precision, m=m, k=k, n=n, cycles=cycles, cycles_source=source,
        utilisation=m * k * n / (config.rows * config.columns * cycles) if cycles else 0.0,
        seconds=time.perf_counter() - start,
    ))


def _check_choice(parameter: str, value: str, domain: Sequence[str]) -> None:
    if value not in domain:
        raise ValueError(f"{parameter} must be {' or '.join(repr(v) for v in domain)}, not {value!r}")
