"""Cells from LEF, and where vias may stand on their pins."""

from collections.abc import Mapping, Sequence

import pytest

from openmxu.cells.lef import LefCell, Pin, Rect, read_cells
from openmxu_layout.pins import find_access, unreachable

from .conftest import IHP

X, Y = 480 * 2, 420 * 4
"""The node that the pins below are around."""

_LEF = """
VERSION 5.7 ;
PROPERTYDEFINITIONS
  MACRO CatenaDesignType STRING ;
END PROPERTYDEFINITIONS
SITE CoreSite
  SIZE 0.48 BY 3.78 ;
END CoreSite
MACRO inv # a comment ;
  SIZE 1.44 BY 3.78 ;
  PIN A
    DIRECTION INPUT ;
    USE SIGNAL ;
    PORT
      LAYER Metal1 ;
        RECT 0.205 0.885 0.445 3.16 ;
        RECT 0.2 -0.005 0.4 1 ;
    END
  END A
  PIN VDD
    USE POWER ;
    PORT
      LAYER Metal1 ;
        RECT 0 3.56 1.44 4 ;
    END
  END VDD
  OBS
    LAYER Metal2 ;
      RECT 1 1 1.2 1.2 ;
  END
END inv
MACRO fill
  SIZE 0.48 BY 3.78 ;
END fill
"""


def test_cells_of_a_lef_file() -> None:
    a = Pin("SIGNAL", "INPUT", [("Metal1", (205, 885, 445, 3160)), ("Metal1", (200, -5, 400, 1000))])
    vdd = Pin("POWER", "INPUT", [("Metal1", (0, 3560, 1440, 4000))])
    inverter = LefCell(1440, 3780, {"A": a, "VDD": vdd}, [("Metal2", (1000, 1000, 1200, 1200))])
    assert read_cells(_LEF) == {"inv": inverter, "fill": LefCell(480, 3780)}
    assert inverter.signals == {"A": a}


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("POLYGON 1 1 1 2 2 2", "cells must have rectangles alone, not POLYGON 1 1 1 2 2 2 as inv has"),
        ("RECT 1 1 1.2", "cells must have rectangles alone, not RECT 1 1 1.2 as inv has"),
        ("PIN", "cells must have rectangles alone, not PIN as inv has"),
        *(
            (f"RECT {number} 1 1.2 1.2", f"lengths must be numbers of µm below a million, not '{number}'")
            for number in ("wide", "inf", "NaN", "1e999999999", "1234567", ".")
        ),
    ],
)
def test_shapes_that_are_no_rectangles(statement: str, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"^{reason}$"):
        read_cells(_LEF.replace("RECT 1 1 1.2 1.2", statement))


def test_a_cell_without_an_end() -> None:
    with pytest.raises(ValueError, match=r"^cells must have an end, and fill has none$"):
        read_cells(_LEF.removesuffix("END fill\n"))


def cell(pin: Sequence[Rect], other: Sequence[Rect] = (), width: int = 480 * 5) -> LefCell:
    """A cell with a pin; rectangles are relative to the node."""
    shapes = [[("Metal1", (a + X, b + Y, c + X, d + Y)) for a, b, c, d in rects] for rects in (pin, other)]
    return LefCell(width, 3780, {"A": Pin(shapes=shapes[0])}, shapes[1])


UPRIGHT, LYING = (210, 290), (290, 210)


@pytest.mark.parametrize(
    ("pin", "other", "pad"),
    [
        ([(-105, -145, 105, 145)], [], UPRIGHT),
        ([(-145, -105, 145, 105)], [(-400, 106, 400, 200)], LYING),
        ([(-105, -145, 0, 145), (0, -145, 105, 145)], [(106, -145, 300, 145)], UPRIGHT),
        ([(-80, -600, 80, 600)], [], UPRIGHT),
        ([(-80, -600, 80, 600)], [(284, -600, 400, 600)], None),
        ([(-80, -600, 80, 600)], [(285, -600, 400, 600)], UPRIGHT),
        ([(-80, -600, 80, 600)], [(284, 146, 400, 600)], None),
        ([(-80, -600, 80, 600)], [(285, 146, 400, 600)], UPRIGHT),
        ([(-80, -600, 80, 600)], [(160, 145, 400, 600)], None),
        ([(105, -600, 265, 600)], [], UPRIGHT),
        ([(146, -600, 306, 600)], [], None),
        ([(-400, 60, -60, 600)], [], None),
        ([(-80, 100, 80, 600)], [], UPRIGHT),
        ([(-80, 146, 80, 600)], [], None),
        ([(-80, -600, 80, 600), (200, -145, 400, 145), (-80, 300, 400, 600)], [], None),
        ([(-80, -600, 80, 600), (105, 145, 400, 300), (-80, 300, 400, 600)], [], None),
        ([(-80, -600, 80, 600), (285, -145, 400, 600)], [], UPRIGHT),
    ],
)
def test_where_a_via_may_stand(pin: list[Rect], other: list[Rect], pad: tuple[int, int] | None) -> None:
    """Within the pin; beyond it where it keeps 180 nm to other metal and to bays, and joins over 160."""
    access = find_access(cell(pin, other), IHP)["A"]
    assert access.get((X, Y)) == pad


def test_half_of_the_spacing_to_the_next_cell() -> None:
    """A pad that leaves its pin is 375 nm from the edge of a cell of 480 more, but 89 from one that ends before."""
    pin = [(-80, -600, 80, 600)]
    assert find_access(cell(pin, width=X + 105 + 90), IHP)["A"].get((X, Y)) == UPRIGHT
    assert (X, Y) not in find_access(cell(pin, width=X + 105 + 89), IHP)["A"]


def test_pads_of_two_pins_keep_the_spacing() -> None:
    """A net may have both, and nodes next to each other. Pads there are 130 nm apart; one pin has another node."""
    two = cell([(-80, -600, 80, 80)], [])
    two.pins["B"] = Pin(shapes=[("Metal1", (X - 80, Y + 340, X + 80, Y + 1300))])
    access = find_access(two, IHP)
    assert (X, Y) in access["A"] or (X, Y + 420) in access["B"]
    assert not ((X, Y) in access["A"] and (X, Y + 420) in access["B"])


def test_metal_above_that_of_pins_takes_all_access() -> None:
    blocked = cell([(-145, -145, 145, 145)])
    assert not unreachable({"good": blocked}, IHP)
    blocked.obstructions.append(("Metal2", (0, 0, 100, 100)))
    assert find_access(blocked, IHP) == {"A": {}}
    assert unreachable({"bad": blocked}, IHP) == ["bad"]


def test_cells_of_ihp_sg13g2_that_cannot_be_used(library: Mapping[str, LefCell]) -> None:
    """All others have access to each pin. The same eight were found by hand."""
    names = "a21o_1 a21o_2 a221oi_1 dlhrq_1 mux4_1 or4_1 or4_2 sdfbbp_1"
    assert len(library) == 84
    assert unreachable(library, IHP) == [f"sg13g2_{name}" for name in names.split()]
