"""Cycles of a netlist, event by event."""

import ctypes
import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.cells.energies import truth
from openmxu.runtime.native import resource
from openmxu_sim.energy.timed import Instance, TimedNetlist, UnsuitableError, stored_function
from openmxu_sim.netlist.native import compile_c

_FAILURES = {
    1: "there is no memory for it",
    2: "the library has no delay for a transition that happens",
    3: "it has not settled at the end of a cycle",
}

_MARGIN = 1.25
"""Ratio of a cycle to the longest path."""

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Activity:
    """Outputs, energies and transitions of a run."""

    outputs: dict[str, Bits]
    """By port: a row of bits, the lowest first, for each cycle, as they are at its end."""
    energies: npt.NDArray[np.float64]
    """By cycle, in pJ: energies of the clock (its pins and its net), of flip-flops (the rest of them, and the nets that
    they drive), and of gates."""
    at_once: npt.NDArray[np.float64]
    """By cycle, in pJ: energy of flip-flops and gates if each net had changed once at most."""
    toggles: npt.NDArray[np.uint64]
    """By cycle: transitions of all nets but the clock."""


class _Netlist(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("nets", "gates", "instances", "clock", "input_count", "output_count")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("first_pin", "first_output", "pin_net", "output_net", "table", "next_state", "clock_pin"),
                *("pin_energy", "output_delay", "output_energy", "delays", "energies", "charges"),
                *("first_reader", "reader_instance", "reader_pin", "input_net", "output_port_net"),
            )
        ),
        ("period", ctypes.c_double),
        ("hold", ctypes.c_double),
    ]


@cache
def _library() -> ctypes.CDLL:
    return compile_c(resource("openmxu_sim.energy", "events.c"))


class Player:
    """A netlist that can be played any number of times, each time from flip-flops that hold 0."""

    def __init__(self, netlist: TimedNetlist) -> None:
        self.netlist = netlist
        self._arrays = _arrays(netlist)
        self._outputs = sum(map(len, netlist.outputs.values()))
        self._passed = _Netlist(
            nets=netlist.nets,
            gates=netlist.gates,
            instances=len(netlist.instances),
            clock=-1 if netlist.clock is None else netlist.clock,
            input_count=sum(map(len, netlist.inputs.values())),
            output_count=self._outputs,
            period=_MARGIN * netlist.longest,
            hold=netlist.launch,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )

    def play(self, inputs: dict[str, Bits]) -> Activity:
        """Play cycles, each from a rising edge of the clock on; inputs change when outputs of flip-flops do."""
        levels = np.ascontiguousarray(
            np.concatenate([inputs[name] for name in self.netlist.inputs], axis=1), dtype=np.uint8
        )
        cycles = len(levels)
        outputs = np.empty((cycles, self._outputs), np.uint8)
        energies = np.empty((cycles, 4))
        toggles = np.empty(cycles, np.uint64)
        failed = _library().simulate_events(
            ctypes.byref(self._passed),
            ctypes.c_int64(cycles),
            *(ctypes.c_void_p(array.ctypes.data) for array in (levels, outputs, energies, toggles)),
        )
        if failed:
            raise UnsuitableError(_FAILURES[failed])
        return Activity(by_port(self.netlist, outputs), energies[:, :3], energies[:, 3], toggles)


def by_port(netlist: TimedNetlist, outputs: Bits) -> dict[str, Bits]:
    """Split columns of all outputs, one port after another, into a table for each port."""
    places = np.cumsum([0, *map(len, netlist.outputs.values())])
    ends = zip(netlist.outputs, itertools.pairwise(places), strict=True)
    return {name: outputs[:, start:end] for name, (start, end) in ends}


def _arrays(netlist: TimedNetlist) -> dict[str, npt.NDArray[Any]]:
    """Return a netlist in the layout of the C text."""
    instances = netlist.instances
    readers: list[list[tuple[int, int]]] = [[] for _ in range(netlist.nets)]
    for number, part in enumerate(instances):
        for pin, net in enumerate(part.inputs):
            readers[net].append((number, pin))
    energies: list[float] = []
    delays: list[float] = []
    pin_energy, output_delay, output_energy = [], [], []
    for part in instances:
        for pairs in part.input_energies:
            pin_energy.append(len(energies))
            energies += [value for states in pairs for value in states]
        for by_pin, cost in zip(part.delays, part.output_energies, strict=True):
            output_delay.append(len(delays))
            delays += [value for edges in by_pin for pair in edges for value in pair]
            output_energy.append(len(energies))
            energies += [value for pairs in cost for states in pairs for value in states]
    read = [pair for pairs in readers for pair in pairs]
    return {
        "first_pin": _starts(len(part.inputs) for part in instances),
        "first_output": _starts(len(part.outputs) for part in instances),
        "pin_net": np.array([net for part in instances for net in part.inputs], np.int32),
        "output_net": np.array([net for part in instances for net in part.outputs], np.int32),
        "table": np.array([table_of(pin.function, part) for part in instances for pin in part.cell.outputs], np.uint64),
        "next_state": np.array([table_of(part.cell.next_state, part) for part in instances], np.uint64),
        "clock_pin": np.array([_clock_pin(part) for part in instances], np.int32),
        "pin_energy": np.array(pin_energy, np.int64),
        "output_delay": np.array(output_delay, np.int64),
        "output_energy": np.array(output_energy, np.int64),
        "delays": np.array(delays, np.float32),
        "energies": np.array(energies, np.float32),
        "charges": np.array(netlist.charges, np.float32),
        "first_reader": _starts(map(len, readers)),
        "reader_instance": np.array([instance for instance, _ in read], np.int32),
        "reader_pin": np.array([pin for _, pin in read], np.int32),
        "input_net": np.array([net for bits in netlist.inputs.values() for net in bits], np.int32),
        "output_port_net": np.array([net for bits in netlist.outputs.values() for net in bits], np.int32),
    }


def _starts(lengths: Any) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *lengths]).astype(np.int32)


def _clock_pin(part: Instance) -> int:
    return [pin.name for pin in part.cell.inputs].index(part.cell.clock) if part.cell.clock else -1


def table_of(function: str, part: Instance) -> int:
    """Return a function of an instance as a word: the bit of a state's number is its value in that state."""
    if not function:
        return 0
    return sum(value << state for state, value in enumerate(truth(stored_function(function, part.cell), part.pins)))
