"""Networks on machines, picture by picture: as the definition says, on simulated accelerators, or on a board's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import CompiledNetwork, HostPart, MachinePart
from openmxu_sim.accelerator.definition import Halves, Memories, run
from openmxu_sim.accelerator.lowering import Lowered
from openmxu_sim.accelerator.shared_bus import SharedBus
from openmxu_sim.accelerator.simulation import FASTEST, PAGE, SimulatedAccelerator, Speed
from openmxu_sim.operands.npy import of_bytes

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

    def play(self, part: MachinePart, memories: Sequence[Memories]) -> Played:
        """Run a network on the picture in each of the memories."""
        ...


class Definition:
    """The definition, which knows no cycles."""

    machines, needs_bus = 1, False

    def play(self, part: MachinePart, memories: Sequence[Memories]) -> Played:
        """See :class:`Player`; the memories change."""
        for each in memories:
            run(part.lowered.program, each)
        return Played([part.lowered.rows(each) for each in memories])


class Simulation:
    """The RTL, compiled, with a memory of some speed; ``tell`` is called before that."""

    machines, needs_bus = 1, True

    def __init__(self, tell: Callable[[str], None] = lambda _: None, speed: Speed = FASTEST) -> None:
        self._tell, self._speed = tell, speed
        self._machine: SimulatedAccelerator | None = None

    def prepare(self, config: AcceleratorConfig) -> SimulatedAccelerator:
        """The accelerator, compiled now or earlier."""
        if self._machine is None or self._machine.config != config:
            self._tell(_COMPILES)
            self._machine = SimulatedAccelerator(config)
        return self._machine

    def play(self, part: MachinePart, memories: Sequence[Memories]) -> Played:
        """See :class:`Player`."""
        [own] = memories
        lowered, memory = part.lowered, own.memory
        machine = self.prepare(lowered.config)
        machine.write(lowered.program, own)
        if lowered.config.beat:
            memory = np.pad(memory, (0, -memory.size % (PAGE // 2)))
            machine.attach(memory, speed=self._speed)
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
        self._buses: list[tuple[Lowered, SharedBus]] = []

    def play(self, part: MachinePart, memories: Sequence[Memories]) -> Played:
        """See :class:`Player`."""
        if not self._buses or self._buses[-1][0] is not part.lowered:  # parts come one after another
            self._tell(_COMPILES)
            self._buses.append((part.lowered, SharedBus(part.lowered, self.machines)))
        return Played(self._buses[-1][1].play(memories))

    def table(self) -> str:
        """For each part, the cycles of all images, and the use of the bus."""
        return "\n".join(bus.table() for _, bus in self._buses)


Tensors = dict[str, npt.NDArray[Any]]


class Host(Protocol):
    """What computes the host's nodes."""

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """Return the outputs, by their names."""
        ...


@dataclass
class Outcome:
    """The results of a network."""

    outputs: list[Tensors]
    """For each time it ran."""
    ends: list[Sequence[int]]
    """For each part on the accelerator as in :class:`Played`, of its last images."""
    wrong: int = 0
    words: int = 0
    """Words that differ from the definition, and all that were compared."""


def run_network(
    network: CompiledNetwork,
    inputs: Mapping[str, npt.NDArray[Any]],
    player: Player,
    open_host: Callable[[HostPart], Host],
    *,
    check: bool = False,
) -> Outcome:
    """Run a network as often as its inputs last; with ``check``, compare every word with the definition.

    Raises
    ------
    ValueError
        An input is missing, has another shape, or has too few images for the machines; or the network needs a bus.
    """
    for lowered in (part.lowered for part in network.machine):
        if lowered.memory and player.needs_bus and not lowered.config.beat:
            least, given = (2 * lowered.config.size * rows for rows in (lowered.alternative, lowered.config.rows))
            raise ValueError(
                f"MODEL must be compiled for a scratchpad of at least {least} bytes, not {given}, or with --beat: "
                "load and store need a bus"
            )
    runs, outcome = _runs(network, inputs), Outcome([], [])
    hosts = {index: open_host(part) for index, part in enumerate(network.parts) if isinstance(part, HostPart)}
    for index, part in enumerate(network.parts):
        if isinstance(part, HostPart):
            for tensors in runs:
                tensors.update(hosts[index].run({name: tensors[name] for name in part.inputs}))
        else:
            _play(part, runs, player, outcome, check=check)
    outcome.outputs = [{name: tensors[name] for name in network.outputs} for tensors in runs]
    return outcome


def _play(part: MachinePart, runs: Sequence[Tensors], player: Player, outcome: Outcome, *, check: bool) -> None:
    """Run a part on each image of each run, as many at a time as there are machines."""
    lowered = part.lowered
    images = [
        dict(zip((port.picture for port in part.inputs), pictures, strict=True))
        for tensors in runs
        for pictures in zip(*(port.view.to_images(tensors[port.name]) for port in part.inputs), strict=True)
    ]
    if not 1 <= player.machines <= len(images):
        raise ValueError(f"accelerators must be from 1 to {len(images)}, the images of --input, not {player.machines}")
    results, ends = list[Tensors](), list[Sequence[int]]()
    for first in range(0, len(images), player.machines):
        pictures = images[first : first + player.machines]
        memories = [lowered.memories() for _ in pictures]
        for some, each in zip(pictures, memories, strict=True):
            for name, values in some.items():
                lowered.put(name, values, lowered.rows(each))
        scratchpads, *ends = player.play(part, memories)
        for each, scratchpad in zip(memories, scratchpads, strict=True):
            if check:
                run(lowered.program, each)
                outcome.wrong += int(np.count_nonzero(scratchpad != lowered.rows(each)))
                outcome.words += scratchpad.size
            results.append({port.picture: lowered.get(port.picture, scratchpad) for port in part.outputs})
    outcome.ends += ends
    count = len(results) // len(runs)
    for number, tensors in enumerate(runs):
        own = results[number * count :][:count]
        tensors |= {
            port.name: port.view.to_tensor(np.stack([each[port.picture] for each in own])) for port in part.outputs
        }


_TAKEN = {"f": "fiub", "i": "iu", "u": "u"}
"""Kinds of numbers, by numpy's letters, that an input of a kind takes, besides its own type."""


def _runs(network: CompiledNetwork, inputs: Mapping[str, npt.NDArray[Any]]) -> list[Tensors]:
    """The inputs of each run: their first axis may have several times the images that the network takes."""
    parts = dict[str, list[npt.NDArray[Any]]]()
    for name, dims, dtype in network.inputs:
        if name not in inputs:
            raise ValueError(f"--input must have an array {name}, not {', '.join(inputs) or 'none'}")
        kind = np.dtype(dtype)
        array = of_bytes(inputs[name], kind)
        if array.dtype != kind and array.dtype.kind not in _TAKEN.get(kind.kind, ""):
            raise ValueError(f"{name} must be numbers that {dtype} has, not {array.dtype}")
        if kind.kind in "iu" and (array.astype(kind) != array).any():
            raise ValueError(f"{name} must be numbers that {dtype} has, not others of {array.dtype}")
        times, rest = divmod(array.shape[0], dims[0]) if dims and array.ndim else (1, 0)
        if array.ndim != len(dims) or array.shape[1:] != dims[1:] or rest or not array.size:
            shape = (
                " x ".join(map(str, ("P" if dims[:1] == (1,) else f"{dims[0]} P", *dims[1:]))) if dims else "one number"
            )
            raise ValueError(f"{name} must have the shape {shape}, not {array.shape}")
        parts[name] = np.split(array.astype(kind), times) if times > 1 else [array.astype(kind)]
    most = max(map(len, parts.values()), default=1)
    if uneven := [name for name, some in parts.items() if len(some) not in (1, most)]:
        raise ValueError(f"{uneven[0]} must have images for one run or for {most}, not for {len(parts[uneven[0]])}")
    return [{name: some[number % len(some)] for name, some in parts.items()} for number in range(most)]
