"""The program ``openmxu``, also as ``python -m openmxu``: the signals first, then everything that takes its time."""

import sys

from openmxu import signals

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code."""
    signals.install()
    from openmxu import cli  # noqa: PLC0415  # half a second of imports, in which Ctrl-C would show a traceback

    try:
        return cli.main()
    finally:
        signals.ignore()


if __name__ == "__main__":
    sys.exit(main())
