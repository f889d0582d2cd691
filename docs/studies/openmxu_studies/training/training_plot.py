"""The study as a picture."""

from math import isfinite, nan
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from openmxu.pages.figures import COLOURS, plain, svg
from openmxu.spec.passes import PASSES
from openmxu_studies.training.plan import REFERENCE, SWEPT, TASKS, name
from openmxu_studies.training.record import Study

_MARKERS = "os^Dv<P"

_TITLES = {"digits": "digits: accuracy", "text": "text: loss in nats"}


def to_svg(study: Study) -> bytes:
    """Draw, above, scores against the weight of the loss; below, scores against the area of an element."""
    figure = Figure(figsize=(11, 9.5), layout="constrained")
    columns = figure.subplots(2, 2).T
    for (above, below), task in zip(columns, TASKS, strict=True):
        _draw_sweep(above, study, task)
        _draw_areas(below, study, task)
        for axes in (above, below):
            plain(axes)
    figure.legend(*columns[0][1].get_legend_handles_labels(), frameon=False, ncols=4, loc="outside lower center")
    return svg(figure)


def _draw_sweep(axes: Axes, study: Study, task: str) -> None:
    """Draw a line for each case, with the spread of its seeds."""
    for case, colour, marker in zip(SWEPT, COLOURS, _MARKERS, strict=False):
        weights = sorted(variant.weight for variant in study.cases(task) if variant._replace(weight=0) == case)
        if len(weights) < 2:
            continue
        cases = [case._replace(weight=weight) for weight in weights]
        means = [_finite(fmean(study.scores(task, variant))) for variant in cases]
        spreads = [study.spread(task, variant) for variant in cases]
        axes.errorbar(weights, means, spreads, color=colour, marker=marker, capsize=3, label=name(case))
    axes.set_title(f"{_TITLES[task]}, against the weight of the loss", fontsize=12, loc="left")
    axes.set_xticks(sorted({case.weight for case in study.cases(task)}))
    axes.set_xlabel("the loss is multiplied by 2 to this power")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=10)


def point_style(number: int) -> dict[str, Any]:
    """Return how a point with its spread is drawn, each number in another way."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "markerfacecolor": "white" if number >= len(COLOURS) else None,
        "linestyle": "none",
        "capsize": 3,
    }


def _finite(value: float) -> float:
    return value if isfinite(value) else nan


def _draw_areas(axes: Axes, study: Study, task: str) -> None:
    """Draw a point for each case that the hardware has, at its area times its passes, as these take so much longer."""
    shown = [(case, area) for case in study.cases(task) if case.weight == 0 and (area := study.area(case))]
    for number, (case, area) in enumerate(shown):
        score = _finite(fmean(study.scores(task, case)))
        place = area / 1000 * len(PASSES[case.precision])
        axes.errorbar(place, score, study.spread(task, case), label=name(case), **point_style(number))
    axes.axhline(fmean(study.scores(task, REFERENCE)), color="#888888", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_title(f"{_TITLES[task]}, against area times passes", fontsize=12, loc="left")
    axes.set_xlabel("area of an element times passes, thousands of GE on generic gates")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
