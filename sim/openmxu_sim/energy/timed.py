"""A mapped netlist with the delay and energy of each of its transitions: picoseconds and picojoules.

Loads are those of pins, without wires. Slews are the largest that reach a net, as timing analysis has them; so delays
and energies of an instance are numbers, and not looked up while events run.

::

    pins of a net ─▶ load ─┐
    slews of inputs ───────┴▶ tables ─▶ delay and slew of each arc ─▶ the slew of the next net ...
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from openmxu.cells.energies import Arc, LibertyCell, LibertyCells, Pin, Power, truth

CLOCK = "clk"
"""Name of the clock's port."""

_RESET = re.compile(r"(?:i_)?(n)?(?:a|s|sys_?|async_?|sync_?)?(?:rst|reset)(_?[nb]i?)?(?:_i)?", re.IGNORECASE)
"""Names of inputs that are resets: low while they do nothing, or high, if they have an n or a b."""

_CONSTANTS = {"0": 0, "1": 1, "x": 0, "z": 0}

Edges = tuple[float, float]
"""Values of a falling and of a rising edge."""


class UnsuitableError(ValueError):
    """A netlist cannot be simulated with delays; the text says why."""


@dataclass
class Instance:
    """A cell of a netlist."""

    name: str
    cell: LibertyCell
    """Name in the netlist, and cell of the library."""
    inputs: list[int]
    outputs: list[int]
    """The nets of its pins, in the cell's order; an output that goes nowhere has a net of its own."""
    delays: list[list[list[list[float]]]] = field(default_factory=list)
    """By output, input, the input's edge and the output's edge, in ps: delay of the output's change. NaN: such
    a transition does not happen."""
    output_energies: list[list[list[list[float]]]] = field(default_factory=list)
    """By output, input that causes it, edge of the output and state of the inputs: energy in pJ, half of the load's
    charge not included."""
    input_energies: list[list[list[float]]] = field(default_factory=list)
    """By input, its edge, and the state after it: energy in pJ."""

    @cached_property
    def pins(self) -> tuple[str, ...]:
        """Names of the bits of its state, the lowest first: inputs, and the stored bit."""
        return (*(pin.name for pin in self.cell.inputs), *self.cell.stored[:1])


@dataclass(frozen=True)
class TimedNetlist:
    """Instances and nets."""

    instances: list[Instance]
    """Gates, each after those that it reads, then flip-flops."""
    gates: int
    """Number of gates among them."""
    nets: int
    """Number of nets. Nets 0 and 1 are the constants."""
    inputs: Mapping[str, list[int]]
    outputs: Mapping[str, list[int]]
    """Nets of the ports' bits, the lowest first, by name; the clock is net :attr:`clock`."""
    held: Mapping[str, int]
    """Inputs that are resets by their names, and their level while they do nothing."""
    clock: int | None
    """Net of the clock, or ``None``."""
    charges: list[float]
    """By net: half of its load times the square of the supply, in pJ."""
    longest: float
    """Delay of the longest path, in ps, from the clock or from an input."""
    launch: float
    """Median delay from the clock to a flip-flop's output, in ps; 0 without flip-flops."""


def read_timed(netlist: str, top: str, cells: LibertyCells) -> TimedNetlist:
    """Read a netlist from Yosys's JSON."""
    module = json.loads(netlist)["modules"][top]
    numbers: dict[Any, int] = dict(_CONSTANTS)
    count = 2

    def net(bit: Any) -> int:
        nonlocal count
        if bit not in numbers:
            numbers[bit] = count
            count += 1
        return numbers[bit]

    ports = {name: (port["direction"], [net(bit) for bit in port["bits"]]) for name, port in module["ports"].items()}
    instances = []
    for name, part in module["cells"].items():
        if part["type"] == "$scopeinfo":
            continue
        cell = _known(cells, part["type"], name)
        pins = part["connections"]
        inputs = [net(_bit(pins, pin.name)) for pin in cell.inputs]
        outputs = [net(_bit(pins, pin.name, ("open", name, pin.name))) for pin in cell.outputs]
        instances.append(Instance(name, cell, inputs, outputs))
    clock = ports[CLOCK][1][0] if CLOCK in ports else None
    gates = _ordered([part for part in instances if not part.cell.clock])
    stored = [part for part in instances if part.cell.clock]
    held = {name: level for name, (direction, bits) in ports.items() if (level := _idle(name, direction, bits)) >= 0}
    _check_clocks(stored, clock, _levels(gates, {ports[name][1][0]: level for name, level in held.items()}))
    charges, longest, launch = _fill_all(gates, stored, cells, count)
    return TimedNetlist(
        [*gates, *stored],
        len(gates),
        count,
        {name: bits for name, (direction, bits) in ports.items() if direction == "input" and name != CLOCK},
        {name: bits for name, (direction, bits) in ports.items() if direction == "output"},
        held,
        clock,
        charges,
        longest,
        launch,
    )


def _known(cells: LibertyCells, kind: str, name: str) -> LibertyCell:
    cell = cells.cells.get(kind)
    if cell is None:
        raise UnsuitableError(f"cell {name} is a {kind}, which is not in {cells.name}")
    if cell.refused:
        raise UnsuitableError(f"cell {name} is a {kind}: {cell.refused}")
    return cell


def _bit(pins: Mapping[str, Sequence[Any]], name: str, absent: Any = "0") -> Any:
    bits = pins.get(name) or [absent]
    return bits[0]


def _ordered(gates: list[Instance]) -> list[Instance]:
    """Return gates, each after those that it reads."""
    drivers = {net: gate for gate in gates for net in gate.outputs}
    waiting = {id(gate): {id(drivers[net]) for net in gate.inputs if net in drivers} for gate in gates}
    readers: dict[int, list[Instance]] = {}
    for gate in gates:
        for source in waiting[id(gate)]:
            readers.setdefault(source, []).append(gate)
    ready = [gate for gate in gates if not waiting[id(gate)]]
    order: list[Instance] = []
    while ready:
        gate = ready.pop()
        order.append(gate)
        for reader in readers.get(id(gate), ()):
            waiting[id(reader)].discard(id(gate))
            if not waiting[id(reader)]:
                ready.append(reader)
    if len(order) < len(gates):
        left = next(gate for gate in gates if waiting[id(gate)])
        raise UnsuitableError(f"it has a combinational loop, at {left.name}")
    return order


def _idle(name: str, direction: str, bits: Sequence[int]) -> int:
    """Return the level at which a port that is a reset does nothing; -1 if it is none."""
    match = _RESET.fullmatch(name)
    return int(any(match.groups())) if match and direction == "input" and len(bits) == 1 else -1


def _levels(gates: Iterable[Instance], held: Mapping[int, int]) -> dict[int, int]:
    """Return nets whose levels never change, resets being held: constants, and outputs of gates of such nets alone."""
    levels = {0: 0, 1: 1, **held}
    for gate in gates:
        if all(net in levels for net in gate.inputs):
            state = sum(levels[net] << number for number, net in enumerate(gate.inputs))
            for net, pin in zip(gate.outputs, gate.cell.outputs, strict=True):
                levels[net] = int(truth(pin.function, gate.pins)[state])
    return levels


def _check_clocks(stored: Iterable[Instance], clock: int | None, levels: Mapping[int, int]) -> None:
    for part in stored:
        pins = [pin.name for pin in part.cell.inputs]
        if part.inputs[pins.index(part.cell.clock)] != clock:
            raise UnsuitableError(f"the clock of {part.name} is not the port {CLOCK}")
        for condition in part.cell.quiet:
            table = truth(condition, tuple(pins))
            fixed = {number: levels[net] for number, net in enumerate(part.inputs) if net in levels}
            if any(
                value and all(state >> number & 1 == level for number, level in fixed.items())
                for state, value in enumerate(table)
            ):
                raise UnsuitableError(
                    f"the asynchronous reset of {part.name} is no input with the name of one, as rst is"
                )


def _fill_all(
    gates: list[Instance], stored: list[Instance], cells: LibertyCells, count: int
) -> tuple[list[float], float, float]:
    """Fill in loads, then delays and energies by instance; returns charges, longest path, delay of flip-flops."""
    loads = [(0.0, 0.0)] * count
    for part in (*gates, *stored):
        for net, pin in zip(part.inputs, part.cell.inputs, strict=True):
            loads[net] = (loads[net][0] + pin.capacitances[0], loads[net][1] + pin.capacitances[1])
    slews: list[Edges] = [(0.0, 0.0)] * count
    arrivals = [0.0] * count
    launches = []
    for part in (*stored, *gates):  # paths begin at the outputs of flip-flops
        reached = _fill(part, cells, loads, slews)
        for net, delays in zip(part.outputs, part.delays, strict=True):
            waits = [
                (0.0 if part.cell.clock else arrivals[source]) + delay
                for source, edges in zip(part.inputs, delays, strict=True)
                for delay in (value for pair in edges for value in pair if not math.isnan(value))
            ]
            arrivals[net] = max(waits, default=0.0)
            launches += waits if part.cell.clock else []
        for net, slew in zip(part.outputs, reached, strict=True):
            slews[net] = slew
    charges = [0.25 * (fall + rise) * cells.picofarads * cells.supply**2 for fall, rise in loads]
    launch = sorted(launches)[len(launches) // 2] if launches else 0.0
    return charges, max(arrivals) + launch, launch


def _fill(part: Instance, cells: LibertyCells, loads: Sequence[Edges], slews: Sequence[Edges]) -> list[Edges]:
    """Fill in delays and energies of an instance; returns the slews of its outputs."""
    picoseconds = 1e3 * cells.nanoseconds
    names = [pin.name for pin in part.cell.inputs]
    outputs: list[Edges] = []
    for pin, net in zip(part.cell.outputs, part.outputs, strict=True):
        delays = [[[math.nan] * 2 for _ in range(2)] for _ in names]
        reached = [0.0, 0.0]
        for arc in pin.arcs:
            number = names.index(arc.pin)
            for before, after in arc.edges:
                slew, load = slews[part.inputs[number]][before], loads[net][after]
                delay = picoseconds * _looked_up(arc.delays[after], slew, load)
                delays[number][before][after] = max(delay, delays[number][before][after])  # NaN is not larger
                reached[after] = max(reached[after], _looked_up(arc.slews[after], slew, load))
        part.delays.append(delays)
        part.output_energies.append(_output_energies(part, pin, cells.unit, loads[net], slews))
        outputs.append((reached[0], reached[1]))
    part.input_energies = [
        [_energies(part, pin.powers, edge, cells.unit, slews[net][edge], 0.0) for edge in (0, 1)]
        for pin, net in zip(part.cell.inputs, part.inputs, strict=True)
    ]
    return outputs


def _looked_up(table: Any, slew: float, load: float) -> float:
    return 0.0 if table is None else max(0.0, table(slew, load))


def _output_energies(
    part: Instance, pin: Pin, unit: float, load: Edges, slews: Sequence[Edges]
) -> list[list[list[float]]]:
    """Return energies by the input that causes the transition, the output's edge, and the state."""
    energies = []
    for cause, net in zip(part.cell.inputs, part.inputs, strict=True):
        own = [power for power in pin.powers if power.pin == cause.name] or list(pin.powers)
        arcs = [arc for arc in pin.arcs if arc.pin == cause.name]
        energies.append(
            [_energies(part, own, edge, unit, _slew_before(arcs, edge, slews[net]), load[edge]) for edge in (0, 1)]
        )
    return energies


def _slew_before(arcs: Sequence[Arc], edge: int, slews: Edges) -> float:
    """Return the mean slew of the input's edges that an output's edge may come from."""
    edges = {before for arc in arcs for before, after in arc.edges if after == edge} or {0, 1}
    return sum(slews[before] for before in edges) / len(edges)


def _energies(part: Instance, powers: Sequence[Power], edge: int, unit: float, slew: float, load: float) -> list[float]:
    """Return energies by state: of groups whose condition holds, else of those without; means by supply, added up."""
    energies = []
    values = [(power, 0.0 if (table := power.energies[edge]) is None else table(slew, load)) for power in powers]
    conditions = [_condition(power.when, part) for power, _ in values]
    for state in range(1 << len(part.pins)):
        fitting = [value for value, holds in zip(values, conditions, strict=True) if holds and holds[state]]
        fitting = fitting or [value for value in values if not value[0].when]
        supplies: dict[str, list[float]] = {}
        for power, value in fitting:
            supplies.setdefault(power.supply, []).append(value)
        energies.append(unit * sum(sum(group) / len(group) for group in supplies.values()))
    return energies


def _condition(when: str, part: Instance) -> tuple[bool, ...]:
    """Return whether a condition, also one of outputs, holds, by the state; empty if there is no condition."""
    for pin in part.cell.outputs:
        when = _replace_word(when, pin.name, f"({stored_function(pin.function, part.cell)})")
    return truth(when, part.pins) if when else ()


def stored_function(function: str, cell: LibertyCell) -> str:
    """Return an output's function, with the inverse of the stored bit in terms of the bit itself."""
    if len(cell.stored) > 1:
        return _replace_word(function, cell.stored[1], f"(!{cell.stored[0]})")
    return function


def _replace_word(text: str, word: str, by: str) -> str:
    return re.sub(rf"(?<![\w.\[\]]){re.escape(word)}(?![\w.\[\]])", lambda _: by, text)
