"""Matrix products on the simulated unit."""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
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
from openmxu_sim.golden.matrix import check_precision
from openmxu_sim.operands.aliases import Progress, share_of
from openmxu_sim.operands.stimulus import Stalls, collect, stimulus
from openmxu_sim.operands.tensors import as_given, from_tensor

__all__ = ["PRECISIONS", "Product", "Statistics", "as_operand", "matmul", "simulate", "to_stacks"]

_log = logging.getLogger(__name__)

_SHOWN = 8
"""Rows, and columns, of a result that a notebook shows."""

PRECISIONS = tuple(PASSES)
"""How fp32 products are made: in one pass of bf16, or in three, six, nine."""


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
    accumulate
        Format of the sums.
    precision
        One of :data:`PRECISIONS`.
    products, m, k, n, passes
        How many products, their sizes, and how many times each was made of parts of its operands.
    cycles
        From the first beat taken on either input stream to the last result beat given, both included; of several units,
        the most; of several products, all together.
    cycles_source
        ``"measured"`` on a clock, or ``"formula"``.
    utilisation
        products·passes·M·K·N / (units·R·C·cycles): the share of multiply-adds that were of use; 0 for an empty product.
    busy, input_stalls, output_stalls
        What the units' own counters say, added up: cycles in which a beat of activations entered an array, in which
        none did for want of activations or weights, and for want of a place for its sums; see
        :func:`openmxu.unit.status.status_signature`. ``None`` without a clock.
    weight_bytes, activation_bytes, result_bytes
        What went over the streams, padding included.
    seconds
        Wall time on this machine, building the simulation included.
    """

    engine: str
    reason: str
    config: MxuConfig
    units: int
    accumulate: str
    precision: str
    products: int
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
            "operand": config.operand.name,
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
        The product's shape by numpy's rules; (M, N) of two matrices. Its type is that of
        :data:`openmxu_sim.golden.DTYPES` for the unit's ``result``, float32 where there is none.
    statistics
        How it came about.
    """

    result: npt.NDArray[Any]
    statistics: Statistics

    def _repr_html_(self) -> str:
        """What notebooks show: the sizes, the cycles, and a corner of the result."""
        statistics, config = self.statistics, self.statistics.config
        about = (
            f"{statistics.m}×{statistics.k}×{statistics.n} on {config.rows}×{config.columns} by {statistics.engine}: "
            f"{statistics.cycles} cycles ({statistics.cycles_source}), utilisation {statistics.utilisation:.1%}"
        )
        corner = self.result.reshape(-1, self.result.shape[-1]) if self.result.ndim else self.result.reshape(1, 1)
        lines = [[f"{float(value):.6g}" for value in row[:_SHOWN]] for row in corner[:_SHOWN]]
        more = corner.shape[0] > _SHOWN, corner.shape[1] > _SHOWN
        lines = [[*line, "…"] if more[1] else line for line in lines] + [["…"]] * more[0]
        cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in lines)
        return f"<div>{about}; {self.result.dtype}, shape {self.result.shape}</div><table>{cells}</table>"


def as_operand(array: npt.ArrayLike, parameter: str) -> npt.NDArray[Any]:
    """``array`` as an array of numbers in one of the types of :data:`openmxu_sim.golden.DTYPES`.

    These are taken as they are, bit for bit. A 2-byte void, which is how numpy stores bfloat16 in
    files, is read as bfloat16. Other real dtypes go through ``astype(float32)``, with a note in the log. Of a subclass
    of numpy's arrays, such as ``numpy.matrix``, the elements count. Arrays of JAX and tensors of PyTorch are as good.

    Raises
    ------
    TypeError
        The array is complex, not numeric, or masked.
    """
    array = from_tensor(array, parameter)
    golden.check_unmasked(array, parameter)
    given = np.asarray(array)
    if given.dtype == np.dtype("V2"):
        given = given.view(ml_dtypes.bfloat16)
    known = given.dtype in golden.DTYPES.values()
    if not known and given.dtype.kind not in "biuf" and not _is_real_extension(given.dtype):
        raise TypeError(f"{parameter} must be an array of real numbers, not of {given.dtype}")
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
    operand: str | None = None,
    output: str | None = None,
    splitter: bool | None = None,
    accumulate: str = "fp32",
    precision: str = "default",
    units: int = 1,
    engine: str = "auto",
    port: str | None = None,
    stalls: int | None = None,
    vcd: Path | str | None = None,
    window: Window | None = None,
    progress: Progress | None = None,
) -> Product:
    """The product that the unit computes, and its statistics.

    The same bits on each engine: they depend on ``rows``, ``subnormals``, the formats and ``precision`` alone.

    Parameters
    ----------
    a, b
        (M, K) activations and (K, N) weights, see :func:`as_operand`; or vectors, or stacks of matrices, which are
        multiplied one after the other, as of :func:`numpy.matmul`. NaN, infinities, subnormal numbers and empty
        matrices are welcome.
    unit
        The unit. One whose streams carry its operand format takes arrays of that type only, in one pass.
    rows, columns, stages, subnormals, operand, output, splitter
        In place of ``unit``: its parameters, see :class:`openmxu.spec.config.MxuConfig`; 128, 128, 1, ``"flush"``,
        ``"bf16"``, ``"fp32"`` and false by default. ``operand`` is the name of a format: bf16, fp16, tf32, fp8_e4m3,
        fp8_e5m2, fp32, or eXfY of X exponent and Y fraction bits. ``output``, fp32 or the operand format, is the
        unit's ``result``. Where both arrays are of the operand format's type and one pass will do, the unit's streams
        carry that, else fp32.
    accumulate
        Format of products and sums, likewise. The hardware's is fp32; others are computed by the engines without a
        clock.
    precision
        One of :data:`PRECISIONS`: in how many passes fp32 products are made. Also what JAX and PyTorch call them, see
        :data:`openmxu.spec.passes.ALIASES`, and members of JAX's ``Precision``.
    units
        Among how many units the columns of the result are divided, see :func:`openmxu.spec.tiling.shares`.
    engine
        One of :data:`openmxu_sim.engines.ENGINES`; ``"auto"`` chooses. Or ``"board"``: an FPGA that runs our bitstream.
        Then the board says what the unit is, and parameters that are given must agree with it.
    port
        The board's serial port; ``None`` or ``"auto"``: the first one on which a board answers.
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
    OSError
        There is no board, or its port cannot be opened.
    RuntimeError
        The engine failed.
    """
    _check_choice("engine", engine, ("auto", *ENGINES, BOARD))
    if port is not None and engine != BOARD:
        raise ValueError(f"port requires engine {BOARD!r}, not {engine!r}")
    units = golden.check_count(units, "units")
    golden.find_format(accumulate, "accumulate")
    left, right, shape = to_stacks(as_operand(a, "a"), as_operand(b, "b"))
    given: dict[str, Any] = {"rows": rows, "columns": columns, "stages": stages, "splitter": splitter}
    given |= {"subnormals": subnormals, "operand": operand, "output": output}
    precision = find_precision(precision)
    dtype = left.dtype if precision == "default" and left.dtype == right.dtype else None
    options = {"stalls": stalls, "vcd": vcd, "window": window, "accumulate": accumulate, "units": units, "port": port}
    with _opened(engine, unit, given, dtype, options) as (config, chosen, reason, run):
        check_precision(precision, _name(config.operand), accumulate)
        _check_waveform(vcd, window, chosen, units, len(left))

        start = time.perf_counter()
        multiply = (
            partial(_multiply_at_once, chosen, accumulate=accumulate)
            if run is None
            else partial(_multiply_by_clock, run, units=units)
        )
        result, runs = multiply(config, left, right, precision=precision, progress=progress)
    statistics = _statistics(
        config,
        (len(left), *left.shape[1:], right.shape[2]),
        runs,
        accumulate=accumulate,
        precision=precision,
        units=units,
        engine=chosen,
        reason=reason,
        seconds=time.perf_counter() - start,
    )
    return Product(result.reshape(shape), statistics)


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    unit: MxuConfig | None = None,
    rows: int | None = None,
    columns: int | None = None,
    stages: int | None = None,
    subnormals: str | None = None,
    operand: str | None = None,
    output: str | None = None,
    splitter: bool | None = None,
    accumulate: str = "fp32",
    precision: str = "default",
    units: int = 1,
    engine: str = "auto",
    port: str | None = None,
    stalls: int | None = None,
    vcd: Path | str | None = None,
    window: Window | None = None,
    progress: Progress | None = None,
) -> Any:
    """The product that the unit computes, bit for bit; parameters and errors as of :func:`simulate`.

    An array of NumPy's, or of JAX's or a tensor of PyTorch's if an operand is one. These have no derivatives:
    ``openmxu_sim.torch`` and ``openmxu_sim.jax`` have a ``matmul`` for networks.

    >>> import numpy as np
    >>> from openmxu_sim import matmul
    >>> matmul(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 1]]), rows=2, columns=2, engine="golden")
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    result = simulate(
        a,
        b,
        unit=unit,
        rows=rows,
        columns=columns,
        stages=stages,
        subnormals=subnormals,
        operand=operand,
        output=output,
        splitter=splitter,
        accumulate=accumulate,
        precision=precision,
        units=units,
        engine=engine,
        port=port,
        stalls=stalls,
        vcd=vcd,
        window=window,
        progress=progress,
    ).result
    return as_given(result, a, b)


def to_stacks(
    a: Any, b: Any, *, broadcast_to: Callable[..., Any] = np.broadcast_to, rules: str = "numpy.matmul"
) -> tuple[Any, Any, tuple[int, ...]]:
    """As many matrices of either, (products, M, K) and (products, K, N), and the shape of the result.

    Parameters
    ----------
    a, b
        Arrays of numpy, or of a framework whose arrays have numpy's methods.
    broadcast_to
        That of the framework.
    rules
        What errors say that has these rules.
    """
    left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    try:
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        stack = None
    if not a.ndim or not b.ndim or stack is None or left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"a and b must have the shapes (M, K) and (K, N), or others that {rules} takes, "
            f"not {tuple(a.shape)} and {tuple(b.shape)}"
        )
    shape = (*stack, *a.shape[-2:-1], *b.shape[1:][-1:])
    if right.ndim == 2:  # all rows of activations meet the same weights: that is one product
        left, stack = left.reshape(math.prod(left.shape[:-1]), left.shape[-1]), ()
    left, right = (
        broadcast_to(each, (*stack, *each.shape[-2:])).reshape(math.prod(stack), *each.shape[-2:])
        for each in (left, right)
    )
    return left, right, shape


def _name(fmt: FloatFormat) -> str:
    """What the golden model calls a format of the unit."""
    name = golden_name(fmt)
    if name is None:
        raise ValueError(f"unit must have operands in fp8_e4m3 or in a format with infinities, not in {fmt}")
    return name


def _unit(unit: MxuConfig | None, shorthand: Mapping[str, Any], dtype: np.dtype[Any] | None) -> MxuConfig:
    """The unit that was asked for; ``dtype``: of both arrays, if they are of one and there is one pass."""
    given = {name: value for name, value in shorthand.items() if value is not None}
    if unit is None:
        operand = FloatFormat.parse(given.pop("operand", "bf16"), "operand")
        output = given.pop("output", "fp32")
        _check_choice("output", output, dict.fromkeys(("fp32", operand.name)))
        narrow = dtype is not None and dtype == golden.DTYPES.get(_name(operand)) and not given.get("splitter")
        result = FP32 if output == "fp32" else operand
        return MxuConfig(**given, operand=operand, source=operand if narrow else FP32, result=result, status=True)
    if not isinstance(unit, MxuConfig):
        raise TypeError(f"unit must be an MxuConfig, not {unit!r}")
    if given:
        raise ValueError(f"{next(iter(given))} must not be given together with unit")
    if unit.source != FP32:
        wanted = golden.DTYPES.get(_name(unit.source))
        if wanted is None:
            raise ValueError(f"unit must have fp32 streams, as there are no arrays of {unit.source}")
        if dtype != wanted:
            raise ValueError(f"a unit with {unit.source} streams requires {wanted} a and b and precision 'default'")
    return replace(unit, status=True)


def _engine(engine: str, config: MxuConfig, accumulate: str, *, clocked: Mapping[str, object]) -> tuple[str, str]:
    """The engine, chosen if that is left to us, and why; ``clocked`` are options that need a clock, if not ``None``."""
    needs = next((name for name, value in clocked.items() if value is not None), None)
    if accumulate != "fp32" and (engine in CLOCKED or needs is not None):
        raise ValueError(f"accumulate must be 'fp32' on an engine with a clock, not {accumulate!r}")
    if engine == "auto":
        if accumulate == "fp32":
            engine, reason = choose(config, clocked=needs is not None)
        else:
            engine, reason = quickest_product(), "auto: the hardware has fp32 sums"
        _log.info("engine %s: %s", engine, reason)
        return engine, reason
    if engine not in CLOCKED and needs is not None:
        raise ValueError(f"{needs} needs an engine with a clock ({', '.join(CLOCKED)}), not {engine!r}")
    require(engine)
    return engine, "requested"


def _check_waveform(vcd: Path | str | None, window: Window | None, engine: str, units: int, products: int) -> None:
    if window is not None and (engine != "compiled" or vcd is None):
        given = "vcd=None" if vcd is None else f"engine {engine!r}"
        raise ValueError(f"window requires vcd and engine 'compiled', not {given}")
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
) -> Iterator[tuple[MxuConfig, str, str, Callable[..., Run] | None]]:
    """The unit, the engine and why it is this one, and what runs a stimulus on it, if it has a clock."""
    clocked = {name: options[name] for name in ("vcd", "stalls")}
    if engine == BOARD:
        _check_board(options["accumulate"], options["units"], clocked)
        with connect(options["port"] or "auto") as board:
            config = _unit_of(board, unit, shorthand, dtype)
            yield config, engine, f"requested, on {board.port}", board.run
        return
    config = _unit(unit, shorthand, dtype)
    engine, reason = _engine(engine, config, options["accumulate"], clocked=clocked)
    run = partial(load(engine), **_options(**clocked, window=options["window"])) if engine in CLOCKED else None
    yield config, engine, reason, run


def _options(vcd: Path | str | None, stalls: int | None, window: Window | None) -> dict[str, Any]:
    """Options of an engine with a clock that are the same for all units."""
    options: dict[str, Any] = {} if window is None else {"window": window}
    waits = None if stalls is None else Stalls(stalls)
    return options | {"stalls": waits, "vcd": None if vcd is None else Path(vcd)}


def _check_board(accumulate: str, units: int, clocked: Mapping[str, object]) -> None:
    """Refuse what a board does not have."""
    refused = {"accumulate": (accumulate, "fp32"), "units": (units, 1)}
    refused |= {name: (value, None) for name, value in clocked.items()}
    for name, (value, only) in refused.items():
        if value != only:
            raise ValueError(f"{name} must be {only!r} on engine {BOARD!r}, not {value!r}")


def _unit_of(
    board: Device, unit: MxuConfig | None, shorthand: Mapping[str, Any], dtype: np.dtype[Any] | None
) -> MxuConfig:
    """The board's unit, with the streams that suit operands of a type: the host converts what the board does not."""
    found = board.config
    has = {name: getattr(found, name) for name in ("rows", "columns", "stages", "splitter", "subnormals")}
    has |= {"operand": found.operand.name, "output": found.result.name}
    for name, value in shorthand.items():
        if value is not None and value != has[name]:
            raise ValueError(f"{name} must be {has[name]!r}, as of the board on {board.port}, not {value!r}")
    if unit is not None and replace(unit, source=found.source, status=True) != found:
        raise ValueError(f"unit must be the one of the board on {board.port}, {found}, not {unit}")
    narrow = dtype is not None and dtype == golden.DTYPES.get(_name(found.operand))
    return replace(found, source=found.operand if narrow else FP32)


def _multiply_at_once(
    engine: str,
    config: MxuConfig,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    *,
    accumulate: str,
    precision: str,
    progress: Progress | None,
) -> tuple[npt.NDArray[Any], None]:
    """Products of (P, M, K) and (P, K, N) without a clock."""
    options: dict[str, Any] = {
        "rows": config.rows,
        "precision": precision,
        "subnormals": config.subnormals,
        "operand": _name(config.operand),
        "accumulate": accumulate,
        "result": _name(config.result),
    }
    if engine == "model":
        return model.products(golden.to_bits(a), golden.to_bits(b), progress=progress, **options), None
    result = _empty(config, a, b)
    for values, left, right in zip(result, a, b, strict=True):
        values[:] = golden.matmul(left, right, **options)
    return result, None


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
    """Products of (P, M, K) and (P, K, N), one after the other, and their runs on each unit."""
    result, runs = _empty(config, a, b), []
    for number, (values, left, right) in enumerate(zip(result, a, b, strict=True)):
        share = share_of(progress, number, len(a))
        values[:], among = _run_on_units(run, config, left, right, precision=precision, units=units, progress=share)
        runs.append(among)
    return result, runs


def _empty(config: MxuConfig, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What results go into."""
    dtype = golden.DTYPES.get(_name(config.result), np.dtype(np.float32))
    return np.empty((len(a), a.shape[1], b.shape[2]), dtype)


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
    left, right = (
        golden.to_bits(each)
        if config.source == FP32
        else np.ascontiguousarray(each).view(f"u{each.itemsize}").astype(np.uint32)
        for each in (a, b)
    )
    (m, k), n = left.shape, right.shape[1]
    among = shares(config, n, units) if m and k else []

    words, runs = np.zeros((m, n), dtype=np.uint32), []
    for unit, share in enumerate(among):
        columns = slice(share.start, share.stop)
        given = stimulus(config, left, np.ascontiguousarray(right[:, columns]), precision)
        runs.append(run(given, progress=share_of(progress, unit, len(among))))
        words[:, columns] = collect(config, runs[-1].beats, m, k, len(share))
    return golden.to_array(words, _name(config.result)), runs


def _statistics(
    config: MxuConfig,
    sizes: tuple[int, int, int, int],
    runs: Sequence[Sequence[Run]] | None,
    *,
    accumulate: str,
    precision: str,
    units: int,
    engine: str,
    reason: str,
    seconds: float,
) -> Statistics:
    """Statistics of products; ``runs``: of each product on each unit, ``None`` of an engine without a clock."""
    products, m, k, n = sizes
    passes = len(PASSES[precision])
    # A board may have no counters: then its cycles are not known, either.
    counted = runs is not None and all(each.cycles for among in runs for each in among)
    if runs is None or not counted:
        cycles, source = products * cycle_formula(config, m, k, n, precision, units), "formula"
    else:
        cycles, source = sum(max((each.cycles for each in among), default=0) for among in runs), "measured"
    counters = [each.counters for among in runs or () for each in among if each.counters is not None]
    traffic = stream_bytes(config, m, k, n, precision)
    return Statistics(
        engine=engine,
        reason=reason,
        config=config,
        units=units,
        accumulate=accumulate,
        precision=precision,
        products=products,
        m=m,
        k=k,
        n=n,
        passes=passes,
        cycles=cycles,
        cycles_source=source,
        utilisation=products * passes * m * k * n / (units * config.rows * config.columns * cycles) if cycles else 0.0,
        **{
            name: sum(getattr(each, name) for each in counters) if counted else None
            for name in ("busy", "input_stalls", "output_stalls")
        },
        weight_bytes=products * traffic.weights,
        activation_bytes=products * traffic.activations,
        result_bytes=products * traffic.results,
        seconds=seconds,
    )


def _check_choice(parameter: str, value: str, domain: Collection[str]) -> None:
    if value not in domain:
        raise ValueError(f"{parameter} must be {' or '.join(repr(v) for v in domain)}, not {value!r}")
