"""The accelerator around the unit: a program of commands, a scratchpad of operands, a memory of weights."""

from openmxu.accelerator.core import Accelerator
from openmxu.accelerator.errors import Stop

__all__ = ["Accelerator", "Stop"]
