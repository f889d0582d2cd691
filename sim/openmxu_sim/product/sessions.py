"""Sessions: the engine that was chosen for a request, and the products that it computes."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.tiling import shares
from openmxu_sim import golden
from openmxu_sim.engines import BOARD, CLOCKED, choose, connect, load, model, quickest_product, require
from openmxu_sim.engines.known_answer import golden_name
from openmxu_sim.engines.protocol import Device, Run
from openmxu_sim.golden.formats import Bits
from openmxu_sim.golden.setup import check_precision
from openmxu_sim.golden.specifications import largest_magnitude
from openmxu_sim.operands.aliases import Progress, Words, share_of
from openmxu_sim.operands.stimulus import Stalls, collect, stimulus
from openmxu_sim.product.request import Request, check_choice

_log = logging.getLogger(__name__)

_Stack = npt.NDArray[Any]
_Dtype = np.dtype[Any] | None


@dataclass(frozen=True)
class Session:
    """An engine that is ready for products on a unit."""

    request: Request
    config: MxuConfig
    engine: str
    reason: str
    """Reason for this engine."""
    run: Callable[..., Run] | None = None
    """Runs a stimulus, on an engine with a clock."""


@contextmanager
def open_session(request: Request, a: _Stack, b: _Stack) -> Iterator[Session]:
    """Choose unit and engine for such operands, and check both."""
    dtype = a.dtype if request.precision == "default" and a.dtype == b.dtype else None
    if request.streams.engine == BOARD:
        request.check_clock(f"engine {BOARD!r}")
        request.streams.check_board()
        with connect(request.streams.port or "auto") as board:
            config = _unit_of(board, request, dtype)
            _check_passes(request, config)
            _check_waveform(request, BOARD, len(a))
            yield Session(request, config, BOARD, f"requested, on {board.port}", board.run)
        return
    config = _unit(request, dtype)
    _check_passes(request, config)  # before an engine is compiled for it
    engine, reason = _engine(request, config)
    _check_waveform(request, engine, len(a))
    yield Session(request, config, engine, reason, _clock(request, engine) if engine in CLOCKED else None)


def _check_passes(request: Request, config: MxuConfig) -> None:
    operand = request.software.get("operand", _name(config.operand))
    check_precision(request.precision, operand, request.accumulate)


def _name(fmt: FloatFormat) -> str:
    """Return the golden model's name of a format of the unit."""
    name = golden_name(fmt)
    if name is None:
        raise ValueError(f"unit must have operands in fp8_e4m3 or in a format with infinities, not in {fmt}")
    return name


def _unit(request: Request, dtype: _Dtype) -> MxuConfig:
    """Return the unit that was asked for; ``dtype``: the type of both arrays if they have one and there is one pass."""
    unit, values = request.unit, dict(request.given)
    if unit is None:
        operand = FloatFormat.parse(values.pop("operand", "bf16"), "operand")
        output = values.pop("output", "fp32")
        check_choice("output", output, *dict.fromkeys(("fp32", operand.name)))
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


def _engine(request: Request, config: MxuConfig) -> tuple[str, str]:
    """Return the engine, chosen if ``auto``, and the reason."""
    engine, needs = request.streams.engine, request.streams.needs
    if engine in CLOCKED or needs is not None:
        request.check_clock("an engine with a clock")
    if engine == "auto":
        if not request.software:
            engine, reason = choose(config, clocked=needs is not None)
        else:
            engine, reason = quickest_product(), f"auto: {request.why}"
        _log.info("engine %s: %s", engine, reason)
        return engine, reason
    if engine not in CLOCKED and needs is not None:
        raise ValueError(f"{needs} needs an engine with a clock ({', '.join(CLOCKED)}), not {engine!r}")
    require(engine)
    return engine, "requested"


def _check_waveform(request: Request, engine: str, products: int) -> None:
    """Refuse waveforms that the chosen engine does not write."""
    vcd, window, units = request.streams.vcd, request.streams.window, request.streams.units
    if window is not None and (engine != "compiled" or vcd is None):
        argument = "vcd=None" if vcd is None else f"engine {engine!r}"
        raise ValueError(f"window requires vcd and engine 'compiled', not {argument}")
    if vcd is not None and units > 1:
        raise ValueError(f"units must be 1 for a waveform, not {units}")
    if vcd is not None and products != 1:
        raise ValueError(f"a and b must be one product for a waveform, not {products}")


def _clock(request: Request, engine: str) -> Callable[..., Run]:
    """Return the function that runs a stimulus on an engine with a clock, as the request says."""
    stalls, vcd, window = request.streams.stalls, request.streams.vcd, request.streams.window
    part: dict[str, Any] = {} if window is None else {"window": window}  # which other engines do not take
    waits, file = None if stalls is None else Stalls(stalls), None if vcd is None else Path(vcd)
    return partial(load(engine), stalls=waits, vcd=file, **part)


def _unit_of(board: Device, request: Request, dtype: _Dtype) -> MxuConfig:
    """Return the board's unit with streams for operands of ``dtype``: the host converts what the board does not."""
    config = board.config
    has = {name: getattr(config, name) for name in ("rows", "columns", "stages", "terms", "splitter", "subnormals")}
    has |= {"operand": config.operand.name, "weight": config.weight_format.name, "output": config.result.name}
    for name, value in request.given.items():
        if value != has[name]:
            raise ValueError(f"{name} must be {has[name]!r}, as of the board on {board.port}, not {value!r}")
    unit = request.unit
    if unit is not None and replace(unit, source=config.source, status=True) != config:
        raise ValueError(f"unit must be the one of the board on {board.port}, {config}, not {unit}")
    narrow = dtype is not None and dtype == golden.DTYPES.get(_name(config.operand))
    return replace(config, source=config.operand if narrow else FP32)


def multiply(
    session: Session, a: _Stack, b: _Stack, progress: Progress | None
) -> tuple[_Stack, list[list[Run]] | None]:
    """Return products of (P, M, K) and (P, K, N), and, by product and unit, their runs on a clock."""
    if session.run is not None:
        return _multiply_by_clock(session.run, session, a, b, progress)
    config = session.config
    options: dict[str, Any] = {
        "rows": config.rows,
        "precision": session.request.precision,
        "subnormals": config.subnormals,
        "terms": config.terms,
        "operand": _name(config.operand),
        "weight": _name(config.weight_format),
        "result": _name(config.result),
        **session.request.software,
    }
    return _AT_ONCE[session.engine](golden.to_bits(a), golden.to_bits(b), progress=progress, **options), None


def _golden_products(
    a: Bits, b: Bits, *, result: str, subnormals: str, seed: int = 0, progress: Progress | None, **options: Any
) -> _Stack:
    """Multiply one by one; a scale of a whole tensor is that of the stack, and each product has the next seed."""
    products = np.empty((len(a), a.shape[1], b.shape[2]), golden.DTYPES.get(result, np.dtype(np.float32)))
    options |= {"subnormals": subnormals, "result": result}
    options["largest"] = tuple(largest_magnitude(stack, subnormals) for stack in (a, b))
    for number, (left, right) in enumerate(zip(golden.from_bits(a), golden.from_bits(b), strict=True)):
        products[number] = golden.matmul(left, right, seed=seed + number, **options)
    return products


_AT_ONCE: Mapping[str, Callable[..., _Stack]] = {"golden": _golden_products, "model": model.products}
"""Engines without a clock."""


def _multiply_by_clock(
    run: Callable[..., Run], session: Session, a: _Stack, b: _Stack, progress: Progress | None
) -> tuple[_Stack, list[list[Run]]]:
    """Products one after the other, as are the units, and their runs on each of these."""
    config, units = session.config, session.request.streams.units
    (count, m, k), n = a.shape, b.shape[2]
    dtype = golden.DTYPES.get(_name(config.result), np.dtype(np.float32))
    result, runs = np.empty((count, m, n), dtype), list[list[Run]]()
    among = shares(config, n, units) if m and k else []
    for number, values in enumerate(result):
        left, right = (_words(config, stack[number]) for stack in (a, b))
        words, whole = np.zeros((m, n), dtype=np.uint32), share_of(progress, number, count)
        runs.append([])
        for unit, share in enumerate(among):
            columns = slice(share.start, share.stop)
            inputs = stimulus(config, left, np.ascontiguousarray(right[:, columns]), session.request.precision)
            runs[-1].append(run(inputs, progress=share_of(whole, unit, len(among))))
            words[:, columns] = collect(config, runs[-1][-1].beats, m, k, len(share))
        values[:] = golden.to_array(words, _name(config.result))
    return result, runs


def _words(config: MxuConfig, matrix: npt.NDArray[Any]) -> Words:
    """Return a matrix as words of the unit's streams."""
    if config.source == FP32:
        return golden.to_bits(matrix)
    return np.ascontiguousarray(matrix).view(f"u{matrix.itemsize}").astype(np.uint32)
