"""Networks on machines, picture by picture: as the definition says, on simulated accelerators, or on a board's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import CompiledNetwork
from openmxu_sim.accelerator.definition import Halves, Memories, run
from openmxu_sim.accelerator.shared_bus import SharedBus
from openmxu_sim.accelerator.simulation import PAGE, SimulatedAccelerator

_COMPILES = "simulating the accelerator; it is compiled first, which takes some seconds"


class Played(NamedTuple):
    """The outcome of a network on some pictures."""

    scratchpads: Sequence[Halves]
    """For each picture the rows of the scratchpad, or of the memory where the network has one."""
    ends: Sequence[int] = ()
    """Cycles at which commands began, if they are known, and the cycle of the end."""


class Player(Protocol):
    """A machine that runs networks."""

    machines: int
    """The most pictures at a time."""
    needs_bus: bool
    """Whether load and store need a bus."""

    def play(self, network: CompiledNetwork, memories: Sequence[Memories]) -> Played:
        """Run a network on the picture in each of the memories."""
        ...


class Definition:
    """The definition, which knows no cycles."""

    machines, needs_bus = 1, False

    def play(self, network: CompiledNetwork, memories: Sequence[Memories]) -> Played:
        """See :class:`Player`; the memories change."""
        for each in memories:
            run(network.lowered.program, each)
        return Played([network.lowered.rows(each) for each in memories])


class Simulation:
    """The RTL, compiled; ``tell`` is called before that."""

    machines, needs_bus = 1, True

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self._machine: SimulatedAccelerator | None = None

    def prepare(self, config: AcceleratorConfig) -> SimulatedAccelerator:
        """The accelerator, compiled now or earlier."""
        if self._machine is None or self._machine.config != config:
            self._tell(_COMPILES)
            self._machine = SimulatedAccelerator(config)
        return self._machine

    def play(self, network: CompiledNetwork, memories: Sequence[Memories]) -> Played:
        """See :class:`Player`."""
        [own] = memories
        lowered, memory = network.lowered, own.memory
        machine = self.prepare(lowered.config)
        machine.write(lowered.program, own)
        if lowered.config.beat:
            memory = np.pad(memory, (0, -memory.size % (PAGE // 2)))
            machine.attach(memory)
        report = machine.run()
        if report.stop != Stop.NONE:
            raise RuntimeError(f"command {report.index} stopped the accelerator: {report.stop.name}")
        rows = lowered.rows(replace(own, memory=memory)) if lowered.memory else machine.scratchpad()
        return Played([rows], [*report.begins, report.cycles])


class OnOneBus:
    """Several simulated accelerators on one bus."""

    needs_bus = True

    def __init__(self, machines: int, tell: Callable[[str], None]) -> None:
        self.machines = machines
        self._tell = tell
        self._bus: SharedBus | None = None

    def play(self, network: CompiledNetwork, memories: Sequence[Memories]) -> Played:
        """See :class:`Player`; always of one network."""
        if self._bus is None:
            self._tell(_COMPILES)
            self._bus = SharedBus(network.lowered, self.machines)
        return Played(self._bus.play(memories))

    def table(self) -> str:
        """The cycles of all pictures, and the use of the bus."""
        return self._bus.table() if self._bus is not None else ""


@dataclass
class Outcome:
    """The results of a network."""

    results: list[np.ndarray]
    """For each picture those of the last layer, in fp32."""
    ends: Sequence[int] = ()
    """As in :class:`Played`, of the last pictures."""
    wrong: int = 0
    words: int = 0
    """Words that differ from the definition, and all that were compared."""


def run_network(
    network: CompiledNetwork, inputs: Mapping[str, np.ndarray], player: Player, *, check: bool = False
) -> Outcome:
    """Run a network on each picture of its input; with ``check``, compare every word with the definition.

    Raises
    ------
    ValueError
        There is no such input, it has no pictures, or too few for the machines; or the network needs a bus.
    """
    lowered, outcome = network.lowered, Outcome([])
    if lowered.memory and player.needs_bus and not lowered.config.beat:
        least, given = (2 * lowered.config.size * rows for rows in (lowered.alternative, lowered.config.rows))
        raise ValueError(
            f"MODEL must be compiled for a scratchpad of at least {least} bytes, not {given}, or with --beat: "
            "load and store need a bus"
        )
    if network.source not in inputs:
        raise ValueError(f"--input must have an array {network.source}, not {', '.join(inputs) or 'none'}")
    for pictures in _groups(list(_pictures(network, inputs[network.source])), player.machines):
        memories = [lowered.memories() for _ in pictures]
        for picture, each in zip(pictures, memories, strict=True):
            lowered.put(network.source, picture, lowered.rows(each))
        scratchpads, outcome.ends = player.play(network, memories)
        for each, scratchpad in zip(memories, scratchpads, strict=True):
            if check:
                run(lowered.program, each)
                outcome.wrong += int(np.count_nonzero(scratchpad != lowered.rows(each)))
                outcome.words += scratchpad.size
            outcome.results.append(lowered.get(network.result, scratchpad))
    return outcome


def _pictures(network: CompiledNetwork, array: np.ndarray) -> Iterator[np.ndarray]:
    """Each picture of the input as (channels, y, x) in fp32."""
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{network.source} must be numbers, not {array.dtype}")
    if array.ndim not in (2, 4) or not array.size:
        raise ValueError(f"{network.source} must be images, P x C x H x W or P x K, not {array.shape}")
    for values in array:
        yield np.ascontiguousarray(values if array.ndim == 4 else values.reshape(-1, 1, 1), np.float32)


def _groups(pictures: list[np.ndarray], machines: int) -> Iterator[list[np.ndarray]]:
    """A picture for each machine at a time."""
    if not 1 <= machines <= len(pictures):
        raise ValueError(f"accelerators must be from 1 to {len(pictures)}, the images of --input, not {machines}")
    for first in range(0, len(pictures), machines):
        yield pictures[first : first + machines]
