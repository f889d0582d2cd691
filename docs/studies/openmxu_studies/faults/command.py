"""The command line in this process, and its messages."""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from openmxu.cli import frame


@dataclass(frozen=True)
class Said:
    """Exit code and messages of a command."""

    code: int
    """The exit code."""
    errors: tuple[str, ...]
    """The lines on stderr, without notes and progress of the command."""

    @property
    def is_clear(self) -> bool:
        """Whether the command has done its work, or says in one line why not."""
        return self.code == 0 or (self.code in (1, 2) and len(self.errors) == 1 and "Traceback" not in self.errors[0])


def call(arguments: Sequence[str]) -> Said:
    """Run a command; an exception that it does not handle is raised."""
    errors = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        code = frame.main(arguments)
    lines = tuple(line for line in errors.getvalue().splitlines() if line.startswith("openmxu"))
    return Said(code, lines)
