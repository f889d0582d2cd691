"""Matrix products on the simulated unit."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.passes import PASSES, find_precision
from openmxu.spec.tiling import cycles as cycle_formula
from openmxu.spec.tiling import shares, stream_bytes
from openmxu_sim import golden
from openmxu_sim.engines import BOARD, CLOCKED, ENGINES, choose, connect, load, model, quickest_product, require
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.engines.known_answer import golden_name
from openmxu_sim.engines.protocol import Device, Run
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.setup import check_precision
from openmxu_sim.operands.aliases import Progress, Words, share_of
from openmxu_sim.operands.stimulus import Stalls, collect, stimulus
from openmxu_sim.operands.tensors import as_given
from openmxu_sim.product.results import Product, Statistics
from openmxu_sim.product.shapes import as_operand, to_stacks
from openmxu_sim.product.specified import Specified, golden_products, specify

_log = logging.getLogger(__name__)


PRECISIONS = tuple(PASSES)
"""Names of the ways to multiply fp32 numbers: in one pass of bf16, or in three, six or nine."""


@ieee_arithmetic()
def simulate(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    unit: MxuConfig | None = None,
    rows: int | None = None,
    columns: int | None = None,
    stages: int | None = None,
    terms: int | None = None,
    subnormals: str | None = None,
    operand: str | None = None,
    weight: str | None = None,
    output: str | None = None,
    splitter: bool | None = None,
    accumulate: str = "fp32",
    between: str | None = None,
    seed: int = 0,
    precision: str = "default",
    units: int = 1,
    engine: str = "auto",
    port: str | None = None,
    stalls: int | None = None,
    vcd: Path | str | None = None,
    window: Window | None = None,
    progress: Progress | None = None,
) -> Product:
    """Multiply matrices on a unit; returns the product and its statistics.

    Each engine gives the same bits: they depend on ``rows``, ``terms``, ``subnormals``, the formats and ``precision``
    alone.

    Parameters
    ----------
    a, b
        (M, K) activations and (K, N) weights, see :func:`as_operand`; or vectors, or stacks of matrices, which are
        multiplied one after the other, as in :func:`numpy.matmul`. NaN, infinities, subnormal numbers and empty
        matrices are welcome.
    unit
        The unit. If its streams carry its operand format, it takes arrays of that type only, in one pass.
    rows, columns, stages, terms, subnormals, operand, weight, output, splitter
        Its parameters in place of ``unit``, see :class:`openmxu.spec.config.MxuConfig`; 128, 128, 1, 1, ``"flush"``,
        ``"bf16"``, ``operand``, ``"fp32"`` and false by default. ``operand`` is the name of a format: bf16, fp16, tf32,
        fp8_e4m3, fp8_e5m2, fp32, or eXfY of X exponent and Y fraction bits; ``weight`` another one for ``b``.
        ``output``, fp32 or the operand format, is the unit's ``result``. If both arrays have the type of the one format
        and one pass will do, the unit's streams carry that format, else fp32.
    accumulate, between, seed
        Format of products and sums, that of sums of tiles, named likewise, and the seed of stochastic rounding. The
        hardware has fp32, and at most 8 terms; the engines without a clock compute other sums, too, and 16 and 32
        terms, with the cycles of 8. They also take operands and sums with modifiers, ``"fp8_e4m3/row"``, see
        :func:`openmxu_sim.golden.specifications.find_operand`; all engines take MX numbers, such as ``"mxfp4"``, as the
        bf16 numbers that they are.
    precision
        One of :data:`PRECISIONS`: the passes that make fp32 products. Also what JAX and PyTorch call them, see
        :data:`openmxu.spec.passes.ALIASES`, and members of JAX's ``Precision``.
    units
        Number of units among which the columns of the result are divided, see :func:`openmxu.spec.tiling.shares`.
    engine
        One of :data:`openmxu_sim.engines.ENGINES`; ``"auto"`` chooses. Or ``"board"``: an FPGA that runs our bitstream.
        Then the board defines the unit, and parameters that are given must agree with it.
    port
        The board's serial port; ``None`` or ``"auto"``: the first port on which a board answers.
    stalls
        Seed of a pattern of waits on all streams, the same on every clocked engine; ``None``: no waits.
    vcd
        Write a waveform to this file; clocked engines only.
    window
        Part of the unit and of the run that the waveform shows, on the engine ``compiled``; by default the first
        rows, columns and cycles. Other engines show everything.
    progress
        Called with the number of result rows computed so far, and of all result rows.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain; the text names it, the domain and the value.
    OSError
        There is no board, or its port cannot be opened.
    RuntimeError
        The engine failed.
    """
    _check_choice("engine", engine, ("auto", *ENGINES, BOARD))
    if port is not None and engine != BOARD:
        raise ValueError(f"port requires engine {BOARD!r}, not {engine!r}")
    units = golden.check_count(units, "units")
    left, right, shape = to_stacks(as_operand(a, "a"), as_operand(b, "b"))
    shorthand: dict[str, Any] = {"rows": rows, "columns": columns, "stages": stages, "splitter": splitter}
    shorthand |= {"terms": terms, "subnormals": subnormals, "operand": operand, "output": output, "weight": weight}
    sums = {"accumulate": accumulate, "between": between, "seed": seed}
    left, right, shorthand, software = specified = specify(left, right, shorthand, sums)
    precision = find_precision(precision)
    dtype = left.dtype if precision == "default" and left.dtype == right.dtype else None
    options = {"stalls": stalls, "vcd": vcd, "window": window, "specified": specified, "units": units, "port": port}

    def check(config: MxuConfig) -> None:
        check_precision(precision, software.get("operand", _name(config.operand)), accumulate)

    with _opened(engine, unit, shorthand, dtype, options, check) as (config, chosen, reason, run):
        _check_waveform(vcd, window, chosen, units, len(left))

        start = time.perf_counter()
        how: dict[str, Any] = {"precision": precision, "progress": progress}
        if run is None:
            result, runs = _multiply_at_once(chosen, config, left, right, software=software, **how), None
        else:
            result, runs = _multiply_by_clock(run, config, left, right, units=units, **how)
    sizes = len(left), *left.shape[1:], right.shape[2]
    facts = {"engine": chosen, "reason": reason, "accumulate": accumulate, "seconds": time.perf_counter() - start}
    statistics = _statistics(config, sizes, runs, precision=precision, units=units, **facts)
    return Product(result.reshape(shape), statistics)


_P = ParamSpec("_P")


def _taking_what(other: Callable[_P, Any]) -> Callable[[Callable[..., Any]], Callable[_P, Any]]:
    """Give a function the parameters of another one, for readers, editors and type checkers."""

    def decorated(function: Callable[..., Any]) -> Callable[_P, Any]:
        vars(function)["__signature__"] = signature(other).replace(return_annotation=Any)
        return function

    return decorated


@_taking_what(simulate)
def matmul(a: npt.ArrayLike, b: npt.ArrayLike, **options: Any) -> Any:
    """Multiply as the unit does, bit for bit; parameters and errors as in :func:`simulate`.

    The result is an array of NumPy, or of JAX or a tensor of PyTorch if an operand is one. It has no derivatives:
    ``openmxu_sim.torch`` and ``openmxu_sim.jax`` have a ``matmul`` for networks.

    >>> import numpy as np
    >>> from openmxu_sim import matmul
    >>> matmul(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 1]]), rows=2, columns=2, engine="golden")
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return as_given(simulate(a, b, **options).result, a, b)


def _name(fmt: FloatFormat) -> str:
    """Return the golden model's name of a format of the unit."""
    name = golden_name(fmt)
    if name is None:
        raise ValueError(f"unit must have operands in fp8_e4m3 or in a format with infinities, not in {fmt}")
    return name


def _unit(unit: MxuConfig | None, shorthand: Mapping[str, Any], dtype: np.dtype[Any] | None) -> MxuConfig:
    """Return the unit that was asked for; ``dtype``: the type of both arrays if they have one and there is one pass."""
    values = {name: value for name, value in shorthand.items() if value is not None}
    if unit is None:
        operand = FloatFormat.parse(values.pop("operand", "bf16"), "operand")
        output = values.pop("output", "fp32")
        _check_choice("output", output, dict.fromkeys(("fp32", operand.name)))
        weight = FloatFormat.parse(values.pop("weight", operand.name), "weight")
        is_one = _name(operand) == _name(weight)
        narrow = dtype is not None and dtype == golden.DTYPES.get(_name(operand)) and not values.get("splitter")
        values |= {"operand": operand, "weight": weight, "source": operand if narrow and is_one else FP32}
        return MxuConfig(**values, result=FP32 if output == "fp32" else operand, status=True)
    if not isinstance(unit, MxuConfig):
        raise TypeError(f"unit must be an MxuConfig, not {unit!r}")
    if values:
        raise ValueError(f"{next(iter(values))} must not be given together with unit")
    if unit.source != FP32:
        wanted = golden.DTYPES.get(_name(unit.source))
        if wanted is None:
            raise ValueError(f"unit must have fp32 streams, as there are no arrays of {unit.source}")
        if dtype != wanted:
            raise ValueError(f"a unit with {unit.source} streams requires {wanted} a and b and precision 'default'")
    return replace(unit, status=True)


def _engine(engine: str, config: MxuConfig, specified: Specified, *, clocked: Mapping[str, object]) -> tuple[str, str]:
    """Return the engine, chosen if ``auto``, and the reason; ``clocked``: options that need a clock unless ``None``."""
    needs = next((name for name, value in clocked.items() if value is not None), None)
    if engine in CLOCKED or needs is not None:
        specified.check_clock("an engine with a clock")
    if engine == "auto":
        if not specified.software:
            engine, reason = choose(config, clocked=needs is not None)
        else:
            engine, reason = quickest_product(), f"auto: {specified.why}"
        _log.info("engine %s: %s", engine, reason)
        return engine, reason
    if engine not in CLOCKED and needs is not None:
        raise ValueError(f"{needs} needs an engine with a clock ({', '.join(CLOCKED)}), not {engine!r}")
    require(engine)
    return engine, "requested"


def _check_waveform(vcd: Path | str | None, window: Window | None, engine: str, units: int, products: int) -> None:
    if window is not None and (engine != "compiled" or vcd is None):
        argument = "vcd=None" if vcd is None else f"engine {engine!r}"
        raise ValueError(f"window requires vcd and engine 'compiled', not {argument}")
    if vcd is not None and units > 1:
        raise ValueError(f"units must be 1 for a waveform, not {units}")
    if vcd is not None and products != 1:
        raise ValueError(f"a and b must be one product for a waveform, not {products}")


@contextmanager
def _opened(
    engine: str,
    unit: MxuConfig | None,
    shorthand: Mapping[str, Any],
    dtype: np.dtype[Any] | None,
    options: Mapping[str, Any],
    check: Callable[[MxuConfig], None],
) -> Iterator[tuple[MxuConfig, str, str, Callable[..., Run] | None]]:
    """Yield the unit, the engine, the reason for it, and, if it has a clock, the function that runs a stimulus.

    ``check`` refuses a unit before an engine is compiled for it.
    """
    clocked = {name: options[name] for name in ("vcd", "stalls")}
    if engine == BOARD:
        options["specified"].check_clock(f"engine {BOARD!r}")
        for name, only in {"units": 1, **dict.fromkeys(clocked)}.items():
            if options[name] != only:
                raise ValueError(f"{name} must be {only!r} on engine {BOARD!r}, not {options[name]!r}")
        with connect(options["port"] or "auto") as board:
            config = _unit_of(board, unit, shorthand, dtype)
            check(config)
            yield config, engine, f"requested, on {board.port}", board.run
        return
    config = _unit(unit, shorthand, dtype)
    check(config)
    engine, reason = _engine(engine, config, options["specified"], clocked=clocked)
    if engine not in CLOCKED:
        yield config, engine, reason, None
        return
    stalls, vcd, window = (options[name] for name in ("stalls", "vcd", "window"))
    waits, file = None if stalls is None else Stalls(stalls), None if vcd is None else Path(vcd)
    part = {} if window is None else {"window": window}  # which other engines do not take
    yield config, engine, reason, partial(load(engine), stalls=waits, vcd=file, **part)


def _unit_of(
    board: Device, unit: MxuConfig | None, shorthand: Mapping[str, Any], dtype: np.dtype[Any] | None
) -> MxuConfig:
    """Return the board's unit with streams for operands of ``dtype``: the host converts what the board does not."""
    config = board.config
    has = {name: getattr(config, name) for name in ("rows", "columns", "stages", "terms", "splitter", "subnormals")}
    has |= {"operand": config.operand.name, "weight": config.weight_format.name, "output": config.result.name}
    for name, value in shorthand.items():
        if value is not None and value != has[name]:
            raise ValueError(f"{name} must be {has[name]!r}, as of the board on {board.port}, not {value!r}")
    if unit is not None and replace(unit, source=config.source, status=True) != config:
        raise ValueError(f"unit must be the one of the board on {board.port}, {config}, not {unit}")
    narrow = dtype is not None and dtype == golden.DTYPES.get(_name(config.operand))
    return replace(config, source=config.operand if narrow else FP32)


def _multiply_at_once(
    engine: str,
    config: MxuConfig,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    *,
    software: Mapping[str, Any],
    precision: str,
    progress: Progress | None,
) -> npt.NDArray[Any]:
    """Products of (P, M, K) and (P, K, N) without a clock."""
    options: dict[str, Any] = {
        "rows": config.rows,
        "precision": precision,
        "subnormals": config.subnormals,
        "terms": config.terms,
        "operand": _name(config.operand),
        "weight": _name(config.weight_format),
        "result": _name(config.result),
        **software,
    }
    if engine == "model":
        return model.products(golden.to_bits(a), golden.to_bits(b), progress=progress, **options)
    result = _empty(config, a, b)
    golden_products(a, b, result, options)
    return result


def _multiply_by_clock(
    run: Callable[..., Run],
    config: MxuConfig,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    *,
    precision: str,
    units: int,
    progress: Progress | None,
) -> tuple[npt.NDArray[Any], list[list[Run]]]:
    """Products of (P, M, K) and (P, K, N), one after the other, as are the units, and their runs on each of these."""
    result, runs = _empty(config, a, b), list[list[Run]]()
    (count, m, k), n = a.shape, b.shape[2]
    among = shares(config, n, units) if m and k else []
    for number, values in enumerate(result):
        left, right = (_words(config, stack[number]) for stack in (a, b))
        words, whole = np.zeros((m, n), dtype=np.uint32), share_of(progress, number, count)
        runs.append([])
        for unit, share in enumerate(among):
            columns = slice(share.start, share.stop)
            inputs = stimulus(config, left, np.ascontiguousarray(right[:, columns]), precision)
            runs[-1].append(run(inputs, progress=share_of(whole, unit, len(among))))
            words[:, columns] = collect(config, runs[-1][-1].beats, m, k, len(share))
        values[:] = golden.to_array(words, _name(config.result))
    return result, runs


def _words(config: MxuConfig, matrix: npt.NDArray[Any]) -> Words:
    """Return a matrix as words of the unit's streams."""
    if config.source == FP32:
        return golden.to_bits(matrix)
    return np.ascontiguousarray(matrix).view(f"u{matrix.itemsize}").astype(np.uint32)


def _empty(config: MxuConfig, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array for the results, not filled yet."""
    dtype = golden.DTYPES.get(_name(config.result), np.dtype(np.float32))
    return np.empty((len(a), a.shape[1], b.shape[2]), dtype)


def _statistics(
    config: MxuConfig,
    sizes: tuple[int, int, int, int],
    runs: Sequence[Sequence[Run]] | None,
    *,
    precision: str,
    units: int,
    **facts: Any,
) -> Statistics:
    """Return the statistics of products; ``runs``: by product and unit, ``None`` on an engine without a clock."""
    products, m, k, n = sizes
    passes = len(PASSES[precision])
    # A board may have no counters: then its cycles are not known, either.
    counted = runs is not None and all(record.cycles for among in runs for record in among)
    if runs is None or not counted:
        cycles, source = products * cycle_formula(config, m, k, n, precision, units), "formula"
    else:
        cycles, source = sum(max((record.cycles for record in among), default=0) for among in runs), "measured"
    counters = [record.counters for among in runs or () for record in among if record.counters is not None]
    for name in ("busy", "input_stalls", "output_stalls"):
        facts[name] = sum(getattr(record, name) for record in counters) if counted else None
    traffic = stream_bytes(config, m, k, n, precision)
    return Statistics(
        config=config,
        units=units,
        precision=precision,
        products=products,
        m=m,
        k=k,
        n=n,
        passes=passes,
        cycles=cycles,
        cycles_source=source,
        utilisation=products * passes * m * k * n / (units * config.rows * config.columns * cycles) if cycles else 0.0,
        weight_bytes=products * traffic.weights,
        activation_bytes=products * traffic.activations,
        result_bytes=products * traffic.results,
        **facts,
    )


def _check_choice(parameter: str, value: str, domain: Collection[str]) -> None:
    if value not in domain:
        raise ValueError(f"{parameter} must be {' or '.join(repr(v) for v in domain)}, not {value!r}")
