"""Pictures: which module a cell belongs to, and that a layout has one picture."""

from dataclasses import replace

from openmxu.cells.lef import LefCell
from openmxu_layout.drawing.picture import draw_picture, modules
from openmxu_layout.placed import Placed

from ..conftest import IHP
from .small_layout import small


def test_cells_belong_to_the_module_of_what_they_drive() -> None:
    nets = {
        "clk": (("tree", "A"),),
        "$tree": (("tree", "X"), ("a", "CLK"), ("b", "CLK")),
        "array.row_0.pe_0.sum[3]": (("a", "Q"), ("gate", "A")),
        "array.row_0.pe_1.mac.sum[3]": (("b", "Q"),),
        "array.row_1.word": (("d", "Q"),),
        "$1": (("gate", "Y"), ("other", "A")),
        "$2": (("other", "Y"), ("c", "D")),
        "bank.column.word": (("c", "Q"), ("loop", "A")),
        "$3": (("loop", "Y"), ("pool", "A")),
        "$4": (("pool", "Y"), ("loop", "B")),
        "o[0]": (("last", "Y"),),
    }
    placed = Placed("case", 0, 0, (), {}, nets)
    assert modules(placed, {"clk": "input", "o[0]": "output"}) == {
        "tree": "array.row_0.pe_0",
        "a": "array.row_0.pe_0",
        "b": "array.row_0.pe_1",  # a row has two elements, an element one part
        "d": "array.row_1",
        "gate": "bank",
        "other": "bank",
        "c": "bank",
        "loop": "",
        "pool": "",
        "last": "",
    }


def test_a_layout_has_one_picture() -> None:
    cells = {"inv": LefCell(1440, 3780)}
    first, again, other = (
        draw_picture(each, IHP, cells, {"out": "output"}) for each in (small(), small(), replace(small(), routes={}))
    )
    assert first.startswith(b"\x89PNG")
    assert first == again != other
