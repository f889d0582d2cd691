"""A design of a user's own, with its names, as it can be laid out; others are refused before anything takes long."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from openmxu import yosys
from openmxu.cells.lef import LefCell
from openmxu.yosys.netlist import Bit, Netlist, read_netlist
from openmxu_layout.place.synthesis import check_ports

# Cells have an asynchronous reset and no set: a register whose bits are set keeps their inverses, under a name, so that
# each side of the proof has the same registers.
_PREPARE = """\
read_verilog -icells <<verilog
MODULES
verilog
design -stash reset
read_rtlil /job/design.il
hierarchy -top TOP
proc
techmap -map %reset t:$adff t:$adffe
select -set registers t:$*dff* %x:+[Q] w:$* %i
rename -enumerate -pattern register% @registers
write_rtlil /job/result
flatten
opt_clean
write_json /job/flat
"""

_SET = """\
(* techmap_celltype = "$CELL" *)
module set_CELL (CLK, ARST, EN, D, Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  parameter ARST_POLARITY = 1;
  parameter EN_POLARITY = 1;
  parameter [WIDTH-1:0] ARST_VALUE = 0;
  parameter [WIDTH-1:0] _TECHMAP_WIREINIT_Q_ = {WIDTH{1'bx}};
  wire [1023:0] _TECHMAP_DO_ = "proc";
  wire _TECHMAP_FAIL_ = ARST_VALUE == 0;
  wire _TECHMAP_REMOVEINIT_Q_ = 1;
  input CLK, ARST, EN;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  (* init = _TECHMAP_WIREINIT_Q_ ^ ARST_VALUE *) wire [WIDTH-1:0] kept;
  \\$CELL #(
    .WIDTH(WIDTH), .CLK_POLARITY(CLK_POLARITY), .ARST_POLARITY(ARST_POLARITY), PARAMETER .ARST_VALUE({WIDTH{1'b0}})
  ) register (.CLK(CLK), .ARST(ARST), PIN .D(D ^ ARST_VALUE), .Q(kept));
  assign Q = kept ^ ARST_VALUE;
endmodule
"""


def prepare(rtlil: str, top: str, cells: Mapping[str, LefCell], supplies: Sequence[str]) -> str:
    """The design without processes, each register with a name of its own, and asynchronously reset to 0 if at all.

    Raises
    ------
    ValueError
        It has what no layout has.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII) or top.lower() in {name.lower() for name in cells}:
        raise ValueError(f"top must be of letters, digits and _ in a layout, and no cell of the library, not {top!r}")
    modules = "".join(
        _SET.replace("CELL", cell).replace("PARAMETER", parameter).replace("PIN", pin)
        for cell, parameter, pin in (("adff", "", ""), ("adffe", ".EN_POLARITY(EN_POLARITY),", ".EN(EN),"))
    )
    outputs = yosys.run(_PREPARE.replace("MODULES", modules).replace("TOP", top), rtlil, ["result", "flat"])
    netlist = read_netlist(outputs["flat"], top)
    check_ports(netlist, supplies)
    for name, port in json.loads(outputs["flat"])["modules"][top]["ports"].items():
        if port["direction"] == "inout":
            raise ValueError(f"ports must be inputs or outputs in a layout, not as {name} is")
    for problem in _problems(netlist):
        raise ValueError(problem)
    return outputs["result"]


def _problems(netlist: Netlist) -> Iterator[str]:
    """What keeps a netlist of Yosys's cells from a layout."""
    names: dict[Bit, str] = {}
    for bit, name in netlist.bit_names(netlist.nets):
        names.setdefault(bit, name)
    inputs = {bit for bits in netlist.inputs.values() for bit in bits}
    for cell in netlist.cells:
        called = next((names[bit] for pin in "QD" for bit in cell.connections.get(pin, ()) if bit in names), cell.name)
        if re.match(r"\$(ad|d)latch|\$sr$", cell.type):
            yield f"a layout must have no latches, and {called} is one: a branch gives it no value, and no clock"
        if cell.type.startswith(("$dffsr", "$aldff")):
            yield f"registers must be set or reset asynchronously to a constant, and by one signal, not as {called} is"
        for pin in ("CLK", "WR_CLK"):
            for bit, rising in zip(cell.connections.get(pin, ()), _polarities(cell.parameters, pin), strict=False):
                if bit in ("0", "1", "x") or cell.parameters.get("CLK_ENABLE") == "0":
                    continue
                if rising == "0":
                    yield f"registers must have the rising edge of their clock in this library, not as {called} has"
                if bit not in inputs:
                    yield f"clocks must come from input ports, without gates, not from {names.get(bit, 'inside')}"


def _polarities(parameters: Mapping[str, str], pin: str) -> str:
    """Whether each bit of a clock's pin has the rising edge, lowest bit first."""
    return parameters.get(f"{pin}_POLARITY", "1")[::-1]
