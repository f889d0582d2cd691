"""A drawing of a layout's layers, each of which hides when its name is clicked."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain

from openmxu.layout.cells import Cell
from openmxu.layout.placed import Placed
from openmxu.layout.route.routing import Route
from openmxu.layout.route.supplies import Strap
from openmxu.layout.technology import Technology
from openmxu.pages.figures import COLOURS

_SCRIPT = """\
for (const layer of document.querySelectorAll("g[id]")) {
  const name = document.querySelector(`text[data-layer="${layer.id}"]`);
  name.onclick = () => { name.style.opacity = layer.toggleAttribute("display") ? 0.3 : 1; };
}
"""
_STYLE = "text { cursor: pointer; user-select: none } g[display] { display: none }"


def draw_layers(
    placed: Placed,
    routes: Mapping[str, Route],
    straps: Sequence[Strap],
    technology: Technology,
    cells: Mapping[str, Cell],
) -> str:
    """The drawing, as SVG, in units of 10 nm."""
    layers: dict[str, tuple[str, str, str]] = {}
    row = technology.grid["row"] // 10
    named = {name for ends in placed.nets.values() for name, _ in ends}
    boxes = (
        (each.x // 10, each.y // 10, cells[each.master].width // 10) for each in placed.instances if each.name in named
    )
    path = "".join(f"M{x} {y}h{wide}v{row}h{-wide}z" for x, y, wide in boxes)
    layers["cells"] = ("#9aa5ad", 'stroke-width="4"', path)
    wires = [*chain.from_iterable(route.wires for route in routes.values())]
    thick = f'stroke-width="{technology.wires["width"] // 10}"'
    for level, metal in enumerate(technology.metals):
        way = "v" if metal.vertical else "h"
        path = "".join(
            f"M{wire.x // 10} {wire.y // 10}{way}{wire.length // 10}" for wire in wires if wire.level == level
        )
        layers[metal.name] = (COLOURS[level], f'{thick} stroke-opacity="0.7"', path)
    vias = {(via.x // 10, via.y // 10) for route in routes.values() for via in route.vias}
    layers["vias"] = ("#333333", thick, "".join(f"M{x} {y}h0" for x, y in sorted(vias)))
    rects = [[side // 10 for side in strap.rect] for strap in straps]
    path = "".join(
        f"M{left} {bottom}h{right - left}v{top - bottom}h{left - right}z" for left, bottom, right, top in rects
    )
    layers[technology.straps["name"]] = ("#b5a642", 'stroke-width="20"', path)
    return _svg(placed, layers)


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
