"""The program ``openmxu``, also as ``python -m openmxu``: the signals first, then everything that takes its time."""

import sys

from openmxu import signals

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code."""
    signals.install()
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
