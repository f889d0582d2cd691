"""The reader of Gowin's netlists and its models, cell by cell: against Yosys's models, and what it refuses."""

import json
import random
from typing import Any

import pytest

from openmxu_boards.families.gowin.gowin_reader import _pins, read_circuit
from openmxu_boards.replay import Circuit, CircuitError

from ..testbenches import verilated
from .pairs import CellByCell, compare, replayed, words, yosys

CHIP, PART, CLOCK = "GW1N-9C", "GW1NR-LV9QN88PC6/I5", "52"
PLACES = {pin: place for place, pin in _pins(CHIP, PART).items()}


class Netlist(CellByCell):
    def __init__(self) -> None:
        others = (place for pin, place in PLACES.items() if pin != CLOCK)
        super().__init__(("IBUF", "O"), ("OBUF", "I"), [PLACES[CLOCK], *others])
        self.add("GOWIN_GND", G=self.low)
        self.add("GOWIN_VCC", V=self.high)

    def to_text(self) -> str:
        settings = {"packer.chipdb": CHIP, "packer.partno": PART}
        return json.dumps({"modules": {"top": {"settings": settings, "cells": self.cells}}})

    def read(self) -> Circuit:
        return read_circuit(self.to_text(), CLOCK)


def pair(
    n: int, kind: str, inputs: list[str], outputs: list[str], values: dict[str, str], clock: str = "", high: str = ""
) -> tuple[str, str]:
    """A module of the circuit of one cell, and what compares it with Yosys's model of the cell.

    A port that ends with a number in brackets is so many bits wide; Yosys's model lacks the port ``high``, which is so.
    """
    netlist = Netlist()
    ports: dict[str, Any] = {high: netlist.high} if high else {}
    if clock:
        ports[clock] = netlist.clock
    theirs = [f".{clock}(clk)"] if clock else []
    counts = {"noise": 0, "b@": 0}
    for wires, make, names in (("noise", netlist.input, inputs), ("b@", netlist.output, outputs)):
        for port in names:
            name, _, size = port.rstrip("]").partition("[")
            ports[name] = [make() for _ in range(int(size or 1))]
            theirs.append(f".{name}({wires}[{counts[wires]} +: {len(ports[name])}])")
            counts[wires] += len(ports[name])
    given, shown = counts.values()
    netlist.add(kind, values, **ports)
    parameters = ", ".join(f".{name}({len(bits)}'b{bits})" for name, bits in values.items())
    text = f"wire [{shown - 1}:0] b@; {kind} #({parameters}) theirs@ ({', '.join(theirs)});\n"
    text += f"{replayed(f'ours_{n}', given)} assign SAME = a@[{shown - 1}:0] === b@ && &e@[{shown - 1}:0];"
    return netlist.read().to_verilog(f"ours_{n}"), text


def compared(cells: list[tuple[Any, ...]], old: str, new: str) -> None:
    """All cells are as Yosys's are; one is not where an input of Yosys's is another."""
    made = [pair(number, *cell) for number, cell in enumerate(cells)]
    theirs = yosys("gowin/cells_sim.v", "MUX2", *dict.fromkeys(cell[0] for cell in cells))
    compare("\n".join([theirs, *(module for module, _ in made)]), [text for _, text in made], old, new)


def bits(value: int, width: int) -> str:
    return f"{value:0{width}b}"


@verilated
def test_tables() -> None:
    draw = random.Random(11)
    cells: list[Any] = [(f"MUX2_LUT{inputs}", words("I0 I1 S0"), ["O"], {}) for inputs in (5, 6, 7, 8)]
    for inputs in (1, 2, 3, 4, 4, 4):
        table = bits(draw.getrandbits(1 << inputs), 1 << inputs)
        cells.append((f"LUT{inputs}", [f"I{n}" for n in range(inputs)], ["F"], {"INIT": table}))
    compared(cells, "MUX2_LUT5 #() theirs@ (.I0(noise[0", "MUX2_LUT5 #() theirs@ (.I0(noise[1")


@verilated
@pytest.mark.slow
def test_carries() -> None:
    """An ALU in each mode for which there is a model."""
    ports = (words("I0 I1 I3 CIN"), words("SUM COUT"))
    cells = [("ALU", *ports, {"ALU_MODE": bits(mode, 32)}, "", "I2") for mode in (1, 0, 2, 3, 4, 6, 7, 8)]
    compared(cells, "01)) theirs@ (.I0(noise[0", "01)) theirs@ (.I0(noise[1")


@pytest.mark.slow
@verilated
def test_flip_flops() -> None:
    """All kinds: both edges, set, reset, preset, clear, enable."""
    cells: list[Any] = [
        (f"DFF{falling}{reset}{enable}", ["D", *ports, *(["CE"] if enable else [])], ["Q"], {}, "CLK")
        for enable in ("E", "")
        for falling in ("", "N")
        for reset, ports in (("S", ["SET"]), ("R", ["RESET"]), ("P", ["PRESET"]), ("C", ["CLEAR"]), ("", []))
    ]
    assert len(cells) == 20
    compared(cells, "DFFSE #() theirs@ (.CLK(clk), .D(noise[0", "DFFSE #() theirs@ (.CLK(clk), .D(noise[1")


@verilated
@pytest.mark.slow
def test_memories_of_luts() -> None:
    draw = random.Random(12)
    cells: list[Any] = []
    for width in (4, 2, 1):
        contents = {f"INIT_{n}": bits(draw.getrandbits(16), 16) for n in range(width)}
        ports = (words(f"WAD[4] RAD[4] DI[{width}] WRE"), [f"DO[{width}]"])
        cells.append((f"RAM16SDP{width}", *ports, contents, "CLK", "CE"))
    compared(cells, ".WAD(noise[0 +: 4])", ".WAD(noise[4 +: 4])")


@pytest.mark.slow
@verilated
def test_carries_of_nextpnr() -> None:
    """What it puts at the ends of chains: a carry of zero, of one, from the fabric, and to it."""
    netlist = Netlist()
    outputs = [netlist.output() for _ in range(3)]
    netlist.add("ALU", {"ALU_MODE": "C2L"})
    for mode, output in zip(("C2L", "ONE2C"), outputs, strict=False):
        carry = netlist.net()
        netlist.add("ALU", {"ALU_MODE": mode}, COUT=carry, I2=netlist.high)
        netlist.add("ALU", {"ALU_MODE": "C2L"}, CIN=carry, I2=netlist.high, SUM=output)
    carry = netlist.net()
    head = {"RAW_ALU_LUT": bits(0x505A, 32), "CIN_NETTYPE": "LOGIC"}
    netlist.add("ALU", head, COUT=carry, I0=netlist.input(), I2=netlist.high)
    netlist.add("ALU", {"ALU_MODE": "C2L"}, CIN=carry, I2=netlist.high, SUM=outputs[2])
    circuit = netlist.read()
    assert circuit.census == {"gowin_alu": 6}
    text = replayed("ours_0", 1) + "assign SAME = a@[2:0] === {noise[0], 2'b10};"
    compare(circuit.to_verilog("ours_0"), [text], "noise[0], 2'b10", "noise[1], 2'b10")


MEMORY = {"CLK": "clk", "CE": "1", "WRE": "0", **{f"AD{n}": "i" for n in range(14)}, "DO0": "o"}
MEMORY |= {f"BLKSEL{n}": "0" for n in range(3)}
BYTES = {"BIT_WIDTH": bits(8, 32)}


@pytest.mark.parametrize(
    ("kind", "parameters", "ports", "message"),
    [
        ("OSCA", {}, {}, "cell c5 is a OSCA, for which there is no model"),
        ("LUT2", {"INIT": "0110"}, {"I0": "i", "F": "o"}, "{} has nothing at I1, on which its table depends"),
        ("LUT2", {}, {"I0": "i", "I1": "i", "F": "o"}, "{} has INIT="),
        ("ALU", {"ALU_MODE": bits(5, 32)}, {"SUM": "o"}, "{} has ALU_MODE=00000000000000000000000000000101"),
        ("ALU", {"ALU_MODE": "0 "}, {"SUM": "o"}, "{} has ALU_MODE=0"),
        ("ALU", {"ALU_MODE": bits(2, 32), "CIN_NETTYPE": "VCC"}, {"SUM": "o"}, "{} has CIN_NETTYPE=VCC"),
        ("MUX2_LUT5", {}, {"I0": "i", "I1": "i", "O": "o"}, "{} has nothing at S0: no model"),
        ("DFFE", {}, {"D": "i", "CLK": "clk", "Q": "o"}, "{} has nothing at CE"),
        ("DFFP", {"INIT": "0"}, {"D": "i", "CLK": "clk", "PRESET": "0", "Q": "o"}, "{} has INIT=0"),
        ("SP", BYTES | {"READ_MODE": "1"}, MEMORY, "{} has READ_MODE=1"),
        ("SP", BYTES | {"WRITE_MODE": "11"}, MEMORY, "{} has a write mode of 3"),
        ("SP", BYTES | {"BLK_SEL": "001"}, MEMORY, "{} is not selected at BLKSEL"),
        ("SP", BYTES, MEMORY | {"RESET": "i"}, "{} has a reset"),
        ("SP", {"BIT_WIDTH": bits(9, 32)}, MEMORY, "{} has BIT_WIDTH=9"),
        ("RAM16SDP1", {}, {"CLK": "clk", "CE": "i"}, "{} has an enable"),
        ("GSR", {}, {"GSRI": "i"}, "{} is used"),
        ("rPLL", {}, {"CLKOUT": "o", "RESET": "i"}, "{} has a reset"),
        ("rPLL", {}, {"CLKOUT": "o", "CLKOUTD": "i"}, "cell c5, a PLL, is not the only clock"),
        ("TBUF", {}, {"I": "i", "OEN": "0"}, "{} is at no place, which is no pin"),
        ("OBUF", {"DIFF": "P"}, {"I": "i"}, "{} is half of a pair"),
    ],
)
def test_refused(kind: str, parameters: dict[str, str], ports: dict[str, str], message: str) -> None:
    assert Netlist().refused(kind, parameters, ports).startswith(message.format(f"cell c5, a {kind},"))


def test_latch_pins_and_parts() -> None:
    why = Netlist().refused("DFF", {}, {"D": "i", "CLK": "clk", "Q": "o"}, LATCH="1")
    assert why == "cell c5, a DFF, is a latch: no model"
    assert (PLACES["10"], PLACES["17"]) == ("X0Y14/IOBA", "X1Y28/IOBA")
    text = Netlist().to_text()
    refused = r"^the routed netlist is for a {}, which Project Apicula does not"
    for name, other in ((CHIP, "GW3"), (PART, "GW1N-LV3")):
        with pytest.raises(CircuitError, match=refused.format(other)):
            read_circuit(text.replace(name, other), CLOCK)
    with pytest.raises(CircuitError, match=r"^nothing in the routed netlist is clocked by pin 10$"):
        read_circuit(text, "10")


def test_both_directions() -> None:
    """A pin that is an output while it is enabled, and an input; one that only is an output."""
    netlist = Netlist()
    net, enable = netlist.net(), netlist.input()
    netlist.pin("IOBUF", PLACES["17"], I=net, O=net, OEN=enable)
    netlist.pin("TBUF", PLACES["18"], I=netlist.clock, OEN=netlist.low)
    circuit = netlist.read()
    assert list(circuit.inputs)[1:] == ["17"]
    assert circuit.outputs == {"17": (f"n{net}", f"~n{enable}"), "18": (f"n{netlist.clock}", "1'b1")}
