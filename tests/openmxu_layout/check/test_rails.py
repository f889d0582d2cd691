"""Supplies in masks: whole ones pass, and each damage that LVS would not see is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

gdstk = pytest.importorskip("gdstk", reason="gdstk is not installed (extra layout)")

from openmxu.cells.lef import Rect  # noqa: E402
from openmxu_layout.check.rails import broken_supplies  # noqa: E402
from openmxu_layout.drawing.gds import write_gds  # noqa: E402
from openmxu_layout.route.routing import Wired  # noqa: E402
from openmxu_layout.route.supplies import plan_straps  # noqa: E402

from ..conftest import IHP  # noqa: E402
from ..route.test_supplies import ROW, core  # noqa: E402

WIDTH = 80_160


def _whole(folder: Path) -> tuple[Wired, Path]:
    """Three rows with one cell in each, and a strap of each supply."""
    cells, placed = gdstk.Library(), core(WIDTH)
    fill = cells.new_cell("fill")
    for y in (0, ROW):
        for left, right in ((0, WIDTH // 2), (WIDTH // 2, WIDTH)):  # they abut
            fill.add(gdstk.rectangle((left / 1e3, y / 1e3 - 0.22), (right / 1e3, y / 1e3 + 0.22), layer=8))
    cells.write_gds(folder / "cells.gds")
    wired = Wired(placed, {}, plan_straps(placed, {}, IHP))
    write_gds(folder / "masks.gds", wired, IHP, folder / "cells.gds")
    return wired, folder / "masks.gds"


def _cut(layer: int, rect: Rect) -> Callable[[Any], None]:
    """Take a rectangle, in nm, out of a layer."""
    left, low, right, up = (side / 1e3 for side in rect)
    hole = gdstk.rectangle((left, low), (right, up))

    def damage(top: Any) -> None:
        top.flatten()
        shapes = [shape for shape in top.polygons if (shape.layer, shape.datatype) == (layer, 0)]
        top.remove(*shapes)
        top.add(*gdstk.boolean(shapes, hole, "not", layer=layer))

    return damage


def _add(layer: int, rect: Rect) -> Callable[[Any], None]:
    left, low, right, up = (side / 1e3 for side in rect)
    return lambda top: top.add(gdstk.rectangle((left, low), (right, up), layer=layer))


STRAP = "TopMetal1 at 17780, {} nm is {}"


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        (None, []),
        (_cut(126, (17_780, 5000, 21_580, 12_000)), [STRAP.format(-630, "missing"), STRAP.format(-630, "no strap")]),
        (_cut(126, (17_780, 5000, 21_580, 5001))
         , [STRAP.format(-630, "missing"), STRAP.format(-630, "no strap"), STRAP.format(5001, "no strap")]),
        (_cut(126, (19_000, -630, 21_580, 12_000)), [STRAP.format(-630, "missing"), STRAP.format(-630, "no strap")]),
        (_cut(126, (17_000, -1000, 22_000, 13_000)), [STRAP.format(-630, "missing")]),
        (_cut(126, (18_000, 5000, 19_000, 6000)), [STRAP.format(-630, "missing")]),
        (_add(126, (40_000, 0, 41_640, 5000)), ["TopMetal1 at 40000, 0 nm is no strap"]),
        *(
            (_cut(layer, (19_000, 2 * ROW - 700, 20_400, 2 * ROW + 700)),
             ["no stack joins the strap at 17780 nm to the rail at 7560 nm"])
            for layer in (125, 67, 66, 50, 49, 30, 29, 10, 19)
        ),
        (_cut(8, (30_000, -300, 30_001, 300)), ["the rail at 0 nm is not one piece"]),
        (_cut(8, (0, ROW - 300, 1, ROW + 300)), ["the rail at 3780 nm is not one piece"]),
    ],
)  # fmt: skip
def test_supplies(tmp_path: Path, damage: Callable[[Any], None] | None, wrong: list[str]) -> None:
    """Half of a strap, a gap, half of its width, a hole; each layer of one stack; rails with a gap of a nm."""
    wired, masks = _whole(tmp_path)
    if damage is not None:
        library = gdstk.read_gds(masks)
        damage(next(cell for cell in library.cells if cell.name == "core"))
        library.write_gds(tmp_path / "masks.gds")
    assert sorted(broken_supplies(masks, wired, IHP)) == sorted(wrong)
