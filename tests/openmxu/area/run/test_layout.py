"""Layouts against netlists: a core of two inverters, drawn by hand, and what can be wrong with it."""

import pytest

from openmxu.area.run.layout import Layout, LayoutError, Shape, Wire, check, read_def, read_lef

LEF = """
LAYER metal1
  TYPE ROUTING ;
  WIDTH 0.2 ;
END metal1
LAYER via TYPE CUT ;
END via
LAYER metal2
  TYPE ROUTING ;
  WIDTH 0.4 ;
END metal2
VIA M2_M1 DEFAULT
  LAYER metal1 ; RECT -0.1 -0.1 0.1 0.1 ; LAYER via ; RECT -0.1 -0.1 0.1 0.1 ;
  LAYER metal2 ; RECT -0.2 -0.2 0.2 0.2 ;
END M2_M1
MACRO INV
  CLASS CORE ;
  SIZE 4.0 BY 10.0 ;
  PIN A
    DIRECTION INPUT ; PORT LAYER metal1 ; RECT 0.5 2.0 1.0 3.0 ; END
  END A
  PIN Y
    DIRECTION OUTPUT ; PORT LAYER metal1 ;
        RECT 3.0 2.0 3.5 3.0 ;
        RECT 3.0 6.0 3.5 7.0 ; END
  END Y
  OBS LAYER metal1 ; RECT 1.5 2.0 2.5 3.0 ; END
END INV
"""

# INV_1 as it is, INV_2 mirrored left to right: its Y is to the left, next to that of INV_1.
# a: a port to INV_1's A on metal1. b: INV_1's Y to INV_2's A, above the cells on metal2. o: INV_2's Y, not routed.
DEF = """
VERSION 5.6 ;
UNITS DISTANCE MICRONS 100 ;
COMPONENTS 2 ;
- INV_1 INV + PLACED ( 0 0 ) N ;
- INV_2 INV + PLACED ( 400 0 ) FN ;
END COMPONENTS
PINS 1 ;
- a + NET a
  + LAYER metal1 ( 0 0 ) ( 10 10 )
  + PLACED ( -200 250 ) N ;
END PINS
NETS 2 ;
- a ( PIN a ) ( INV_1 A )
+ ROUTED metal1 ( -200 250 ) ( 60 * ) ;
- b
  ( INV_1 Y )
  ( INV_2 A )
+ ROUTED metal1 ( 320 250 ) M2_M1
  NEW metal2 ( 320 250 ) ( * 500 ) ( 720 * ) ( * 250 ) M2_M1 ;
END NETS
SPECIALNETS 1 ;
- b
+ ROUTED metal1 40 ( 720 250 ) ( 725 * ) ;
END SPECIALNETS
END DESIGN
"""
INSTANCES = {"INV_1": "INV", "INV_2": "INV"}
NETS = {"a": [("INV_1", "A")], "b": [("INV_1", "Y"), ("INV_2", "A")], "o": [("INV_2", "Y")]}
LIBRARY = read_lef(LEF)


def drawn(old: str, new: str) -> Layout:
    assert old in DEF
    return read_def(DEF.replace(old, new), LIBRARY)


def test_lef_and_def() -> None:
    cell = LIBRARY.cells["INV"]
    assert (cell.area, cell.pins["A"]) == (40.0, (Shape("metal1", 0.5, 2.0, 1.0, 3.0),))
    assert len(cell.pins["Y"]) == 2
    assert cell.inside == (Shape("metal1", 1.5, 2.0, 2.5, 3.0),)
    assert (LIBRARY.widths, LIBRARY.vias) == ({"metal1": 0.2, "metal2": 0.4}, {"M2_M1": ("metal1", "metal2")})
    layout = read_def(DEF, LIBRARY)
    assert layout.routes["b"][:3] == [
        (Wire("metal1", 320, 250, 320, 250), Wire("metal2", 320, 250, 320, 250)),
        (Wire("metal2", 320, 250, 320, 500),),
        (Wire("metal2", 320, 500, 720, 500),),
    ]
    # 260 of a, 250 + 400 + 250 + 5 of b, in hundredths of a µm.
    assert layout.length == pytest.approx(11.65e-3)
    assert layout.vias == 2
    assert layout.box(LIBRARY) == (0, 0, 8, 10)
    assert layout.ports == {"a": Shape("metal1", -200, 250, -190, 260)}


@pytest.mark.parametrize(
    ("old", "new", "net"),
    [
        ("( * 250 ) M2_M1 ;", "( * 250 ) ;", "b"),  # a via that is missing
        ("( * 500 ) ( 720 * )", "( * 500 ) ( 670 * )", "b"),  # a wire that is too short
        ("( 60 * )", "( 39 * )", "a"),  # likewise: 0.1 µm of it are width
        ("( 400 0 ) FN", "( 400 0 ) S", "b"),  # its A is elsewhere then
        ("( -200 250 ) N", "( -600 250 ) N", "a"),  # a port that is not reached
        ("( 60 * )", "( 40 * )", ""),  # touches by its width
        ("VERSION 5.6 ;", "VERSION 5.7 ;", ""),
    ],
)
def test_open_nets(old: str, new: str, net: str) -> None:
    assert check(drawn(old, new), LIBRARY, INSTANCES, NETS) == list(net)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("- INV_2 INV + PLACED ( 400 0 ) FN ;\n", "", "1 cells are not those of the netlist, first INV_2"),
        ("- INV_2 INV +", "- INV_3 INV +", "2 cells are not those of the netlist, first INV_2"),
        ("( 400 0 ) FN", "( 390 0 ) FN", "cell INV_1 lies on INV_2"),
        ("( 400 0 ) FN", "( 400 0 ) E", "cells must be turned N, S, FN or FS, not E"),
        ("( 60 * )", "( 140 * )", "net a touches INV_1's inside"),
        ("( 60 * ) ;", "( 60 * ) ( * 250 ) ( 320 * ) ;", "net a touches"),
        ("- a ( PIN a )", "- c ( PIN a )", "1 nets have no wires, first a"),
        ("( * 250 ) M2_M1 ;", "( * 250 ) M3_M2 ;", "DEF must have vias of the LEF, at a place, not M3_M2"),
        ("metal1 ( 320 250 ) M2_M1", "metal1 M2_M1", "DEF must have vias of the LEF, at a place, not M2_M1"),
        ("UNITS DISTANCE MICRONS 100 ;", "", "DEF must say how many units a micrometre has"),
    ],
)
def test_wrong_layouts(old: str, new: str, text: str) -> None:
    nets = {**NETS, "a": [*NETS["a"], ("INV_9", "A")]} if "no wires" in text else NETS
    with pytest.raises(LayoutError, match=f"^{text}"):
        check(drawn(old, new), LIBRARY, INSTANCES, nets)


def test_wires_that_cross() -> None:
    nets = {"a": NETS["a"], "b": NETS["b"], "c": NETS["o"]}
    end = "- c\n  ( INV_2 Y )\n+ ROUTED {} ( 480 250 ) ( * 600 ) ;\nEND NETS"
    one, other = (drawn("END NETS", end.format(layer)) for layer in ("metal1", "metal2"))
    assert check(one, LIBRARY, INSTANCES, nets) == []
    with pytest.raises(LayoutError, match=r"^net (b touches c|c touches b)$"):
        check(other, LIBRARY, INSTANCES, nets)


@pytest.mark.parametrize(("text", "complaint"), [("", "LEF must have cells"), ("MACRO A\nEND A", "LEF must have the")])
def test_wrong_lef(text: str, complaint: str) -> None:
    with pytest.raises(LayoutError, match=f"^{complaint}"):
        read_lef(text)
