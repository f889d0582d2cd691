"""Delays of small netlists with wires: that each wire is found, and each figure."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from openmxu.area.target.timing import TimingError, find_sta
from openmxu.cells.liberty import read_library
from openmxu_layout.extract.arrivals import Timing, arrivals
from openmxu_layout.extract.spef import write_spef
from openmxu_layout.placed import Placed

from ..conftest import IHP

pytestmark = pytest.mark.skipif(not find_sta(), reason="OpenSTA is not installed")

NETLIST = """\
module case(clk, i, o);
  input clk;
  input [1:0] i;
  output [1:0] o;
  wire \\part.sum[3] ;
  wire \\$9 ;
  wire one;
  sg13g2_tiehi u0 (.L_HI(one));
  sg13g2_buf_4 u1 (.A(clk), .X(\\$9 ));
  sg13g2_dfrbpq_1 u2 (.CLK(clk), .D(i[0]), .RESET_B(one), .Q(\\part.sum[3] ));
  sg13g2_dfrbpq_1 u3 (.CLK(\\$9 ), .D(\\part.sum[3] ), .RESET_B(one), .Q(o[0]));
  sg13g2_inv_1 u4 (.A(i[1]), .Y(o[1]));
endmodule
"""
PINS = {
    "clk": ("*P clk I", "*I u1:A I", "*I u2:CLK I"),
    "$9": ("*I u1:X O", "*I u3:CLK I"),
    "part.sum[3]": ("*I u2:Q O", "*I u3:D I"),
    "o[0]": ("*I u3:Q O", "*P o[0] O"),
    "o[1]": ("*I u4:Y O", "*P o[1] O"),
}


HEADER = write_spef(Placed("case", 0, 0, (), {}, {}), {}, IHP, {})


def _spef(**femtofarads: float) -> str:
    """Wires with a capacitance at their first pin, and 1 Ω to each other one."""
    text = HEADER
    for net, pins in PINS.items():
        name = {"$9": r"\$9", "part.sum[3]": r"part.sum\[3\]"}.get(net, net)
        first, *others = (pin.split()[1] for pin in pins)
        farads = femtofarads.get(net, 0)
        text += f"*D_NET {name} {farads}\n*CONN\n" + "\n".join(pins) + f"\n*CAP\n1 {first} {farads}\n*RES\n"
        text += "".join(f"{number} {first} {other} 1\n" for number, other in enumerate(others, 1)) + "*END\n"
    return text


@pytest.fixture(scope="module")
def liberty(pdk: Mapping[str, Path]) -> bytes:
    return read_library(pdk["timing"]).text


def _timing(liberty: bytes, **femtofarads: float) -> Timing:
    return arrivals(NETLIST, _spef(**femtofarads), "case", ["clk"], liberty)


def test_each_figure_follows_its_wires(liberty: bytes) -> None:
    bare = _timing(liberty)
    assert None not in (bare.hold, bare.inputs, bare.skew)
    late = _timing(liberty, **{"o[1]": 500})  # an inverter that drives much
    assert late.arrival > bare.arrival + 0.3
    assert (late.hold, late.inputs, late.skew) == (bare.hold, bare.inputs, bare.skew)
    slow = _timing(liberty, **{"part.sum[3]": 500})
    assert slow.hold > bare.hold + 0.3
    assert (slow.inputs, slow.skew) == (bare.inputs, bare.skew)
    port = _timing(liberty, **{"o[0]": 500})
    assert port.arrival > bare.arrival + 0.3
    clock = _timing(liberty, **{"$9": 2000})  # of the later register
    assert clock.skew > bare.skew + 0.2
    assert clock.hold < bare.hold - 0.2
    assert clock.arrival > bare.arrival + 0.2
    assert clock.inputs == bare.inputs


def test_inputs_are_held_while_the_clock_is_on_its_way(liberty: bytes) -> None:
    """With the registers in the other order, the clock comes later at the beginning of the path between them."""
    assert NETLIST.count("CLK(clk)") == NETLIST.count("CLK(\\$9 )") == 1
    other = NETLIST.replace("CLK(clk)", "CLK(first)").replace("CLK(\\$9 )", "CLK(clk)").replace("first", "\\$9 ")
    swapped = {"u2:CLK": "u3:CLK", "u3:CLK": "u2:CLK"}
    spefs = [re.sub("u[23]:CLK", lambda pin: swapped[pin[0]], _spef(**{"$9": farads})) for farads in (0, 2000)]
    bare, clock = (arrivals(other, spef, "case", ["clk"], liberty) for spef in spefs)
    assert clock.skew > bare.skew + 0.2
    assert clock.inputs > bare.inputs + 0.2
    assert clock.hold > bare.hold + 0.2


def test_paths_to_resets_are_paths(liberty: bytes) -> None:
    """OpenSTA reports them beside the longest path to data, which is longer here, or shorter."""
    reset = NETLIST.replace(".D(i[0]), .RESET_B(one)", ".D(i[0]), .RESET_B(o[1])")
    assert reset != NETLIST
    spefs = [_spef(**wires).replace("*I u4:Y O\n", "*I u4:Y O\n*I u2:RESET_B I\n") for wires in ({}, {"o[0]": 900})]
    assert arrivals(reset, spefs[1], "case", ["clk"], liberty).arrival > _timing(liberty).arrival + 0.3
    ends = NETLIST.replace(".Y(o[1])", ".Y(reset)").replace(".D(i[0]), .RESET_B(one)", ".D(i[0]), .RESET_B(reset)")
    late = _spef(**{"o[1]": 2000}).replace("o[1]", "reset").replace("*P reset O", "*I u2:RESET_B I")
    late = late.replace("u4:Y reset 1", "u4:Y u2:RESET_B 1")
    assert arrivals(ends, late, "case", ["clk"], liberty).arrival > _timing(liberty).arrival + 0.3


def test_a_design_without_registers_has_one_figure(liberty: bytes) -> None:
    netlist = "module case(a, y);\n  input a;\n  output y;\n  sg13g2_inv_1 u (.A(a), .Y(y));\nendmodule\n"
    spef = HEADER + "*D_NET y 100\n*CONN\n*I u:Y O\n*P y O\n*CAP\n1 u:Y 100\n*RES\n1 u:Y y 1\n*END\n"
    timing = arrivals(netlist, spef, "case", [], liberty)
    assert timing == Timing(timing.arrival)
    assert 0.1 < timing.arrival < 1


def test_a_clock_may_be_the_only_input(liberty: bytes) -> None:
    netlist = """\
module case(clk, q);
  input clk;
  output q;
  wire d, one;
  sg13g2_tiehi u0 (.L_HI(one));
  sg13g2_dfrbpq_1 u1 (.CLK(clk), .D(d), .RESET_B(one), .Q(q));
  sg13g2_inv_1 u2 (.A(q), .Y(d));
endmodule
"""
    spef = HEADER + "*D_NET q 1\n*CONN\n*I u1:Q O\n*I u2:A I\n*P q O\n*CAP\n1 u1:Q 1\n"
    spef += "*RES\n1 u1:Q u2:A 1\n2 u1:Q q 1\n*END\n"
    timing = arrivals(netlist, spef, "case", ["clk"], liberty)
    assert timing == Timing(timing.arrival, timing.hold, None, 0)
    assert 0 < (timing.hold or 0) < timing.arrival


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("u4 (", "u5 (", "u4 not found"),
        ("sg13g2_inv_1", "inv_9", "inv_9"),
        ("part.sum[3] ", "part.sum[4] ", "part.sum"),
    ],
)
def test_what_opensta_does_not_find_is_an_error(liberty: bytes, old: str, new: str, words: str) -> None:
    """Wires of a pin, or of a net, that is not there; a cell that the library lacks."""
    with pytest.raises(TimingError, match=rf"^OpenSTA: no delay, exit code \d(.|\n)*{words}"):
        arrivals(NETLIST.replace(old, new), _spef(), "case", ["clk"], liberty)
