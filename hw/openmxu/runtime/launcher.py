"""Becomes a program that ends with whoever started it: ``python -I -S launcher.py PARENT PROGRAM ...``.

Linux kills it when the thread that started it ends, which waits in :func:`openmxu.runtime.process.run`. The request
must come from the new process itself, and code of Python between fork and exec is not safe beside threads.
"""

import os
import signal
import sys

_SET_DEATH_SIGNAL = 1
"""The number that Linux gives PR_SET_PDEATHSIG."""


def control(option: int, value: int) -> None:
    """Call Linux's prctl; other systems have none."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # half of what this module takes to import

        ctypes.CDLL(None).prctl(option, value)


def die_with(parent: int) -> None:
    """End this process when its parent ends, where the system can."""
    control(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    _, parent, *command = sys.argv
    die_with(int(parent))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")
