"""Combinational paths: the inputs that each output of a component follows within the cycle."""

from collections.abc import Iterator, Mapping
from typing import Any

from openmxu import yosys
from openmxu.export.verilog import to_rtlil
from openmxu.yosys.netlist import Bit, Cell, read_netlist

_SCRIPT = """read_rtlil /job/design.il
hierarchy -check -top {top}
proc
flatten
opt_clean
splitnets
write_json /job/result
"""


def combinational_paths(component: Any) -> Mapping[str, frozenset[str]]:
    """For each output port, the input ports from which a path leads to it that no register cuts.

    Every cell that is not clocked counts as a path from each of its inputs to each of its outputs. So no path is
    missing from the result.
    """
    top = component.module_name
    netlist = read_netlist(yosys.produce(_SCRIPT.format(top=top), to_rtlil(component)), top)
    drivers = {
        bit: cell
        for cell in netlist.cells
        for port, bits in cell.connections.items()
        if port not in cell.inputs
        for bit in bits
    }
    owners = {bit: name for name, bits in netlist.inputs.items() for bit in bits}
    return {
        name: frozenset(owners[bit] for bit in _cone(bits, drivers) if bit in owners)
        for name, bits in netlist.outputs.items()
    }


def _cone(bits: tuple[Bit, ...], drivers: Mapping[Bit, Cell]) -> set[Bit]:
    """All bits on which ``bits`` depend within the cycle, themselves included."""
    seen: set[Bit] = set()
    waiting = set(bits)
    while waiting:
        bit = waiting.pop()
        seen.add(bit)
        if bit in drivers:
            waiting |= {source for source in _read(drivers[bit]) if source not in seen}
    return seen


def _read(cell: Cell) -> Iterator[Bit]:
    """The bits that a cell's outputs follow within the cycle."""
    if cell.type in ("$dff", "$sdff", "$dffe", "$sdffe", "$sdffce"):
        return
    if cell.type == "$memrd_v2" and int(cell.parameters["CLK_ENABLE"], 2):
        return
    if not cell.inputs:
        raise ValueError(f"cell {cell.name} must have ports with directions, not be of type {cell.type}")
    for port in cell.inputs:
        yield from cell.connections[port]
