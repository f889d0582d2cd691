"""The study as a picture."""

from collections.abc import Sequence
from math import isfinite, nan
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from openmxu.pages.figures import COLOURS, plain, svg
from openmxu.spec.passes import PASSES
from openmxu_studies.training.plan import REFERENCE, SWEPT, TASKS, name
from openmxu_studies.training.record import Study

_MARKERS = "os^Dv<P"

_TITLES = {"digits": "digits: accuracy", "text": "text: loss in nats"}


def to_svg(study: Study) -> bytes:
    """Draw, above, scores against the weight of the loss; below, scores in the order of the area of an element."""
    figure = Figure(figsize=(12.5, 9.5), layout="constrained")
    columns = figure.subplots(2, 2).T
    for (above, below), task in zip(columns, TASKS, strict=True):
        _draw_sweep(above, study, task)
        _draw_areas(below, study, task)
        for axes in (above, below):
            plain(axes)
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
    axes.set_title(f"{_TITLES[task]}, by weight of the loss", fontsize=12, loc="left")
    axes.set_xticks(sorted({case.weight for case in study.cases(task)}))
    axes.set_xlabel("the loss is multiplied by 2 to this power")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=10)


def draw_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a plot, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _finite(value: float) -> float:
    return value if isfinite(value) else nan


def _draw_areas(axes: Axes, study: Study, task: str) -> None:
    """Draw a row for each case that the hardware has, by area times passes, as these take so much longer."""
    areas = {case: area for case in study.cases(task) if case.weight == 0 and (area := study.area(case))}
    costs = {case: area / 1000 * len(PASSES[case.precision]) for case, area in areas.items()}
    shown = sorted(costs, key=costs.__getitem__)
    for row, case in enumerate(shown):
        score = _finite(fmean(study.scores(task, case)))
        axes.errorbar(score, row, xerr=study.spread(task, case), color=COLOURS[0], marker="o", capsize=3)
    axes.axvline(fmean(study.scores(task, REFERENCE)), color="#888888", linewidth=0.8)
    draw_rows(axes, [f"{name(case)}: {costs[case]:.1f}" for case in shown])
    axes.set_title(f"{task}, by area times passes, 1,000 GE", fontsize=12, loc="left")
    axes.set_xlabel(f"{_TITLES[task].partition(': ')[2]}; grey: {name(REFERENCE)}")
