"""Results of measurements, and what follows from them."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from openmxu import cache
from openmxu.catalog import Design
from openmxu.synth import yosys
from openmxu.synth.points import MULTIPLIER, PRODUCT, Point
from openmxu.synth.targets import Area, Target, UnmappedError

__all__ = ["CLAIMS", "SWEEP_EXPONENT", "Entry", "Fit", "Ratio", "Report", "Result", "Term", "fit_quadratic",
           "fits", "measure", "ratios", "sweep"]

FloatOrArray = TypeVar("FloatOrArray", float, NDArray[np.float64])

CLAIMS = {"fp16": 2.0, "fp32": 8.0}
"""Area in that of bf16 according to the claims: bf16 half of fp16, and an eighth of fp32."""

_CLAIMED_WIDTHS = {"bf16": 8, "fp16": 11, "fp32": 24}
SWEEP_EXPONENT = 8
"""Exponent bits of the multipliers whose areas are fitted; it must not vary with the significand width."""


@dataclass(frozen=True)
class Result:
    """What one design point came to on one target.

    Parameters
    ----------
    point, target
        What was measured, on what.
    area
        What was counted; none if the run failed.
    error
        Why it failed, with the log's last lines; empty if it did not.
    script
        The Yosys script that was run.
    rtlil_sha256
        Of the design that it was run on.
    """

    point: Point
    target: Target
    area: Area | None
    error: str
    script: str = field(repr=False)
    rtlil_sha256: str = field(repr=False)

    @property
    def key(self) -> str:
        """What the result depends on: a digest of the design, the script, the library and the tool."""
        library = self.target.library.sha256 if self.target.library else ""
        return cache.key("area", yosys.package(), self.script, self.rtlil_sha256, library)

    @property
    def figure(self) -> str:
        """A name for it that no other result has."""
        return self.key[:12]


@dataclass(frozen=True)
class Fit:
    """Area as a function of the significand width p, ``a + b·p + c·p²``, by least squares.

    Parameters
    ----------
    target
        Where the areas were measured.
    part
        Of which part.
    widths
        The significand widths that it rests on.
    a, b, c
        The coefficients, in the target's unit.
    r_squared
        Share of the areas' variance that the curve explains.
    worst
        Largest distance of an area from the curve, as a fraction of that area.
    """

    target: Target
    part: str
    widths: tuple[int, ...]
    a: float
    b: float
    c: float
    r_squared: float
    worst: float

    def __call__(self, width: FloatOrArray) -> FloatOrArray:
        """The curve's area at ``width``."""
        return self.a + self.b * width + self.c * width**2


@dataclass(frozen=True)
class Ratio:
    """Areas of one part for bf16, fp16 and fp32, to compare with the claims.

    Parameters
    ----------
    target
        Where they were measured.
    part
        A complete multiplier, or the significand product alone (of 8, 11 and 24 bits).
    bf16
        Area for bf16, in the target's unit.
    others
        Area for fp16 and fp32 in that for bf16; a format whose run failed is absent.
    """

    target: Target
    part: str
    bf16: float
    others: dict[str, float]


@dataclass(frozen=True)
class Term:
    """A summand of a design's area: ``count`` times what ``result`` found."""

    count: int
    result: Result


@dataclass(frozen=True)
class Entry:
    """What a design of the catalog came to on one target.

    Parameters
    ----------
    design, target
        Which design, on what.
    derived
        Whether the area is a sum over the design's parts, and not measured of the whole.
    terms
        The parts; of a design that was measured the design itself, once.
    """

    design: Design
    target: Target
    derived: bool
    terms: tuple[Term, ...]

    @property
    def area(self) -> Area | None:
        """The sum; none if a run failed."""
        areas = [(term.count, term.result.area) for term in self.terms if term.result.area]
        return _sum(areas) if len(areas) == len(self.terms) else None

    @property
    def status(self) -> str:
        """``measured``, ``derived`` or ``failed``."""
        if self.area is None:
            return "failed"
        return "derived" if self.derived else "measured"


@dataclass(frozen=True)
class Report:
    """An area report.

    Parameters
    ----------
    tool
        The Yosys that measured it.
    results
        What was measured: target by target, each point by point.
    fits, ratios
        What follows from the results.
    catalog
        The catalog's designs, target by target; empty if they were not asked for.
    files
        The files that were written.
    """

    tool: str
    results: list[Result]
    fits: list[Fit]
    ratios: list[Ratio]
    catalog: list[Entry] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    @property
    def targets(self) -> list[Target]:
        """The targets of the results, in order."""
        return _targets(self.results)

    @property
    def by_point(self) -> dict[str, list[Result]]:
        """The results for each point, by its name, in the order of the targets."""
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.point.name, []).append(result)
        return found

    @property
    def by_design(self) -> dict[str, list[Entry]]:
        """The entries for each design of the catalog, by its name, in the order of the targets."""
        found: dict[str, list[Entry]] = {}
        for entry in self.catalog:
            found.setdefault(entry.design.name, []).append(entry)
        return found

    @property
    def runs(self) -> list[Result]:
        """The results, and those that the catalog's areas rest on, each once."""
        others = [term.result for entry in self.catalog for term in entry.terms]
        return list({id(result): result for result in [*self.results, *others]}.values())

    @property
    def failed(self) -> list[Result]:
        """The runs that failed."""
        return [result for result in self.runs if not result.area]


def measure(point: Point, rtlil: str, target: Target, work: Path) -> Result:
    """Synthesise one design for one target, or look up what that gave; a failure is a result, too, but is not kept.

    Parameters
    ----------
    point, target
        What to measure, on what.
    rtlil
        The point's RTLIL.
    work
        Directory as for :func:`openmxu.synth.yosys.run`.
    """
    script = target.script.format(top=point.top)
    result = Result(point, target, None, "", script, hashlib.sha256(rtlil.encode()).hexdigest())
    try:
        statistics = cache.fetch("areas", result.key, lambda: json.dumps(yosys.run(script, rtlil, work)).encode())
        return replace(result, area=target.count(json.loads(statistics)))
    except (yosys.SynthesisError, UnmappedError) as problem:
        return replace(result, error=str(problem))


def _sum(areas: Sequence[tuple[int, Area]]) -> Area:
    """The area of so many pieces each, all of them on gates."""
    cells: Counter[str] = Counter()
    for count, area in areas:
        cells.update({cell: count * number for cell, number in area.cells.items()})
    return Area(
        area=sum(count * area.area for count, area in areas),
        combinational=sum(count * area.combinational for count, area in areas),
        sequential=sum(count * (area.sequential or 0.0) for count, area in areas),
        flip_flops=sum(count * area.flip_flops for count, area in areas),
        memory_bits=sum(count * area.memory_bits for count, area in areas),
        carries=None,
        cell_area=sum(count * (area.cell_area or 0.0) for count, area in areas),
        cells=dict(sorted(cells.items())),
    )


def fit_quadratic(target: Target, part: str, areas: dict[int, float]) -> Fit | None:
    """Fit areas, given by significand width; none for fewer than four: a curve goes through any three."""
    if len(areas) < 4:
        return None
    widths, y = np.array(list(areas), dtype=float), np.array(list(areas.values()))
    a, b, c = np.polynomial.Polynomial.fit(widths, y, 2).convert().coef
    residuals = y - (a + b * widths + c * widths**2)
    r_squared = 1 - float(np.sum(residuals**2) / np.sum((y - y.mean()) ** 2))
    worst = float(np.max(np.abs(residuals / y)))
    return Fit(target, part, tuple(areas), float(a), float(b), float(c), r_squared, worst)


def sweep(results: Sequence[Result], target: Target, part: str) -> dict[int, float]:
    """Measured areas by significand width, in ascending order: products, or units with 8 exponent bits."""
    return dict(sorted(
        (result.point.width, result.area.area) for result in results
        if result.target == target and result.point.part == part and result.area
        and (result.point.format is None or result.point.format.exponent_width == SWEEP_EXPONENT)
    ))


def fits(results: Sequence[Result]) -> list[Fit]:
    """A fit for each target and each part that was swept there."""
    found = (fit_quadratic(target, part, sweep(results, target, part))
             for target in _targets(results) for part in (PRODUCT, MULTIPLIER))
    return [fit for fit in found if fit]


def ratios(results: Sequence[Result]) -> list[Ratio]:
    """The ratios of the claims for each target and part where bf16 was measured."""
    found = []
    for target in _targets(results):
        for part in (PRODUCT, MULTIPLIER):
            areas = {_name_in_claims(r.point): r.area.area for r in results
                     if r.target == target and r.point.part == part and r.area}
            if "bf16" in areas:
                others = {name: areas[name] / areas["bf16"] for name in CLAIMS if name in areas}
                found.append(Ratio(target, part, areas["bf16"], others))
    return found


def _targets(results: Sequence[Result]) -> list[Target]:
    """The targets that occur, in order."""
    return list(dict.fromkeys(result.target for result in results))


def _name_in_claims(point: Point) -> str:
    """The format's name; of a bare product, the name of the format of the claims that has its width."""
    if point.format:
        return point.format.name
    return {width: name for name, width in _CLAIMED_WIDTHS.items()}.get(point.width, "")
