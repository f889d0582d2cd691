"""The gates that areas are counted from, as a netlist to compute with."""

from collections.abc import Callable
from typing import Any

from openmxu import yosys
from openmxu.area.target.targets import choose_targets
from openmxu.cells.liberty import generic_library
from openmxu.export.verilog import to_rtlil
from openmxu.spec.forms import AREA
from openmxu.yosys.netlist import Netlist, read_netlist


def gates(component: Any, *, form: str = AREA, change: Callable[[str], str] | None = None) -> Netlist:
    """The gates that synthesis makes of a component, as in area reports, each written out as its function.

    The component is mapped to the generic cell library with the recipe ``area``. Then each of its cells is
    replaced by its function in the library, in Yosys's simplest cells: ``$_NOT_``, ``$_AND_``, ``$_OR_``, ``$_XOR_``,
    ``$_DFF_P_``. An error of the mapping is thus an error here, too.
    """
    rtlil = to_rtlil(component, form=form)
    return mapped(rtlil if change is None else change(rtlil), component.module_name)


def mapped(rtlil: str, top: str, change: str = "") -> Netlist:
    """The gates of a design in RTLIL after the Yosys commands ``change``; see :class:`openmxu.area.Point`."""
    [target] = choose_targets(["generic"], [], ["area"])
    mapping, separator, _ = target.script.format(top=top, change=change).partition("tee ")
    assert separator, "the script of an area target ends with its statistics"
    script = f"""{mapping}
read_liberty -overwrite /lib/cells.lib
flatten
opt_clean
select -assert-none t:* t:$_NOT_ t:$_AND_ t:$_OR_ t:$_XOR_ t:$_DFF_P_ %u %u %u %u %d
write_json /job/result
"""
    text = yosys.produce(script, rtlil, libraries={"cells.lib": generic_library().text})
    return read_netlist(text, top)
