"""The command line, as tests of the hardware have it."""

from ..openmxu.conftest import Command, command

__all__ = ["Command", "command"]
