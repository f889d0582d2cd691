"""Common parts of plots: colours, axes without ornaments, and reproducible SVG."""

import io

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart; markers and labels repeat the distinction.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def plain(axes: Axes) -> None:
    """Two spines, and a grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def svg(figure: Figure) -> bytes:
    """A figure as SVG: no date and a fixed salt, so the same measurements give the same file."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "openmxu"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
