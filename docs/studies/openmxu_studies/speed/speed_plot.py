"""The plot of a benchmark."""

from matplotlib.figure import Figure

from openmxu.pages.figures import COLOURS, plain, svg
from openmxu_studies.speed.benchmark import Report
from openmxu_studies.speed.measure import Clocked

_MARKERS = "osD^vP"


def to_svg(report: Report) -> bytes:
    """Draw cycles per second, and updates of processing elements per second, against N, a line for each engine."""
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    lines: dict[tuple[str, int], list[Clocked]] = {}
    for run in sorted(report.clocked, key=lambda run: run.size):
        lines.setdefault((run.engine, run.threads), []).append(run)
    fastest_first = sorted(lines.items(), key=lambda line: -max(run.updates for run in line[1]))
    titles = {"rate": "cycles per second", "updates": "processing elements · cycles per second"}
    for axes, (value, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for ((engine, threads), runs), colour, marker in zip(fastest_first, COLOURS, _MARKERS, strict=False):
            axes.plot(
                [run.size for run in runs],
                [getattr(run, value) for run in runs],
                color=colour,
                marker=marker,
                linewidth=1.5,
                label=engine if threads == 1 else f"{engine}, {threads} threads",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        sizes = sorted({run.size for run in report.clocked})
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("N (N x N processing elements)", fontsize=11)
        axes.set_title(title, fontsize=12, loc="left")
        plain(axes)
    figure.axes[0].legend(frameon=False, fontsize=10)
    return svg(figure)
