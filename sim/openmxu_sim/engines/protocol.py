"""What an engine is."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import Stalls, Stimulus


class Counters(NamedTuple):
    """What the unit itself counted; see :func:`openmxu.unit.status.status_signature`."""

    cycles: int
    busy: int
    input_stalls: int
    output_stalls: int
    error: int


@dataclass(frozen=True)
class Run:
    """What a run of a unit gave."""

    beats: npt.NDArray[np.uint32]
    """(beats, columns) words of the result stream."""
    cycles: int
    """From the first beat taken on either input stream to the last result beat given, both included; 0 where nothing
    counts them."""
    counters: Counters | None = None
    """Counters of the unit, if it has ``status``, on engines that read it."""


class Engine(Protocol):
    """A way to run the hardware of a unit, clock cycle by clock cycle."""

    def __call__(
        self,
        stimulus: Stimulus,
        *,
        stalls: Stalls | None = None,
        vcd: Path | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Run:
        """Run ``stimulus`` through its unit.

        Parameters
        ----------
        stimulus
            The unit and what goes in.
        stalls
            When the other sides of the streams wait; ``None``: never.
        vcd
            Where to write a waveform.
        progress
            Called with the progress of the run.
        options
            What only some engines know.
        """
        ...


class Device(AbstractContextManager["Device"], Protocol):
    """A unit outside this machine; given back when its context ends."""

    @property
    def config(self) -> MxuConfig:
        """The unit, whose streams may carry operands where a stimulus carries fp32: then :attr:`run` converts."""
        ...

    @property
    def port(self) -> str:
        """Where it is, for people."""
        ...

    @property
    def run(self) -> Engine:
        """Runs a stimulus on it."""
        ...
