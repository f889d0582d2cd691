"""A second opinion on energies, OpenSTA's, of three cells by hand; test_events has ours, of the same Liberty text.

OpenSTA 2.0.17 reads no activity of a simulation, but that of input ports, from which it derives those of pins. So the
circuit is a chain: an inverter, a NAND whose other input stays high, a flip-flop, all of which change once a cycle.
"""

import re
from pathlib import Path

import pytest

from openmxu.area.target.liberty import Library
from openmxu.runtime import process
from openmxu_sim.energy.cells import read_cells

from ...conftest import needs_compiler
from .conftest import needs_sta
from .library import HEAD, LOAD, library

pytestmark = needs_compiler

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
    for gate in ("u0", "u1"):
        assert found[gate] == pytest.approx((0.003 + 0.001 + 0.0005, 2.0**2 * LOAD / 2), rel=1e-5)
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
def test_real_libraries(real_library: Library, tmp_path: Path) -> None:
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
