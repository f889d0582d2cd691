"""The accelerator in numpy: what its commands compute, and in which order they must run."""

from openmxu_sim.accelerator.definition import Memories, run
from openmxu_sim.accelerator.waits import check_waits, with_waits

__all__ = ["Memories", "check_waits", "run", "with_waits"]
