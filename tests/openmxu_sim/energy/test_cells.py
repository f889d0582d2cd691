"""Delays and energies as a Liberty text says them, followed by hand."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.cells.energies import LibertyCells, NoPowerError, Table, read_cells, truth
from openmxu.cells.liberty import Library, parse_library
from openmxu.runtime import process
from openmxu_sim.energy.events import Activity, Player
from openmxu_sim.energy.timed import TimedNetlist, UnsuitableError, read_timed

from .conftest import needs_sta
from .library import GATES, HEAD, LOAD, flip_flop, gate, library, with_reset


def read(content: bytes) -> LibertyCells:
    return read_cells(parse_library(content, "test"))


def test_tables() -> None:
    """Linear between values, and beyond them; one value is that everywhere."""
    table = Table((1.0, 3.0), (0.0, 1.0, 2.0), ((0.0, 10.0, 30.0), (4.0, 14.0, 34.0)))
    assert [table(*at) for at in ((1.0, 0.5), (2.0, 1.5), (0.0, 3.0), (4.0, 0.0))] == [5.0, 22.0, 48.0, 6.0]
    assert Table((0.0,), (0.0, 1.0), ((1.0, 2.0),))(99.0, 0.25) == 1.25
    assert Table((0.0,), (0.0,), ((7.0,),))(5.0, 5.0) == 7.0


def test_a_gate() -> None:
    """Templates that name the load first are read as those that name it second."""
    assert truth("A !B", ("A", "B")) == (False, True, False, False)
    cells = read(library())
    assert (cells.supply, cells.unit, cells.picofarads, cells.nanoseconds) == (2.0, 1.0, 1.0, 1.0)
    nand = cells.cells["NAND2"]
    assert [pin.name for pin in nand.inputs] == ["A", "B"]
    assert nand.inputs[0].capacitances == (0.01, 0.01)
    [output] = nand.outputs
    assert output.function == "!(A B)"
    first = output.arcs[0]
    assert (first.pin, set(first.edges)) == ("A", {(0, 1), (1, 0)})
    assert [delay and delay(0.3, 0.02) for delay in first.delays] == pytest.approx([0.15, 0.3])
    rise = output.powers[1].energies[1]
    assert (rise and rise(0.7, 0.3)) == pytest.approx(0.003)
    assert set(cells.cells["XOR2"].outputs[0].arcs[0].edges) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_units() -> None:
    head = HEAD
    units = {"1ns": "10ps", "1V": "1mV", "(1, pf)": "(2, ff)", "nom_voltage : 2.0": "nom_voltage : 2000"}
    for old, new in units.items():
        assert old in head
        head = head.replace(old, new)
    cells = read(library(head=head))
    found = cells.supply, cells.picofarads, cells.nanoseconds, cells.unit
    assert found == pytest.approx((2.0, 0.002, 0.01, 0.002e-6), abs=0)


def test_a_flip_flop() -> None:
    stored = read(library()).cells["DFF"]
    assert (stored.clock, stored.next_state, stored.stored) == ("C", "D", ("IQ", "IQN"))
    assert stored.outputs[0].arcs[0].edges == ((1, 0), (1, 1))
    assert [power.when for power in stored.inputs[0].powers] == ["", "(D * !Q) + (!D * Q)"]


LATCHES = 'ff(IQ, IQN) { clocked_on : "C"; next_state', 'latch(IQ, IQN) { enable : "C"; data_in'


@pytest.mark.parametrize(
    ("more", "name", "why"),
    [
        (flip_flop("LATCH").replace(*LATCHES), "LATCH", "it is a latch, or stores in another way than a flip-flop"),
        (gate("BUFZ", 3, "AE", "A").replace("function :", 'three_state : "!E"; function :'), "BUFZ", "it drives z"),
        (gate("AND7", 4, "ABCDEFG", "A B C D E F G"), "AND7", "it has more than 6 inputs"),
        (flip_flop("FALL").replace('"C"; next', '"!C"; next'), "FALL", "its clock is not the rising edge of a pin"),
    ],
)
def test_what_cannot_be_simulated(more: str, name: str, why: str) -> None:
    assert read(library(GATES + flip_flop() + more)).cells[name].refused == why


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("internal_power", "internal_weather", r"^round has no tables of energies \(internal_power\)$"),
        ("nom_voltage", "nominal", r"^round does not say its supply"),
        ("0.003", "3000000", r"^round says that INV takes 3e\+06 pJ to rise and fall, beside .* cannot be$"),
        ('"0.003, 0.003")', '"0.003")', r"^a table rise_power has 3 values for 2 times 2 places$"),
    ],
)
def test_libraries_without_energies(old: str, new: str, message: str) -> None:
    with pytest.raises(NoPowerError, match=message):
        read(library().replace(old.encode(), new.encode()))


def test_real_libraries(real_library: Library) -> None:
    """Libraries pass whose inner energies leave a load's charge out, or take it back at the other edge; none twice."""
    cells = read_cells(real_library)
    found = [each for each in cells.cells.values() if each.name.endswith(("inv_1", "nand2_1", "nor2_1"))]
    assert len(found) >= 3
    for each in found:
        load = sum(each.inputs[0].capacitances) / 2
        fall, rise = each.outputs[0].powers[0].energies
        assert fall
        assert rise
        few, many = (cells.unit * (rise(0.05, times * load) + fall(0.05, times * load)) for times in (1, 17))
        charge = 16 * load * cells.picofarads * cells.supply**2
        assert abs(many - few) < 0.1 * charge, (each.name, few, many, charge)
        assert -0.1 * charge / 16 < few < 20 * charge / 16


# Netlists of a few cells: when what changes, and what it takes


CELLS = read(library(GATES + flip_flop() + with_reset()))

NO_RESET = "is no input with the name of one, as rst is"

HALF = 2.0 * LOAD
"""pJ: half of the charge of one input pin at 2 V."""


def netlist(ports: str, *cells: tuple[Any, ...]) -> TimedNetlist:
    """Ports as in ``a:2 clk:3 > y:4``, and cells as (kind, nets of pins in the order of their names)."""
    pins = {"INV": "AY", "DFF": "CDQ", "DFFR": "CDRQ"}
    sides = zip(("input", "output"), ports.split(">"), strict=True)
    named = [(direction, *port.split(":")) for direction, side in sides for port in side.split()]
    connected = [dict(zip(pins.get(kind, "ABY"), ([net] for net in nets), strict=False)) for kind, *nets in cells]
    module = {
        "ports": {name: {"direction": direction, "bits": [int(bit)]} for direction, name, bit in named},
        "cells": {f"u{at}": {"type": cells[at][0], "connections": nets} for at, nets in enumerate(connected)},
    }
    return read_timed(json.dumps({"modules": {"top": module}}), "top", CELLS)


def played(made: TimedNetlist, **inputs: str) -> Activity:
    """Levels of each input, a character a cycle."""
    levels = {name: np.array([[int(level)] for level in each], np.uint8) for name, each in inputs.items()}
    return Player(made).play(levels)


def bits(activity: Activity, port: str) -> str:
    return "".join(map(str, activity.outputs[port][:, 0]))


def test_an_inverter() -> None:
    """Its input's charge and edge, its output's edge; the output has no load."""
    found = played(netlist("a:2 > y:3", ("INV", 2, 3)), a="0110")
    assert bits(found, "y") == "1001"
    rise, fall = 0.0005 + HALF + 0.001, 0.0005 + HALF + 0.003
    assert found.energies[:, 2] == pytest.approx([0, rise, 0, fall])
    assert found.at_once == pytest.approx([0, rise, 0, fall])
    assert found.toggles.tolist() == [0, 2, 0, 2]
    assert not found.energies[:, :2].any()


def test_delays_follow_loads() -> None:
    """Three inverters: the first one's output has two pins to drive."""
    made = netlist("a:2 > y:4 z:5", ("INV", 2, 3), ("INV", 3, 4), ("INV", 3, 5))
    first = next(each for each in made.instances if each.name == "u0")
    assert first.delays[0][0][0][1] == pytest.approx(1000 * (0.1 + 10 * 2 * LOAD))
    assert first.delays[0][0][1][0] == pytest.approx(1000 * (0.05 + 5 * 2 * LOAD))
    assert made.charges[first.outputs[0]] == pytest.approx(2 * HALF)
    assert made.longest == pytest.approx(1000 * (0.1 + 0.2 + 0.1))


def hazard(pairs: int) -> TimedNetlist:
    """A and its inverse, late by an odd number of inverters (0.2 and 0.1 ns each), into an AND of 0.45 and 0.225 ns."""
    chain = [("INV", 2 if not number else 2 + number, 3 + number) for number in range(2 * pairs + 1)]
    return netlist(f"a:2 > y:{99}", *chain, ("AND2", 2, 3 + 2 * pairs, 99))


def test_short_pulses_do_not_get_through() -> None:
    """The AND would be high for 0.1 ns, or, with more inverters, for 0.4 and 0.7: it needs 0.45 to rise.

    A pulse counts twice, up and down, of which a simulation without delays knows nothing.
    """
    assert [played(hazard(pairs), a="01").toggles[1] for pairs in (0, 1, 2)] == [2, 4, 6 + 2]
    found = played(hazard(2), a="01")
    assert bits(found, "y") == "00"
    chain = 7 * 0.0005 + 7 * HALF + 3 * 0.001 + 2 * 0.003
    assert found.at_once[1] == pytest.approx(chain)
    assert found.energies[1, 2] == pytest.approx(found.at_once[1] + 0.003 + 0.001)


def test_a_divider() -> None:
    """It stores what was there before the edge: the first Q is power-up's 0, and the inverter's loop divides by two."""
    made = netlist("clk:2 a:9 > q:3", ("DFF", 2, 4, 3), ("INV", 3, 4))
    found = played(made, a="0000")
    assert bits(found, "q") == "1010"
    # The clock net twice, 0.04 for a rising edge that stores another bit, 0.02 for the falling one.
    assert found.energies[:, 0] == pytest.approx([2 * HALF + 0.04 + 0.02] * 4)
    assert found.energies[:, 1] == pytest.approx([0.01 + HALF, 0.005 + HALF] * 2)  # Q with its load


def test_shift_register() -> None:
    found = played(netlist("clk:2 d:3 > q:5", ("DFF", 2, 3, 4), ("DFF", 2, 4, 5)), d="1011000")
    assert bits(found, "q") == "0010110"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: netlist("a:2 > y:3", ("WOMBAT", 2, 3)), "cell u0 is a WOMBAT, which is not in round"),
        (lambda: netlist("a:2 > y:3", ("NAND2", 2, 3, 3)), "it has a combinational loop, at u0"),
        (lambda: netlist("c:2 d:3 > q:4", ("DFF", 2, 3, 4)), "the clock of u0 is not the port clk"),
        (lambda: netlist("clk:2 r:3 > q:5", ("DFFR", 2, "1", 3, 5)), f"the asynchronous reset of u0 {NO_RESET}"),
    ],
)
def test_what_cannot_be_played(made: Any, why: str) -> None:
    with pytest.raises(UnsuitableError, match=rf"^{why}$"):
        made()


def test_a_reset_that_is_never_used() -> None:
    """Its pin is held at the level at which it does nothing."""
    assert netlist("clk:2 d:3 > q:5", ("DFFR", 2, 3, "1", 5)).gates == 0


# A second opinion, OpenSTA's. 2.0.17 reads no activity of a simulation, but that of input ports, from which it derives
# those of pins. So the circuit is a chain: an inverter, a NAND whose other input stays high, a flip-flop, all of which
# change once a cycle.


CONDITIONS = "operating_conditions(typ) { process : 1; temperature : 25; voltage : 2.0; }"
"""Without which OpenSTA has no energies."""


def estimated(cells: bytes, verilog: str, folder: Path, more: str = "") -> dict[str, tuple[float, float]]:
    """What OpenSTA says of instances, in pJ a cycle: within, and of what they drive. Input a changes once a cycle."""
    (folder / "library.lib").write_bytes(cells)
    (folder / "top.v").write_text(verilog)
    clock = "[get_ports clk]" if "clk" in verilog else ""
    names = " ".join(re.findall(r" (u\d) ", verilog))
    inputs = "{a b}" if " b;" in verilog else "a"
    (folder / "script.tcl").write_text(
        f"read_liberty library.lib\nread_verilog top.v\nlink_design top\n{more}\ncreate_clock -name edge -period 10 "
        f"{clock}\nset_input_delay 0 -clock edge [get_ports {inputs}]\n"
        "set_input_transition 0.05 [all_inputs]\n"
        "set_power_activity -input_ports [get_ports a] -activity 1.0 -duty 0.5\n"
        + ("set_power_activity -input_ports [get_ports b] -activity 0.0 -duty 1.0\n" if " b;" in verilog else "")
        + f"report_power -instances {{{names}}} -digits 8\n"
    )
    command = ["sta", "-no_splash", "-exit", "script.tcl"]
    done = process.run(command, what="OpenSTA", limit=100, directory=folder)
    rows = re.findall(r"^ *(\S+) +(\S+) +\S+ +\S+ (\w+)$", done.output, re.MULTILINE)
    watts = {name: (float(within), float(driven)) for within, driven, name in rows}
    return {name: (within * 1e12 * 10e-9, driven * 1e12 * 10e-9) for name, (within, driven) in watts.items()}


@needs_sta
def test_opensta_on_three_cells(tmp_path: Path) -> None:
    """Loads are ours. Of what cells take within it adds up both edges of an output, of which each change is one."""
    head = HEAD + CONDITIONS + " default_operating_conditions : typ;"
    verilog = (
        "module top(clk, a, b, q); input clk; input a; input b; output q; wire n, d;\n"
        "INV u0 (.A(a), .Y(n)); NAND2 u1 (.A(n), .B(b), .Y(d)); DFF u2 (.C(clk), .D(d), .Q(q)); endmodule\n"
    )
    found = estimated(library(head=head), verilog, tmp_path)
    for each in ("u0", "u1"):
        assert found[each] == pytest.approx((0.003 + 0.001 + 0.0005, 2.0**2 * LOAD / 2), rel=1e-5)
    # Its clock: both edges of both groups at each of two edges, the second group as often as D and Q differ by chance.
    differ = 2 * 0.25 - 0.25**2
    assert found["u2"][0] == pytest.approx(2 * (0.04 + differ * 0.06) + 0.01 + 0.005, rel=1e-5)
    assert found["u2"][1] == 0


@needs_sta
def test_opensta_needs_operating_conditions(tmp_path: Path) -> None:
    """SkyWater's library names its conditions before it has them; OpenSTA finds none then, and no energies."""
    named = library(head=f"default_operating_conditions : typ; {CONDITIONS} {HEAD}")
    verilog = "module top(a, y); input a; output y; INV u0 (.A(a), .Y(y)); endmodule\n"
    assert estimated(named, verilog, tmp_path)["u0"][0] == 0
    found = estimated(named, verilog, tmp_path, "set_operating_conditions typ")
    assert found["u0"][0] == pytest.approx(0.0045, rel=1e-5)


@needs_sta
def test_real_libraries_by_opensta(real_library: Library, tmp_path: Path) -> None:
    """Within, OpenSTA has both edges of an output at each change, by our tables, and the mean of both of an input."""
    cells = read_cells(real_library)
    inverter, nand = (next(each for each in cells.cells if each.endswith(end)) for end in ("inv_1", "nand2_1"))
    conditions = re.search(rb"\boperating_conditions ?\(\"?([\w.]+)\"?\)", real_library.text)
    assert conditions is not None
    for name, pins in ((inverter, ".A(a)"), (nand, ".A(a), .B(b)")):
        verilog = (
            "module top(a, b, y); input a; input b; output y; wire n;\n"
            f"{name} u0 ({pins}, .Y(n)); {inverter} u1 (.A(n), .Y(y)); endmodule\n"
        )
        found = estimated(real_library.text, verilog, tmp_path, f"set_operating_conditions {conditions[1].decode()}")
        within, driven = found["u0"]
        load = driven / (0.5 * cells.supply**2 * cells.picofarads)  # the pin, and the library's wire
        cell = cells.cells[name]
        output = next(power for power in cell.outputs[0].powers if power.pin == "A")
        both = sum(table(0.05, load) for table in output.energies if table is not None)
        inputs = [table(0.05, 0.0) for power in cell.inputs[0].powers for table in power.energies if table is not None]
        assert within == pytest.approx(cells.unit * (both + sum(inputs) / 2), rel=0.01)
