"""The program ``openmxu``, also as ``python -m openmxu``: the signals first, then the slow imports."""

import os
import sys

from openmxu.cli import interrupts
from openmxu.cli.supervisor import supervise
from openmxu.cli.terminal import open_streams


def main() -> int:
    """Run the command line; returns the exit code."""
    interrupts.install()
    open_streams()
    try:
        return supervise(_command) if hasattr(os, "fork") else _command()
    except OSError as error:
        print(f"openmxu: no process can be started: {error.strerror}", file=sys.stderr)
        return 2


def _command() -> int:
    try:
        from openmxu.cli import frame  # noqa: PLC0415  # a while of imports, in which Ctrl-C would show a traceback
    except ImportError as error:
        print(f"openmxu: {error}", file=sys.stderr)
        return 2
    try:
        return frame.main()
    finally:
        interrupts.ignore()


if __name__ == "__main__":
    sys.exit(main())
