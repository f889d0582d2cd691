"""A product with a known result, with which a newly compiled program is tried before it is cached.

A wrong answer need not be the compiler's fault: the user may have changed the hardware and wants to see the effect.
Amaranth's own simulator, which compiles nothing, decides.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FloatFormat
from openmxu_sim import golden
from openmxu_sim.cosim.process import SimulationError
from openmxu_sim.engines.protocol import Run
from openmxu_sim.golden.formats import Bits
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stimulus, collect, stimulus

_M, _N = 3, 5
"""Rows and, at most, columns of the result. The inner dimension is two more than the unit's rows: two tiles."""


def question(config: MxuConfig) -> Stimulus:
    """Return the product for a unit: patterns of every sort, or zeros in a format that the golden model lacks."""
    m, k, n = _sizes(config)
    name = golden_name(config.source)
    if name is None or None in (golden_name(config.operand), golden_name(config.weight_format)):
        return stimulus(config, np.zeros((m, k), np.uint32), np.zeros((k, n), np.uint32))
    return stimulus(config, vectors.matrix((m, k), name, 1), np.ascontiguousarray(vectors.matrix((n, k), name, 2).T))


def difference(config: MxuConfig, run: Run) -> str:
    """Describe the error in the answer of a run, in words; empty if it is right."""
    asked = question(config)
    m, k, n = _sizes(config)
    if run.beats.shape != (asked.results, config.columns):
        return f"it gave {len(run.beats)} of {asked.results} rows of a known product"
    words, right = collect(config, run.beats, m, k, n), _answer(config, asked)
    wrong = np.argwhere(words != right)
    if not len(wrong):
        return ""
    row, column = wrong[0]
    return f"row {row}, column {column} of a known product is {right[row, column]:08x}, not {words[row, column]:08x}"


def check_simulation(simulator: str, config: MxuConfig, run: Run | None) -> None:
    """Raise an error if a run of :func:`question` on a simulator's build is wrong, unless the hardware is to blame."""
    wrong = "its test bench fails" if run is None else difference(config, run)
    if wrong and not hardware_differs(config):
        raise SimulationError(f"{simulator} built a simulation that does not work: {wrong}")


@lru_cache(maxsize=16)
def hardware_differs(config: MxuConfig) -> bool:
    """Whether the hardware itself answers wrongly, tried in Amaranth's simulator as a unit of the fewest rows."""
    from openmxu_sim.engines import pysim  # noqa: PLC0415  # hardly ever needed

    small = replace(config, rows=min(config.rows, max(2, config.terms)), columns=min(config.columns, 2))
    try:
        return bool(difference(small, pysim.run(question(small))))
    except RuntimeError:  # it hangs
        return True


def _sizes(config: MxuConfig) -> tuple[int, int, int]:
    return _M, config.rows + 2, min(config.columns, _N)


def golden_name(fmt: FloatFormat) -> str | None:
    """Return the golden model's name of a format; ``None`` if it has none."""
    if fmt == FORMATS.get(fmt.name):
        return fmt.name
    return f"e{fmt.exponent_width}f{fmt.fraction_width}" if fmt.has_infinity else None


def _answer(config: MxuConfig, asked: Stimulus) -> Bits:
    source, operand, result = map(golden_name, (config.source, config.operand, config.result))
    weight = golden_name(config.weight_format)
    if source is None or operand is None or result is None or weight is None:
        return np.zeros((asked.a.shape[0], asked.b.shape[1]), np.uint32)
    a, b = (golden.from_bits(bits, source) for bits in (asked.a, asked.b))
    how: dict[str, Any] = {"rows": config.rows, "subnormals": config.subnormals, "terms": config.terms}
    words = golden.to_bits(golden.matmul(a, b, **how, operand=operand, weight=weight))
    return words if result == "fp32" else golden.convert(words, "fp32", result, subnormals=config.subnormals)
