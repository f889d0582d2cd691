"""Findings from measurements: ratios, curves, costs, and the areas of whole designs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import hypot
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from openmxu.area.finding.fronts import Front, area_fronts, energy_fronts
from openmxu.area.run.energy import Energy
from openmxu.area.run.measure import Result
from openmxu.area.subject.ablation import ABLATIONS, Ablation
from openmxu.area.subject.points import ADDER, ARRAY, MULTIPLIER, PROCESSING_ELEMENT, PRODUCT, UNIT, Point, kind
from openmxu.area.target.targets import Area, Target
from openmxu.catalog import Design

FloatOrArray = TypeVar("FloatOrArray", float, NDArray[np.float64])

BASE = "bf16"

CLAIMS = {"fp16": 2.0, "fp32": 8.0}
"""Claimed area relative to bf16: bf16 is half of fp16, and an eighth of fp32."""

CONFIDENCE = 0.95
"""Confidence level of the intervals."""

_CLAIMED_WIDTHS = {"bf16": 8, "fp16": 11, "fp32": 24}
_FEWEST = 4
"""The fewest widths of a fit: a curve goes through any three."""

_SWEPT = (PRODUCT, MULTIPLIER, ADDER, PROCESSING_ELEMENT)
AS_BUILT = f"{MULTIPLIER} as hardware has each format"
"""The comparison in Google's sentence: points that exist, so bf16 flushes subnormals and fp16 and fp32 do not."""

_BUILT = {"bf16": "", "fp16": ", ieee", "fp32": ", ieee"}
"""By format, the end of the name of its multiplier as hardware has it."""

_COMPARED = (PRODUCT, MULTIPLIER, AS_BUILT, ADDER, PROCESSING_ELEMENT, kind(PROCESSING_ELEMENT, 4), ARRAY, UNIT)

SWEEP_EXPONENT = 8
"""Exponent bits of the multipliers whose areas are fitted; it must not vary with the significand width."""


@dataclass(frozen=True)
class Interval:
    """A number, and the interval that its true value lies in with :data:`CONFIDENCE`, if the model holds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        # As many digits as the interval's width justifies.
        width = self.high - self.low
        digits = min(4, max(0, 1 - int(np.floor(np.log10(width))))) if width > 0 else 4
        return f"{self.value:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


@dataclass(frozen=True)
class Fit:
    """Area as a function of the significand width p: ``a + b·p + c·p²`` by least squares, and p to an exponent."""

    target: Target
    part: str
    widths: tuple[int, ...]
    """The target, the part, and the significand widths that it rests on."""
    a: Interval
    b: Interval
    c: Interval
    """The coefficients, in the target's unit."""
    exponent: Interval
    """The slope of log area over log p, by least squares."""
    r_squared: float
    worst: float
    """Share of the areas' variance that the curve explains; largest distance of an area from it, as a fraction."""

    def __call__(self, width: FloatOrArray) -> FloatOrArray:
        """The curve's area at ``width``."""
        return self.a.value + self.b.value * width + self.c.value * width**2


class Figure(NamedTuple):
    """A figure, and its standard deviation as a fraction, where that is known."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Spread:
    """The results of a design in several orders of ABC; see :func:`openmxu.area.target.targets.in_order`."""

    result: Result
    others: tuple[Result, ...]
    """The results in the original order, and in the other orders."""

    @property
    def area(self) -> float | None:
        """Standard deviation of all areas as a fraction of their mean; none for fewer than two."""
        return _deviation([result.area.area for result in (self.result, *self.others) if result.area])

    @property
    def delay(self) -> float | None:
        """Standard deviation of all delays, as a fraction of their mean; none for fewer than two."""
        return _deviation([result.delay for result in (self.result, *self.others) if result.delay])


def _deviation(values: Sequence[float]) -> float | None:
    mean = sum(values) / max(1, len(values))
    return float(np.std(values, ddof=1)) / mean if len(values) > 1 and mean else None


@dataclass(frozen=True)
class Ratio:
    """Areas of one part for bf16, fp16 and fp32, to compare with the claims."""

    target: Target
    part: str
    """The target, and the part that was measured; for the significand product with 8, 11 and 24 bits."""
    bf16: float
    """Area for bf16, in the target's unit."""
    others: dict[str, float]
    """Area for fp16 and fp32 relative to bf16; a format whose run failed is absent."""
    deviations: dict[str, float] = field(default_factory=dict)
    """Standard deviations over orders, as fractions: of the area for bf16, and of each of ``others``, whose two
    areas are independent. Empty where one order was measured."""


@dataclass(frozen=True)
class Cost:
    """The cost of a feature on a target."""

    target: Target
    ablation: Ablation
    whole: float
    without: float
    """The feature and the two designs, with their areas in the target's unit."""

    @property
    def saved(self) -> float:
        """The area saved by leaving the feature out, as a fraction of the design that has it."""
        return 1 - self.without / self.whole


@dataclass(frozen=True)
class Term:
    """A summand of a design's area: ``count`` times the area of ``result``."""

    count: int
    result: Result


@dataclass(frozen=True)
class Entry:
    """The area of a design of the catalog on one target."""

    design: Design
    target: Target
    """The design, and the target that it is mapped to."""
    derived: bool
    """Whether the area is a sum over the design's parts, and not measured of the whole."""
    terms: tuple[Term, ...]
    """The parts; for a design that was measured whole the design itself, once."""

    @property
    def area(self) -> Area | None:
        """The sum of the terms; none if a run failed."""
        areas = [(term.count, term.result.area) for term in self.terms if term.result.area]
        return _sum(areas) if len(areas) == len(self.terms) else None

    @property
    def status(self) -> str:
        """``measured``, ``derived`` or ``failed``."""
        return "failed" if self.area is None else "derived" if self.derived else "measured"


@dataclass(frozen=True)
class Report:
    """An area report: the measurements and the findings from them."""

    tool: str
    results: list[Result]
    """The Yosys that measured, with its version; the measurements, target by target, and point by point for each."""
    catalog: list[Entry] = field(default_factory=list)
    """The catalog's designs, target by target; empty if they were not asked for."""
    files: list[Path] = field(default_factory=list)
    """The files that were written."""
    energies: list[Energy] = field(default_factory=list)
    reordered: list[Result] = field(default_factory=list)
    """Energies of some of the results, if they were asked for; results of some of the designs in other orders."""
    made_by: str = ""
    layer: str = ""
    """Version and commit of this project; name of the file of a layer, if there are energies with its operands."""

    @cached_property
    def targets(self) -> list[Target]:
        """The targets of the results, in order."""
        return list(dict.fromkeys(result.target for result in self.results))

    @cached_property
    def ranked(self) -> list[Target]:
        """The targets that verdicts are about."""
        return [target for target in self.targets if target.is_ranked]

    @cached_property
    def counted(self) -> list[Target]:
        """The targets whose area covers the whole design, without DSP blocks beside it."""
        return [target for target in self.targets if target.counts_all]

    @property
    def first(self) -> Target:
        """The first target of :attr:`counted`; the first of all targets if there is none."""
        return (self.counted or self.targets)[0]

    @cached_property
    def points(self) -> list[Point]:
        """The points of the results, each name once."""
        return list({result.point.name: result.point for result in self.results}.values())

    @cached_property
    def _found(self) -> dict[tuple[str, Target], Result]:
        return {(result.point.name, result.target): result for result in self.results}

    def result(self, name: str, target: Target) -> Result | None:
        """The result of the point of this name on a target; none if it was not measured there."""
        return self._found.get((name, target))

    def area(self, name: str, target: Target) -> float | None:
        """The area of the point of this name on a target; none if it was not measured there or the run failed."""
        result = self.result(name, target)
        return result.area.area if result and result.area else None

    @cached_property
    def _ordinary(self) -> dict[tuple[Target, str], list[Result]]:
        """The results with an area, by target and kind, variants left out."""
        results: dict[tuple[Target, str], list[Result]] = {}
        for result in self.results:
            if result.area and not result.point.variant:
                results.setdefault((result.target, result.point.kind), []).append(result)
        return results

    def by_format(self, target: Target, part: str) -> dict[str, Result]:
        """The results of a part on a target, by format; products by the format of their width."""
        if part == AS_BUILT:
            built = {name: self.result(f"{MULTIPLIER} {name}{words}", target) for name, words in _BUILT.items()}
            return {name: result for name, result in built.items() if result}
        return {
            name: result for result in self._ordinary.get((target, part), []) if (name := _name_in_claims(result.point))
        }

    def sweep(self, target: Target, part: str) -> dict[int, float]:
        """Areas by significand width, in ascending order: of products, or of units with 8 exponent bits."""
        return {
            result.point.width: result.area.area
            for result in sorted(self._ordinary.get((target, part), []), key=lambda result: result.point.width)
            if result.area and result.area.area > 0
            if result.point.format is None or result.point.format.exponent_width == SWEEP_EXPONENT
        }

    @cached_property
    def fits(self) -> list[Fit]:
        """A fit for each target and each part that was swept there, over the widths that all of these have."""
        fits = []
        sweeps = {(target, part): self.sweep(target, part) for target in self.counted for part in _SWEPT}
        for (target, part), areas in sweeps.items():
            same = [set(other) for (_, name), other in sweeps.items() if name == part and len(other) >= _FEWEST]
            common = set.intersection(*same) if same else set()
            fit = fit_curve(target, part, {width: area for width, area in areas.items() if width in common})
            fits += [fit] if fit else []
        return fits

    def areas(self, target: Target, part: str) -> dict[str, Figure]:
        """The areas of a part on a target, by format, with their deviations over orders."""
        areas = {}
        for name, result in self.by_format(target, part).items():
            spread = self.spread(result)
            if result.area and result.area.area:
                areas[name] = Figure(result.area.area, spread.area if spread else None)
        return areas

    @cached_property
    def ratios(self) -> list[Ratio]:
        """The ratios of the claims for each target and part where bf16 and another format were measured."""
        ratios = []
        for target in self.counted:
            for part in _COMPARED:
                areas = self.areas(target, part)
                others = {name: areas[name] for name in CLAIMS if name in areas}
                if others and BASE in areas:
                    base = areas[BASE]
                    deviations = {
                        name: hypot(base.deviation, each.deviation)
                        for name, each in others.items()
                        if base.deviation is not None and each.deviation is not None
                    }
                    if base.deviation is not None:
                        deviations[BASE] = base.deviation
                    values = {name: each.value / base.value for name, each in others.items()}
                    ratios.append(Ratio(target, part, base.value, values, deviations))
        return ratios

    def played(self, part: str = "", operands: str = "", stages: int | None = None) -> list[Energy]:
        """The energies without an error, also of one kind of part, one kind of operands, one number of stages."""
        return [
            energy
            for energy in self.energies
            if not energy.error
            and part in ("", energy.point.kind)
            and operands in ("", energy.operands)
            and stages in (None, energy.point.options.get("stages"))
        ]

    @cached_property
    def spreads(self) -> list[Spread]:
        """The spread of each design that was measured in several orders, target by target."""
        return [spread for result in self.results if (spread := self.spread(result))]

    def spread(self, result: Result) -> Spread | None:
        """The spread of a result over orders; none where only one was measured."""
        others = self._orders.get((result.point.name, result.target))
        return Spread(result, tuple(others)) if others else None

    @cached_property
    def _orders(self) -> dict[tuple[str, Target], list[Result]]:
        orders: dict[tuple[str, Target], list[Result]] = {}
        for result in self.reordered:
            orders.setdefault((replace(result.point, order=0).name, result.target), []).append(result)
        return orders

    @cached_property
    def costs(self) -> list[Cost]:
        """The costs of features, on each target where both designs were measured."""
        pairs = [
            Cost(target, row, self.area(row.whole.name, target) or 0.0, self.area(row.without.name, target) or 0.0)
            for target in self.counted
            for row in ABLATIONS
        ]
        return [cost for cost in pairs if cost.whole and cost.without]

    @cached_property
    def fronts(self) -> list[Front]:
        """Processing elements by delay and area, for each library and format."""
        return area_fronts(self.results)

    @cached_property
    def energy_fronts(self) -> list[Front]:
        """Processing elements by delay and energy, for each library and format."""
        return energy_fronts(self.energies)

    @property
    def by_design(self) -> dict[str, list[Entry]]:
        """The entries for each design of the catalog, by its name, in the order of the targets."""
        names = dict.fromkeys(entry.design.name for entry in self.catalog)
        return {name: [entry for entry in self.catalog if entry.design.name == name] for name in names}

    @property
    def runs(self) -> list[Result]:
        """The results, those in other orders, and those that the catalog's areas rest on, each once."""
        others = [term.result for entry in self.catalog for term in entry.terms]
        return list({id(result): result for result in [*self.results, *self.reordered, *others]}.values())

    @property
    def failed(self) -> list[Result]:
        """The runs that failed."""
        return [result for result in self.runs if not result.area]


def _sum(areas: Sequence[tuple[int, Area]]) -> Area:
    """The sum of areas on gates, each times its count."""
    cells: Counter[str] = Counter()
    for count, area in areas:
        cells.update({cell: count * number for cell, number in area.cells.items()})
    names = ("area", "combinational", "sequential", "flip_flops", "memory_bits", "cell_area")
    sums = {name: sum(count * (getattr(area, name) or 0) for count, area in areas) for name in names}
    return Area(**sums, cells=dict(sorted(cells.items())))


def fit_curve(target: Target, part: str, areas: dict[int, float]) -> Fit | None:
    """Fit areas, given by significand width; none for fewer than four."""
    if len(areas) < _FEWEST:
        return None
    widths, y = np.array(list(areas), dtype=float), np.array(list(areas.values()))
    a, b, c = _least_squares(np.stack([widths**0, widths, widths**2], axis=1), y)
    _, exponent = _least_squares(np.stack([widths**0, np.log(widths)], axis=1), np.log(y))
    residuals = y - (a.value + b.value * widths + c.value * widths**2)
    r_squared = 1 - float(np.sum(residuals**2) / np.sum((y - y.mean()) ** 2))
    worst = float(np.max(np.abs(residuals / y)))
    return Fit(target, part, tuple(areas), a, b, c, exponent, r_squared, worst)


def _least_squares(matrix: NDArray[np.float64], y: NDArray[np.float64]) -> list[Interval]:
    """Coefficients, with intervals of Student's t."""
    from scipy.special import stdtrit  # noqa: PLC0415  # an extra, which nothing but reports needs

    count, unknown = matrix.shape
    coefficients, *_ = np.linalg.lstsq(matrix, y)
    residuals = y - matrix @ coefficients
    variance = float(residuals @ residuals) / (count - unknown)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(matrix.T @ matrix)))
    margins = stdtrit(count - unknown, (1 + CONFIDENCE) / 2) * errors
    return [
        Interval(float(value), float(value - margin), float(value + margin))
        for value, margin in zip(coefficients, margins, strict=True)
    ]


def _name_in_claims(point: Point) -> str:
    """The format's name; for a bare product, the name of the format of the claims that has its width."""
    if point.format:
        return str(point.format)
    return {width: name for name, width in _CLAIMED_WIDTHS.items()}.get(point.width, "")
