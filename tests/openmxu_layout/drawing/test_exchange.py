"""Layouts as DEF files, and their netlists."""

from openmxu_layout.drawing.exchange import write_def, write_netlist

from ..conftest import IHP
from .small_layout import small


def test_the_statements_of_a_small_layout() -> None:
    text = write_def(small(), IHP)
    assert "DIEAREA ( 0 0 ) ( 4800 7560 ) ;\nTRACKS X 0 DO 11 STEP 480 LAYER Metal2 ;" in text
    assert "- u0 inv + PLACED ( 960 0 ) N ;\n- u1 inv + PLACED ( 480 3780 ) FS ;" in text
    assert "- out + NET out + LAYER Metal2 ( -100 -155 ) ( 100 155 ) + PLACED ( 1440 0 ) N ;" in text
    net = text[text.index("\nNETS 1 ;") :].split()
    assert " ".join(net[3:-4]) == (
        "- out ( u0 Y ) ( PIN out ) + ROUTED Metal2 ( 1440 0 155 ) ( 1440 840 155 ) "
        "NEW Metal3 ( 960 840 155 ) ( 1440 840 155 ) "
        "NEW Metal3 ( 1440 840 ) via_1 NEW Metal2 ( 1440 420 ) pin_210_290 ;"
    )


def test_a_netlist_with_the_ports_of_its_design() -> None:
    nets = {
        "a[0]": (("u0", "A"),),
        "a[1]": (("u1", "B"),),
        "clk": (),
        "part.n[2]": (("u0", "Y"), ("u1", "A")),
        "y": (("u1", "Y"),),
    }
    instances = {"u0": "inv", "f0": "gap", "u1": "nand"}
    directions = {"a[0]": "input", "a[1]": "input", "clk": "input", "y": "output"}
    assert write_netlist("top", directions, nets, instances).splitlines() == [
        "module top(a, clk, y);",
        "  input [1:0] a;",
        "  input clk;",
        "  output y;",
        "  wire \\part.n[2] ;",
        "  inv u0 (.A(a[0]), .Y(\\part.n[2] ));",
        "  nand u1 (.B(a[1]), .A(\\part.n[2] ), .Y(y));",
        "endmodule",
    ]


def test_a_netlist_keeps_the_indices_of_its_ports() -> None:
    ports = {f"q[{index}]": "output" for index in range(4, 8)} | {"d[4]": "input", "d[3]": "input", "one[5]": "input"}
    assert write_netlist("top", ports, {}, {}).splitlines()[:4] == [
        "module top(q, d, one);",
        "  output [7:4] q;",
        "  input [3:4] d;",
        "  input [5:5] one;",
    ]
