"""The reader of GateMate's netlists, cell by cell: tables against Yosys's models, lines, pins, and what it refuses."""

import json
import random
from typing import Any

import pytest

from openmxu_boards.families.gatemate.gatemate_reader import _pin, read_circuit
from openmxu_boards.replay import Circuit, CircuitError

from ..testbenches import verilated
from .pairs import CellByCell, compare, replayed, yosys

OUTPUTS = {"Y", "OUT", "OUT1", "DOUT", "DOA", "COUTX", "COMPOUT", "CLK0", "GLB0", "CLK_REF0"}
"""Ports of cells here that drive a net."""


class Netlist(CellByCell):
    def __init__(self) -> None:
        places = ("X0Y103/GPIO", *(f"X0Y{row}/GPIO" for row in range(27, 27 + 36, 2)))
        super().__init__(("CPE_IBUF", "Y"), ("CPE_OBUF", "A"), places)

    def add(self, kind: str, parameters: dict[str, str] | None = None, /, **ports: int | list[int]) -> dict[str, Any]:
        cell = super().add(kind, parameters, **ports)
        cell["port_directions"] = {port: "output" if port in OUTPUTS else "input" for port in ports}
        return cell

    def read(self) -> Circuit:
        return read_circuit(json.dumps({"modules": {"top": {"cells": self.cells}}}), "IO_SB_A8")


@pytest.mark.slow
@verilated
def test_halves() -> None:
    """A tree of tables, and one with the other half's output, whose two inputs may come by lines."""
    draw, modules, pairs = random.Random(14), [], []
    for number, (upper, lines) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)] * 3):
        netlist = Netlist()
        tables = ("L00", "L01", "L10", "L20")[: 3 if upper else 4]
        chosen = {f"INIT_{name}": f"{draw.getrandbits(4):04b}" for name in tables}
        four = ["IN1", "PINY1", "IN3", "CINX" if upper else "PINX"] if lines else ["IN1", "IN2", "IN3", "IN4"]
        wires = {port: netlist.input() for port in [*four, *([] if upper else ["COMBIN"])]}
        options = dict.fromkeys(("C_I1", "C_I2") if upper else ("C_I3", "C_I4"), str(lines))
        netlist.add("CPE_L2T4", chosen | options | {"L2T4_UPPER": str(upper)}, **wires, OUT=netlist.output())
        modules.append(netlist.read().to_verilog(f"ours_{number}"))
        # Yosys calls the tables of five inputs those of a lower half.
        names = {} if upper else {"INIT_L00": "INIT_L02", "INIT_L01": "INIT_L03", "INIT_L10": "INIT_L11"}
        values = ", ".join(f".{names.get(name, name)}(4'b{bits})" for name, bits in chosen.items())
        ports = ", ".join(f".I{n}(noise[{n}])" for n in range(len(wires)))
        pairs.append(
            f"{replayed(f'ours_{number}', 5)} wire b@;\n"
            f"CC_L2T{len(wires)} #({values}) theirs@ ({ports}, .O(b@)); assign SAME = a@[0] === b@;"
        )
    theirs = "\n".join([yosys("gatemate/cells_sim.v", "CC_L2T4", "CC_L2T5"), *modules])
    compare(theirs, pairs, ".I0(noise[0])", ".I0(noise[1])")


@pytest.mark.slow
@verilated
def test_carries() -> None:
    """What ends a chain takes the carry for an input; what adds it inverts its output; what compares is inverted."""
    netlist = Netlist()
    carry, one, other = (netlist.input() for _ in range(3))
    lower = {"INIT_L00": "1010", "INIT_L01": "0000", "INIT_L10": "1100", "INIT_L20": "1100"}
    netlist.add("CPE_L2T4", lower | {"C_FUNCTION": "101"}, IN1=one, CINY1=carry, OUT=netlist.output())
    lower |= {"INIT_L10": "1010", "C_FUNCTION": "111", "C_HORIZ": "1"}
    netlist.add("CPE_L2T4", lower, IN1=one, CINX=carry, OUT=netlist.output())
    netlist.add("CPE_COMP", {"INIT_L30": "1000"}, COMB1=one, COMB2=other, COMPOUT=netlist.output())
    text = "assign SAME = a@[2:0] === {~(noise[1] & noise[2]), noise[0] ^ noise[1], noise[0]};"
    compare(netlist.read().to_verilog("ours_0"), [replayed("ours_0", 3) + text], "~(noise[1]", "(noise[1]")


@pytest.mark.parametrize(
    ("parameters", "source"),
    [
        ({"C_CX_I": "0"}, "CINX"),
        ({"C_CX_I": "1"}, "OUT1"),
        ({"C_CX_I": "1", "C_SELX": "1"}, "OUT2"),
        ({"C_CX_I": "1", "C_SEL_C": "1"}, "COMPOUT"),
        ({"C_CX_I": "1", "C_SEL_C": "1", "C_SELX": "1"}, "CINY1"),
        ({"C_CX_I": "1", "C_SEL_C": "1", "C_SELX": "1", "C_Y12": "1"}, "CINY2"),
    ],
)
def test_lines(parameters: dict[str, str], source: str) -> None:
    """A line goes on, or begins at what the parameters say."""
    netlist = Netlist()
    net, shown = netlist.input(), netlist.output()
    line = netlist.add("CPE_CPLINES", parameters, COUTX=shown, **{source: net})
    line["port_directions"][source] = "input"
    assert [wire for wire, _ in netlist.read().outputs.values()] == [f"n{net}"]
    line["connections"][source] = []
    with pytest.raises(CircuitError, match=rf"^cell c3, a CPE_CPLINES, has nothing at {source}: no model$"):
        netlist.read()


def test_pins() -> None:
    """The first and the last of some banks, and what is none."""
    places = ("X0Y51", "X0Y53", "X0Y103", "X165Y27", "X7Y0", "X137Y133")
    pins = ["IO_SA_A6", "IO_SA_B6", "IO_SB_A8", "IO_NA_A0", "IO_WA_A0", "IO_EB_B8"]
    assert [_pin(f"{place}/GPIO") for place in places] == pins
    assert [_pin(place) for place in ("", "X0Y28/GPIO", "X0Y65/GPIO", "X9Y9/GPIO", "X0Y161/GPIO")] == [""] * 5


HALF = {"INIT_L00": "1010", "INIT_L01": "0000", "INIT_L10": "1010", "INIT_L20": "1100"}
FLIP_FLOP = {"C_CPE_CLK": "10", "C_CPE_EN": "11", "C_CPE_RES": "11", "C_CPE_SET": "11"}
MEMORY = {"RAM_cfg_sram_mode": "00", "RAM_cfg_forward_a0_clk": "00000000"}


@pytest.mark.parametrize(
    ("kind", "parameters", "ports", "message"),
    [
        ("CPE_LATCH", {}, {}, "cell c3 is a CPE_LATCH, for which there is no model"),
        ("CPE_L2T4", HALF, {"OUT": "o"}, "{} has nothing at IN1, on which its table depends"),
        ("CPE_L2T4", HALF | {"C_FUNCTION": "010"}, {"IN1": "i", "OUT": "o"}, "{} has C_FUNCTION=010"),
        ("CPE_L2T4", {**HALF, "INIT_L20": ""}, {"IN1": "i", "OUT": "o"}, "{} has INIT_L20="),
        ("CPE_MX4", {"INIT_L20": "1010"}, {"OUT1": "o"}, "{} has INIT_L20=1010"),
        ("CPE_ADDF2", {}, {"CPOUT1": "i", "OUT1": "o"}, "{} has a carry at an output"),
        ("CPE_MULT", {"INIT_L10": "1001"}, {"COUTX": "o"}, "{} has INIT_L10=1001"),
        ("CPE_FF", FLIP_FLOP | {"C_CPE_CLK": "00"}, {"DIN": "i", "DOUT": "o"}, "{} has C_CPE_CLK=00"),
        ("CPE_FF", FLIP_FLOP | {"C_CPE_SET": "01"}, {"DIN": "i", "DOUT": "o"}, "{} is set by its enable"),
        ("CPE_FF", FLIP_FLOP, {"CLK": "clk", "DOUT": "o"}, "{} has nothing at DIN"),
        ("IOSEL", {"OUT1_FF": "1"}, {}, "{} has OUT1_FF=1"),
        ("IOSEL", {"OE_SIGNAL": "10"}, {}, "{} has OE_SIGNAL=10"),
        ("CPE_IBUF", {}, {"Y": "o"}, "{} is at no place, which is no pin of a CCGM1A1"),
        ("CLKIN", {"REF0": "100"}, {"CLK_REF0": "o"}, "{} has REF0=100"),
        ("GLBOUT", {"GLB0_CFG": "110"}, {"GLB0": "o"}, "{} has GLB0_CFG=110"),
        ("PLL", {"CLK180_DOUB": "1"}, {"CLK0": "o"}, "{} has CLK180_DOUB=1"),
        ("RAM", {"RAM_cfg_ecc_enable": "01"}, {"DOA": "o"}, "{} has RAM_cfg_ecc_enable=01"),
        ("RAM", MEMORY | {"RAM_cfg_fifo_sync_enable": "1"}, {"DOA": "o"}, "{} has RAM_cfg_fifo_sync_enable"),
        ("RAM", MEMORY | {"RAM_cfg_a0_set_outputreg": "1"}, {"DOA": "o"}, "{} has RAM_cfg_a0_set_outputreg=1"),
    ],
)
def test_refused(kind: str, parameters: dict[str, str], ports: dict[str, str], message: str) -> None:
    assert Netlist().refused(kind, parameters, ports).startswith(message.format(f"cell c3, a {kind},"))
