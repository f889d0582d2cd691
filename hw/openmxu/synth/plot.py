"""The plot of an area report."""

import io
import re
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from openmxu.formats import FORMATS
from openmxu.synth.points import MULTIPLIER, PRODUCT
from openmxu.synth.results import CLAIMS, SWEEP_EXPONENT, Report, sweep

__all__ = ["to_images"]

# Okabe and Ito's palette, which colour-blind readers can tell apart; shapes and labels say the same.
_COLOURS = {PRODUCT: "#0072B2", MULTIPLIER: "#D55E00"}
_MARKERS = {PRODUCT: "o", MULTIPLIER: "s"}
_TITLES = {PRODUCT: "significand product alone", MULTIPLIER: "complete multiplier"}
_GREY = "#555555"


def to_images(report: Report) -> dict[str, bytes]:
    """Area against significand width on the first target, beside the ratios on all targets.

    Returns
    -------
    dict
        The contents of ``area.png`` and ``area.svg``.
    """
    figure = Figure(figsize=(12, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_areas(left, report)
    _draw_ratios(right, report)
    images = {}
    for suffix in ("png", "svg"):
        buffer = io.BytesIO()
        # No date and a fixed salt: the same measurements give the same SVG.
        with matplotlib.rc_context({"svg.hashsalt": "openmxu"}):
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(buffer, format=suffix, dpi=150, metadata=metadata)
        images[f"area.{suffix}"] = buffer.getvalue()
    return images


def _draw_areas(axes: Axes, report: Report) -> None:
    """Area against significand width on the first target, with the fitted curves."""
    target = report.targets[0]
    handles = []
    for part in (MULTIPLIER, PRODUCT):
        style: dict[str, Any] = {"marker": _MARKERS[part], "color": _COLOURS[part], "markersize": 6}
        areas = sweep(report.results, target, part)
        axes.plot(list(areas), list(areas.values()), linestyle="none", **style)
        label = _TITLES[part]
        fit = next((fit for fit in report.fits if fit.target == target and fit.part == part), None)
        if fit:
            p = np.linspace(min(fit.widths), max(fit.widths), 200)
            axes.plot(p, fit(p), color=_COLOURS[part], linewidth=1.5)
            label += f"\n{fit.a:.0f} {fit.b:+.1f}·p {fit.c:+.2f}·p²".replace("-", "−")
        handles.append(Line2D([], [], linewidth=1.5 if fit else 0, label=label, **style))
    others = _label_formats(axes, report)
    if others:
        handles.insert(1, Line2D([], [], linewidth=0, marker=_MARKERS[MULTIPLIER], color=_COLOURS[MULTIPLIER],
                                 markerfacecolor="white", markersize=6, label=f"not 8 exponent bits: {others}"))
    axes.set_xlabel("significand width p (bits, hidden bit included)", fontsize=11)
    axes.set_ylabel(f"area ({target.unit})", fontsize=11)
    axes.set_title(f"Area on {target.label}", fontsize=12, loc="left")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(handles=handles, frameon=False, fontsize=10, loc="upper left", labelspacing=0.8)
    _plain(axes)


def _label_formats(axes: Axes, report: Report) -> str:
    """Name the multipliers of well-known formats; draw, and return the names of, those not in the sweep."""
    others = []
    for result in report.results:
        fmt = result.point.format
        if result.target != report.targets[0] or result.point.part != MULTIPLIER or not result.area or not fmt:
            continue
        at = (result.point.width, result.area.area)
        if fmt.exponent_width != SWEEP_EXPONENT:
            axes.plot(*at, linestyle="none", marker=_MARKERS[MULTIPLIER], color=_COLOURS[MULTIPLIER],
                      markerfacecolor="white", markersize=6)
            others.append(fmt.name)
        elif fmt.name in FORMATS:
            axes.annotate(fmt.name, at, textcoords="offset points", xytext=(-6, 5), ha="right", fontsize=10)
    return ", ".join(others)


def _draw_ratios(axes: Axes, report: Report) -> None:
    """fp16 and fp32 in units of bf16, a row for each target, the claims as vertical lines."""
    rows = report.targets
    for name, claim in CLAIMS.items():
        axes.axvline(claim, color=_GREY, linestyle="--", linewidth=1)
        axes.annotate(f"claim for {name}: {claim:.0f}", (claim, 1), xycoords=("data", "axes fraction"),
                      textcoords="offset points", xytext=(5, -4), va="top", fontsize=10, color=_GREY)
    for ratio in report.ratios:
        height = rows.index(ratio.target) + (0.15 if ratio.part == PRODUCT else -0.15)
        for name, value in ratio.others.items():
            axes.plot(value, height, linestyle="none", marker=_MARKERS[ratio.part], color=_COLOURS[ratio.part],
                      markersize=7)
            # On the far side of the marker, so that no number stands on the claim's line.
            left = value < CLAIMS[name]
            axes.annotate(f"{value:.2f}", (value, height), textcoords="offset points",
                          xytext=(-7 if left else 7, 0), ha="right" if left else "left", va="center",
                          fontsize=9.5, color=_COLOURS[ratio.part])
    axes.set_yticks(range(len(rows)), [_broken(target.label) for target in rows])
    # The first target on top, and room for the claims' labels above it.
    axes.set_ylim(len(rows) - 0.5, -0.5 - 0.1 * len(rows))
    values = [value for ratio in report.ratios for value in ratio.others.values()]
    axes.set_xlim(0, 1.15 * max([*CLAIMS.values(), *values]))
    axes.set_xlabel("area of fp16 and of fp32, in that of bf16", fontsize=11)
    axes.set_title("Ratios beside the claims", fontsize=12, loc="left")
    _plain(axes)


def _broken(label: str) -> str:
    """A label in lines of at most 16 characters or one word: names of libraries are long."""
    lines = [""]
    for word in re.split(r"(?<=[_ ])", label):
        if lines[-1] and len(lines[-1]) + len(word) > 16:
            lines.append("")
        lines[-1] += word
    return "\n".join(lines)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
