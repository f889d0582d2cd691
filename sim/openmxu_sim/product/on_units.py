"""Matrix products on the simulated unit."""

import time
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec

import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles as cycle_formula
from openmxu.spec.tiling import stream_bytes
from openmxu_sim import golden
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.engines.protocol import Run
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.golden.parameters import UnitOptions, Unpack, with_options
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.product.request import Streams, make_request
from openmxu_sim.product.results import Product, Statistics
from openmxu_sim.product.sessions import Session, multiply, open_session
from openmxu_sim.product.shapes import as_given, as_operand, to_stacks

PRECISIONS = tuple(PASSES)
"""Names of the ways to multiply fp32 numbers: in one pass of bf16, or in three, six or nine."""


@ieee_arithmetic()
@with_options(UnitOptions)
def simulate(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    unit: MxuConfig | None = None,
    columns: int | None = None,
    stages: int | None = None,
    output: str | None = None,
    splitter: bool | None = None,
    units: int = 1,
    engine: str = "auto",
    port: str | None = None,
    stalls: int | None = None,
    vcd: Path | str | None = None,
    window: Window | None = None,
    progress: Progress | None = None,
    **numerics: Unpack[UnitOptions],
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
    columns, stages, output, splitter
        Parameters of the unit in place of ``unit``, as are ``rows``, ``terms``, ``subnormals``, ``operand`` and
        ``weight`` of ``numerics``, see :class:`openmxu.spec.config.MxuConfig`; 128, 1, ``"fp32"`` and false by default.
        ``output``, fp32 or the operand format, is the unit's ``result``. If both arrays have the type of the one format
        and one pass will do, the unit's streams carry that format, else fp32.
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
    numerics
        The parameters of the table in :doc:`/explanation/numerics`, ``gradient`` apart. Where no hardware computes
        them, engines without a clock do: 16 and 32 terms with the cycles of 8. All engines take MX numbers, such as
        ``"mxfp4"``, as the bf16 numbers that they are.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain; the text names it, the domain and the value.
    OSError
        There is no board, or its port cannot be opened.
    RuntimeError
        The engine failed.
    """
    array = {"columns": columns, "stages": stages, "output": output, "splitter": splitter}
    streams = Streams(engine, port, golden.check_count(units, "units"), stalls, vcd, window)
    request = make_request(unit, array, numerics, streams)
    left, right, shape = to_stacks(as_operand(a, "a"), as_operand(b, "b"))
    left, right = request.decoded(left, right)
    with open_session(request, left, right) as session:
        start = time.perf_counter()
        result, runs = multiply(session, left, right, progress)
    sizes = len(left), *left.shape[1:], right.shape[2]
    statistics = _statistics(session, sizes, runs, time.perf_counter() - start)
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
    product = simulate(a, b, **options)
    return as_given(product.result, a, b)


def _statistics(
    session: Session, sizes: tuple[int, int, int, int], runs: Sequence[Sequence[Run]] | None, seconds: float
) -> Statistics:
    """Return the statistics of products; ``runs``: by product and unit, ``None`` on an engine without a clock."""
    config, request, (products, m, k, n) = session.config, session.request, sizes
    precision, units = request.precision, request.streams.units
    passes = len(PASSES[precision])
    # A board may have no counters: then its cycles are not known, either.
    counted = runs is not None and all(record.cycles for among in runs for record in among)
    if runs is None or not counted:
        cycles, source = products * cycle_formula(config, m, k, n, precision, units), "formula"
    else:
        cycles, source = sum(max((record.cycles for record in among), default=0) for among in runs), "measured"
    counters = [record.counters for among in runs or () for record in among if record.counters is not None]
    busy, input_stalls, output_stalls = (
        sum(getattr(record, name) for record in counters) if counted else None
        for name in ("busy", "input_stalls", "output_stalls")
    )
    traffic = stream_bytes(config, m, k, n, precision)
    return Statistics(
        engine=session.engine,
        reason=session.reason,
        config=config,
        units=units,
        accumulate=request.accumulate,
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
        busy=busy,
        input_stalls=input_stalls,
        output_stalls=output_stalls,
        seconds=seconds,
    )
