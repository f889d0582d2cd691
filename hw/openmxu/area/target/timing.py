"""Delays of mapped netlists by OpenSTA, where it is installed (Debian: ``opensta``)."""

import re
import shutil
from collections.abc import Mapping

from openmxu.runtime import process
from openmxu.runtime.native import program_identity
from openmxu.runtime.process import Done, TimeLimitError

_NAMES = ("sta", "opensta")
_LIMIT = 300.0
"""Seconds after which OpenSTA is given up."""

LINK = """\
read_liberty library.lib
read_verilog netlist.v
link_design TOP
set_cmd_units -time ns
"""
"""How scripts for OpenSTA begin; words in capitals are replaced."""

SCRIPT = f"""\
{LINK}create_clock -name edge -period 1 CLOCK
set_input_delay 0 -clock edge [all_inputs]
set_output_delay 0 -clock edge [all_outputs]
report_checks -path_delay max -digits 4
"""
"""Script for OpenSTA, in which the words in capitals are replaced."""


class TimingError(RuntimeError):
    """OpenSTA gave no delay; the text ends with the last lines that it printed."""


def find_sta() -> str:
    """``OpenSTA`` and its version; empty if it is not installed."""
    command = _command()
    if command is None:
        return ""
    done = process.run([command, "-version"], what="OpenSTA, asked for its version,", limit=_LIMIT)
    version = re.match(r"\d+\.\d+\S*", done.output)
    return f"OpenSTA {version[0]}" if version else ""


def sta_identity() -> str:
    """Tells OpenSTA from another program that gives the same version, for the keys of results; empty without it."""
    command = _command()
    return " ".join(program_identity(command)) if command else ""


def delay(netlist: str, top: str, library: bytes) -> float:
    """The longest path between ports and registers in nanoseconds, setup included.

    Loads are those of gates and of wires. The library's default wire load estimates a wire by the number of gates that
    its net drives: SkyWater's ``Small`` adds some 7 % to a gate's delay, IHP's ``1k`` 37 % (medians).
    """
    clock = "[get_ports clk]" if re.search(rf"^module {re.escape(top)}\(.*\bclk\b", netlist, re.MULTILINE) else ""
    script = SCRIPT.replace("TOP", top).replace("CLOCK", clock)
    done = run_sta(script, {"library.lib": library, "netlist.v": netlist.encode()}, _LIMIT)
    found = slacks(done.output)
    if done.code or not found:
        raise TimingError("\n".join([f"OpenSTA: no delay, {done.ending}", *done.last(6)]))
    return round(1 - min(found), 4)  # of the clock's period


def slacks(text: str) -> list[float]:
    """One for each group of paths: those to asynchronous resets are a group of their own, and come first."""
    return [float(slack) for slack in re.findall(r"^\s*(-?\d+\.\d+)\s+slack", text, re.MULTILINE)]


def run_sta(script: str, files: Mapping[str, bytes], limit: float) -> Done:
    """Run a script of OpenSTA in a folder with files."""
    command = _command()
    if command is None:
        raise TimingError("OpenSTA is not installed here")
    with process.workspace() as work:
        for name, content in {**files, "script.tcl": script.encode()}.items():
            (work / name).write_bytes(content)
        try:
            return process.run(
                [command, "-no_splash", "-exit", "script.tcl"], what="OpenSTA", limit=limit, directory=work
            )
        except TimeLimitError:
            raise TimingError(f"OpenSTA: no result within {limit:g} s") from None


def _command() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)
