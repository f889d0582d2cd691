"""Layouts as GDS files: each shape of a small one, and placed rows of real cells, which KLayout checks."""

import os
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

gdstk = pytest.importorskip("gdstk", reason="gdstk is not installed (extra layout)")

from openmxu.cells.lef import LefCell  # noqa: E402
from openmxu_layout.check.decks import check_rules  # noqa: E402
from openmxu_layout.drawing.exchange import write_def  # noqa: E402
from openmxu_layout.drawing.gds import write_gds  # noqa: E402
from openmxu_layout.pins import find_access, unreachable  # noqa: E402
from openmxu_layout.placed import Instance, Placed  # noqa: E402
from openmxu_layout.route.routing import Route, Via, Wire, Wired, core_access, route  # noqa: E402
from openmxu_layout.route.supplies import plan_straps, stack_metal  # noqa: E402
from openmxu_layout.technology import around  # noqa: E402

from ...conftest import ran  # noqa: E402
from ..conftest import IHP, needs_klayout  # noqa: E402
from .small_layout import small  # noqa: E402

Shape = tuple[int, int, tuple[int, ...]]
"""Layer, data type and rectangle in nm."""


EXPECTED: list[Shape] = [
    (8, 0, (960, 100, 1060, 300)),
    (8, 0, (480, 7260, 580, 7460)),
    (10, 0, (1340, -155, 1540, 995)),
    (30, 0, (805, 740, 1595, 940)),
    (29, 0, (1345, 745, 1535, 935)),
    (19, 0, (1345, 325, 1535, 515)),
    (8, 0, (1335, 275, 1545, 565)),
    (10, 0, (1340, -155, 1540, 155)),
    (10, 2, (1340, -155, 1540, 155)),
    (126, 0, (500, -630, 4300, 8190)),
    (126, 2, (500, -630, 4300, 8190)),
    (10, 0, (2300, -365, 2500, 365)),
    (30, 0, (2005, -100, 2795, 100)),
    (50, 0, (2300, -365, 2500, 365)),
    (67, 0, (2090, -310, 2710, 310)),
    *((layer, 0, (2305, -95, 2495, 95)) for layer in (19, 29, 49, 66)),
    (125, 0, (2190, -210, 2610, 210)),
]


def test_each_shape_of_a_small_layout(tmp_path: Path) -> None:
    """A mirrored cell hangs from its row's upper edge; a file has the same bytes again; unused cells are left out."""
    masks = gdstk.Library()
    masks.new_cell("inv").add(gdstk.rectangle((0, 0.1), (0.1, 0.3), layer=8))
    masks.new_cell("unused")
    masks.write_gds(tmp_path / "cells.gds")
    for name in ("one.gds", "two.gds"):
        write_gds(tmp_path / name, small(), IHP, tmp_path / "cells.gds")
    assert (tmp_path / "one.gds").read_bytes() == (tmp_path / "two.gds").read_bytes()
    library = gdstk.read_gds(tmp_path / "one.gds")
    assert {cell.name for cell in library.cells} == {"inv", "small"}
    [top] = library.top_level()
    drawn = [
        (shape.layer, shape.datatype, tuple(round(1000 * at) for corner in shape.bounding_box() for at in corner))
        for shape in top.get_polygons()
    ]
    assert Counter(drawn) == Counter(EXPECTED)
    labels = {(each.text, each.layer, each.texttype, *(round(1000 * at) for at in each.origin)) for each in top.labels}
    assert labels == {("out", 10, 25, 1440, 0), ("VSS", 126, 25, 2400, 3780)}


Layout = tuple[Wired, Path]


def rows_of_cells(seed: int, cells: Mapping[str, LefCell]) -> Placed:
    """Cells at random in rows that are two thirds full; each output drives the nearest inputs that are free."""
    choose = random.Random(seed)
    unused = unreachable(cells, IHP)
    usable = [name for name in cells if cells[name].signals and name not in unused]
    width, rows, instances = 480 * 150, 12, []
    ends: dict[str, list[tuple[int, int, str, str]]] = {"OUTPUT": [], "INPUT": []}
    for row in range(rows):
        x = 0
        while True:
            master = choose.choice(usable) if choose.random() < 0.75 else "sg13g2_fill_4"
            if x + cells[master].width > width:
                break
            instances.append(Instance(f"u{len(instances)}", master, x, row * 3780, bool(row % 2)))
            for name, pin in cells[master].signals.items():
                ends.setdefault(pin.direction, []).append((x, row * 3780, instances[-1].name, name))
            x += cells[master].width
        instances += [
            Instance(f"f{row}_{at}", "sg13g2_fill_1", at, row * 3780, bool(row % 2)) for at in range(x, width, 480)
        ]
    nets = {}
    free = ends["INPUT"]
    for x, y, *driver in ends["OUTPUT"]:
        free.sort(key=lambda end: abs(end[0] - x) + abs(end[1] - y) + choose.randrange(15_000))
        count = min(choose.choice((1, 1, 2, 3)), len(free))
        nets[f"n{len(nets)}"] = (tuple(driver), *((name, pin) for _, _, name, pin in free[:count]))
        del free[:count]
    ports = {f"n{x}": (0, 480 * 7 * x, 0) for x in range(1, 20)}
    return Placed("rows", width, rows * 3780, tuple(instances), ports, nets)


def violations(gds: Path, top: str, pdk: Mapping[str, Path]) -> Mapping[str, int]:
    """The rules of IHP's smaller deck without density that a layout breaks, and how often."""
    return check_rules(gds, top, pdk["minimal"], 91).counts


@pytest.fixture(scope="module")
def layout(pdk: Mapping[str, Path], library: Mapping[str, LefCell], tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Real cells in rows, routed and drawn."""
    placed = rows_of_cells(1, library)
    access = {master: find_access(library[master], IHP) for master in {each.master for each in placed.instances}}
    pads = core_access(placed, access, IHP)
    straps = plan_straps(placed, pads, IHP)
    metal = [each for strap in straps for at in strap.stacks for each in stack_metal(*at, IHP)]
    routes = route(placed, pads, IHP, blocked=metal)
    path = tmp_path_factory.mktemp("layout") / "rows.gds"
    wired = Wired(placed, routes, straps)
    write_gds(path, wired, IHP, pdk["masks"])
    return wired, path


@needs_klayout
def test_no_rule_of_the_foundry_is_broken(layout: Layout, pdk: Mapping[str, Path], tmp_path: Path) -> None:
    """A wire that is moved by 80 nm breaks one."""
    wired, path = layout
    routes = wired.routes
    assert not violations(path, "rows", pdk)
    net = max(routes, key=lambda name: len(routes[name].wires))
    moved = [wire._replace(x=wire.x + 80) if wire.level == 0 else wire for wire in routes[net].wires]
    damaged = {**routes, net: Route(moved, routes[net].vias, routes[net].pads)}
    write_gds(tmp_path / "damaged.gds", replace(wired, routes=damaged), IHP, pdk["masks"])
    assert "M2.b" in violations(tmp_path / "damaged.gds", "rows", pdk)


@needs_klayout
def test_every_access_of_every_cell_breaks_no_rule(
    pdk: Mapping[str, Path], library: Mapping[str, LefCell], tmp_path: Path
) -> None:
    """A via on each node of each pin, with a step of wire, each on a cell of its own; a pad 60 nm aside is noticed."""
    instances, routes = [], {}
    for name, cell in library.items():
        for access in find_access(cell, IHP).values():
            for (x, y), size in access.items():
                left, bottom = 480 * 60 * (len(instances) % 25), 3780 * 2 * (len(instances) // 25)
                instances.append(Instance(f"u{len(instances)}", name, left, bottom, False))
                node = left + x, bottom + y
                routes[f"n{len(routes)}"] = Route([Wire(0, *node, 420)], [Via(0, *node)], [around(*node, *size)])
    assert len(instances) > 600
    placed = Placed("every", 480 * 60 * 25, instances[-1].y + 3780, tuple(instances), {}, dict.fromkeys(routes, ()))
    write_gds(tmp_path / "every.gds", Wired(placed, routes, []), IHP, pdk["masks"])
    assert not violations(tmp_path / "every.gds", "every", pdk)
    for metal in routes.values():
        metal.pads = [(left - 60, bottom, right - 60, top) for left, bottom, right, top in metal.pads]
    write_gds(tmp_path / "aside.gds", Wired(placed, routes, []), IHP, pdk["masks"])
    assert "M1.b" in violations(tmp_path / "aside.gds", "every", pdk)


_COMPARE = """
import pya
config = pya.LEFDEFReaderConfiguration()
config.lef_files = [{tech!r}, {cells!r}]
config.macro_layout_files, config.macro_resolution_mode, config.read_lef_with_def = [{masks!r}], 2, False
names = {names}
config.layer_map = pya.LayerMap.from_string("\\n".join(
    f"'{{name}}{{kind}}' : {{layer}}/0" for name, layer in names.items() for kind in ("", ".PIN")
))
config.routing_suffix = config.special_routing_suffix = config.via_geometry_suffix = ""
config.produce_cell_outlines = config.produce_obstructions = config.produce_lef_pins = False
options = pya.LoadLayoutOptions()
options.lefdef_config = config
drawn, written = pya.Layout(), pya.Layout()
drawn.read({gds!r})
written.read({text!r}, options)
for name, layer in names.items():
    a, b = (
        pya.Region(layout.top_cell().begin_shapes_rec(layout.layer(layer, 0))).merged() for layout in (drawn, written)
    )
    print("layer", name, a.area(), (a ^ b).area())
"""


@needs_klayout
def test_def_has_the_metal_of_gds(layout: Layout, pdk: Mapping[str, Path], tmp_path: Path) -> None:
    wired, path = layout
    (tmp_path / "rows.def").write_text(write_def(wired, IHP))
    names = {"Metal1": 8, "Via1": 19, "Metal2": 10, "Via2": 29, "Metal3": 30, "Via3": 49, "Metal4": 50, "Via4": 66}
    names |= {"Metal5": 67, "TopVia1": 125, "TopMetal1": 126}
    tech = next(Path(os.environ["OPENMXU_PDK"]).rglob("sg13g2_tech.lef"))
    files = {"gds": path, "text": tmp_path / "rows.def", "tech": tech, **pdk}
    script = _COMPARE.format(names=names, **{role: str(file) for role, file in files.items()})
    (tmp_path / "compare.py").write_text(script)
    done = ran(["klayout", "-b", "-r", tmp_path / "compare.py"], timeout=100, check=True)
    areas = re.findall(r"^layer (\S+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
    assert {name for name, drawn, _ in areas if int(drawn)} == set(names)
    assert [area for area in areas if int(area[2])] == []
