"""The roofline as a picture."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from openmxu.pages.figures import COLOURS, plain, svg
from openmxu_sim.studies.roofline import Machine, Roofline

_MARKERS = "os^D"


def to_svg(model: Roofline) -> bytes:
    """Draw operations per second against operations for each byte: the roof, and each layer in fp32 and in bf16."""
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    axes = figure.subplots()
    points = {
        storage: [
            (share.layer.operations / share.bytes[storage], share.layer.operations / share.seconds[storage])
            for share in model.shares
        ]
        for storage in ("fp32", "bf16")
    }
    lowest = min(intensity for intensity, _ in points["fp32"]) / 2
    highest = 2 * max(intensity for intensity, _ in points["bf16"])
    _draw_roof(axes, model.machine, lowest, highest)
    networks = list(dict.fromkeys(share.layer.network for share in model.shares))
    for network, colour, marker in zip(networks, COLOURS, _MARKERS, strict=False):
        of_network = [index for index, share in enumerate(model.shares) if share.layer.network == network]
        for index in of_network:
            axes.plot(
                *zip(points["fp32"][index], points["bf16"][index], strict=True), color=colour, linewidth=0.7, alpha=0.6
            )
        for storage, filled in (("fp32", False), ("bf16", True)):
            axes.plot(
                *zip(*(points[storage][index] for index in of_network), strict=True),
                marker,
                color=colour,
                markerfacecolor=colour if filled else "white",
                markersize=6,
                label=f"{network}, {storage}",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations for each byte that moves between memory and unit")
    axes.set_title("operations per second, derived from sizes and the cycle formula", fontsize=12, loc="left")
    plain(axes)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return svg(figure)


def _draw_roof(axes: Axes, machine: Machine, lowest: float, highest: float) -> None:
    """Draw the limits of memory and unit, beyond the ridge in any case."""
    ridge = machine.peak / (machine.bandwidth * 1e9)
    intensities = np.array([lowest, ridge, max(highest, 2 * ridge)])
    axes.plot(
        intensities,
        np.minimum(machine.peak, intensities * machine.bandwidth * 1e9),
        color="#444444",
        linewidth=1.5,
        label=f"{machine.bandwidth:g} GB/s, {machine.peak / 1e12:.3g} Tflop/s",
    )
