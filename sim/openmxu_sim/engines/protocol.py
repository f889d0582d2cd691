"""The interface of an engine."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import Stalls, Stimulus


class Counters(NamedTuple):
    """Counts of the unit itself; see :func:`openmxu.unit.status.status_signature`."""

    cycles: int
    busy: int
    input_stalls: int
    output_stalls: int
    error: int


@dataclass(frozen=True)
class Run:
    """Result of a run of a unit."""

    beats: npt.NDArray[np.uint32]
    """(beats, columns) words of the result stream."""
    cycles: int
    """Cycles from the first beat taken on either input stream to the last result beat given, both included; 0 where
    nothing counts them."""
    counters: Counters | None = None
    """Counters of the unit, if it has ``status``, on engines that read them."""


class Engine(Protocol):
    """A way to run the hardware of a unit, clock cycle by clock cycle."""

    def __call__(
        self,
        stimulus: Stimulus,
        *,
        stalls: Stalls | None = None,
        vcd: Path | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """Run ``stimulus`` through its unit.

        Parameters
        ----------
        stimulus
            The unit and its operands.
        stalls
            Waits of the other sides of the streams; ``None``: no waits.
        vcd
            File for a waveform.
        progress
            Called with the number of result beats so far, and of all result beats.
        """
        ...


class Device(AbstractContextManager["Device"], Protocol):
    """A unit outside this machine; released when its context ends."""

    @property
    def config(self) -> MxuConfig:
        """The unit, whose streams may carry operands where a stimulus carries fp32: then :attr:`run` converts."""
        ...

    @property
    def port(self) -> str:
        """Its address, for people."""
        ...

    def run(self, stimulus: Stimulus, *, progress: Progress | None = None) -> Run:
        """Run ``stimulus`` on it, without waits and waveforms; see :class:`Engine`."""
        ...
