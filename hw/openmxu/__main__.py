"""The program ``openmxu``, also as ``python -m openmxu``: the signals first, then the slow imports."""

import sys

from openmxu.cli import supervisor
from openmxu.cli.terminal import open_streams


def main() -> int:
    """Run the command line; returns the exit code."""
    supervisor.install()
    open_streams()
    try:
        return supervisor.supervise(_command)
    except OSError as error:
        return _refuse(f"no process can be started: {error.strerror}")
    except ImportError as error:
        return _refuse(str(error))


def _command() -> int:
    try:
        from openmxu.cli import frame  # noqa: PLC0415  # a while of imports, in which Ctrl-C would show a traceback
    except ImportError as error:
        return _refuse(str(error))
    try:
        return frame.main()
    finally:
        supervisor.ignore()


def _refuse(reason: str) -> int:
    print(f"openmxu: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
