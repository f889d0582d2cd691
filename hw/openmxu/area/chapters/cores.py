"""The chapter of an area report on placed and routed cores, and their picture."""

from collections.abc import Mapping, Sequence
from typing import Any

from openmxu.area.finding.findings import Report
from openmxu.area.run.placing import Core
from openmxu.pages.tables import table

PLACED = "cores.svg"
"""File name of the picture."""

_BASE = "bf16"

_LAYERS = {"metal1": "#8a8a8a", "metal2": "#0072b2", "metal3": "#d55e00", "metal4": "#009e73", "metal5": "#cc79a7"}
"""Colours of wires, from Okabe and Ito's palette; higher layers have the last one's."""


def placed_section(report: Report) -> list[str]:
    """A table of cores with its limits; empty if none was placed."""
    if not report.cores:
        return []
    cores = [core for core in report.cores if not core.error]
    bases = {core.result.point.part: core for core in cores if str(core.result.point.format) == _BASE}
    rows = [_row(core, bases.get(core.result.point.part)) for core in cores]
    headings = ["design", "cells", "area of cells, µm²", "core, µm²", "bf16 = 1", "wire, mm", "bf16 = 1", "vias"]
    return [
        "Designs mapped to osu018 (180 nm, six metal layers) by recipe 'area', placed by graywolf and routed by "
        "qrouter: rows of cells without gaps, ports around them. Areas are those of the LEF file, which the Liberty "
        "file contradicts. Figures are means over several seeds of the placer; with some seeds the router crashed "
        "('layouts': seeds that gave one, of those tried). Every layout was compared with its netlist: no cell is "
        "missing, and no nets touch. 'Open nets' do not reach all of their pins, although the router reports them as "
        "routed.",
        *([table([*headings, "open nets", "layouts"], rows)] if rows else []),
        *([f"![Multipliers of bf16 and fp32, placed and routed, at one scale]({PLACED})"] if _pair(report) else []),
        *([_sentence(bases, cores)] if bases else []),
        *(f"- {core.result.point.name}: {core.error}" for core in report.cores if core.error),
    ]


def _row(core: Core, base: Core | None) -> list[str]:
    return [
        core.result.point.name,
        f"{core.cells:,}",
        f"{core.cell_area:,.0f}",
        f"{core.area:,.0f}",
        f"{core.area / base.area:.2f}" if base else "",
        f"{core.wire:.1f} ± {core.spread:.1%}",
        f"{core.wire / base.wire:.2f}" if base else "",
        f"{core.vias:,.0f}",
        f"{core.open_nets} of {core.nets:,}",
        f"{core.seeds} of {core.tries}",
    ]


def _sentence(bases: Mapping[str, Core], cores: Sequence[Core]) -> str:
    """The effect of wires on the ratios, and its limits."""
    others = [core for core in cores if core.result.point.part in bases and str(core.result.point.format) != _BASE]
    factors = [
        f"{core.wire / bases[core.result.point.part].wire / (core.area / bases[core.result.point.part].area):.2f} "
        f"({core.result.point.name})"
        for core in others
    ]
    return (
        "Areas of cores have the same ratios as areas of cells: the router needs no extra room. Ratios of wire lengths "
        f"are those of core areas times {', '.join(factors)}. This is one old technology with few cells, without power "
        "grid, clock tree and timing; larger designs, or denser cells, may need room for wires."
    )


def _pair(report: Report) -> list[Core]:
    """The multipliers that are drawn."""
    by_format = {str(core.result.point.format): core for core in report.cores if core.result.point.part == "multiplier"}
    pair = [by_format[name] for name in (_BASE, "fp32") if name in by_format and by_format[name].drawing]
    return pair if len(pair) > 1 else []


def to_drawing(report: Report) -> dict[str, bytes]:
    """The picture as SVG, by its name: cells, and wires by layer; empty where either multiplier is missing."""
    pair = _pair(report)
    if not pair:
        return {}
    drawings = [core.drawing for core in pair if core.drawing]
    sizes = [_size(layout) for layout in drawings]
    width, height, gap = sum(w for w, _ in sizes), max(h for _, h in sizes), 100
    font = (width + gap) // 40
    head, groups, captions, left = 5 * font, [], [], 0
    for core, drawing, (own, high) in zip(pair, drawings, sizes, strict=True):
        lines = (core.result.point.name, f"{core.area:,.0f} µm²", f"{core.wire:.1f} mm of wire")
        groups.append(f'<g transform="translate({left},{head + height})">{_drawn(drawing)}</g>')
        captions += [
            f'<text x="{left}" y="{head + height - high - (3.6 - 1.2 * number) * font:.0f}">{line}</text>'
            for number, line in enumerate(lines)
        ]
        left += own + gap
    view = f"-40 0 {width + gap + 80} {height + head + 40}"
    return {
        PLACED: (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" font-family="sans-serif" font-size="{font}" '
            f'fill="#010101"><title>{pair[0].result.point.name} and {pair[1].result.point.name}, placed and routed'
            f"</title>{''.join([*groups, *captions])}</svg>\n"
        ).encode()
    }


def _size(drawing: Mapping[str, Any]) -> tuple[int, int]:
    return max(x + w for x, _, w, _ in drawing["cells"]), max(y + h for _, y, _, h in drawing["cells"])


def _drawn(drawing: Mapping[str, Any]) -> str:
    """Cells and wires as SVG paths; y is negated, as it points down in SVG."""
    cells = "".join(f"M{x} {-y}h{w}v{-h}h{-w}z" for x, y, w, h in drawing["cells"])
    text = f'<path d="{cells}" fill="#e9eef2" stroke="#b5bfc7" stroke-width="2"/>'
    for layer in sorted(drawing["wires"]):
        path = "".join(
            f"M{x} {-y}h{right - x}" if y == top else f"M{x} {-y}v{y - top}"
            for x, y, right, top in drawing["wires"][layer]
        )
        colour = _LAYERS.get(layer, list(_LAYERS.values())[-1])
        text += f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="3"/>'
    return text
