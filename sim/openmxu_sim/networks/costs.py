"""Costs of a network on a unit, layer by layer: products, cycles, bytes, and losses of operands in conversion."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from openmxu.pages.tables import table
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles as cycle_formula
from openmxu.spec.tiling import stream_bytes
from openmxu_sim import golden
from openmxu_sim.golden.specifications import Operand, find_operand, prepare
from openmxu_sim.networks.errors import Errors, measure
from openmxu_sim.networks.numerics import Numerics, Product, Work
from openmxu_sim.operands.aliases import Floats

if TYPE_CHECKING:
    from openmxu.area.finding.units import UnitEnergy

_INFINITY = 0x7F800000
"""Infinity as a pattern of fp32: all finite numbers are below."""


@dataclass(frozen=True)
class Losses:
    """Operands that conversion changes beyond rounding; zeros, infinities and NaNs are not counted."""

    operands: int = 0
    """Number of all operands."""
    flushed: int = 0
    """Number of operands that become zero."""
    overflowed: int = 0
    """Number of operands that become infinite, or NaN where the format has no infinity."""

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(self.operands + other.operands, self.flushed + other.flushed, self.overflowed + other.overflowed)


def losses(array: Floats, operand: str, subnormals: str) -> Losses:
    """Count the losses in the conversion of an array, whose last two axes are a matrix, to a unit's operands."""
    side = find_operand(operand)
    if not side.is_plain:
        return _losses_of_scaled(array, side, subnormals)
    zero, infinite = _bounds(operand, subnormals)
    magnitudes = array.view(np.uint32) & 0x7FFFFFFF
    others = int(np.count_nonzero(magnitudes))
    below = int(np.count_nonzero(magnitudes <= zero))
    too_large = infinities = 0
    if magnitudes.max(initial=0) > infinite:  # seldom, so looked at only then
        too_large, infinities = (int(np.count_nonzero(magnitudes > bound)) for bound in (infinite, _INFINITY - 1))
    return Losses(others - infinities, below - (array.size - others), too_large - infinities)


def _losses_of_scaled(array: Floats, side: Operand, subnormals: str) -> Losses:
    """Count numbers that become zero, or too large, after they have been scaled."""
    matrix = np.ascontiguousarray(array).reshape(-1, array.shape[-1] if array.ndim else 1)
    noise = partial(np.zeros, matrix.shape)
    bits = prepare(matrix.view(np.uint32), side, subnormals=subnormals, noise=noise).bits
    after = golden.from_bits(golden.convert(bits, "fp32", side.format.name, subnormals=subnormals), side.format.name)
    there = np.isfinite(matrix) & (matrix != 0)
    lost, beyond = np.count_nonzero(there & (after == 0)), np.count_nonzero(there & ~np.isfinite(after))
    return Losses(int(np.count_nonzero(there)), int(lost), int(beyond))


def flushed_operand(product: Product) -> str | None:
    """Say which operand of a product, in a unit without subnormals, loses more than 90 % of its numbers to zero.

    A sample decides whether all numbers are looked at, so that this takes some microseconds.
    """
    how = product.numerics
    for array, spec in ((product.a, how.operand), (product.b, how.weight_format)):
        bound, is_scaled = _flushed_below(spec, how.subnormals)
        if not (bound and array.size):
            continue
        if is_scaled:
            peak = float(max(array.max(), -array.min()))
            bound *= peak if np.isfinite(peak) else float(np.max(np.abs(array[np.isfinite(array)]), initial=0))
        flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
        sample = np.abs(flat[:: array.size // 256 | 1])
        there = np.count_nonzero(sample)
        if np.count_nonzero(sample < bound) - (sample.size - there) <= 0.9 * there:
            continue
        lost = losses(array, spec, how.subnormals)
        if lost.flushed > 0.9 * lost.operands:
            return f"{lost.flushed:,} of {lost.operands:,} numbers that are not zero become zero in {spec}"
    return None


@lru_cache(maxsize=64)
def _flushed_below(operand: str, subnormals: str) -> tuple[float, bool]:
    """Return a bound of numbers that become zero, 0 if none matter, and whether it is a share of the largest."""
    side = find_operand(operand)
    fmt = side.format
    if subnormals != "flush" or fmt.exponent_width >= FP32.exponent_width:
        return 0.0, False
    scaled = 2 * fmt.min_normal / fmt.max_finite  # a scale that is a power of two may be twice as large as it must be
    return (scaled, True) if side.group else (fmt.min_normal, False)


@lru_cache(maxsize=64)
def _bounds(operand: str, subnormals: str) -> tuple[int, int]:
    """Return the largest fp32 patterns that become zero, and that become finite: conversion keeps their order."""

    def last(holds: Callable[[int], bool]) -> int:
        low, high = 0, _INFINITY  # it holds for the first, and not for the second
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    def converted(pattern: int) -> float:
        bits = golden.convert(np.array([pattern], np.uint32), "fp32", operand, subnormals=subnormals)
        return float(golden.from_bits(golden.convert(bits, operand, "fp32", subnormals="ieee"))[0])

    return last(lambda pattern: converted(pattern) == 0), last(lambda pattern: bool(np.isfinite(converted(pattern))))


@dataclass(frozen=True)
class Cost:
    """Cost of products of one kind on a unit."""

    work: Work
    """The kind of product."""
    times: int
    """Number of times that it was asked for."""
    cycles: int
    """Cycles of all of them, by the formula."""
    utilisation: float
    """Share of the array's multiply-adds that were useful."""
    weight_bytes: int
    activation_bytes: int
    result_bytes: int
    """Bytes on the streams, padding included."""
    losses: Losses | None
    """Losses of all operands; ``None`` if they were not looked at."""
    errors: Errors | None = None
    """Errors of all results; ``None`` if they were not measured."""


@dataclass(frozen=True)
class Costs:
    """Costs of a network on a unit, in the order in which its products were first asked for."""

    config: MxuConfig
    numerics: Numerics
    """The unit."""
    rows: tuple[Cost, ...]
    """Costs of each kind of product."""
    energy: "UnitEnergy | None" = None
    """Energy of the unit's parts; ``None`` if they were not measured, see
    :func:`openmxu_sim.energy.inference.with_energies`."""

    @property
    def cycles(self) -> int:
        """Cycles of all products, one after the other."""
        return sum(row.cycles for row in self.rows)

    @property
    def utilisation(self) -> float:
        """Utilisation over all cycles."""
        return sum(row.utilisation * row.cycles for row in self.rows) / self.cycles if self.cycles else 0.0

    @property
    def millijoules(self) -> float | None:
        """Energy of all products if parts were measured; see :class:`openmxu.area.finding.units.UnitEnergy`."""
        return None if self.energy is None else sum(self._millijoules(self.energy, row) for row in self.rows)

    def _millijoules(self, energy: "UnitEnergy", row: Cost) -> float:
        """Return the energy of a row: of its products, and of those that elements could have had beside them."""
        places = self.config.rows * self.config.columns * row.cycles
        useful = row.utilisation * places
        return (useful * energy.product() + (places - useful) * energy.idle) / 1e9

    def as_dict(self) -> dict[str, Any]:
        """Return the costs as plain data."""
        energy = self.energy
        of_unit = {} if energy is None else {"energy": {**asdict(energy), "millijoules": self.millijoules}}
        of_rows = [{} if energy is None else {"millijoules": self._millijoules(energy, row)} for row in self.rows]
        return {
            "unit": {name: getattr(self.config, name) for name in ("rows", "columns", "stages", "depth")},
            "numerics": asdict(self.numerics),
            "cycles": self.cycles,
            "cycles_source": "formula",
            "utilisation": self.utilisation,
            **of_unit,
            "layers": [{**_row(row), **more} for row, more in zip(self.rows, of_rows, strict=True)],
        }

    def to_markdown(self) -> str:
        """Return the totals, and a table of all kinds of products."""
        unit, how, energy = self.config, self.numerics, self.energy
        energies = None if energy is None else [self._millijoules(energy, row) for row in self.rows]
        return "\n".join(
            [
                f"On a {unit.rows}x{unit.columns} unit with {how.operand} operands, {unit.stages} stage"
                f"{'s' if unit.stages > 1 else ''}, precision {how.precision}: {self.cycles:,} cycles by the formula, "
                f"{self.utilisation:.1%} of the array in use.{self._energy_in_words()}",
                "",
                _table(self.rows, energies),
            ]
        )

    def _energy_in_words(self) -> str:
        energy, sum_of_rows = self.energy, self.millijoules
        if energy is None or sum_of_rows is None:
            return ""
        return (
            f" {three_digits(sum_of_rows)} mJ, derived: parts mapped to {energy.library} take "
            f"{energy.product():.1f} pJ for a product and {energy.idle:.1f} pJ where there could be one, operands "
            "being of a normal distribution; without memories, wires and the clock's tree."
        )


def three_digits(value: float) -> str:
    """Format a value with three digits, or more where they stand before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _row(row: Cost) -> dict[str, Any]:
    plain = asdict(row)
    left_out = {"work"} if row.errors else {"work", "errors"}
    of_work = {name: value for name, value in row.work._asdict().items() if name != "direction" or value}
    return {**of_work, **{name: value for name, value in plain.items() if name not in left_out}}


def _table(rows: Sequence[Cost], energies: Sequence[float] | None) -> str:
    heads = ["layer", "operator", "times", "products", "M", "K", "N", "cycles", "in use", "MB"]
    seen = any(row.losses is not None for row in rows)
    measured = any(row.errors is not None for row in rows)
    heads += ["to zero", "to infinity"] if seen else []
    heads += ["direction", "SQNR, dB", "largest error"] if measured else []
    heads += ["mJ"] if energies else []
    shown = []
    for number, row in enumerate(rows):
        work = row.work
        megabytes = (row.weight_bytes + row.activation_bytes + row.result_bytes) / 1e6
        sizes = (row.times, work.products, work.m, work.k, work.n, row.cycles)
        cells = [
            work.layer,
            work.operator,
            *(f"{size:,}" for size in sizes),
            f"{row.utilisation:.1%}",
            three_digits(megabytes),
        ]
        if seen:
            cells += ["", ""] if row.losses is None else [str(row.losses.flushed), str(row.losses.overflowed)]
        if measured:
            errors = row.errors
            cells += [work.direction, f"{errors.sqnr:.1f}", f"{errors.largest:.2g}"] if errors else ["", "", ""]
        cells += [three_digits(energies[number])] if energies else []
        shown.append(cells)
    return table(heads, shown, words=2)


class Ledger:
    """Count the products that a unit is asked for; threads may share a ledger.

    Parameters
    ----------
    config, numerics
        The unit.
    """

    def __init__(self, config: MxuConfig, numerics: Numerics) -> None:
        self.config, self.numerics = config, numerics
        self.work: Counter[Work] = Counter()
        self.losses: dict[Work, Losses] = {}
        self.errors: dict[tuple[int, Work, Numerics], Errors] = {}
        self.step = 0
        self._lock = threading.Lock()

    def note(self, work: Work, product: Product | None = None, *, errors: bool = False) -> None:
        """Count products that were asked for; ``product``: to count losses of conversion; ``errors``: and errors."""
        lost, error = None, None
        if product is not None:
            how = product.numerics
            pairs = (product.a, how.operand), (product.b, how.weight_format)
            lost = sum((losses(array, spec, how.subnormals) for array, spec in pairs), Losses())
            error = measure(product, lost.operands, lost.flushed + lost.overflowed) if errors else None
        with self._lock:
            self.work[work] += 1
            if lost is not None:
                self.losses[work] = lost + self.losses.get(work, Losses())
            if error is not None:
                key = self.step, work, product.numerics if product else self.numerics
                self.errors[key] = error + self.errors.get(key, Errors())

    def errors_by_step(self) -> list[dict[str, Any]]:
        """Return the errors of each kind of product in each step, as plain data."""
        with self._lock:
            rows = list(self.errors.items())
        return [
            {
                "step": step,
                **work._asdict(),
                "operand": how.operand,
                "weight": how.weight_format,
                "sqnr_db": errors.sqnr,
                **asdict(errors),
            }
            for (step, work, how), errors in rows
        ]

    def costs(self) -> Costs:
        """Return the costs of all products so far."""
        with self._lock:
            errors: dict[Work, Errors] = {}
            for (_, work, _), error in self.errors.items():
                errors[work] = error + errors.get(work, Errors())
            noted = [(work, times, self.losses.get(work), errors.get(work)) for work, times in self.work.items()]
        return Costs(self.config, self.numerics, tuple(self._cost(*entry) for entry in noted))

    def _cost(self, work: Work, times: int, lost: Losses | None, errors: Errors | None) -> Cost:
        config, precision = self.config, self.numerics.precision
        count = times * work.products
        taken = cycle_formula(config, work.m, work.k, work.n, precision)
        moved = stream_bytes(config, work.m, work.k, work.n, precision)
        useful = len(PASSES[precision]) * work.m * work.k * work.n
        return Cost(
            work,
            times,
            count * taken,
            useful / (config.rows * config.columns * taken) if taken else 0.0,
            count * moved.weights,
            count * moved.activations,
            count * moved.results,
            lost,
            errors,
        )
