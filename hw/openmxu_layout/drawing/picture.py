"""A picture of a layout: on the left its cells, coloured by module, on the right its wires, coloured by metal."""

import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image  # which matplotlib needs

from openmxu.cells.lef import LefCell
from openmxu.pages.figures import COLOURS
from openmxu_layout.placed import Placed
from openmxu_layout.route.routing import Wired
from openmxu_layout.technology import Technology

_INCHES, _DPI = 8.0, 110
_SHADES = 256
"""Colours of the picture, near those of the legend: of a unit of 4x4, 0.6 MB in place of 2."""
_MOST = 20
"""Modules that have colours of their own, the largest ones; smaller ones share a grey."""


def draw_picture(
    wired: Wired, technology: Technology, cells: Mapping[str, LefCell], directions: Mapping[str, str]
) -> bytes:
    """The picture, as PNG. The same layout gives the same bytes."""
    placed = wired.placed
    figure = Figure(figsize=(2 * _INCHES, _INCHES + 0.9), dpi=_DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_cells(left, placed, cells, modules(placed, directions))
    _draw_wires(right, wired, technology)
    for axes in (left, right):
        axes.set(xlim=(0, placed.width / 1000), ylim=(0, placed.height / 1000), aspect="equal", xlabel="µm")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    picture = io.BytesIO()
    with Image.open(buffer) as drawn:
        drawn.convert("RGB").quantize(_SHADES, Image.Quantize.FASTOCTREE).save(picture, "PNG", optimize=True)
    return picture.getvalue()


def modules(placed: Placed, directions: Mapping[str, str]) -> dict[str, str]:
    """The module of each cell but those that fill gaps: that of the net that it drives.

    Most nets between gates have no name. A cell that drives such a net belongs to the module of the first cell that the
    net leads to.
    """
    drives = {ends[0][0]: net for net, ends in placed.nets.items() if ends and directions.get(net) != "input"}
    found: dict[str, str] = {}
    for name in drives:
        path = [name]
        while (cell := path[-1]) not in found:
            net = drives[cell]
            following = [end for end, _ in placed.nets[net][1:2] if end in drives and end not in path]
            if net.startswith("$") and following:
                path += following
            else:
                found[cell] = "" if net.startswith("$") else net.rpartition(".")[0]
        found |= dict.fromkeys(path, found[path[-1]])
    group = _groups(found.values())
    return {name: group[module] for name, module in found.items()}


def _groups(paths: Iterable[str]) -> dict[str, str]:
    """For each module one that it belongs to: the outermost one that has not several modules inside."""
    split = {path: path.split(".") if path else [] for path in paths}
    inner: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for parts in split.values():
        for depth, part in enumerate(parts):
            inner[tuple(parts[:depth])].add(part)
    groups = {}
    for path, parts in split.items():
        depth = min(1, len(parts))
        while depth < len(parts) and len(inner[tuple(parts[:depth])]) > 1:
            depth += 1
        groups[path] = ".".join(parts[:depth])
    return groups


def _draw_cells(axes: Axes, placed: Placed, cells: Mapping[str, LefCell], module: Mapping[str, str]) -> None:
    sizes = Counter(module.values())
    largest = sorted(name for name, _ in sizes.most_common(_MOST))
    colours = dict.fromkeys(sizes, "0.6") | {name: colormaps["tab20"](at) for at, name in enumerate(largest)}
    boxes = {name: np.divide(box, 1000) for name, box in placed.boxes(cells).items() if name in module}
    corners = [((left, low), (right, low), (right, up), (left, up)) for left, low, right, up in boxes.values()]
    shades = [colours[module[name]] for name in boxes]
    axes.add_collection(PolyCollection(corners, facecolors=shades, edgecolors="white", linewidths=0.1))
    _add_legend(axes, {name or placed.name: colours[name] for name in largest})


def _draw_wires(axes: Axes, wired: Wired, technology: Technology) -> None:
    points = 72 * _INCHES * technology.wires["width"] / max(wired.placed.width, wired.placed.height)
    for level in range(len(technology.metals)):
        wires = [wire for route in wired.routes.values() for wire in route.wires if wire.level == level]
        segments = [np.divide([(wire.x, wire.y), technology.end(*wire)], 1000) for wire in wires]
        axes.add_collection(LineCollection(segments, colors=COLOURS[level], linewidths=points))
    _add_legend(axes, {metal.name: colour for metal, colour in zip(technology.metals, COLOURS, strict=False)})


def _add_legend(axes: Axes, colours: Mapping[str, Any]) -> None:
    entries = [Patch(color=colour, label=name) for name, colour in colours.items()]
    axes.legend(handles=entries, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=5, frameon=False, fontsize=8)
