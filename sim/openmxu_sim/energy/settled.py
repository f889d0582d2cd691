"""Settled outputs of a netlist, cycle by cycle, by its cells' functions and without delays: they check a player."""

import numpy as np

from openmxu_sim.energy.events import Bits, by_port, table_of
from openmxu_sim.energy.timed import Instance, TimedNetlist


def settled(netlist: TimedNetlist, inputs: dict[str, Bits]) -> dict[str, Bits]:
    """Return outputs at the end of each cycle; flip-flops hold 0 before, and inputs are 0."""
    levels = [0, 1] + [0] * (netlist.nets - 2)
    cells = [_Cell(part) for part in netlist.instances]
    gates, stored = cells[: netlist.gates], cells[netlist.gates :]

    def follow() -> None:
        """Compute all outputs, those of flip-flops first."""
        for cell in (*stored, *gates):
            state = cell.state(levels)
            for net, table in cell.outputs:
                levels[net] = table >> state & 1

    follow()
    ports = [net for bits in netlist.inputs.values() for net in bits]
    wanted = [net for bits in netlist.outputs.values() for net in bits]
    outputs = []
    for row in np.concatenate([inputs[name] for name in netlist.inputs], axis=1).tolist():
        taken = [cell.next_state >> cell.state(levels) & 1 for cell in stored]
        for cell, level in zip(stored, taken, strict=True):
            cell.held = level
        for net, level in zip(ports, row, strict=True):
            levels[net] = level
        follow()
        outputs.append([levels[net] for net in wanted])
    return by_port(netlist, np.array(outputs, np.uint8))


class _Cell:
    """A cell and its stored bit."""

    def __init__(self, part: Instance) -> None:
        self.held = 0
        self.next_state = table_of(part.cell.next_state, part)
        self.outputs = [
            (net, table_of(pin.function, part)) for net, pin in zip(part.outputs, part.cell.outputs, strict=True)
        ]
        self._inputs = part.inputs

    def state(self, levels: list[int]) -> int:
        """Return the levels of its inputs as a number, with the stored bit above them."""
        state = self.held
        for net in reversed(self._inputs):
            state = state << 1 | levels[net]
        return state
