"""The program ``openmxu``, also as ``python -m openmxu``: the signals first, then everything that takes its time."""

import os
import sys

from openmxu import signals
from openmxu.streams import open_streams
from openmxu.supervisor import supervise

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code."""
    signals.install()
    open_streams()
    try:
        return supervise(_command) if hasattr(os, "fork") else _command()
    except OSError as error:
        print(f"openmxu: no process can be started: {error.strerror}", file=sys.stderr)
        return 2


def _command() -> int:
    try:
        from openmxu import cli  # noqa: PLC0415  # a while of imports, in which Ctrl-C would show a traceback
    except ImportError as error:
        print(f"openmxu: {error}", file=sys.stderr)
        return 2
    try:
        return cli.main()
    finally:
        signals.ignore()


if __name__ == "__main__":
    sys.exit(main())
