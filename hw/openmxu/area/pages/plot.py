"""The plots of an area report."""

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from openmxu.area.chapters.quantities import Measured, quantities
from openmxu.area.finding.findings import CLAIMS, SWEEP_EXPONENT, Cost, Report
from openmxu.area.finding.fronts import Front
from openmxu.area.subject.points import MULTIPLIER, PRODUCT
from openmxu.spec.formats import FORMATS

BLUE, GREY, INK, LINE, PAPER = "#0072b2", "#555555", "#010101", "#dddddd", "#fefefe"
"""Colours that a dark page may replace: of a series, of background marks, of text, of the grid and of the ground."""

# Okabe and Ito's palette, which colour-blind readers can tell apart; shapes and labels repeat the distinction.
_SERIES = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
_COLOURS: Mapping[str, str] = {PRODUCT: BLUE, MULTIPLIER: "#D55E00"}
_MARKERS: Mapping[str, str] = {PRODUCT: "o", MULTIPLIER: "s"}
_TITLES: Mapping[str, str] = {PRODUCT: "significand product alone", MULTIPLIER: "complete multiplier"}
_MULTIPLIER: dict[str, Any] = {"marker": _MARKERS[MULTIPLIER], "color": _COLOURS[MULTIPLIER], "markersize": 6}
_HOLLOW: dict[str, Any] = {**_MULTIPLIER, "markerfacecolor": PAPER}
"""A multiplier that is not in the sweep."""

_STYLE = {
    **{f"{name}.color": INK for name in ("text", "xtick", "ytick")},
    **{"axes.labelcolor": INK, "axes.edgecolor": INK, "axes.facecolor": PAPER, "figure.facecolor": PAPER},
    **{"axes.labelsize": 11, "axes.titlesize": 12, "axes.titlelocation": "left", "legend.frameon": False},
    **{"axes.grid": True, "axes.grid.axis": "x", "grid.color": LINE, "grid.linewidth": 0.6, "axes.axisbelow": True},
    **{"axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True},
    "svg.hashsalt": "openmxu",  # the same measurements give the same SVG
}


def to_images(report: Report) -> dict[str, bytes]:
    """The plots for which there are figures."""
    with matplotlib.rc_context(_STYLE):
        images = {}
        if panels := _panels(report):
            figure = Figure(figsize=(6 * len(panels), max(5.4, 0.62 * len(report.ranked))))
            for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
                draw(axes, report)
            images = {"area.png": _save(figure, "png"), "area.svg": _save(figure, "svg")}
        measured = [quantity for quantity in quantities(report) if set(CLAIMS) & set(quantity.ratios)]
        if len(measured) > 1:
            figure = Figure(figsize=(9, 1.8 + 0.5 * len(measured)))
            _draw_headline(figure.subplots(), measured)
            images["headline.svg"] = _save(figure, "svg")
        costs = [cost for cost in report.costs if cost.target == report.costs[0].target]
        if costs:
            figure = Figure(figsize=(12, 1.2 + 0.3 * len(costs)))
            _draw_costs(figure.subplots(), costs)
            images["costs.svg"] = _save(figure, "svg")
        sound = {target.name for target in report.ranked}
        for name, label, all_fronts in (
            ("clock.svg", "area (GE)", report.fronts),
            ("energy.svg", "energy of a cycle (pJ), without wires", report.energy_fronts),
        ):
            fronts = [front for front in all_fronts if front.library in sound]
            fronts = [front for front in fronts if front.library == fronts[0].library]
            if len(fronts) > 1:
                figure = Figure(figsize=(9, 5.4))
                _draw_fronts(figure.subplots(), fronts, label)
                images[name] = _save(figure, "svg")
    return images


def _panels(report: Report) -> Sequence[Callable[[Axes, Report], None]]:
    """Plots of multipliers and their products: areas of two or more widths, and ratios if there are any."""
    points = {
        result.point.width
        for result in report.results
        if result.target == report.first and result.point.part in _MARKERS and not result.point.variant
        if result.area and result.area.area
    }
    shown = [ratio for ratio in report.ratios if ratio.part in _MARKERS and ratio.target.is_ranked]
    return [_draw_areas] * (len(points) > 1) + [_draw_ratios] * bool(shown)


def _save(figure: Figure, suffix: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
    return buffer.getvalue()


def _draw_headline(axes: Axes, measured: list[Measured]) -> None:
    """A row for each quantity: fp16 and fp32 relative to bf16, a mark for each target, the claims as vertical lines."""
    for (name, claim), colour, marker in zip(CLAIMS.items(), _SERIES, "os", strict=False):
        _draw_claim(axes, claim, f"{name}, claimed: {claim:.0f}", colour, "right")
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 6, "alpha": 0.7, "capsize": 3}
        for row, quantity in enumerate(measured):
            for ratio, deviation in quantity.ratios.get(name, ()):
                axes.errorbar(ratio, row, xerr=deviation, **style)
    axes.axvline(1, color=GREY, linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.xaxis.set_minor_locator(NullLocator())
    ratios = [ratio for quantity in measured for name in CLAIMS for ratio, _ in quantity.ratios.get(name, ())]
    axes.set_yticks(range(len(measured)), [textwrap.fill(quantity.words, 30) for quantity in measured])
    axes.set(
        xlim=(0.9 * min(1.0, *ratios), 1.2 * max(*ratios, *CLAIMS.values())),
        ylim=(len(measured) - 0.5, -1.3),
        xlabel="bf16 = 1; a mark for each target, library or clock",
    )


def _draw_claim(axes: Axes, claim: float, text: str, colour: str, end: Literal["left", "right"]) -> None:
    """A vertical line with a text beside it, one end of which is at the line."""
    axes.axvline(claim, color=colour, linestyle="--", linewidth=1)
    at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    shift = 5 if end == "left" else -5
    axes.annotate(text, (claim, 1), xytext=(shift, -4), ha=end, va="top", fontsize=10, color=colour, **at)


def _draw_costs(axes: Axes, costs: list[Cost]) -> None:
    """A bar for each feature, with its saving beside it, in a colour for each kind of part."""
    parts = list(dict.fromkeys(cost.ablation.whole.part for cost in costs))
    saved = [100 * cost.saved for cost in costs]
    for row, (cost, length) in enumerate(zip(costs, saved, strict=True)):
        axes.barh(row, length, color=_SERIES[parts.index(cost.ablation.whole.part)], height=0.7)
        _label(axes, f"{cost.saved:.1%}", (max(length, 0), row), INK, "left")
    axes.set_yticks(range(len(costs)), [f"{cost.ablation.subject}: {cost.ablation.feature}" for cost in costs])
    axes.invert_yaxis()
    axes.set(
        xlim=(min(0.0, *saved), 1.15 * max(saved)),
        xlabel="area saved by leaving the feature out (% of the unit that has it)",
        title=f"What features cost on {costs[0].target.label}",
    )


def _label(axes: Axes, text: str, at: tuple[float, float], colour: str, end: Literal["left", "right"]) -> None:
    """A figure whose end is beside a point."""
    shift: dict[str, Any] = {"textcoords": "offset points", "xytext": (6 if end == "left" else -6, 0)}
    axes.annotate(text, at, ha=end, va="center", fontsize=9.5, color=colour, **shift)


def _draw_fronts(axes: Axes, fronts: list[Front], label: str) -> None:
    """Cost against delay, a line for each format, which ends in the cheapest element."""
    for front, colour, marker in zip(fronts, _SERIES, "os^DvPX", strict=False):
        axes.plot(*zip(*front.points, strict=True), marker=marker, color=colour, label=front.format)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="delay of the longest path (ns), before placing",
        ylabel=label,
        title=f"Processing elements on {fronts[0].library}",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.legend()


def _draw_areas(axes: Axes, report: Report) -> None:
    """Area against significand width on the first target, with the fitted curves."""
    target = report.first
    fits = {fit.part: fit for fit in report.fits if fit.target == target}
    handles = []
    for part in (MULTIPLIER, PRODUCT):
        style: dict[str, Any] = {"marker": _MARKERS[part], "color": _COLOURS[part], "markersize": 6}
        areas = report.sweep(target, part)
        axes.plot(list(areas), list(areas.values()), linestyle="none", **style)
        label = _TITLES[part]
        if fit := fits.get(part):
            p = np.linspace(min(fit.widths), max(fit.widths), 200)
            axes.plot(p, fit(p), color=_COLOURS[part], linewidth=1.5)
            label += f"\n{fit.a.value:.0f} {fit.b.value:+.1f}·p {fit.c.value:+.2f}·p²".replace("-", "−")
        handles.append(Line2D([], [], linewidth=1.5 if fit else 0, label=label, **style))
    if others := _label_formats(axes, report):
        handles.insert(1, Line2D([], [], linewidth=0, **_HOLLOW, label=f"not 8 exponent bits: {others}"))
    axes.set(
        xlabel="significand width p (bits, hidden bit included)",
        ylabel=f"area ({target.unit})",
        title=f"Area on {target.label}",
    )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(handles=handles, loc="upper left", labelspacing=0.8)


def _label_formats(axes: Axes, report: Report) -> str:
    """Name the multipliers of well-known formats; draw, and return the names of, those not in the sweep."""
    others = []
    for name, result in report.by_format(report.first, MULTIPLIER).items():
        fmt = result.point.format
        if fmt is None or not result.area or not result.area.area:
            continue
        at = (result.point.width, result.area.area)
        if fmt.exponent_width != SWEEP_EXPONENT:
            axes.plot(*at, linestyle="none", **_HOLLOW)
            others.append(name)
        elif name in FORMATS:
            axes.annotate(name, at, textcoords="offset points", xytext=(-6, 5), ha="right", fontsize=10)
    return ", ".join(others)


def _draw_ratios(axes: Axes, report: Report) -> None:
    """fp16 and fp32 relative to bf16, a row for each target, the claims as vertical lines."""
    rows = report.ranked
    shown = [ratio for ratio in report.ratios if ratio.part in _MARKERS and ratio.target in rows]
    for name, claim in CLAIMS.items():
        _draw_claim(axes, claim, f"claim for {name}: {claim:.0f}", GREY, "left")
    for ratio in shown:
        height, colour = rows.index(ratio.target) + (0.15 if ratio.part == PRODUCT else -0.15), _COLOURS[ratio.part]
        for name, value in ratio.others.items():
            axes.plot(value, height, linestyle="none", marker=_MARKERS[ratio.part], color=colour, markersize=7)
            # On the far side of the marker, so that no number stands on the claim's line.
            _label(axes, f"{value:.2f}", (value, height), colour, "right" if value < CLAIMS[name] else "left")
    axes.set_yticks(range(len(rows)), [_broken(target.label) for target in rows])
    values = [value for ratio in shown for value in ratio.others.values()]
    axes.set(
        # The first target on top, and room for the claims' labels above it.
        ylim=(max(1, len(rows)) - 0.5, -0.5 - 0.1 * max(1, len(rows))),
        xlim=(0, 1.15 * max([*CLAIMS.values(), *values])),
        xlabel="area of fp16 and of fp32, relative to bf16",
        title="Ratios beside the claims",
    )


def _broken(label: str) -> str:
    """A label in lines of at most 16 characters or one word: names of libraries are long."""
    lines = [""]
    for word in re.split(r"(?<=[_ ])", label):
        if lines[-1] and len(lines[-1]) + len(word) > 16:
            lines.append("")
        lines[-1] += word
    return "\n".join(lines)
