"""Delays of a layout, by OpenSTA, with the clock through its tree.

Inputs come, and outputs are taken, at the clock's edge at its pin. Inputs come before their registers have that edge,
by the tree's latency; so the hold times of registers and of inputs are two figures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from openmxu.area.target.timing import LINK, TimingError, run_sta, slacks

_LIMIT = 1800.0
"""Seconds after which OpenSTA is given up. A unit of 2x2 takes ten."""

_PERIOD = 1000.0
"""ns, which no path takes: what is left of it is the slack."""

_SCRIPT = f"""\
{LINK}create_clock -name edge -period {_PERIOD:g} PINS
set inputs {{}}
foreach port [all_inputs] {{
  if {{[lsearch CLOCKS [get_property $port full_name]] < 0}} {{ lappend inputs $port }}
}}
set_input_delay 0 -clock edge $inputs
set_output_delay 0 -clock edge [all_outputs]
read_spef wires.spef
"""
"""Script for OpenSTA, in which the words in capitals are replaced; one of those below follows."""

_COMBINATIONAL = """\
report_checks -path_delay max -digits 4
"""

_CLOCKED = """\
set_propagated_clock [all_clocks]
report_checks -path_delay max -digits 4
puts "= hold"
report_checks -path_delay min -from [all_registers -clock_pins] -to [all_registers -data_pins] -digits 4
puts "= inputs"
if {[llength $inputs]} { report_checks -path_delay min -from $inputs -to [all_registers -data_pins] -digits 4 }
puts "= clock"
report_checks -path_delay min -to [all_registers -data_pins] -group_count 1000000 -digits 4
"""
"""The clock's arrival at a register is read from a path to it. OpenSTA's own report of skew has those of one sign."""


@dataclass(frozen=True)
class Timing:
    """Delays in ns."""

    arrival: float
    """The longest path between ports and registers, setup included: the shortest period of the clock."""
    hold: float | None = None
    """What is left of the shortest path between registers after the hold time; it must not be negative."""
    inputs: float | None = None
    """For how long after the clock's edge inputs must keep their value."""
    skew: float | None = None
    """The difference of the clock's latest and earliest arrival at a register."""

    # Each of the last three is none where there is no such path.


def arrivals(netlist: str, spef: str, top: str, clocks: Sequence[str], library: bytes) -> Timing:
    """The delays of a netlist with wires. ``clocks`` are the ports that are."""
    names = f"{{{' '.join(clocks)}}}"
    script = _SCRIPT + (_CLOCKED if clocks else _COMBINATIONAL)
    script = (
        script.replace("TOP", top).replace("PINS", f"[get_ports {names}]" if clocks else "").replace("CLOCKS", names)
    )
    files = {"library.lib": library, "netlist.v": netlist.encode(), "wires.spef": spef.encode()}
    done = run_sta(script, files, _LIMIT)
    setup, *others = re.split(r"^= .*$", done.output, flags=re.MULTILINE)
    found = slacks(setup)
    complaints = re.findall(r"^(?:Error|Warning).*", done.errors + done.output, re.MULTILINE)
    if done.code or complaints or not found:
        last = complaints[:3] or done.last(6)
        raise TimingError("\n".join([f"OpenSTA: no delay, {done.ending}", *last]))
    if not others:
        return Timing(round(_PERIOD - min(found), 4))
    hold, inputs = ([*slacks(text), None][0] for text in others[:2])
    paths = others[2].split("Endpoint:")[1:]
    clock = [float(re.findall(r"(\S+) +\S+ +clock network delay", path)[-1]) for path in paths]
    skew = round(max(clock) - min(clock), 4) if clock else None
    return Timing(round(_PERIOD - min(found), 4), hold, None if inputs is None else -inputs, skew)
