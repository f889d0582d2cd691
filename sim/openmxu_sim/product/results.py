"""A product, and where its cycles went."""

from dataclasses import dataclass, fields
from typing import Any

import numpy.typing as npt

from openmxu.spec.config import MxuConfig

_SHOWN = 8
"""Most rows, and columns, of a result that a notebook shows."""


@dataclass(frozen=True)
class Statistics:
    """Facts about a product besides its value: engine, unit, sizes, cycles, traffic and time."""

    engine: str
    """The engine that computed it."""
    reason: str
    """Reason for this engine: ``"requested"``, or why ``auto`` chose it."""
    config: MxuConfig
    units: int
    """The unit, and the number of such units."""
    accumulate: str
    """Format of the sums."""
    precision: str
    """One of :data:`PRECISIONS`."""
    products: int
    m: int
    k: int
    n: int
    passes: int
    """Number of products, their sizes, and the number of passes over parts of the operands that make each."""
    cycles: int
    """Cycles from the first beat taken on either input stream to the last result beat given, both included; the most of
    several units, the sum of several products."""
    cycles_source: str
    """``"measured"`` on a clock, or ``"formula"``."""
    utilisation: float
    """products·passes·M·K·N / (units·R·C·cycles): the share of multiply-adds that were useful; 0 for an empty
    product."""
    busy: int | None
    input_stalls: int | None
    output_stalls: int | None
    """Sums of the units' own counters: cycles in which a beat of activations entered an array, in which none entered
    for want of activations or weights, and in which none entered for want of a place for its sums; see
    :func:`openmxu.unit.status.status_signature`. ``None`` without a clock."""
    weight_bytes: int
    activation_bytes: int
    result_bytes: int
    """Bytes on the streams, padding included."""
    seconds: float
    """Wall time on this machine, building the simulation included."""

    def as_dict(self) -> dict[str, Any]:
        """The statistics as plain data, the parameters of the unit among them."""
        config = self.config
        unit = {
            **{name: getattr(config, name) for name in ("rows", "columns", "stages", "terms", "subnormals")},
            "operand": config.operand.name,
            "source": config.source.name,
            "output": config.result.name,
            "splitter": config.splitter,
            "depth": config.depth,
        } | ({} if config.weight is None else {"weight": config.weight.name})
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "config"}
        return {name: own.pop(name) for name in ("engine", "reason")} | unit | own


@dataclass(frozen=True)
class Product:
    """A result and its statistics."""

    result: npt.NDArray[Any]
    """The product's shape by numpy's rules; (M, N) of two matrices. Its type is that of
    :data:`openmxu_sim.golden.DTYPES` for the unit's ``result``, float32 where there is none."""
    statistics: Statistics
    """Its engine, unit, cycles, traffic and time."""

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the sizes, the cycles, and a corner of the result."""
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
