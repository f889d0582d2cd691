"""A layout as a timed netlist, for its energy.

::

    clk ─▷─┬─▷─┬─ flip-flops          clk ─┬─┬─┬─┬─ flip-flops      All nets of a clock's tree are one net. A buffer
           │   ╧ wire            ─▶        │ │ │ ╧ wires            takes what it takes with its own load. A wire is
           └─▷─── flip-flops               ▷ ▷ ╧                    a cell with one pin: its capacitance.

Resistance is left out: it delays what the capacitance has drawn.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from openmxu.cells.energies import LibertyCell, LibertyCells, Pin, Power, Table
from openmxu_layout.kit import Kit
from openmxu_layout.placed import Placed
from openmxu_sim.energy.timed import CLOCK, TimedNetlist, read_timed

Pins = Mapping[str, Mapping[str, str]]
"""The nets of an instance's pins."""


def timed(
    placed: Placed, directions: Mapping[str, str], farads: Mapping[str, float], kit: Kit, cells: LibertyCells
) -> TimedNetlist:
    """A placed design with its wires, from the ports' directions, the wires' capacitances, if any, and the library."""
    masters = placed.masters
    pins: dict[str, dict[str, str]] = defaultdict(dict)
    wires = {net: charge * 1e12 / cells.picofarads for net, charge in farads.items()}
    loads = dict(wires)
    capacitances = {
        (name, pin.name): sum(pin.capacitances) / 2 for name, cell in cells.cells.items() for pin in cell.inputs
    }
    for net, ends in placed.nets.items():
        for name, pin in ends:
            pins[name][pin] = net
            loads[net] = loads.get(net, 0.0) + capacitances.get((masters[name], pin), 0.0)
    made = {**cells.cells, **{f"wire {net}": _wire(load) for net, load in wires.items()}}
    kinds = masters | {f"wire {net}": f"wire {net}" for net in wires}
    whole: dict[str, Mapping[str, str]] = {**pins, **{f"wire {net}": {"A": net} for net in wires}}
    tree = {CLOCK}
    for name in _buffers(pins, masters, kit):
        net = pins[name][kit.clock_buffer.output]
        tree.add(net)
        kinds[name] = f"buffer {name}"
        made[kinds[name]] = _buffer(cells.cells[masters[name]], loads[net])
    bit = {net: CLOCK if net in tree else f"net {net}" for net in placed.nets}
    parts = {
        name: {"type": kinds[name], "connections": {pin: [bit[net]] for pin, net in each.items()}}
        for name, each in whole.items()
    }
    module = {"ports": _ports(directions, bit), "cells": parts}
    return read_timed(json.dumps({"modules": {placed.name: module}}), placed.name, replace(cells, cells=made))


def _buffers(pins: Pins, masters: Mapping[str, str], kit: Kit) -> list[str]:
    """The buffers of the clock's tree."""
    clock_buffer, tree, found = kit.clock_buffer, {CLOCK}, list[str]()
    while more := [
        name
        for name, each in pins.items()
        if masters[name] == clock_buffer.cell and each[clock_buffer.input] in tree and name not in found
    ]:
        found += more
        tree |= {pins[name][clock_buffer.output] for name in more}
    return found


def _wire(load: float) -> LibertyCell:
    return LibertyCell("wire", (Pin("A", (load, load)),), ())


def _buffer(cell: LibertyCell, load: float) -> LibertyCell:
    """A buffer whose output is its input's net: the output's energies become those of a pin without capacitance."""
    [output] = cell.outputs
    powers = tuple(
        Power("", power.when, power.supply, (_bound(power.energies[0], load), _bound(power.energies[1], load)))
        for power in output.powers
    )
    return LibertyCell(cell.name, (*cell.inputs, Pin(output.name, (0.0, 0.0), powers=powers)), ())


def _bound(table: Table | None, load: float) -> Table | None:
    """A table at a load."""
    return table and Table(table.slews, (0.0,), tuple((table(slew, load),) for slew in table.slews))


def _ports(directions: Mapping[str, str], bit: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Ports as Yosys has them in JSON; the bits of a bus are in their order."""
    buses: dict[str, list[str]] = defaultdict(list)
    ports: dict[str, dict[str, object]] = {}
    for port, direction in directions.items():
        name = re.sub(r"\[\d+\]$", "", port)
        buses[name].append(bit[port])
        ports[name] = {"direction": direction, "bits": buses[name]}
    return ports
