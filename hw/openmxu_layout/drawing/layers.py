"""A drawing of a layout's layers, each of which hides when its name is clicked."""

from collections.abc import Iterable, Mapping
from html import escape

from openmxu.cells.lef import LefCell, Rect
from openmxu.pages.figures import COLOURS
from openmxu_layout.placed import Placed
from openmxu_layout.route.routing import Wired
from openmxu_layout.technology import Technology

_SCRIPT = """\
for (const layer of document.querySelectorAll("g[id]")) {
  const name = document.querySelector(`text[data-layer="${layer.id}"]`);
  name.onclick = () => { name.style.opacity = layer.toggleAttribute("display") ? 0.3 : 1; };
}
"""
_STYLE = "text { cursor: pointer; user-select: none } g[display] { display: none }"


def draw_layers(wired: Wired, technology: Technology, cells: Mapping[str, LefCell]) -> str:
    """The drawing, as SVG, in units of 10 nm."""
    placed, routes = wired.placed, wired.routes.values()
    layers = {"cells": ("#9aa5ad", 'stroke-width="4"', _boxes(placed.boxes(cells).values()))}
    thick = f'stroke-width="{technology.wires["width"] // 10}"'
    for level, metal in enumerate(technology.metals):
        way = "v" if metal.vertical else "h"
        wires = (wire for route in routes for wire in route.wires if wire.level == level)
        path = "".join(f"M{wire.x // 10} {wire.y // 10}{way}{wire.length // 10}" for wire in wires)
        layers[metal.name] = (COLOURS[level], f'{thick} stroke-opacity="0.7"', path)
    vias = {(via.x // 10, via.y // 10) for route in routes for via in route.vias}
    layers["vias"] = ("#333333", thick, "".join(f"M{x} {y}h0" for x, y in sorted(vias)))
    layers[technology.straps["name"]] = ("#b5a642", 'stroke-width="20"', _boxes(strap.rect for strap in wired.straps))
    return _svg(placed, layers)


def _boxes(rects: Iterable[Rect]) -> str:
    """The path around rectangles."""
    scaled = ([side // 10 for side in rect] for rect in rects)
    return "".join(f"M{left} {low}h{right - left}v{up - low}h{left - right}z" for left, low, right, up in scaled)


def _svg(placed: Placed, layers: Mapping[str, tuple[str, str, str]]) -> str:
    """Layers, each with its colour, its style and a path, and their names beside them."""
    width, height = placed.width // 10, placed.height // 10
    font = height // 40
    view = f"{-font} {-font} {width + 12 * font} {height + 2 * font}"
    groups = [
        f'<g id="{name}" fill="none" stroke="{colour}" {style}><path d="{path}"/></g>'
        for name, (colour, style, path) in layers.items()
    ]
    names = [
        f'<text x="{width + font}" y="{(2 + 2 * number) * font}" fill="{colour}" data-layer="{name}">{name}</text>'
        for number, (name, (colour, _, _)) in enumerate(layers.items())
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" '
            f'font-family="sans-serif" font-size="{1.5 * font}">',
            f"<title>Layers of {escape(placed.name)}</title>",
            f"<style>{_STYLE}</style>",
            f'<g transform="translate(0,{height}) scale(1,-1)" stroke-linecap="square">',
            *groups,
            "</g>",
            *names,
            f"<script>{_SCRIPT}</script></svg>\n",
        ]
    )
