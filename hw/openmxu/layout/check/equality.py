"""Whether a netlist of cells computes what its design describes, in each cycle.

::

    inputs ──┬─▶ described ─▶ ╲            Both have the same registers, by name. A switch chooses the next values of
             │                 ├─┬─▶ outputs       these, and the outputs. It is proven to make no difference.
    ┌────────┴─▶ mapped ────▶ ╱  │
    └──────────── registers ◀────┘

No register needs a value to begin with: the netlist has none, and all that is shown is that both do the same with it.
But the netlist may lack registers: some stay 0, some equal to others. All of these begin so, or have a constant 0 as
their next value; that they stay so, if all of them are, is proven with the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from openmxu import yosys
from openmxu.area.target.liberty import Library
from openmxu.layout.place.synthesis import Mapped, bit_names
from openmxu.yosys.equivalence import is_equivalent
from openmxu.yosys.netlist import Bit, Cell, Netlist, read_netlist

_GATES = """\
read_verilog <<verilog
(* techmap_celltype = "$mul" *)
module product (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  localparam _TECHMAP_FAIL_ = A_SIGNED || B_SIGNED;
  wire [Y_WIDTH*(B_WIDTH+1)-1:0] sums;
  assign sums[Y_WIDTH-1:0] = 0;
  genvar i;
  generate
    for (i = 0; i < B_WIDTH; i = i + 1) begin : row
      wire [Y_WIDTH-1:0] partial = A & {A_WIDTH{B[i]}};
      assign sums[Y_WIDTH*(i+1) +: Y_WIDTH] = sums[Y_WIDTH*i +: Y_WIDTH] + (partial << i);
    end
  endgenerate
  assign Y = sums[Y_WIDTH*B_WIDTH +: Y_WIDTH];
endmodule
verilog
design -stash product
READ
hierarchy -top TOP
proc
flatten
opt -full
memory_map
setattr -unset init w:*
opt -full
techmap -map %product t:$mul
techmap
opt_expr
opt_dff -nodffe -nosdff
dfflegalize -cell $_DFF_P_ x
opt_merge
opt_clean
abc -g AND
opt_clean
write_json /job/result
"""
"""Registers that hold the same are joined, and products are sums of rows, here as by the recipe: with multipliers of 11
bits that are built in two ways the solver finds no end. The rows are written anew, so that the recipe's are checked."""

_BEGINNING = """\
read_rtlil /job/design.il
hierarchy -top TOP
proc
flatten
write_json /job/result
"""

_REGISTER, _SWITCH = "$_DFF_P_", "$switch"  # no port has such a name


class UnlikeError(ValueError):
    """A netlist does not have the ports or registers of its design; the text names one."""


def is_equal(rtlil: str, mapped: Mapped, library: Library) -> bool:
    """Whether a netlist of cells is proven to do what RTLIL describes."""
    top = mapped.name
    read = (
        "read_verilog /job/design.il\nread_liberty -ignore_miss_func /lib/cells.lib\n"
        "hierarchy -top TOP\nproc\nflatten\ncheck -assert"  # nothing is without a driver
    )
    texts = (
        yosys.produce(_GATES.replace("READ", "read_rtlil /job/design.il").replace("TOP", top), rtlil),
        yosys.produce(
            _GATES.replace("READ", read).replace("TOP", top), to_verilog(mapped), libraries={"cells.lib": library.text}
        ),
    )
    described, gates = (read_netlist(text, top) for text in texts)
    same, absent = _paired(described, gates)
    if absent:
        _check_beginning(read_netlist(yosys.produce(_BEGINNING.replace("TOP", top), rtlil), top), described, absent)
    return is_equivalent(_joined(described, gates, same, absent), _SWITCH)


def _joined(described: Netlist, mapped: Netlist, same: Mapping[Bit, Bit], absent: Mapping[Bit, Bit]) -> Netlist:
    """One netlist of both, with an input that chooses one; the mapped one has a port for each bit."""
    registers, states = _registers(described), _registers(mapped)
    bits = {name: bit for bit, name in bit_names(described.nets)}

    def ours(bit: Bit) -> Bit:
        return same.get(bit, f"mapped{bit}")

    def theirs(bit: Bit) -> Bit:
        return absent.get(bit, bit)

    def at(bit: Bit, pin: str) -> Bit:
        return theirs(registers[bit].connections[pin][0]) if bit in registers else bit

    cells = [_connected(cell, theirs) for cell in described.cells if cell.type != _REGISTER]
    cells += [_connected(cell, ours) for cell in mapped.cells if cell.type != _REGISTER]
    cells.append(_gate("$_NOT_", "other", A=_SWITCH))

    def chosen(name: str, first: Bit, second: Bit) -> Bit:
        cells.append(_gate("$_AND_", f"{name}_first", A="other", B=first))
        cells.append(_gate("$_AND_", f"{name}_second", A=_SWITCH, B=second))
        cells.append(_gate("$_OR_", f"{name}_chosen", A=f"{name}_first", B=f"{name}_second"))
        return f"{name}_chosen"

    outputs = {name: (chosen(name, theirs(bits[name]), ours(bit)),) for name, [bit] in mapped.outputs.items()}
    seen = set[Bit]()
    for bit, second in states.items():
        first = same[bit]
        pins = {pin: (chosen(f"{pin}_{bit}", at(first, pin), ours(second.connections[pin][0])),) for pin in "CD"}
        if first in seen:  # the netlist has it twice
            outputs |= {f"${pin}_{bit}": chose for pin, chose in pins.items()}
        else:
            cells.append(replace(registers[first], connections={**registers[first].connections, **pins}))
        seen.add(first)
    for bit, kept in absent.items():
        for pin in "CD" if kept in registers else "D":
            outputs[f"${pin}_absent_{bit}"] = (chosen(f"{pin}_absent_{bit}", at(bit, pin), at(kept, pin)),)
    return Netlist(described.name, {**described.inputs, _SWITCH: (_SWITCH,)}, outputs, tuple(cells), {}, {})


def _paired(described: Netlist, mapped: Netlist) -> tuple[dict[Bit, Bit], dict[Bit, Bit]]:
    """The described bit of each input and register that is mapped; what stands for each register that is not.

    Raises
    ------
    UnlikeError
        A port or a register is in one of them alone.
    """
    for theirs, ours in ((described.inputs, mapped.inputs), (described.outputs, mapped.outputs)):
        if other := {name for _, name in bit_names(theirs)} ^ {*ours}:
            raise UnlikeError(f"{len(other)} ports are only in the design or only in the netlist, first {min(other)}")
    registers, states = _registers(described), _registers(mapped)
    bits = {name: bit for bit, name in bit_names(described.nets)}
    named = [(bit, name) for bit, name in bit_names(mapped.nets) if bit in states]
    same: dict[Bit, Bit] = {bit: bit for bit in ("0", "1", "x")}
    same |= {bit: bits[port] for port, [bit] in mapped.inputs.items()}
    same |= {bit: bits[name] for bit, name in named if bits.get(name) in registers}
    if only := [bit for bit in states if bit not in same]:
        name = dict(reversed(named)).get(only[0], "without a name")
        raise UnlikeError(f"{len(only)} registers are only in the netlist, first {name}")
    paired = {same[bit] for bit in states}
    alike = {bits[name]: same[bit] for bit, name in named if name in bits}
    return same, {bit: alike.get(bit, "0") for bit in registers if bit not in paired}


def _check_beginning(design: Netlist, described: Netlist, absent: Mapping[Bit, Bit]) -> None:
    """Refuse registers that the netlist lacks, and that do not begin with the value of what stands for them."""
    initial = {name: tuple(reversed(text)) for name, text in design.initial.items()}
    values = {name: value for value, name in bit_names(initial)}
    begins: dict[Bit, Bit] = {"0": "0"}
    names: dict[Bit, str] = {}
    for bit, name in bit_names(described.nets):
        names.setdefault(bit, name)
        if values.get(name) in ("0", "1"):
            begins[bit] = values[name]
    registers = _registers(described)
    for bit, kept in absent.items():
        constant = registers[bit].connections["D"] == ("0",) and kept == "0"
        if not constant and (bit not in begins or begins[bit] != begins.get(kept)):
            other = names.get(kept, 0)
            raise UnlikeError(f"{names[bit]} is only in the design, and is not known to begin as {other} does")


def _registers(netlist: Netlist) -> dict[Bit, Cell]:
    return {cell.connections["Q"][0]: cell for cell in netlist.cells if cell.type == _REGISTER}


def _connected(cell: Cell, named: Callable[[Bit], Bit]) -> Cell:
    """A cell with other names for its bits."""
    return replace(cell, connections={port: (named(bit),) for port, [bit] in cell.connections.items()})


def _gate(kind: str, output: Bit, **inputs: Bit) -> Cell:
    return Cell(
        str(output), kind, {}, {"Y": (output,)} | {pin: (bit,) for pin, bit in inputs.items()}, frozenset(inputs)
    )


def to_verilog(mapped: Mapped) -> str:
    """The netlist in Verilog, a port for each bit."""
    pins: dict[str, list[str]] = {name: [] for name in mapped.instances}
    for net, ends in mapped.nets.items():
        for name, pin in ends:
            pins[name].append(f".{pin}(\\{net} )")
    ports = ", ".join(f"\\{port} " for port in mapped.ports)
    lines = [f"module {mapped.name}({ports});"]
    lines += [f"{direction} \\{port} ;" for port, direction in mapped.ports.items()]
    lines += [f"wire \\{net} ;" for net in mapped.nets if net not in mapped.ports]
    # Names with $ are none that a register is known by: flattening puts that of a cell before those of its pins.
    lines += [f"{cell} \\${name} ({', '.join(pins[name])});" for name, cell in mapped.instances.items()]
    return "\n".join([*lines, "endmodule", ""])
