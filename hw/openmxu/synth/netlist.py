"""Netlists: what Yosys makes of a component, read from its JSON.

The format is that of Yosys's ``write_json``: each bit of a net is a number, or a constant ``"0"``, ``"1"``
or ``"x"``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openmxu.synth import yosys
from openmxu.synth.liberty import generic_library
from openmxu.synth.targets import choose_targets
from openmxu.verilog import to_rtlil

__all__ = ["Bit", "Cell", "Netlist", "gates", "mapped", "read_netlist"]

Bit = int | str
"""A net's number, or a constant: ``"0"``, ``"1"``, ``"x"``."""


@dataclass(frozen=True)
class Cell:
    """A cell.

    Parameters
    ----------
    name, type
        Its name, and that of its module or a type of Yosys's own, as in ``$_AND_``.
    parameters
        As in the JSON, numbers as strings of bits.
    connections
        The bits at each port, lowest first.
    inputs
        Names of the ports that are inputs; the others are outputs.
    """

    name: str
    type: str
    parameters: Mapping[str, str]
    connections: Mapping[str, tuple[Bit, ...]]
    inputs: frozenset[str]


@dataclass(frozen=True)
class Netlist:
    """A module without hierarchy.

    Parameters
    ----------
    name
        Of the module.
    inputs, outputs
        The bits of each port, lowest first.
    cells
        In no particular order.
    nets
        The bits of every named net, ports included.
    initial
        The nets that have a value at power-up, by name, a character per bit, highest first.
    """

    name: str
    inputs: Mapping[str, tuple[Bit, ...]]
    outputs: Mapping[str, tuple[Bit, ...]]
    cells: tuple[Cell, ...]
    nets: Mapping[str, tuple[Bit, ...]]
    initial: Mapping[str, str]


def read_netlist(text: str, top: str) -> Netlist:
    """Take module ``top`` from the JSON of Yosys."""
    module = json.loads(text)["modules"][top]

    def ports(direction: str) -> dict[str, tuple[Bit, ...]]:
        return {name: tuple(port["bits"]) for name, port in module["ports"].items()
                if port["direction"] == direction}

    def cell(name: str, found: Mapping[str, Any]) -> Cell:
        directions = found.get("port_directions", {})
        return Cell(
            name, found["type"], found["parameters"],
            {port: tuple(bits) for port, bits in found["connections"].items()},
            frozenset(port for port, direction in directions.items() if direction == "input"),
        )

    nets = module["netnames"]
    return Netlist(
        top, ports("input"), ports("output"),
        # Flattening leaves notes about what was where.
        tuple(cell(name, found) for name, found in module["cells"].items() if found["type"] != "$scopeinfo"),
        {name: tuple(net["bits"]) for name, net in nets.items()},
        {name: net["attributes"]["init"] for name, net in nets.items() if "init" in net["attributes"]},
    )


def gates(component: Any, *, change: Callable[[str], str] | None = None) -> Netlist:
    """The gates that synthesis makes of a component, as in area reports, each written out as its function.

    The component is mapped to the generic cell library with the recipe ``area``. Then each of its cells is
    replaced by what the library says it does, in Yosys's simplest cells: ``$_NOT_``, ``$_AND_``, ``$_OR_``, ``$_XOR_``,
    ``$_DFF_P_``. What is wrong with the mapping is thus wrong here, too.

    Parameters
    ----------
    component
        Any component without modules of its own in the export (arithmetic, processing element).
    change
        Changes the RTLIL before synthesis, to see that what looks at the gates complains.

    Raises
    ------
    openmxu.synth.yosys.SynthesisError
        Yosys failed.
    """
    rtlil = to_rtlil(component)
    return mapped(rtlil if change is None else change(rtlil), component.module_name)


def mapped(rtlil: str, top: str, change: str = "") -> Netlist:
    """The same for a design in RTLIL; ``change`` is what a script does to it first, as of :class:`openmxu.synth.Point`.

    Raises
    ------
    openmxu.synth.yosys.SynthesisError
        Yosys failed.
    """
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
