"""Matrix products on the simulated unit."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from openmxu.config import MxuConfig
from openmxu.formats import BF16, FORMATS, FP32
from openmxu.passes import PASSES, check_precision
from openmxu.tiling import cycles as cycle_formula
from openmxu.tiling import shares, stream_bytes
from openmxu_sim import golden
from openmxu_sim.aliases import Progress
from openmxu_sim.engines import CLOCKED, ENGINES, choose, load, load_product, require
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.engines.protocol import Run
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.stimulus import Stalls, collect, stimulus

__all__ = ["OUTPUTS", "PRECISIONS", "Product", "Statistics", "as_operand", "matmul", "simulate"]

_log = logging.getLogger(__name__)

PRECISIONS = tuple(PASSES)
"""How fp32 products are made: in one pass of bf16, or in three, six, nine."""

OUTPUTS = ("fp32", "bf16")
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
    config, units
        The unit, and how many there are of it.
    precision
        One of :data:`PRECISIONS`.
    m, k, n, passes
        The product's sizes, and how many times it was made of parts of its operands.
    cycles
        From the first weight beat taken to the last result beat given, both included; of several units, the most.
    cycles_source
        ``"measured"`` on a clock, or ``"formula"``.
    utilisation
        passes·M·K·N / (units·R·C·cycles): the share of multiply-adds that were of use; 0 for an empty product.
    busy, input_stalls, output_stalls
        What the units' own counters say, added up: cycles in which a beat of activations entered an array, in which
        none did for want of activations or weights, and for want of a place for its sums; see
        :func:`openmxu.status.status_signature`. ``None`` without a clock.
    weight_bytes, activation_bytes, result_bytes
        What went over the streams, padding included.
    seconds
        Wall time on this machine, building the simulation included.
    """

    engine: str
    reason: str
    config: MxuConfig
    units: int
    precision: str
    m: int
    k: int
    n: int
    passes: int
    cycles: int
    cycles_source: str
    utilisation: float
    busy: int | None
    input_stalls: int | None
    output_stalls: int | None
    weight_bytes: int
    activation_bytes: int
    result_bytes: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The statistics as plain data, the parameters of the unit among them."""
        config = self.config
        unit = {
            "rows": config.rows,
            "columns": config.columns,
            "stages": config.stages,
            "subnormals": config.subnormals,
            "source": config.source.name,
            "output": config.result.name,
            "splitter": config.splitter,
            "depth": config.depth,
        }
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "config"}
        return {name: own.pop(name) for name in ("engine", "reason")} | unit | own


@dataclass(frozen=True)
class Product:
    """A result and its statistics.

    Parameters
    ----------
    result
        (M, N), float32 or bfloat16.
    statistics
        How it came about.
    """

    result: npt.NDArray[Any]
    statistics: Statistics


def as_operand(array: npt.ArrayLike, parameter: str) -> npt.NDArray[Any]:
    """``array`` as a 2-D float32 or bfloat16 array.

    Both dtypes are taken as they are, bit for bit. A 2-byte void, which is how numpy stores bfloat16 in
    files, is read as bfloat16. Other real dtypes go through ``astype(float32)``, with a note in the log. Of a subclass
    of numpy's arrays, such as ``numpy.matrix``, the elements count.

    Raises
    ------
    TypeError
        The array is complex, not numeric, or masked.
    ValueError
        It is not 2-D.
    """
    golden.check_unmasked(array, parameter)
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


@ieee_arithmetic()
def simulate(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    unit: MxuConfig | None = None,
    rows: int | None = None,
    columns: int | None = None,
    stages: int | None = None,
    subnormals: str | None = None,
    output: str | None = None,
    splitter: bool | None = None,
    precision: str = "default",
    units: int = 1,
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
    unit
        The unit, with bf16 operands. One whose streams carry bf16 takes bfloat16 arrays only, in one pass.
    rows, columns, stages, subnormals, output, splitter
        In place of ``unit``: its parameters, see :class:`openmxu.config.MxuConfig`; 128, 128, 1, ``"flush"``,
        ``"fp32"`` and false by default. ``output``, one of :data:`OUTPUTS`, is its ``result``. Where both arrays are
        bfloat16 and one pass will do, its streams carry bf16, else fp32.
    precision
        One of :data:`PRECISIONS`: in how many passes fp32 products are made.
    units
        Among how many units the columns of the result are divided, see :func:`openmxu.tiling.shares`.
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
    check_precision(precision)
    _check_choice("engine", engine, ("auto", *ENGINES))
    units = golden.check_count(units, "units")
    left, right = as_operand(a, "a"), as_operand(b, "b")
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"a and b must have the shapes (M, K) and (K, N), not {left.shape} and {right.shape}")
    narrow = precision == "default" and left.dtype == right.dtype == ml_dtypes.bfloat16
    shorthand = {
        "rows": rows,
        "columns": columns,
        "stages": stages,
        "subnormals": subnormals,
        "output": output,
        "splitter": splitter,
    }
    config = _unit(unit, {name: value for name, value in shorthand.items() if value is not None}, narrow=narrow)
    engine, reason = _engine(engine, config, clocked={"vcd": vcd, "stalls": stalls})
    _check_waveform(vcd, window, engine, units)

    start = time.perf_counter()
    result: npt.NDArray[Any]
    runs: list[Run] | None = None
    if engine not in CLOCKED:
        result = load_product(engine)(
            left, right, rows=config.rows, precision=precision, subnormals=config.subnormals, result=config.result.name
        )
    else:
        run = _clocked(engine, stalls, vcd, window)
        result, runs = _run_on_units(run, config, left, right, precision=precision, units=units, progress=progress)
    statistics = _statistics(
        config,
        (*left.shape, right.shape[1]),
        runs,
        precision=precision,
        units=units,
        engine=engine,
        reason=reason,
        seconds=time.perf_counter() - start,
    )
    return Product(result, statistics)


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    unit: MxuConfig | None = None,
    rows: int | None = None,
    columns: int | None = None,
    stages: int | None = None,
    subnormals: str | None = None,
    output: str | None = None,
    splitter: bool | None = None,
    precision: str = "default",
    units: int = 1,
    engine: str = "auto",
    stalls: int | None = None,
    vcd: Path | str | None = None,
    window: Window | None = None,
    progress: Progress | None = None,
) -> npt.NDArray[Any]:
    """The product that the unit computes, bit for bit; parameters and errors as of :func:`simulate`.

    >>> import numpy as np
    >>> from openmxu_sim import matmul
    >>> matmul(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 1]]), rows=2, columns=2, engine="golden")
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return simulate(
        a,
        b,
        unit=unit,
        rows=rows,
        columns=columns,
        stages=stages,
        subnormals=subnormals,
        output=output,
        splitter=splitter,
        precision=precision,
        units=units,
        engine=engine,
        stalls=stalls,
        vcd=vcd,
        window=window,
        progress=progress,
    ).result


def _unit(unit: MxuConfig | None, shorthand: Mapping[str, Any], *, narrow: bool) -> MxuConfig:
    """The unit that was asked for; ``narrow`` says whether bf16 on its streams will do."""
    if unit is None:
        given = {name: value for name, value in shorthand.items() if name != "output"}
        output = shorthand.get("output", "fp32")
        _check_choice("output", output, OUTPUTS)
        source = BF16 if narrow and not given.get("splitter") else FP32
        return MxuConfig(**given, source=source, result=FORMATS[output], status=True)
    if not isinstance(unit, MxuConfig):
        raise TypeError(f"unit must be an MxuConfig, not {unit!r}")
    if shorthand:
        raise ValueError(f"{next(iter(shorthand))} must not be given together with unit")
    if unit.operand != BF16:
        raise ValueError(f"unit must have bf16 operands, not {unit.operand}")
    if unit.source == BF16 and not narrow:
        raise ValueError("a unit with bf16 streams requires bfloat16 a and b and precision 'default'")
    return replace(unit, status=True)


def _engine(engine: str, config: MxuConfig, *, clocked: Mapping[str, object]) -> tuple[str, str]:
    """The engine, chosen if that is left to us, and why; ``clocked`` are options that need a clock, if not ``None``."""
    needs = next((name for name, value in clocked.items() if value is not None), None)
    if engine == "auto":
        engine, reason = choose(config, clocked=needs is not None)
        _log.info("engine %s: %s", engine, reason)
        return engine, reason
    if engine not in CLOCKED and needs is not None:
        raise ValueError(f"{needs} needs an engine with a clock ({', '.join(CLOCKED)}), not {engine!r}")
    require(engine)
    return engine, "requested"


def _check_waveform(vcd: Path | str | None, window: Window | None, engine: str, units: int) -> None:
    if window is not None and (engine != "compiled" or vcd is None):
        given = "vcd=None" if vcd is None else f"engine {engine!r}"
        raise ValueError(f"window requires vcd and engine 'compiled', not {given}")
    if vcd is not None and units > 1:
        raise ValueError(f"units must be 1 for a waveform, not {units}")


def _clocked(engine: str, stalls: int | None, vcd: Path | str | None, window: Window | None) -> Callable[..., Run]:
    """An engine with a clock, and options that are the same for all units."""
    options: dict[str, Any] = {} if window is None else {"window": window}
    waits = None if stalls is None else Stalls(stalls)
    return partial(load(engine), stalls=waits, vcd=None if vcd is None else Path(vcd), **options)


def _run_on_units(
    run: Callable[..., Run],
    config: MxuConfig,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    *,
    precision: str,
    units: int,
    progress: Progress | None,
) -> tuple[npt.NDArray[Any], list[Run]]:
    """One product on one unit, or on several, one after the other; and the runs."""
    words_of = (lambda x: x.view(np.uint16).astype(np.uint32)) if config.source == BF16 else golden.to_bits
    left, right = words_of(a), words_of(b)
    (m, k), n = left.shape, right.shape[1]
    among = shares(config, n, units) if m and k else []

    def of_all(unit: int) -> Progress | None:
        """Progress of a unit as that of all."""
        return progress and (lambda done, count: progress(unit * count + done, len(among) * count))

    words, runs = np.zeros((m, n), dtype=np.uint32), []
    for unit, share in enumerate(among):
        columns = slice(share.start, share.stop)
        given = stimulus(config, left, np.ascontiguousarray(right[:, columns]), precision)
        runs.append(run(given, progress=of_all(unit)))
        words[:, columns] = collect(config, runs[-1].beats, m, k, len(share))
    if config.result == BF16:
        return words.astype(np.uint16).view(ml_dtypes.bfloat16), runs
    return words.view(np.float32), runs


def _statistics(
    config: MxuConfig,
    sizes: tuple[int, int, int],
    runs: Sequence[Run] | None,
    *,
    precision: str,
    units: int,
    engine: str,
    reason: str,
    seconds: float,
) -> Statistics:
    """Statistics of a product; ``runs``: of each unit, ``None`` of an engine without a clock."""
    m, k, n = sizes
    passes = len(PASSES[precision])
    if runs is None:
        cycles, source = cycle_formula(config, m, k, n, precision, units), "formula"
    else:
        cycles, source = max((each.cycles for each in runs), default=0), "measured"
    counters = [each.counters for each in runs or () if each.counters is not None]
    traffic = stream_bytes(config, m, k, n, precision)
    return Statistics(
        engine=engine,
        reason=reason,
        config=config,
        units=units,
        precision=precision,
        m=m,
        k=k,
        n=n,
        passes=passes,
        cycles=cycles,
        cycles_source=source,
        utilisation=passes * m * k * n / (units * config.rows * config.columns * cycles) if cycles else 0.0,
        **{
            name: None if runs is None else sum(getattr(each, name) for each in counters)
            for name in ("busy", "input_stalls", "output_stalls")
        },
        weight_bytes=traffic.weights,
        activation_bytes=traffic.activations,
        result_bytes=traffic.results,
        seconds=seconds,
    )


def _check_choice(parameter: str, value: str, domain: Sequence[str]) -> None:
    if value not in domain:
        raise ValueError(f"{parameter} must be {' or '.join(repr(v) for v in domain)}, not {value!r}")
