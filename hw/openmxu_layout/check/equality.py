"""Whether a netlist of cells computes what its design describes, in each cycle.

::

    inputs ──┬─▶ described ─▶ ╲            Both have the same registers, by name. A switch chooses the next values of
             │                 ├─┬─▶ outputs       these, and the outputs. It is proven to make no difference.
    ┌────────┴─▶ mapped ────▶ ╱  │
    └──────────── registers ◀────┘

No register needs a value to begin with: the netlist has none, and all that is shown is that both do the same with it.
Clocks are compared, and asynchronous resets: in each state, with all inputs, the same registers have the same edge and
are reset; those that are not get the same next value.
But the netlist may lack registers: some stay 0, some equal to others. All of these begin so, or have a constant 0 as
their next value; that they stay so, if all of them are, is proven with the rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from openmxu import yosys
from openmxu.cells.liberty import Library
from openmxu.yosys.equivalence import is_equivalent
from openmxu.yosys.netlist import Bit, Cell, Netlist, read_netlist
from openmxu_layout.drawing.exchange import write_netlist
from openmxu_layout.place.synthesis import Mapped

_GATES = """\
read_verilog <<verilog
(* techmap_celltype = "$mul" *)
module product #(parameter A_SIGNED = 0, B_SIGNED = 0, A_WIDTH = 1, B_WIDTH = 1, Y_WIDTH = 1)
  (input [A_WIDTH-1:0] A, input [B_WIDTH-1:0] B, output reg [Y_WIDTH-1:0] Y);
  localparam _TECHMAP_FAIL_ = A_SIGNED || B_SIGNED;
  integer i;
  always @* begin
    Y = 0;
    for (i = 0; i < B_WIDTH; i = i + 1) Y = Y + ((A & {A_WIDTH{B[i]}}) << i);
  end
endmodule
verilog
design -stash product
READ
hierarchy -top TOP
proc
flatten
write_json /job/beginning
opt -full
memory_map
setattr -unset init w:*
opt -full
techmap -autoproc -map %product t:$mul
techmap
opt_expr
opt_dff -nodffe -nosdff
dfflegalize -cell $_DFF_P_ x -cell $_DFF_PN0_ x
opt_merge
opt_clean
abc -g AND
opt_clean
write_json /job/result
"""
"""Registers that hold the same are joined, and products are sums of rows, here as by the recipe: with multipliers of 11
bits that are built in two ways the solver finds no end. The rows are written anew, so that the recipe's are checked."""

_CELLS = """\
read_verilog /job/design.il
read_liberty -ignore_miss_func /lib/cells.lib
hierarchy -top TOP
proc
flatten
check -assert"""
"""Reads the netlist. Nothing in it is without a driver."""

_REGISTER, _RESET, _SWITCH = "$_DFF_P_", "$_DFF_PN0_", "$switch"  # no port has such a name


class UnlikeError(ValueError):
    """A netlist does not have the ports or registers of its design; the text names one."""


def is_equal(rtlil: str, mapped: Mapped, library: Library) -> bool:
    """Whether a netlist of cells is proven to do what RTLIL describes."""
    # A name with $ never identifies a register: flattening puts a cell's name before the names of its pins.
    netlist = write_netlist(mapped.name, mapped.ports, mapped.nets, mapped.instances, prefix="\\$")
    texts = [
        yosys.run(
            _GATES.replace("READ", read).replace("TOP", mapped.name),
            text,
            ["beginning", "result"],
            libraries={"cells.lib": library.text},
        )
        for read, text in (("read_rtlil /job/design.il", rtlil), (_CELLS, netlist))
    ]
    described, cells = (_with_plain_registers(read_netlist(each["result"], mapped.name)) for each in texts)
    both = _Both(described, cells, mapped.origins)
    both.check_beginning(read_netlist(texts[0]["beginning"], mapped.name))
    return is_equivalent(both.joined(), _SWITCH)


class _Both:
    """A design and its netlist as gates; the registers of the first are those of both.

    Raises
    ------
    UnlikeError
        A port, or a register of the netlist, is in one of them alone.
    """

    def __init__(self, described: Netlist, mapped: Netlist, origins: Mapping[str, Sequence[str]]) -> None:
        self._described, self._mapped = described, mapped
        for theirs, ours in ((described.inputs, mapped.inputs), (described.outputs, mapped.outputs)):
            if other := {name for _, name in described.bit_names(theirs)} ^ {
                name for _, name in mapped.bit_names(ours)
            }:
                raise UnlikeError(
                    f"{len(other)} ports are only in the design or only in the netlist, first {min(other)}"
                )
        self._registers, self._states = _registers(described), _registers(mapped)
        self._bits = {name: bit for bit, name in described.bit_names(described.nets)}
        named = [
            (bit, name)
            for bit, net in mapped.bit_names(mapped.nets)
            for name in origins.get(net, () if net.startswith("$") else (net,))
            if bit in self._states
        ]
        # The described bit of each constant, input and register that is mapped.
        self._same: dict[Bit, Bit] = {bit: bit for bit in ("0", "1", "x")}
        self._same |= {bit: self._bits[name] for bit, name in mapped.bit_names(mapped.inputs)}
        self._same |= {bit: self._bits[name] for bit, name in named if self._bits.get(name) in self._registers}
        if only := [bit for bit in self._states if bit not in self._same]:
            name = dict(reversed(named)).get(only[0], "without a name")
            raise UnlikeError(f"{len(only)} registers are only in the netlist, first {name}")
        # What stands for each register that is not.
        alike = {self._bits[name]: self._same[bit] for bit, name in named if name in self._bits}
        paired = {self._same[bit] for bit in self._states}
        self._absent = {bit: alike.get(bit, "0") for bit in self._registers if bit not in paired}

    def check_beginning(self, beginning: Netlist) -> None:
        """Refuse registers that the netlist lacks, and that do not begin with the value of what stands for them."""
        initial = {name: [*text[::-1]] for name, text in beginning.initial.items()}  # lowest bit first
        values = {name: value for value, name in beginning.bit_names(initial)}
        begins: dict[Bit, Bit] = {"0": "0"}
        names: dict[Bit, str] = {}
        for bit, name in self._described.bit_names(self._described.nets):
            names.setdefault(bit, name)
            if values.get(name) in ("0", "1"):
                begins[bit] = values[name]
        for bit, kept in self._absent.items():
            constant = self._registers[bit].connections["D"] == ("0",) and kept == "0"
            if not constant and (bit not in begins or begins[bit] != begins.get(kept)):
                other = names.get(kept, 0)
                raise UnlikeError(f"{names[bit]} is only in the design, and is not known to begin as {other} does")

    def joined(self) -> Netlist:
        """One netlist of both, with an input that chooses one."""
        cells = [*_renamed(self._described, self._theirs), *_renamed(self._mapped, self._ours)]

        def chosen(first: Bit, second: Bit) -> tuple[Bit]:
            name = f"chosen{len(cells)}"
            pins = {"A": (first,), "B": (second,), "S": (_SWITCH,), "Y": (name,)}
            cells.append(Cell(name, "$_MUX_", {}, pins, frozenset("ABS")))
            return (name,)

        outputs = {
            name: chosen(self._theirs(self._bits[name]), self._ours(bit))
            for bit, name in self._mapped.bit_names(self._mapped.outputs)
        }
        seen = set[Bit]()
        for bit, second in self._states.items():
            first = self._same[bit]
            pins = {pin: chosen(self._at(first, pin), self._ours(second.connections[pin][0])) for pin in "CD"}
            if (resets := (self._at(first, "R"), self._ours(second.connections["R"][0]))) != ("1", "1"):
                outputs[f"$R_{bit}"] = chosen(*resets)
            if first in seen:  # the netlist has it twice
                outputs |= {f"${pin}_{bit}": chose for pin, chose in pins.items()}
            else:
                cells.append(replace(self._registers[first], connections={"Q": (first,), **pins}))
            seen.add(first)
        for bit, kept in self._absent.items():
            for pin in "CDR" if kept in self._registers else "D":
                outputs[f"${pin}_absent_{bit}"] = chosen(self._at(bit, pin), self._at(kept, pin))
        inputs = {**self._described.inputs, _SWITCH: (_SWITCH,)}
        return Netlist(self._described.name, inputs, outputs, tuple(cells), {}, {})

    def _theirs(self, bit: Bit) -> Bit:
        """Name of a described bit in the joined netlist."""
        return self._absent.get(bit, bit)

    def _ours(self, bit: Bit) -> Bit:
        """Name of a mapped bit in the joined netlist."""
        return self._same.get(bit, f"mapped{bit}")

    def _at(self, bit: Bit, pin: str) -> Bit:
        """The bit at the pin of a described register, or the constant that stands for it."""
        return self._theirs(self._registers[bit].connections[pin][0]) if bit in self._registers else bit


def _with_plain_registers(netlist: Netlist) -> Netlist:
    """The netlist with registers whose next value is 0 while they are reset; R, where 0 resets, is a pin to compare."""
    cells = []
    for cell in netlist.cells:
        pins = dict(cell.connections)
        if cell.type == _RESET:
            kept = f"kept{pins['Q'][0]}"
            cells.append(Cell(kept, "$_AND_", {}, {"A": pins["D"], "B": pins["R"], "Y": (kept,)}, frozenset("AB")))
            cells.append(replace(cell, type=_REGISTER, connections=pins | {"D": (kept,)}))
        else:
            cells.append(replace(cell, connections={"R": ("1",)} | pins) if cell.type == _REGISTER else cell)
    return replace(netlist, cells=tuple(cells))


def _registers(netlist: Netlist) -> dict[Bit, Cell]:
    return {cell.connections["Q"][0]: cell for cell in netlist.cells if cell.type == _REGISTER}


def _renamed(netlist: Netlist, named: Callable[[Bit], Bit]) -> Iterator[Cell]:
    """The gates, with other names for their bits."""
    for cell in netlist.cells:
        if cell.type != _REGISTER:
            yield replace(cell, connections={port: (named(bit),) for port, [bit] in cell.connections.items()})
