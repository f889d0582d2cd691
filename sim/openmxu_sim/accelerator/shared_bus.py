"""Accelerators that share a memory and its bus: weights are there once, pictures for each accelerator.

::

    memory    [ pictures of 0 | weights of all layers | pictures of 1 | pictures of 2 | ... ]

All run one program; but for the first one's, addresses of pictures are moved.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from openmxu.accelerator import Stop
from openmxu.pages.tables import table
from openmxu.spec.commands import Command
from openmxu_sim.accelerator.definition import Halves, Memories
from openmxu_sim.accelerator.lowering import Lowered
from openmxu_sim.accelerator.simulation import PAGE, SimulatedAccelerator


def moved(program: Sequence[Command], words: int) -> list[Command]:
    """Return a program whose pictures lie so many words further in the memory; its weights stay."""
    return [
        replace(command, values={**command.values, "address": command.values["address"] + words})
        if command.kind.engine in ("load", "store") and not command.values.get("into_weights")
        else command
        for command in program
    ]


class SharedBus:
    """So many accelerators on one bus, which run a network on a picture each, and what they took."""

    def __init__(self, lowered: Lowered, count: int) -> None:
        if not lowered.config.beat:
            raise ValueError("accelerators must have a bus: MODEL must be compiled with --beat")
        self._lowered = lowered
        self._machines = [SimulatedAccelerator(lowered.config) for _ in range(count)]
        self._alone = self._cycles = self._pictures = 0
        self._beats = np.zeros(2, np.int64)  # read, written

    def play(self, memories: Sequence[Memories]) -> list[Halves]:
        """Run the network on the picture in each memory, and return these memories' pictures as rows."""
        lowered, machines = self._lowered, self._machines[: len(memories)]
        parts = [memories[0].memory, *(each.memory[: lowered.memory] for each in memories[1:])]
        places = list(accumulate(map(len, parts[:-1]), initial=0))
        memory = np.pad(np.concatenate(parts), (0, -sum(map(len, parts)) % (PAGE // 2)))
        for machine, each, place in zip(machines, memories, places, strict=True):
            machine.write(moved(lowered.program, place), each)
        self._alone = self._alone or self._run(machines[:1], memory.copy())  # leaves the results to the next run
        self._cycles += self._run(machines, memory)
        self._pictures += len(memories)
        self._beats += np.sum([machine.traffic().beats for machine in machines], axis=0)
        return [memory[place : place + lowered.memory].reshape(-1, lowered.config.size) for place in places]

    def _run(self, machines: Sequence[SimulatedAccelerator], memory: Halves) -> int:
        for machine in machines:
            machine.attach(memory)
        reports = SimulatedAccelerator.run_together(machines)
        for index, report in enumerate(reports):
            if report.stop != Stop.NONE:
                raise RuntimeError(f"command {report.index} stopped accelerator {index}: {report.stop.name}")
        return max(report.cycles for report in reports)

    def table(self) -> str:
        """Cycles until all had ended, those of the first one alone, and the share of them with a beat."""
        cycles, each = f"{self._cycles:,}", f"{self._cycles / self._pictures:,.0f}"
        beats = (f"{count / self._cycles:.1%}" for count in self._beats)
        heads = ["accelerators", "images", "cycles", "an image", "one alone", "bus reads", "bus writes"]
        row = [str(len(self._machines)), str(self._pictures), cycles, each, f"{self._alone:,}", *beats]
        return table(heads, [row])
