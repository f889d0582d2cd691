"""The record: what formats cost in layouts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from openmxu.pages.tables import span, table
from openmxu_studies.spread import Measured

_BASE = "bf16"


@dataclass(frozen=True)
class Cost:
    """A design's layouts, with several seeds at one utilisation."""

    name: str
    part: str
    format: str
    """Name, its part with its stages, and the format of its operands; empty for others' designs."""
    cells: int
    buffers: int
    """Cells, and how many of them are buffers for clocks and nets of many ends."""
    utilisation: float
    """The highest of those tried that has room for the wires of all seeds."""
    core_um2: float
    seeds: tuple[Mapping[str, Any], ...]
    """By seed, what ``openmxu layout`` reports: wires, delays."""
    bare_pj: tuple[float, ...]
    wired_pj: tuple[float, ...]
    """Energy of a cycle: without wires, of the layout that is drawn; with wires, by seed. None for others' designs."""
    passed: bool
    """Whether all checks passed, with both decks of rules."""

    def seen(self, figure: str) -> list[float]:
        """A figure by seed."""
        return [float(seed[figure]) for seed in self.seeds]


@dataclass(frozen=True)
class Layouts(Measured):
    """All costs."""

    costs: tuple[Cost, ...]

    def find(self, part: str, form: str) -> Cost | None:
        """The cost of a part with operands of a format."""
        return next((each for each in self.costs if (each.part, each.format) == (part, form)), None)


_FIGURES: Mapping[str, Callable[[Cost], Sequence[float]]] = {
    "core": lambda cost: [cost.core_um2],
    "wires": lambda cost: cost.seen("wires_mm"),
    "capacitance": lambda cost: cost.seen("wires_pf"),
    "longest path": lambda cost: cost.seen("arrival_ns"),
    "path without wires": lambda cost: cost.seen("bare_ns"),
    "energy": lambda cost: cost.wired_pj,
    "energy without wires": lambda cost: cost.bare_pj,
}
"""Quantities to compare with bf16's, as means over the seeds."""


def to_markdown(report: Layouts) -> str:
    """Return a table of costs, and one of their ratios to those of bf16."""
    heads = ["design", "cells, with buffers", "of the core", "core, µm²", "wires, mm", "wires, pF", "longest path, ns"]
    heads += ["without wires, ns", "hold time left, ns", "pJ a cycle", "without wires, pJ", "checks"]
    compared = [
        (cost, base)
        for cost in report.costs
        if cost.format not in ("", _BASE) and (base := report.find(cost.part, _BASE)) is not None
    ]
    ratios = [[cost.name, *_ratios(cost, base)] for cost, base in compared]
    lines = [
        *report.opening("layouts"),
        "",
        "Relative to bf16, means over the seeds:",
        "",
        table(["", *_FIGURES], ratios),
        "",
        "As measured; ranges are those of the seeds:",
        "",
        table(heads, [list(_row(cost)) for cost in report.costs]),
    ]
    return "\n".join(lines) + "\n"


def _ratios(cost: Cost, base: Cost) -> Iterator[str]:
    for figure in _FIGURES.values():
        yield f"{mean(figure(cost)) / mean(figure(base)):.2f}"


def _row(cost: Cost) -> Iterator[str]:
    holds = [value for seed in cost.seeds if (value := seed["hold_ns"]) is not None]
    yield cost.name
    yield f"{cost.cells:,}"
    yield f"{cost.utilisation:.0%}"
    yield f"{cost.core_um2:,.0f}"
    yield span(cost.seen("wires_mm"), 1)
    yield span(cost.seen("wires_pf"), 1)
    yield span(cost.seen("arrival_ns"))
    yield span(cost.seen("bare_ns"))
    yield span(holds) if holds else ""
    yield span(cost.wired_pj, 1) if cost.wired_pj else ""
    yield span(cost.bare_pj, 1) if cost.bare_pj else ""
    yield "passed" if cost.passed else "failed"
