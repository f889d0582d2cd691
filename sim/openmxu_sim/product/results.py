"""A product, and where its cycles went."""

from dataclasses import dataclass, fields
from typing import Any

import numpy.typing as npt

from openmxu.spec.config import MxuConfig

__all__ = ["Product", "Statistics"]

_SHOWN = 8
"""Rows, and columns, of a result that a notebook shows."""


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
