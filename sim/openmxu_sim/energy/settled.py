"""Settled outputs of a netlist, cycle by cycle, by its cells' functions and without delays: they check a player."""

import numpy as np

from openmxu_sim.energy.events import Bits, by_port, table_of
from openmxu_sim.energy.timed import Instance, TimedNetlist


def settled(netlist: TimedNetlist, inputs: dict[str, Bits]) -> dict[str, Bits]:
    """Return outputs at the end of each cycle; flip-flops hold 0 before, and inputs are 0."""
    levels = _Levels(netlist)
    ports = [net for bits in netlist.inputs.values() for net in bits]
    wanted = [net for bits in netlist.outputs.values() for net in bits]
    outputs = []
    for row in np.concatenate([inputs[name] for name in netlist.inputs], axis=1).tolist():
        levels.clock()
        for net, level in zip(ports, row, strict=True):
            levels.of[net] = level
        levels.follow()
        outputs.append([levels.of[net] for net in wanted])
    return by_port(netlist, np.array(outputs, np.uint8))


class _Levels:
    """The levels of a netlist's nets."""

    def __init__(self, netlist: TimedNetlist) -> None:
        self.of = [0, 1] + [0] * (netlist.nets - 2)
        self._gates = [_Cell(part) for part in netlist.instances[: netlist.gates]]
        self._stored = [_Cell(part) for part in netlist.instances[netlist.gates :]]
        self.follow()

    def clock(self) -> None:
        """Let flip-flops store the values of their next states."""
        taken = [cell.next_state >> cell.state(self.of) & 1 for cell in self._stored]
        for cell, level in zip(self._stored, taken, strict=True):
            cell.held = level

    def follow(self) -> None:
        """Compute all outputs, those of flip-flops first."""
        for cell in (*self._stored, *self._gates):
            state = cell.state(self.of)
            for net, table in cell.outputs:
                self.of[net] = table >> state & 1


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
